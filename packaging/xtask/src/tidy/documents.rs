//! What the documents promise is there: invariants have tests, README opens with the two commands,
//! every crate has a README of its own.

use std::collections::BTreeSet;

use proc_macro2::{Group, TokenStream, TokenTree};

use crate::tidy::Finding;
use crate::tidy::tree::Tree;

const RULE: &str = "documents";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const README: &str = "README.md";
/// The commands that do all set-up, and by which line of README they have been shown.
const COMMANDS: [&str; 2] = ["cargo xtask run", "cargo xtask test"];
const COMMANDS_BY_LINE: usize = 20;
/// Lines of a crate's README; what is longer belongs in its documentation.
const CRATE_README_LINES_MAX: usize = 40;
/// How an invariant names its tests.
const TEST_MARK: &str = "*Test:*";

/// Promises that are not kept.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = check_readme(tree.text(README));
    findings.extend(check_crates(tree));
    findings.extend(check_invariants(tree));
    findings
}

/// Every crate says in a few lines what it is for.
fn check_crates(tree: &Tree) -> Vec<Finding> {
    let folder = |path: &str| path.strip_suffix("/Cargo.toml").map(str::to_owned);
    let folders = tree.files.iter().filter_map(|file| folder(&file.path));
    let crates = folders.filter(|it| it.starts_with("crates/") && it.matches('/').count() == 1);
    let wrong = |folder: String| {
        let path = format!("{folder}/{README}");
        let sentence = match tree.text(&path).map(|text| text.lines().count()) {
            Some(1..=CRATE_README_LINES_MAX) => return None,
            Some(0) | None => "says nothing: what is the crate for, and what is it not?".to_owned(),
            Some(lines) => format!("{lines} lines, at most {CRATE_README_LINES_MAX}"),
        };
        Some(Finding::new(RULE, &path, 0, sentence))
    };
    crates.filter_map(wrong).collect()
}

fn check_readme(text: Option<&str>) -> Vec<Finding> {
    let opening = text.unwrap_or_default().lines().take(COMMANDS_BY_LINE).collect::<Vec<_>>();
    let shown = |command: &&str| opening.iter().any(|line| line.trim_start().starts_with(*command));
    let missing = COMMANDS.iter().filter(|command| !shown(command));
    let sentence =
        |command| format!("`{command}` is not shown in the first {COMMANDS_BY_LINE} lines");
    missing.map(|command| Finding::new(RULE, README, 1, sentence(command))).collect()
}

fn check_invariants(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(ARCHITECTURE) else {
        return vec![Finding::new(RULE, ARCHITECTURE, 0, "is missing")];
    };
    let tests = test_names(tree);
    let mut findings = Vec::new();
    let mut found = |line: usize, sentence: String| {
        findings.push(Finding::new(RULE, ARCHITECTURE, line, sentence));
    };
    let invariants = invariants(text);
    if invariants.is_empty() {
        found(0, "states no invariant (`**I-1.** …`)".to_owned());
    }
    for (at, invariant) in invariants.iter().enumerate() {
        let Invariant { number, line, named } = invariant;
        if *number != at + 1 {
            found(*line, format!("I-{number} stands where I-{} belongs", at + 1));
        }
        if named.is_empty() {
            found(*line, format!("I-{number} names no test ({TEST_MARK} `name`)"));
        }
        for name in named.iter().filter(|name| !tests.contains(name.as_str())) {
            found(
                *line,
                format!("I-{number} names the test `{name}`, which does not exist or is no test"),
            );
        }
    }
    findings
}

/// One numbered paragraph.
struct Invariant {
    number: usize,
    line: usize,
    named: Vec<String>,
}

fn invariants(text: &str) -> Vec<Invariant> {
    let mut invariants: Vec<Invariant> = Vec::new();
    let mut after_mark = false;
    for (at, line) in text.lines().enumerate() {
        let plain = line.trim_start_matches(['-', ' ', '>']);
        if let Some(number) = plain.strip_prefix("**I-").and_then(|rest| rest.split_once(".**")) {
            let number = number.0.parse().unwrap_or(0);
            invariants.push(Invariant { number, line: at + 1, named: Vec::new() });
            after_mark = false;
        }
        let Some(invariant) = invariants.last_mut() else {
            continue;
        };
        if line.trim().is_empty() || line.starts_with('#') {
            after_mark = false;
        }
        let tests = match line.split_once(TEST_MARK) {
            Some((_, tests)) => {
                after_mark = true;
                tests
            }
            None if after_mark => line,
            None => continue,
        };
        invariant.named.extend(tests.split('`').skip(1).step_by(2).map(str::to_owned));
    }
    invariants
}

/// Tests in Rust and Python by the names of their functions, in TypeScript by their titles.
fn test_names(tree: &Tree) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in &tree.files {
        if let Some(tokens) = file.tokens() {
            add_test_functions(tokens.clone(), &mut names);
            continue;
        }
        let (openings, ends): (&[&str], &[char]) = match file.ending() {
            "py" if file.name().starts_with("test_") => (&["def test_"], &['(']),
            "ts" => (&["it('", "it(\"", "test('", "test(\""], &['\'', '"']),
            _ => continue,
        };
        for line in file.text.lines() {
            for opening in openings {
                let Some((_, rest)) = line.split_once(opening) else {
                    continue;
                };
                let name = rest.split(ends).next().unwrap_or_default();
                names.insert(format!("{}{name}", opening.strip_prefix("def ").unwrap_or_default()));
            }
        }
    }
    names
}

