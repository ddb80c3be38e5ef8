//! The code for graphics cards, checked and tested on candle's own path for the processor.
//!
//! It lies behind a feature that the product's usual build does not have, so it is built apart from
//! the workspace: candle in one build for lints and documentation, and in one for tests.

use anyhow::Result;

use crate::process::cargo;
use crate::stages::{Outcome, Round, rust};

/// The package, and the feature that brings candle without a card.
const SELECTION: [&str; 4] = ["--package", "nook-model", "--features", "candle"];
/// The tests that the feature brings, and those inside the code it changes; all others run without
/// it.
const TESTS: [&str; 7] =
    ["--profile", "ci", "--lib", "--test", "it", "-E", "kind(lib) + test(/^card/)"];

/// A worker process that is told to compute there.
const WORKER: [&str; 8] =
    ["--profile", "ci", "--package", "nook-shard", "--features", "candle", "--test", "it"];

/// Lints, documentation and tests of the feature.
pub(crate) fn stage(round: &mut Round) -> Result<Outcome> {
    let places = &round.places;
    let strict = "-D warnings -A rustdoc::private_intra_doc_links";
    let lints = ["clippy", "--all-targets"];
    cargo(&places.root).args(lints).args(SELECTION).args(["--", "-D", "warnings"]).test()?;
    let pages = ["doc", "--no-deps", "--document-private-items"];
    cargo(&places.root).args(pages).args(SELECTION).env("RUSTDOCFLAGS", strict).test()?;
    rust::nextest(places)?.args(SELECTION).args(TESTS).test()?;
    rust::nextest(places)?.args(WORKER).test()?;
    Ok(Outcome::passed())
}
