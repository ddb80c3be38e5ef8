//! `cargo xtask simulate`: the planner over hundreds of made-up households, and over a thousand
//! devices.
//!
//! The households are drawn by `nook_plan::synthetic`, always the same from the same seed, so a
//! household that fails is found again by its number. [`rounds`] plans for them and compares with
//! trying everything; [`report`] holds what was found and prints it. Unlike a bench this program
//! judges: it ends in an error when a promise of the planner is broken. Only its own time is not
//! judged in a build without optimisation.

mod report;
mod rounds;

use std::process::ExitCode;

use clap::Parser;

use crate::report::Report;

/// Plans for made-up households and checks every plan.
#[derive(Debug, Clone, Parser)]
#[command(name = "simulate", bin_name = "cargo xtask simulate")]
pub(crate) struct Arguments {
    /// Households of 2 to 12 devices
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    households: u64,
    /// Households small enough to try every walk
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    small: u64,
    /// Households of 12 devices and 64 layers, and of 1,000 devices, whose planning is timed
    #[arg(long, value_name = "N", default_value_t = 100)]
    timed: u64,
    /// Number of the first household; `--households 1 --seed N` looks at one
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Print the rows as JSON instead of tables
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let report = Report {
        crowds: rounds::crowds(&arguments),
        rows: rounds::rows(&arguments),
        broken: Vec::new(),
    }
    .gathered();
    report.print(arguments.json);
    if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
