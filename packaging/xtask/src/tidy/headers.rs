//! Every source file opens by saying what it owns, who talks to it and how data passes through.

use crate::tidy::Finding;
use crate::tidy::tree::{SourceFile, Tree};

const RULE: &str = "headers";

/// Source files without a header.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let without = |file: &&SourceFile| {
        matches!(file.ending(), "rs" | "ts" | "svelte" | "py" | "js" | "mjs")
            && !has_header(file.ending(), &file.text)
    };
    let finding = |file: &SourceFile| {
        let sentence =
            format!("open with {}: what the file owns and who uses it", wish(file.ending()));
        Finding::new(RULE, &file.path, 1, sentence)
    };
    tree.files.iter().filter(without).map(finding).collect()
}

fn has_header(ending: &str, text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let text = match text.strip_prefix("#!") {
        // A shebang, not the inner attribute `#![…]`.
        Some(rest) if !rest.starts_with('[') => rest.split_once('\n').map_or("", |(_, rest)| rest),
        _ => text,
    };
    let text = text.trim_start();
    // What follows the sign must be words, not another line of code.
    let says = |sign: &str, between: &[char]| {
        text.strip_prefix(sign).is_some_and(|rest| {
            let said = rest.trim_start_matches(between).chars().next();
            said.is_some_and(|first| first.is_alphanumeric() || "`[\"'".contains(first))
        })
    };
    let blank = &[' ', '\n', '\r', '*', '/'];
    match ending {
        "rs" => says("//!", &[' ']),
        "py" => says("\"\"\"", blank),
        // The header of a component may be the first thing in its script.
        "svelte" => {
            says("<!--", blank) || {
                let script = text.strip_prefix("<script").and_then(|rest| rest.split_once('>'));
                script.is_some_and(|(_, body)| opens_with_comment(body))
            }
        }
        _ => says("//", blank) || says("/*", blank),
    }
}

fn opens_with_comment(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("//") || text.starts_with("/*")
}

fn wish(ending: &str) -> &'static str {
    match ending {
        "rs" => "`//!`",
        "py" => "a docstring",
        "svelte" => "`<!-- … -->`",
        _ => "`/** … */`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_header_is_found() {
        for (path, text, is_fine) in [
            ("a.rs", "//! One session with one peer.\n", true),
            ("a.rs", "//!\nfn main() {}", false),
            ("a.rs", "#![forbid(unsafe_code)]\n//! Late.", false),
            ("a.rs", "fn main() {}", false),
            ("a.rs", "", false),
            ("a.ts", "/** The window's only door. */\n", true),
            ("a.ts", "// The window's only door.\n", true),
            ("a.ts", "import x from 'y';", false),
            ("a.svelte", "<!-- One message. -->\n<p></p>", true),
            ("a.svelte", "<script lang=\"ts\">\n  // One message.\n</script>", true),
            ("a.svelte", "<script lang=\"ts\">\n  let a;\n</script>", false),
            ("a.py", "#!/usr/bin/env python3\n\"\"\"Reads the tray.\"\"\"", true),
            ("a.py", "import os", false),
            ("a.css", "p {}", true),
        ] {
            let findings = check(&Tree::of(&[(path, text)]));
            assert_eq!(findings.is_empty(), is_fine, "{text:?}");
        }
    }
}
