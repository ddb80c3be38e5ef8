//! Rewrites golden files: the tests that hold them write what they got instead of comparing.

use anyhow::Result;

use crate::places::Places;
use crate::process::Program;
use crate::{say, stages};

/// Set while goldens are rewritten; a golden test that sees it writes its file and passes.
pub(crate) const UPDATE_VARIABLE: &str = "INGLENOOK_UPDATE";

/// Runs the Rust tests with [`UPDATE_VARIABLE`] set and shows which files changed.
pub(crate) fn rewrite(places: &Places) -> Result<()> {
    stages::rust::nextest(places)?
        .args(stages::build::EVERYTHING)
        .args(stages::build::features(places)?)
        .env(UPDATE_VARIABLE, "1")
        .run()?;
    say::heading("what changed; review it before committing");
    Program::new("git", &places.root).args(["status", "--short"]).run()
}
