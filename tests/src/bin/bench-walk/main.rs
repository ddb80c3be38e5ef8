//! `cargo xtask bench walk`: what the walk through other machines costs on this one.
//!
//! Measures and prints; nothing is asserted, because a busy machine is no failure. Three parts, each
//! a module that knows nothing of the others:
//!
//! - [`hop`]: what a decode step costs on the whole real path beyond its computing, and on pieces of it;
//! - [`split`]: tokens per second of a divided model against the undivided one, arms interleaved;
//! - [`kill`]: from SIGKILL of a helper in the middle of a reply to the next token.
//!
//! The nodes are processes of the program that `NOOK_BIN` names; the requester of [`hop`] lives in this
//! process, so that it sees both clocks. [`report`] holds the figures and prints them.

mod asking;
mod hop;
mod kill;
mod pieces;
mod report;
mod requester;
mod split;
mod steps;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use nook_base::tasks::Tasks;
use tokio::sync::oneshot;

use crate::report::Report;

/// Longest wait for the tasks of this process to end.
const LEAVE_LIMIT: Duration = Duration::from_secs(3);

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

/// How thorough a bench is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    Quick,
    Full,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // As in the product: everything that is measured runs on the workers of such a runtime.
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            report::loud(&format!("cannot start the runtime: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(measured(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::loud(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs the bench as a task, since a future on the main thread would be woken across threads at every
/// step, which no reply of the product is.
async fn measured(arguments: Arguments) -> anyhow::Result<()> {
    let tasks = Tasks::new();
    let (told, outcome) = oneshot::channel();
    let inner = tasks.child();
    tasks.spawn("bench", async move {
        // The receiver waits below.
        let _ = told.send(run(&arguments, &inner).await);
    });
    let outcome = outcome.await.context("the bench itself failed")?;
    tasks.shut_down(LEAVE_LIMIT).await;
    outcome
}

async fn run(arguments: &Arguments, tasks: &Tasks) -> anyhow::Result<()> {
    anyhow::ensure!(
        nook_base::env::raw("NOOK_BIN").is_some(),
        "NOOK_BIN names no program to measure; `cargo xtask bench walk` builds and names it"
    );
    let effort = if arguments.quick { Effort::Quick } else { Effort::Full };
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
