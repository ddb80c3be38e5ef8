//! What the window's page may do: one list of commands in three places, and nothing but its own
//! pages.
//!
//! `capabilities/main.json` gives each command to the one window (`build.rs` makes the permissions
//! from it), `generate_handler!` answers it, and `ui/src/backend/tauri.ts` asks it. Actions of the
//! node are no commands of their own: they go through `call`, and the list in `nook-api` says which
//! ones a window may ask for. A command that is in some of them only is dead, refused, or open
//! without anybody asking. The page's policy is read too: a source that is not the program itself
//! would be a door to the network.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::tidy::Finding;
use crate::tidy::tree::Tree;

const RULE: &str = "window";
const CAPABILITY: &str = "src-tauri/capabilities/main.json";
const HANDLER: &str = "src-tauri/src/app.rs";
const PAGES: &str = "ui/src/backend/tauri.ts";
const CONFIGURATION: &str = "src-tauri/tauri.conf.json";

/// What the page may ask of the system itself: `window.print()`, which macOS has through Tauri alone.
const SYSTEM: &str = "core:webview:allow-print";

/// All that a page of this program may be made of. In particular no inline scripts or styles, no
/// `eval`, no data and no address.
const SOURCES: &[&str] = &["'self'", "'none'", "ipc:", "http://ipc.localhost"];

/// What the policy must speak of. `default-src` holds for the rest.
const DIRECTIVES: &[&str] = &[
    "base-uri",
    "connect-src",
    "default-src",
    "form-action",
    "frame-ancestors",
    "object-src",
    "script-src",
    "style-src",
];

/// Commands that are not everywhere, and a policy that allows more than it should.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let places = [
        (CAPABILITY, tree.text(CAPABILITY).map(permissions)),
        (HANDLER, between(tree, HANDLER, "generate_handler![", "]").map(handled)),
        (PAGES, tree.text(PAGES).map(asked)),
    ];
    // A tree without a window has nothing to compare.
    if places.iter().all(|(_, names)| names.is_none()) {
        return Vec::new();
    }
    let all: BTreeSet<&String> =
        places.iter().filter_map(|(_, names)| names.as_ref()).flatten().collect();
    let mut findings = Vec::new();
    for (path, names) in &places {
        let none = BTreeSet::new();
        let names = names.as_ref().unwrap_or(&none);
        let missing = all.iter().filter(|name| !names.contains(**name));
        findings.extend(missing.map(|name| {
            let sentence =
                format!("the command `{name}` is in another list of the window's, not here");
            Finding::new(RULE, path, 0, sentence)
        }));
    }
    findings.extend(policy(tree.text(CONFIGURATION).unwrap_or_default()));
    findings
}

fn between<'a>(tree: &'a Tree, path: &str, from: &str, to: &str) -> Option<&'a str> {
    let (_, rest) = tree.text(path)?.split_once(from)?;
    Some(rest.split_once(to)?.0)
}

/// `allow-turned-to` is the permission for `turned_to`. What is not of this form comes as it is,
/// and then no other list has it.
fn permissions(text: &str) -> BTreeSet<String> {
    let capability: Value = serde_json::from_str(text).unwrap_or_default();
    let granted = capability["permissions"].as_array().cloned().unwrap_or_default();
    let command = |permission: &Value| match permission.as_str() {
        Some(name) => match name.strip_prefix("allow-") {
            Some(command) => command.replace('-', "_"),
            None => name.to_owned(),
        },
        None => permission.to_string(),
    };
    granted.iter().filter(|it| it.as_str() != Some(SYSTEM)).map(command).collect()
}

/// `commands::turned_to`, one after the other.
fn handled(text: &str) -> BTreeSet<String> {
    let paths = text.split(',').map(str::trim).filter(|path| !path.is_empty());
    paths.map(|path| path.rsplit("::").next().unwrap_or(path).to_owned()).collect()
}

/// Every `ask('turned_to', …)`.
fn asked(text: &str) -> BTreeSet<String> {
    let calls = text.split("ask('").skip(1);
    calls.filter_map(|call| call.split_once('\'')).map(|(name, _)| name.to_owned()).collect()
}

