//! How long a file may be. Test code and generated code do not count. How long a function may be is
//! a lint of clippy (`clippy.toml`).

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use crate::tidy::Finding;
use crate::tidy::tree::{SourceFile, Tree};

const RULE: &str = "sizes";
/// Lines of a source file; 300 is the aim.
const FILE_LINES_MAX: usize = 600;
/// Lines of a Svelte component; 120 is the aim.
const COMPONENT_LINES_MAX: usize = 250;

/// Files that are too long.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    // A recipe is a record of how a model was made, kept as it was run.
    let counts =
        |file: &&SourceFile| file.is_source() && !file.is_test() && !file.path.contains("/recipe/");
    tree.files.iter().filter(counts).filter_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Option<Finding> {
    let lines = lines_without_tests(file);
    let most = if file.ending() == "svelte" { COMPONENT_LINES_MAX } else { FILE_LINES_MAX };
    let sentence = format!("{lines} lines without tests, at most {most}: split it by subject");
    (lines > most).then(|| Finding::new(RULE, &file.path, 0, sentence))
}

/// Lines of a file but those of its modules of tests.
pub(crate) fn lines_without_tests(file: &SourceFile) -> usize {
    let mut tests = TestLines(0);
    file.rust().into_iter().for_each(|rust| tests.visit_file(rust));
    file.text.lines().count().saturating_sub(tests.0)
}

/// Counts the lines of modules of tests.
struct TestLines(usize);

impl<'ast> Visit<'ast> for TestLines {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.attrs.iter().any(is_for_tests) {
            let span = module.span();
            self.0 += span.end().line.saturating_sub(span.start().line) + 1;
            return;
        }
        visit::visit_item_mod(self, module);
    }
}

/// `#[test]`, `#[tokio::test]` or `#[cfg(test)]`, also as one of several conditions.
pub(crate) fn is_for_tests(attribute: &syn::Attribute) -> bool {
    if attribute.path().segments.last().is_some_and(|last| last.ident == "test") {
        return true;
    }
    let syn::Meta::List(list) = &attribute.meta else {
        return false;
    };
    let condition = list.tokens.to_string();
    attribute.path().is_ident("cfg")
        && (condition == "test"
            || condition.starts_with("all (test")
            || condition.starts_with("all(test"))
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
    fn a_long_file_is_found() {
        check_text("crates/a/src/lib.rs", &"// x\n".repeat(600), &[]);
        check_text("crates/a/src/lib.rs", &"// x\n".repeat(601), &["601 lines"]);
        check_text("crates/a/tests/all.rs", &"// x\n".repeat(601), &[]);
        check_text("ui/src/Chat.svelte", &"<p></p>\n".repeat(251), &["251 lines"]);
        check_text("ui/src/chat.ts", &"let a;\n".repeat(601), &["601 lines"]);
    }

    #[test]
    fn tests_inside_a_file_do_not_count() {
        let tests = "// y\n".repeat(500);
        let text = format!("{}#[cfg(test)]\nmod tests {{\n{tests}}}\n", "// x\n".repeat(590));
        check_text("crates/a/src/lib.rs", &text, &[]);
    }
}
