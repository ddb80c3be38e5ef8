//! One list of actions: what can be asked of a node is listed in `nook-api` and handled in
//! `nook-node`.
//!
//! A new action is a line of the definition, one handler, a caller and a test: four files. It stays
//! so as long as no other file has to name every action, and none is handled in two files. Front
//! ends that need all actions get them from the macro, or from the TypeScript that it generates.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::Finding;
use crate::tidy::tree::{SourceFile, Tree};

const RULE: &str = "actions";
/// Where each action stands once.
const DEFINITION: &str = "crates/nook-api/src/actions.rs";
/// Where actions are handled.
const HANDLERS: &str = "crates/nook-node/src/";
/// The household that the pages make up for their tests: it answers what its tests ask, and refuses
/// the rest.
const MADE_UP: &str = "ui/src/backend/fake.ts";
/// What the macro generates.
const GENERATED: &str = "ui/src/generated/";
/// Actions that a caller may name without being a list of them. Calls of methods do not count.
const NAMED_MAX: usize = 4;

/// An action as the definition has it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Action<'a> {
    /// `set_trust`
    name: &'a str,
    /// `SetTrust`
    variant: &'a str,
}

/// Further lists of actions, and actions that are not handled in exactly one file.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(definition) = tree.text(DEFINITION) else { return Vec::new() };
    let actions = defined(definition);
    if actions.is_empty() {
        return vec![Finding::new(RULE, DEFINITION, 0, "no action is read from this list")];
    }
    let mut findings = Vec::new();
    let mut handlers: BTreeMap<&Action, BTreeSet<&str>> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| counts(file)) {
        let text = product(file);
        if file.path.starts_with(HANDLERS) {
            let handles = actions.iter().filter(|action| names_variant(text, action.variant));
            handles.for_each(|action| {
                handlers.entry(action).or_default().insert(&file.path);
            });
            continue;
        }
        let named: Vec<_> =
            actions.iter().filter(|action| names(file, text, action)).map(|it| it.name).collect();
        if named.len() > NAMED_MAX {
            let sentence = format!(
                "this is a second list of actions ({}): take them from `{DEFINITION}`",
                named.join(", ")
            );
            findings.push(Finding::new(RULE, &file.path, 0, sentence));
        }
    }
    let several = handlers.iter().filter(|(_, files)| files.len() > 1);
    findings.extend(several.map(|(action, files)| {
        let files = files.iter().copied().collect::<Vec<_>>().join(" and ");
        let sentence = format!("`{}` is handled in {files}: one of them is enough", action.name);
        Finding::new(RULE, DEFINITION, 0, sentence)
    }));
    findings
}

/// Whether a new action could have to be named in this file.
fn counts(file: &SourceFile) -> bool {
    let is_known = file.path == DEFINITION || file.path == MADE_UP;
    let is_made = file.path.starts_with(GENERATED) || file.is_generated();
    let is_list = matches!(file.ending(), "rs" | "ts" | "svelte" | "json" | "toml" | "mjs");
    is_list && !is_known && !is_made && !file.is_test() && !file.path.starts_with("packaging/")
}

/// The file without the tests at its end.
fn product(file: &SourceFile) -> &str {
    file.text.split_once("#[cfg(test)]\nmod ").map_or(&*file.text, |(product, _)| product)
}

/// `set_trust as SetTrust(` and `view as View by view_now`, each at the beginning of a line.
fn defined(text: &str) -> Vec<Action<'_>> {
    let action = |line| {
        let (name, rest): (&str, &str) = str::trim(line).split_once(" as ")?;
        let variant = rest.split(['(', ' ']).next().filter(|_| rest.contains(['(', ' ']))?;
        let is_name = name.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
        let is_variant = variant.starts_with(|first: char| first.is_ascii_uppercase());
        (is_name && is_variant).then_some(Action { name, variant })
    };
    text.lines().filter_map(action).collect()
}

/// Whether a text names an action otherwise than by calling its method.
fn names(file: &SourceFile, text: &str, action: &Action) -> bool {
    if file.ending() == "rs" && names_variant(text, action.variant) {
        return true;
    }
    // A word like `view` means other things too; every list has names of several words.
    if !action.name.contains('_') {
        return false;
    }
    let (kebab, camel) = (action.name.replace('_', "-"), camel(action.name));
    let quoted = [
        format!("'{}'", action.name),
        format!("\"{}\"", action.name),
        format!("\"allow-{kebab}\""),
    ];
    if quoted.iter().any(|quoted| text.contains(quoted)) {
        return true;
    }
    let declares = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("async ").unwrap_or(line);
        let rest = line.strip_prefix(&camel);
        rest.is_some_and(|rest| rest.starts_with(['(', ':']) || rest.starts_with(" = "))
    };
    file.ending() != "rs" && text.lines().any(declares)
}

