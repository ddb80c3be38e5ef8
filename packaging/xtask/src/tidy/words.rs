//! Words that do not belong in any text file: reminders, machine paths, registry hosts.

use crate::tidy::Finding;
use crate::tidy::tree::{SourceFile, Tree};

const RULE: &str = "words";

// All words are spelled in two pieces so that this file does not hold them itself.
const REMINDERS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
/// Folders of single machines; a path like that works on one computer only.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];
/// Package registries are chosen by the machine's own settings, never named here.
const REGISTRY_HOSTS: &[&str] = &[
    concat!("registry.npm", "js.org"),
    concat!("registry.yarn", "pkg.com"),
    concat!("py", "pi.org"),
    concat!("files.python", "hosted.org"),
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("deb.deb", "ian.org"),
    concat!("archive.ubu", "ntu.com"),
    concat!("proxy.gol", "ang.org"),
];

/// Lines that hold such a word.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    // Cargo writes its own lock file, with the name of its index in it.
    tree.files.iter().filter(|file| file.path != "Cargo.lock").flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let mut found = |sentence: String| {
            findings.push(Finding::new(RULE, &file.path, at + 1, sentence));
        };
        if let Some(word) = REMINDERS.iter().find(|word| holds_word(line, word)) {
            found(format!("`{word}`: do it now or write an issue"));
        }
        if let Some(path) = MACHINE_PATHS.iter().find(|path| holds_path(line, path)) {
            found(format!("`{path}…` is a path of one machine"));
        }
        if let Some(host) = REGISTRY_HOSTS.iter().find(|host| line.contains(**host)) {
            found(format!("`{host}`: registries are the machine's business"));
        }
    }
    findings
}

/// Whether `line` holds `word` with no letter around it.
fn holds_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_letter(before) && !is_letter(after)
    })
}

/// Whether an absolute path starts with `path`: nothing of a longer path stands before it.
fn holds_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.$}~*<>)".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_line(line: &str, found: usize) {
        let findings = check(&Tree::of(&[("README.md", line)]));
        assert_eq!(findings.len(), found, "{line}: {findings:?}");
    }

    #[test]
    fn reminders_are_found() {
        check_line(concat!("// TO", "DO: later"), 1);
        check_line(concat!("MASTO", "DON"), 0);
        check_line(concat!("fn f() {} // FIX", "ME"), 1);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        check_line(concat!("cd /wo", "rk/main"), 1);
        check_line(concat!("let home = \"/ho", "me/someone\";"), 1);
        check_line(concat!("$T/ho", "me/.config and frame/wo", "rk/"), 0);
    }

    #[test]
    fn registry_hosts_are_found() {
        check_line(concat!("https://py", "pi.org/simple"), 1);
        let lock = Tree::of(&[("Cargo.lock", concat!("index.crates", ".io"))]);
        assert_eq!(check(&lock), []);
    }
}
