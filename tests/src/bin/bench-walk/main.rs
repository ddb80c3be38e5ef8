//! `cargo xtask bench walk`: what the walk through other machines costs on this one.
//!
//! Measures and prints; nothing is asserted, because a busy machine is no failure. What is measured
//! is in [`nook_tests::walk`], each of its three parts by itself; [`report`] holds the figures and
//! prints them. The program under test is the one that `NOOK_BIN` names.

mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use nook_base::tasks::Tasks;
use nook_tests::program::{self, Effort};
use nook_tests::walk::{hop, kill, split};

use crate::report::Report;

/// What the walk through other machines costs on this one.
#[derive(Debug, Clone, Parser)]
#[command(name = "bench-walk", bin_name = "cargo xtask bench walk")]
struct Arguments {
    /// Few rounds and small models: shows that the bench works, not how fast anything is
    #[arg(long)]
    quick: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Measure only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Write `walk-<date>.md` and `.json` into this folder too
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
    /// What the machine is called in the report, instead of what the system says
    #[arg(long, value_name = "TEXT")]
    machine: Option<String>,
    /// A remark for the report: what else ran meanwhile
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

/// A part of the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Hop,
    Split,
    Kill,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    program::run(|tasks| async move { run(&arguments, &tasks).await })
}

async fn run(arguments: &Arguments, tasks: &Tasks) -> anyhow::Result<()> {
    program::needs_a_product("walk")?;
    let effort = Effort::of(arguments.quick);
    let wanted = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    let mut report = Report::begin(arguments);
    if wanted(Part::Hop) {
        report::loud("measuring overhead per hop");
        report.hops = hop::measure(effort, tasks).await.context("overhead per hop")?;
    }
    if wanted(Part::Split) {
        report::loud("measuring split against undivided");
        report.splits = split::measure(effort).await.context("split against undivided")?;
    }
    if wanted(Part::Kill) {
        report::loud("measuring SIGKILL to next token");
        report.kills = kill::measure(effort).await.context("SIGKILL to next token")?;
    }
    report.finish();
    if arguments.json {
        report::line(&serde_json::to_string_pretty(&report)?);
    } else {
        report::line(&report.tables());
    }
    if let Some(folder) = &arguments.save {
        report.save(folder)?;
    }
    Ok(())
}