/// Names of functions behind `#[test]` or a path that ends in it, such as `#[tokio::test]`. Tokens
/// rather than the syntax tree, because `proptest!` has them inside a macro call.
fn add_test_functions(tokens: TokenStream, names: &mut BTreeSet<String>) {
    let mut tokens = tokens.into_iter().peekable();
    let mut is_test = false;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(sign) if sign.as_char() == '#' => {
                if let Some(TokenTree::Group(attribute)) = tokens.peek() {
                    is_test |= is_test_attribute(attribute);
                    tokens.next();
                }
            }
            TokenTree::Ident(word) if word == "fn" => {
                if let Some(TokenTree::Ident(name)) = tokens.peek().filter(|_| is_test) {
                    names.insert(name.to_string());
                }
                is_test = false;
            }
            TokenTree::Group(group) => add_test_functions(group.stream(), names),
            _ => {}
        }
    }
}

fn is_test_attribute(attribute: &Group) -> bool {
    let is_name = |token: &TokenTree| !matches!(token, TokenTree::Group(_));
    let path = attribute.stream().into_iter().take_while(is_name).last();
    matches!(path, Some(TokenTree::Ident(last)) if last == "test")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE_README: &str = "# Inglenook\n\n```\ncargo xtask run\ncargo xtask test\n```\n";

    const RUST_TESTS: &str = "
        #[test]
        fn nothing_gets_past() {}
        #[cfg(unix)]
        #[tokio::test(flavor = \"multi_thread\")]
        async fn nothing_waits() {}
        proptest! {
            #[test]
            fn noise_is_refused(noise in any::<u8>()) { fn inner() {} }
            fn prepared() {}
        }
        fn is_no_test() {}
        #[cfg(test)]
        fn made_for_tests() {}
        mod test { fn inside() {} }
    ";

    #[track_caller]
    fn check_documents(readme: &str, architecture: &str, found: &[&str]) {
        let tree = Tree::of(&[
            ("README.md", readme),
            ("ARCHITECTURE.md", architecture),
            ("crates/a/src/lib.rs", RUST_TESTS),
            ("tests/python/test_a.py", "def test_tray():\n    pass"),
            ("ui/src/a.test.ts", "it('speaks politely', () => {})"),
        ]);
        let findings = check(&tree);
        assert_eq!(findings.len(), found.len(), "{findings:?}");
        for (finding, part) in findings.iter().zip(found) {
            assert!(finding.sentence.contains(part), "{finding}");
        }
    }

    #[test]
    fn an_invariant_names_a_test_that_exists() {
        let fine = "**I-1.** One. *Test:* `nothing_gets_past`, `test_tray`,\n`speaks politely`.\n";
        check_documents(FINE_README, fine, &[]);
        check_documents(FINE_README, "- **I-1.** One. *Test:* `no_such_test`.", &["no_such_test"]);
        check_documents(FINE_README, "**I-1.** Without a test.", &["names no test"]);
        check_documents(FINE_README, "Prose alone.", &["states no invariant"]);
    }

    #[test]
    fn a_function_that_no_test_runner_calls_is_no_test() {
        for (name, is_test) in [
            ("nothing_gets_past", true),
            ("nothing_waits", true),
            ("noise_is_refused", true),
            ("prepared", false),
            ("inner", false),
            ("is_no_test", false),
            ("made_for_tests", false),
            ("inside", false),
        ] {
            let text = format!("**I-1.** One. *Test:* `{name}`.");
            let found = ["does not exist"];
            check_documents(FINE_README, &text, if is_test { &[] } else { &found });
        }
    }

    #[test]
    fn numbers_of_invariants_have_no_gap() {
        let gap = "**I-1.** A. *Test:* `test_tray`.\n\n**I-3.** B. *Test:* `test_tray`.";
        check_documents(FINE_README, gap, &["I-3 stands where I-2 belongs"]);
    }

    #[test]
    fn a_crate_has_a_readme_of_a_few_lines() {
        let found = |files: &[(&str, &str)]| {
            let manifests = [("crates/a/Cargo.toml", ""), ("crates/a/fuzz/Cargo.toml", "")];
            let findings = check_crates(&Tree::of(&[&manifests, files].concat()));
            findings.into_iter().map(|finding| finding.to_string()).collect::<Vec<_>>().concat()
        };
        assert!(found(&[]).starts_with("crates/a/README.md:0: says nothing"));
        assert!(found(&[("crates/a/README.md", "")]).contains("says nothing"));
        assert_eq!(found(&[("crates/a/README.md", &"line\n".repeat(40))]), "");
        let long = found(&[("crates/a/README.md", &"line\n".repeat(41))]);
        assert!(long.contains("41 lines, at most 40"), "{long}");
    }

    #[test]
    fn readme_opens_with_the_two_commands() {
        let fine = "**I-1.** A. *Test:* `test_tray`.";
        check_documents("# Inglenook\n```\ncargo xtask run\n```", fine, &["cargo xtask test"]);
        let late = format!("{}{FINE_README}", "prose\n".repeat(30));
        check_documents(&late, fine, &["cargo xtask run", "cargo xtask test"]);
    }
}
