//! What lets words leave this device may be named in a few files only, each of which holds a proof.

use crate::tidy::Finding;
use crate::tidy::tree::{SourceFile, Tree};

const RULE: &str = "danger";

/// A dangerous name, where it may stand outside tests, and why.
struct Danger {
    name: &'static str,
    files: &'static [&'static str],
    why: &'static str,
}

const DANGERS: &[Danger] = &[
    // Spelled so that this file does not hold it itself.
    Danger {
        name: concat!("ids_for_", "own_device"),
        files: &[
            "crates/nook-wire/src/lib.rs",
            "crates/nook-wire/src/offload.rs",
            "crates/nook-requester/src/reply/offload.rs",
            "crates/nook-host/src/offload.rs",
        ],
        why: "makes bytes of token ids that leave this device; only a whole request between devices of \
              one person does, behind the gate's proof",
    },
];

/// Dangerous names where they must not be.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree.files.iter().filter(|file| file.ending() == "rs" && !file.is_test());
    sources.flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let strange = DANGERS.iter().filter(|danger| !danger.files.contains(&file.path.as_str()));
    strange
        .flat_map(|danger| {
            let lines = file.text.lines().enumerate();
            let named = lines.filter(|(_, line)| line.contains(danger.name));
            named.map(|(at, _)| {
                let sentence = format!("`{}` {}", danger.name, danger.why);
                Finding::new(RULE, &file.path, at + 1, sentence)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_leave_in_the_files_that_hold_a_proof_and_nowhere_else() {
        let line = format!("let bytes = {}(&ids, &[]);\n", DANGERS[0].name);
        let found = |path: &str| check(&Tree::of(&[(path, &line)])).len();
        for allowed in DANGERS[0].files {
            assert_eq!(found(allowed), 0, "{allowed}");
        }
        assert_eq!(found("crates/nook-node/src/requester/reply/segment_call.rs"), 1);
        assert_eq!(found("crates/nook-pipeline/src/advance.rs"), 1);
        assert_eq!(found("tests/tests/it/offload.rs"), 0, "tests play both sides");
    }
}
