//! Files with known answers, and what becomes of a test that has none.
//!
//! Small ones are in the tree, below `tests/fixtures`, so what they prove is proven on every clone.
//! Large ones lie in the folder `shared` beside the checkout, and prove the same on more files. A
//! test that finds no large ones says so and goes on without, or fails where a CI system runs it:
//! there they must be.
//!
//! The crates that `nook-node` is made of include this file by its path: if they used
//! `nook-testkit`, their tests would be built anew with every change of the node.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use nook_base::env;

/// The files in the tree.
const IN_TREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");

/// Where the large files are, unless [`LARGE_VARIABLE`] names another folder.
const LARGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
const LARGE_VARIABLE: &str = "INGLENOOK_SHARED";

/// Names a file to which notes are added; whoever runs the tests shows it.
const NOTES_VARIABLE: &str = "NOOK_TEST_NOTES";

/// A file or folder of `tests/fixtures`.
///
/// # Panics
///
/// If it is not there: the checkout is damaged, or the name is wrong.
#[must_use]
pub fn fixture(path: &str) -> PathBuf {
    let file = Path::new(IN_TREE).join(path);
    assert!(file.exists(), "tests/fixtures/{path} is not in this checkout");
    file
}

/// A file or folder of `shared`, for what `test` proves beyond the files in the tree; `None`,
/// loudly, where there is none.
///
/// # Panics
///
/// If it is not there and a CI system runs the test.
#[must_use]
pub fn large_fixture(test: &str, path: &str) -> Option<PathBuf> {
    let folder = env::raw(LARGE_VARIABLE).map_or_else(|| LARGE.into(), PathBuf::from);
    match look(&folder.join(path), is_ci(env::text("CI").as_deref())) {
        Ok(Some(file)) => Some(file),
        Ok(None) => {
            skip(&format!("{test}, over shared/{path}"), "no large fixtures");
            None
        }
        Err(why) => panic!("{test}: {why}"),
    }
}

/// The policy: a file that is there is used, one that is not is missed by a CI system alone.
pub(crate) fn look(file: &Path, ci: bool) -> Result<Option<PathBuf>, String> {
    match file.exists() {
        true => Ok(Some(file.to_owned())),
        false if ci => Err(format!("{} is not there, and CI needs it", file.display())),
        false => Ok(None),
    }
}

/// Whether a CI system runs the tests, by its variable.
pub(crate) fn is_ci(said: Option<&str>) -> bool {
    said.is_some_and(|said| !["", "0", "false"].contains(&said))
}

/// Says that a test, or a part of it, does not run here.
pub fn skip(test: &str, because: &str) {
    say(&format!("SKIPPED ({because}): {test}"));
}

/// Says it where somebody sees it although the test passes.
pub fn say(line: &str) {
    let line = format!("{line}\n");
    // Past the test harness, which keeps what a passing test prints to itself.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(notes) = env::raw(NOTES_VARIABLE) {
        // A test does not fail because nobody can read what it could not do.
        let file = OpenOptions::new().append(true).create(true).open(notes);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}
