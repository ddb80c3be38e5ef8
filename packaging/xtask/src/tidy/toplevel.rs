//! What may lie at the top of the repository: few things, so that a newcomer sees the house at
//! once.

use std::collections::BTreeSet;

use crate::tidy::Finding;
use crate::tidy::tree::Tree;

const RULE: &str = "top level";

/// Everything but dot files and licences.
const ALLOWED: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "SECURITY.md",
    "clippy.toml",
    "crates",
    "deny.toml",
    "docs",
    "examples",
    "icons",
    "packaging",
    "rustfmt.toml",
    "src-tauri",
    "tests",
    "ui",
];

/// Entries that do not belong at the top, and crates without a place in the map's order.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let entries: BTreeSet<&str> =
        tree.files.iter().filter_map(|file| file.path.split('/').next()).collect();
    let stray = entries.into_iter().filter(|entry| {
        !ALLOWED.contains(entry) && !entry.starts_with('.') && !entry.starts_with("LICENSE")
    });
    let finding = |entry| {
        Finding::new(RULE, entry, 0, "does not belong at the top; find the folder that owns it")
    };
    stray.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stray_entry_is_found_once() {
        let tree = Tree::of(&[
            ("Cargo.toml", ""),
            (".ci/run", ""),
            ("LICENSE-MIT", ""),
            ("notes/a.md", ""),
            ("notes/b.md", ""),
            ("out.txt", ""),
        ]);
        let paths = check(&tree).into_iter().map(|finding| finding.path).collect::<Vec<_>>();
        assert_eq!(paths, ["notes", "out.txt"]);
    }
}