fn policy(configuration: &str) -> Vec<Finding> {
    let wrong = |sentence: String| Finding::new(RULE, CONFIGURATION, 0, sentence);
    let configuration: Value = serde_json::from_str(configuration).unwrap_or_default();
    let (app, security) = (&configuration["app"], &configuration["app"]["security"]);
    let mut findings = Vec::new();
    for (what, is_so) in [
        ("app.withGlobalTauri must be false", app["withGlobalTauri"] == Value::Bool(false)),
        (
            "app.security.freezePrototype must be true",
            security["freezePrototype"] == Value::Bool(true),
        ),
        (
            "build.removeUnusedCommands must be true",
            configuration["build"]["removeUnusedCommands"] == Value::Bool(true),
        ),
    ] {
        if !is_so {
            findings.push(wrong(what.to_owned()));
        }
    }
    let none = serde_json::Map::new();
    let policy = security["csp"].as_object().unwrap_or(&none);
    let missing = DIRECTIVES.iter().filter(|name| !policy.contains_key(**name));
    findings.extend(missing.map(|name| wrong(format!("the policy says nothing of `{name}`"))));
    for (name, sources) in policy {
        let sources = sources.as_str().unwrap_or("(not a text)");
        let strange = sources.split_whitespace().filter(|source| !SOURCES.contains(source));
        findings.extend(strange.map(|source| {
            wrong(format!("`{name}` allows `{source}`: the page has only what the program brings"))
        }));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: &str = r#"{
        "build": {"removeUnusedCommands": true},
        "app": {"withGlobalTauri": false, "security": {"freezePrototype": true, "csp": {
            "default-src": "'self'", "script-src": "'self'", "style-src": "'self'",
            "connect-src": "ipc: http://ipc.localhost", "object-src": "'none'", "base-uri": "'none'",
            "form-action": "'none'", "frame-ancestors": "'none'"}}}}"#;

    fn sentences(capability: &str, app: &str, page: &str, policy: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (CAPABILITY, capability),
            (HANDLER, app),
            (PAGES, page),
            (CONFIGURATION, policy),
        ]);
        let told = |it: Finding| format!("{} {}", it.path.rsplit('/').next().unwrap(), it.sentence);
        check(&tree).into_iter().map(told).collect()
    }

    const GRANTED: &str = r#"{"permissions": ["allow-say", "allow-set-name"]}"#;
    const ANSWERED: &str = "generate_handler![\n    commands::say,\n    commands::set_name,\n])";
    const ASKED: &str =
        "say: () => ask('say', { turn }), setName: (name) => ask('set_name', { name }),";

    #[test]
    fn three_lists_that_agree_and_a_strict_policy_say_nothing() {
        assert_eq!(sentences(GRANTED, ANSWERED, ASKED, STRICT), [""; 0]);
        let prints = GRANTED.replace("[", "[\"core:webview:allow-print\", ");
        assert_eq!(sentences(&prints, ANSWERED, ASKED, STRICT), [""; 0]);
        let closes = GRANTED.replace("[", "[\"core:window:allow-close\", ");
        assert_eq!(sentences(&closes, ANSWERED, ASKED, STRICT).len(), 2);
        assert_eq!(check(&Tree::of(&[("README.md", "")])), []);
    }

    #[test]
    fn a_command_that_one_list_lacks_is_found_there_whichever_it_is() {
        let is_missing = |found: Vec<String>, file: &str| {
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(file) && found[0].contains("`set_name`"), "{found:?}");
        };
        let less = GRANTED.replace(", \"allow-set-name\"", "");
        is_missing(sentences(&less, ANSWERED, ASKED, STRICT), "main.json");
        let less = ANSWERED.replace("    commands::set_name,\n", "");
        is_missing(sentences(GRANTED, &less, ASKED, STRICT), "app.rs");
        let less = ASKED.replace("ask('set_name', { name })", "null");
        is_missing(sentences(GRANTED, ANSWERED, &less, STRICT), "tauri.ts");
        let more = GRANTED.replace("\"allow-say\"", "\"allow-say\", \"core:default\"");
        let found = sentences(&more, ANSWERED, ASKED, STRICT);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_policy_that_lets_anything_else_in_is_found() {
        for (strict, loose, part) in [
            (
                "\"script-src\": \"'self'\"",
                "\"script-src\": \"'self' 'unsafe-eval'\"",
                "'unsafe-eval'",
            ),
            ("\"style-src\": \"'self'\"", "\"style-src\": \"'unsafe-inline'\"", "'unsafe-inline'"),
            ("http://ipc.localhost", "http://ipc.localhost https:", "`https:`"),
            ("\"form-action\": \"'none'\", ", "", "nothing of `form-action`"),
            ("\"freezePrototype\": true", "\"freezePrototype\": false", "freezePrototype"),
            ("\"withGlobalTauri\": false", "\"withGlobalTauri\": true", "withGlobalTauri"),
        ] {
            let policy = STRICT.replacen(strict, loose, 1);
            assert_ne!(policy, STRICT, "{strict}");
            let found = sentences(GRANTED, ANSWERED, ASKED, &policy);
            assert_eq!(found.len(), 1, "{part}: {found:?}");
            assert!(found[0].contains(part), "{found:?}");
        }
    }
}
