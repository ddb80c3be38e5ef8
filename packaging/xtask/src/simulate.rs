//! `cargo xtask simulate`: the planner over hundreds of made-up households.
//!
//! Households, checks and figures are those of the program `simulate` of the `tests` package, which
//! is built with optimisation, because it also times the planner. It fails when a check fails.

use anyhow::Result;
use clap::Args;

use crate::places::Places;
use crate::process::cargo;

/// What the simulator is told.
#[derive(Debug, Args)]
pub(crate) struct SimulateOptions {
    /// Passed on to the simulator; `-- --help` tells what it knows
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// What Cargo is told. Of the product only what the benches need is built.
const RUN: [&str; 8] = [
    "run",
    "--release",
    "--package",
    "nook-tests",
    "--no-default-features",
    "--bin",
    "simulate",
    "--",
];

/// Builds and runs the simulator.
pub(crate) fn simulate(places: &Places, options: &SimulateOptions) -> Result<()> {
    cargo(&places.root).args(RUN).args(&options.args).run()
}