/// `Request::SetTrust`, `DeviceCommand::SetTrust`, or `Of::SetTrust` where commands are matched.
fn names_variant(text: &str, variant: &str) -> bool {
    text.match_indices(&format!("::{variant}")).any(|(at, found)| {
        let before = text[..at].rsplit(|it: char| !it.is_alphanumeric()).next();
        let is_ours = before.is_some_and(|of| {
            of == "Request" || of == "Response" || of == "Of" || of.ends_with("Command")
        });
        let after = text[at + found.len()..].chars().next();
        is_ours && !after.is_some_and(char::is_alphanumeric)
    })
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |all, word| {
        let (initial, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        all + &initial.to_uppercase() + rest
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
use nook_base::NodeCalls as _;
    /// Sets trust.
    set_trust as SetTrust(
        device: String,
    ) -> (), for [Window];
    set_name as SetName(name: String) -> (), for [Window];
    show_code as ShowCode() -> PairingView, for [Window];
    free_memory as FreeMemory() -> (), for [Window];
    cancel_pairing as CancelPairing() -> (), for [Window];
    forget as Forget(device: String) -> (), for [Window];
    view as View by view_now -> HouseholdView, for [Control];
";

    const HANDLER: &str = "Of::SetTrust { .. } => {}\nOf::SetName { .. } => {}\n\
                           Of::Forget { .. } => {}\nOf::ShowCode { .. } => {}\n";

    fn sentences(files: &[(&str, &str)]) -> Vec<String> {
        let known = [(DEFINITION, LIST), ("crates/nook-node/src/dispatch.rs", HANDLER)];
        let tree = Tree::of(&[&known[..], files].concat());
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_definition_is_read_line_by_line() {
        let names: Vec<_> = defined(LIST).iter().map(|it| (it.name, it.variant)).collect();
        let wanted = [
            ("set_trust", "SetTrust"),
            ("set_name", "SetName"),
            ("show_code", "ShowCode"),
            ("free_memory", "FreeMemory"),
            ("cancel_pairing", "CancelPairing"),
            ("forget", "Forget"),
            ("view", "View"),
        ];
        assert_eq!(names, wanted);
        let tree = Tree::of(&[(DEFINITION, "mod nothing;")]);
        assert_eq!(check(&tree).len(), 1, "a list that cannot be read would find nothing for ever");
        assert_eq!(check(&Tree::of(&[("README.md", "")])), []);
    }

    #[test]
    fn a_definition_a_handler_and_callers_say_nothing() {
        let caller = "client.set_trust(a); client.forget(b); client.set_name(c); client.view();\n\
                      client.free_memory(); client.cancel_pairing(); Request::ShowCode {};";
        let page = "await backend.setTrust(a); backend.forget(b); backend.setName(c);\n\
                    backend.showCode(); backend.freeMemory(); backend.cancelPairing()";
        let found = sentences(&[
            ("crates/nook-cli/src/ask.rs", caller),
            ("ui/src/devices/pairing.svelte.ts", page),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn another_list_is_found_whatever_its_form() {
        let lists = [
            (
                "crates/nook-control/src/server.rs",
                "Request::SetTrust => 1, Request::Forget => 2, Request::SetName => 3,\n\
                 Request::ShowCode => 4, Request::View => 5",
            ),
            (
                "src-tauri/build.rs",
                r#""set_trust", "set_name", "show_code", "free_memory", "cancel_pairing""#,
            ),
            (
                "src-tauri/capabilities/main.json",
                r#""allow-set-trust", "allow-set-name", "allow-show-code", "allow-free-memory",
                   "allow-cancel-pairing""#,
            ),
            (
                "ui/src/backend/backend.ts",
                "  setTrust(a: string): void;\n  setName: () => 1,\n  async showCode() {}\n  \
                 freeMemory = () => 1;\n  cancelPairing(): void;\n",
            ),
        ];
        for (path, text) in lists {
            let found = sentences(&[(path, text)]);
            assert_eq!(found.len(), 1, "{path}: {found:?}");
            assert!(found[0].starts_with(path) && found[0].contains("set_trust"), "{found:?}");
        }
    }

    #[test]
    fn an_action_that_is_handled_in_two_files_is_found() {
        let more = ("crates/nook-node/src/devices.rs", "DeviceCommand::Forget { .. } => {}");
        let found = sentences(&[more]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("`forget`") && found[0].contains("devices.rs"), "{found:?}");
        let other = ("crates/nook-node/src/devices.rs", "Wording::Forget; OtherCommand::Forgetful");
        assert_eq!(sentences(&[other]), [""; 0]);
    }

    #[test]
    fn tests_and_what_is_generated_may_name_all() {
        let all = "'set_trust' 'set_name' 'show_code' 'free_memory' 'cancel_pairing'";
        assert_eq!(sentences(&[("ui/src/backend/tauri.ts", all)]).len(), 1);
        for path in ["ui/src/backend/tauri.test.ts", "ui/src/generated/NodeCalls.ts", MADE_UP] {
            assert_eq!(sentences(&[(path, all)]), [""; 0], "{path}");
        }
    }
}
