//! `cargo xtask fuzz`: a million damaged model files against the reader of headers and the model.
//!
//! The cases and what must be true of them are nook-model's (`tests/common/fuzz.rs`); its tests run
//! some of them each time. Here its example `fuzz_headers` runs more, in the usual build: the
//! crates that work are optimised in it, and it notices arithmetic that overflows.

use anyhow::Result;
use clap::Args;

use crate::places::Places;
use crate::process::cargo;

/// How much to fuzz.
#[derive(Debug, Args)]
pub(crate) struct FuzzOptions {
    /// How many damaged files
    #[arg(long, default_value_t = 1_000_000)]
    cases: u64,
    /// The first case: a case that failed is run alone with `--cases 1 --first INDEX`
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Another seed makes other files
    #[arg(long, default_value_t = 20_261_121)]
    seed: u64,
}

/// Runs the cases; fails when one of them broke a promise.
pub(crate) fn fuzz(places: &Places, options: &FuzzOptions) -> Result<()> {
    let numbers = [options.cases, options.first, options.seed].map(|number| number.to_string());
    cargo(&places.root)
        .args(["run", "--package", "nook-model", "--example", "fuzz_headers", "--"])
        .args(numbers)
        .run()
}
