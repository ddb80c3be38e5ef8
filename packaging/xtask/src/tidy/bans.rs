//! Words and constructs that do not occur in Rust, TypeScript or Python code here. What ESLint and
//! clippy see is left to them.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

use crate::tidy::Finding;
use crate::tidy::tree::{SourceFile, Tree};

const RULE: &str = "bans";
/// The only crate that may hold unsafe code.
const UNSAFE_FOLDER: &str = "crates/nook-kernels/";
/// Words that say nothing; a type is named by a noun that a user could read.
const EMPTY_WORDS: &[&str] =
    &["Context", "Helper", "Helpers", "Manager", "Processor", "Service", "Util", "Utils"];
/// Names of files that gather what has no place.
const EMPTY_FILE_NAMES: &[&str] =
    &["common", "helper", "helpers", "manager", "misc", "mod", "service", "util", "utils"];

/// Banned constructs.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().filter(|file| file.is_source()).flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let stem = file.name().split('.').next().unwrap_or_default().to_lowercase();
    if EMPTY_FILE_NAMES.contains(&stem.as_str()) {
        let sentence = format!("`{}` names no subject", file.name());
        findings.push(Finding::new(RULE, &file.path, 0, sentence));
    }
    match file.ending() {
        "rs" => check_rust(file, &mut findings),
        "py" => check_lines(file, PYTHON_BANS, &mut findings),
        _ => {
            check_lines(file, SCRIPT_BANS, &mut findings);
            check_script_names(file, &mut findings);
        }
    }
    findings
}

/// A piece of text and what to do instead.
type Ban = (&'static str, &'static str);

// The texts are spelled so that this file does not hold them itself.
const SCRIPT_BANS: &[Ban] = &[
    (concat!("it", ".skip("), "a test runs or goes"),
    (concat!("test", ".skip("), "a test runs or goes"),
    (concat!("describe", ".skip("), "a test runs or goes"),
    (concat!("it", ".only("), "all tests run"),
    (concat!("test", ".only("), "all tests run"),
    (concat!("describe", ".only("), "all tests run"),
    (concat!("it", ".todo("), "a test runs or goes"),
    // It obeys such a comment in a component even where its settings forbid all of them.
    (concat!("eslint-", "disable"), "its rules hold everywhere; `eslint.config.js` has exceptions"),
];
const PYTHON_BANS: &[Ban] = &[
    (concat!("mark", ".skip"), "a test runs or goes"),
    (concat!("mark", ".xfail"), "a test runs or goes"),
];

fn check_lines(file: &SourceFile, bans: &[Ban], findings: &mut Vec<Finding>) {
    for (at, line) in file.text.lines().enumerate() {
        for (text, instead) in bans {
            if line.contains(text) {
                let sentence = format!("`{}`: {instead}", text.trim());
                findings.push(Finding::new(RULE, &file.path, at + 1, sentence));
            }
        }
    }
}

fn check_script_names(file: &SourceFile, findings: &mut Vec<Finding>) {
    for (at, line) in file.text.lines().enumerate() {
        let line = line.trim_start().trim_start_matches("export ").trim_start_matches("default ");
        for kind in ["class ", "interface ", "type ", "enum ", "abstract class "] {
            let Some(rest) = line.strip_prefix(kind) else {
                continue;
            };
            let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            push_empty_name(file, name, at + 1, findings);
        }
    }
}

fn push_empty_name(file: &SourceFile, name: &str, line: usize, findings: &mut Vec<Finding>) {
    if let Some(word) = words(name).into_iter().find(|word| EMPTY_WORDS.contains(&word.as_str())) {
        let sentence = format!("`{name}`: `{word}` says nothing; name the thing");
        findings.push(Finding::new(RULE, &file.path, line, sentence));
    }
}

/// `HouseholdView` to `House`, `View`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for letter in name.chars() {
        match words.last_mut() {
            Some(word) if !letter.is_uppercase() => word.push(letter),
            _ => words.push(letter.to_string()),
        }
    }
    words
}

fn check_rust(file: &SourceFile, findings: &mut Vec<Finding>) {
    if let Some(rust) = file.rust() {
        let mut names = TypeNames(Vec::new());
        names.visit_file(rust);
        for name in names.0 {
            push_empty_name(file, &name.to_string(), name.span().start().line, findings);
        }
    }
    // Tokens rather than the syntax tree, because most of the interesting code is inside macros.
    if let Some(tokens) = file.tokens() {
        check_tokens(file, tokens.clone(), findings);
    }
}

fn check_tokens(file: &SourceFile, tokens: TokenStream, findings: &mut Vec<Finding>) {
    let tokens = tokens.into_iter().collect::<Vec<_>>();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) if word == "unsafe" && !file.path.starts_with(UNSAFE_FOLDER) => {
                let line = word.span().start().line;
                let sentence = format!("unsafe code lives in {UNSAFE_FOLDER} alone");
                findings.push(Finding::new(RULE, &file.path, line, sentence));
            }
            TokenTree::Group(group) => {
                let is_attribute = at > 0
                    && matches!(&tokens[at - 1], TokenTree::Punct(p) if matches!(p.as_char(), '#' | '!'))
                    && group.delimiter() == proc_macro2::Delimiter::Bracket;
                if is_attribute {
                    check_attribute(file, group, findings);
                }
                check_tokens(file, group.stream(), findings);
            }
            _ => {}
        }
    }
}

