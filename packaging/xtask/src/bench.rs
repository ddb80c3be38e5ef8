//! Builds a bench program of the `tests` package with optimisation and runs it.

use anyhow::Result;
use clap::Args;

use crate::places::Places;
use crate::process::cargo;

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// Which bench: `walk` runs the program `bench-walk`
    name: String,
    /// Passed on to the bench
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Runs one bench; the bench measures `nook` as it is shipped, so that is built first.
pub(crate) fn bench(places: &Places, options: &BenchOptions) -> Result<()> {
    cargo(&places.root).args(["build", "--release", "--package", "nook-cli"]).run()?;
    let bench = format!("bench-{}", options.name);
    let nook = places.target.join("release").join(crate::launch::NOOK);
    cargo(&places.root)
        .args(["run", "--release", "--package", "nook-tests", "--bin", bench.as_str(), "--"])
        .args(&options.args)
        .env("NOOK_BIN", nook)
        .run()
}
