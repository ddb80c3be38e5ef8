//! `cargo xtask soak`: a household of real nodes that are killed, frozen and drained for ten
//! minutes.
//!
//! The program `soak` of the `tests` package does it with `nook` as it is shipped, so both are
//! built with optimisation. It fails when a reply was wrong or stuck, or when anything was left
//! over.

use anyhow::Result;
use clap::Args;

use crate::places::Places;
use crate::process::cargo;

/// What the soak is told.
#[derive(Debug, Args)]
pub(crate) struct SoakOptions {
    /// Passed on to the soak: `--minutes 10 --conversations 200 --seed 0 --json`; `-- --help` tells
    /// all
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// What Cargo is told.
const RUN: [&str; 7] = ["run", "--release", "--package", "nook-tests", "--bin", "soak", "--"];

/// Builds and runs the soak.
pub(crate) fn soak(places: &Places, options: &SoakOptions) -> Result<()> {
    cargo(&places.root).args(["build", "--release", "--package", "nook-cli"]).run()?;
    let nook = places.target.join("release").join(crate::launch::NOOK);
    cargo(&places.root).args(RUN).args(&options.args).env("NOOK_BIN", nook).run()
}
