//! Promise: a proof whose files are missing is missed in CI, and said to be missing elsewhere.
//! (Beside the file that is meant, because other crates include that one.)

use crate::fixtures::{fixture, is_ci, look};

#[test]
fn a_file_in_the_tree_is_found_on_every_clone() {
    assert!(fixture("README.md").is_file());
    assert!(std::panic::catch_unwind(|| fixture("no-such-file")).is_err());
}

#[test]
fn a_missing_large_file_is_an_error_in_ci_and_a_note_elsewhere() {
    let here = fixture("README.md");
    for ci in [false, true] {
        assert_eq!(look(&here, ci), Ok(Some(here.clone())));
    }
    let missing = here.with_file_name("missing");
    assert_eq!(look(&missing, false), Ok(None));
    assert!(look(&missing, true).is_err_and(|why| why.contains("missing")));
}

#[test]
fn ci_is_what_says_so() {
    for (said, ci) in
        [(None, false), (Some("0"), false), (Some("false"), false), (Some("true"), true)]
    {
        assert_eq!(is_ci(said), ci, "{said:?}");
    }
}