fn check_attribute(file: &SourceFile, group: &proc_macro2::Group, findings: &mut Vec<Finding>) {
    let text = group.stream().to_string().replace(' ', "");
    let line = group.span_open().start().line;
    let mut found = |sentence: &str| {
        findings.push(Finding::new(RULE, &file.path, line, sentence));
    };
    if text.starts_with("ignore") || text.contains(",ignore") {
        found("an ignored test runs never; make it run or let it go");
    }
    if text.starts_with("should_panic") {
        found("compare the error, do not wait for any panic");
    }
    if text.contains("allow(unsafe_code") && !file.path.starts_with(UNSAFE_FOLDER) {
        found("unsafe code lives in crates/nook-kernels/ alone");
    }
    let names_instrument = text.split('(').next().is_some_and(|path| path.ends_with("instrument"));
    if names_instrument && !text.contains("skip_all") {
        found("`#[instrument]` records every argument; add `skip_all` and name what may be logged");
    }
}

/// Names of the types and traits that a file defines.
struct TypeNames(Vec<proc_macro2::Ident>);

impl<'ast> Visit<'ast> for TypeNames {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.0.push(item.ident.clone());
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.0.push(item.ident.clone());
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.0.push(item.ident.clone());
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.0.push(item.ident.clone());
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.0.push(item.ident.clone());
        syn::visit::visit_item_trait(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(path: &str, text: &str, found: &[&str]) {
        let findings = check(&Tree::of(&[(path, text)]));
        assert_eq!(findings.len(), found.len(), "{findings:?}");
        for (finding, part) in findings.iter().zip(found) {
            assert!(finding.sentence.contains(part), "{finding}");
        }
    }

    #[test]
    fn empty_words_in_type_names_are_found() {
        check_text("crates/a/src/lib.rs", "pub struct LinkManager;", &["Manager"]);
        check_text("crates/a/src/lib.rs", "mod b { trait PeerUtils {} }", &["Utils"]);
        check_text("crates/a/src/lib.rs", "fn f() { enum Context { A } }", &["Context"]);
        check_text("crates/a/src/lib.rs", "use anyhow::Context as _; struct Managed;", &[]);
        check_text("ui/src/a.ts", "export class ChatHelper {}", &["Helper"]);
        check_text("ui/src/a.ts", "export interface ChatView {}", &[]);
    }

    #[test]
    fn files_that_name_no_subject_are_found() {
        check_text("crates/a/src/utils.rs", "", &["utils.rs"]);
        check_text("crates/a/src/session/mod.rs", "", &["mod.rs"]);
        check_text("ui/src/lib/helpers.ts", "", &["helpers.ts"]);
    }

    #[test]
    fn unsafe_code_is_found_outside_its_crate() {
        let code = "fn f() { m!(unsafe { g() }) }";
        check_text("crates/nook-node/src/lib.rs", code, &["unsafe"]);
        check_text("crates/nook-kernels/src/lib.rs", code, &[]);
        check_text(
            "crates/nook-node/src/lib.rs",
            "// unsafe in a comment\nconst A: &str = \"unsafe\";",
            &[],
        );
        check_text("crates/nook-node/src/lib.rs", "#![allow(unsafe_code)]", &["unsafe"]);
    }

    #[test]
    fn tests_that_do_not_run_are_found() {
        let ignored = concat!("#[test]\n#[", "ignore]\nfn f() {}");
        check_text("crates/a/src/lib.rs", ignored, &["ignored"]);
        check_text("crates/a/src/lib.rs", "#[cfg_attr(windows, ignore)]\nfn f() {}", &["ignored"]);
        check_text("crates/a/src/lib.rs", "fn f() { v.iter().skip(1); }", &[]);
        check_text("ui/src/a.test.ts", concat!("describe", ".skip('x')"), &["runs or goes"]);
        check_text("ui/src/a.test.ts", concat!("it", ".only('x')"), &["all tests run"]);
        check_text("tests/python/test_a.py", concat!("@pytest.mark", ".skip"), &["runs or goes"]);
    }

    #[test]
    fn instrument_must_name_what_it_records() {
        let file = "crates/a/src/lib.rs";
        check_text(file, "#[tracing::instrument]\nfn f(prompt: &str) {}", &["skip_all"]);
        check_text(file, "#[tracing::instrument(skip_all, fields(n))]\nfn f(p: &str) {}", &[]);
    }

    #[test]
    fn the_rules_of_eslint_hold_everywhere() {
        let off = concat!("<!-- eslint-", "disable svelte/no-at-html-tags -->");
        check_text("ui/src/A.svelte", off, &["rules hold everywhere"]);
        check_text("ui/src/a.ts", concat!("// eslint-", "disable-next-line"), &["rules hold"]);
        check_text("ui/src/a.ts", "// ESLint reads this too.", &[]);
    }
}
