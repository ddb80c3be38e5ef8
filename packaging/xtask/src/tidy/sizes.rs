//! How long a file and a function may be. Test code and generated code do not count.

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use crate::tidy::Finding;
use crate::tidy::tree::{SourceFile, Tree};

const RULE: &str = "sizes";
/// Lines of a source file; 300 is the aim.
const FILE_LINES_MAX: usize = 600;
/// Lines of a Svelte component; 120 is the aim.
const COMPONENT_LINES_MAX: usize = 250;
/// Lines of a function from its name to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Files and functions that are too long.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    // A recipe is a record of how a model was made, kept as it was run.
    let counts =
        |file: &&SourceFile| file.is_source() && !file.is_test() && !file.path.contains("/recipe/");
    let sources = tree.files.iter().filter(counts);
    sources.flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let mut functions = Functions { path: &file.path, test_lines: 0, findings: Vec::new() };
    if let Some(rust) = file.rust() {
        functions.visit_file(rust);
    }
    let lines = functions.lines_of(file);
    let most = if file.ending() == "svelte" { COMPONENT_LINES_MAX } else { FILE_LINES_MAX };
    let mut findings = functions.findings;
    if lines > most {
        let sentence = format!("{lines} lines without tests, at most {most}: split it by subject");
        findings.push(Finding::new(RULE, &file.path, 0, sentence));
    }
    findings
}

/// Lines of a Rust file but those of its tests.
pub(crate) fn lines_without_tests(file: &SourceFile, rust: &syn::File) -> usize {
    let mut functions = Functions { path: &file.path, test_lines: 0, findings: Vec::new() };
    functions.visit_file(rust);
    functions.lines_of(file)
}

/// Walks a file, measures functions and counts the lines of its tests.
struct Functions<'a> {
    path: &'a str,
    test_lines: usize,
    findings: Vec<Finding>,
}

impl Functions<'_> {
    fn lines_of(&self, file: &SourceFile) -> usize {
        file.text.lines().count().saturating_sub(self.test_lines)
    }

    fn measure(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.span().start().line;
        let lines = block.span().end().line.saturating_sub(first) + 1;
        if lines > FUNCTION_LINES_MAX {
            let sentence = format!(
                "`{}` has {lines} lines, at most {FUNCTION_LINES_MAX}: let its parts be named",
                signature.ident
            );
            self.findings.push(Finding::new(RULE, self.path, first, sentence));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.attrs.iter().any(is_for_tests) {
            let span = module.span();
            self.test_lines += span.end().line.saturating_sub(span.start().line) + 1;
            return;
        }
        visit::visit_item_mod(self, module);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if function.attrs.iter().any(is_for_tests) {
            return;
        }
        self.measure(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.measure(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
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

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

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

    #[test]
    fn a_long_function_is_found_wherever_it_is() {
        check_text("crates/a/src/lib.rs", &function(70), &[]);
        check_text("crates/a/src/lib.rs", &function(71), &["`long` has 71 lines"]);
        let inside = format!("impl A {{\n{}}}", function(71));
        check_text("crates/a/src/lib.rs", &inside, &["`long`"]);
        let in_module = format!("mod b {{\n{inside}}}");
        check_text("crates/a/src/lib.rs", &in_module, &["`long`"]);
        check_text("crates/a/src/lib.rs", &format!("#[test]\n{}", function(90)), &[]);
    }
}
