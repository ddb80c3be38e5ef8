//! `cargo xtask bench pipeline`: what a household gains by computing together, against the budgets of
//! the design.
//!
//! Measures and prints; nothing is asserted, because a busy machine is no failure. Each part is a module
//! that knows nothing of the others and gives [`rows::Row`]s:
//!
//! - [`streams`]: several conversations through one worker process, against one.
//! - [`turns`]: the second turn of a conversation, against a cold prompt.
//!
//! The program under test is the one that `NOOK_BIN` names.

mod rows;
mod streams;
mod turns;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use nook_base::tasks::Tasks;
use nook_tests::machine::{self, Machine, Run, load};
use nook_tests::{models, report};
use tokio::sync::oneshot;

use crate::rows::{Row, table};

/// Longest wait for the tasks of this process to end.
const LEAVE_LIMIT: Duration = Duration::from_secs(3);

/// What a household gains by computing together.
#[derive(Debug, Clone, Parser)]
#[command(name = "bench-pipeline", bin_name = "cargo xtask bench pipeline")]
struct Arguments {
    /// Few rounds and small models: shows that the bench works, not how fast anything is
    #[arg(long)]
    quick: bool,
    /// Print a JSON list of rows instead of a table
    #[arg(long)]
    json: bool,
    /// Measure only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Where the files of random weights are kept [default: `bench-models` in the target folder]
    #[arg(long, value_name = "FOLDER")]
    models: Option<PathBuf>,
    /// Write `pipeline-<date>.md` and `.json` into this folder too
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
    Streams,
    Turns,
}

/// How thorough a bench is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    Quick,
    Full,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
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

/// Runs the bench as a task: a future on the main thread would be woken across threads at every step.
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
        "NOOK_BIN names no program to measure; `cargo xtask bench pipeline` builds and names it"
    );
    let effort = if arguments.quick { Effort::Quick } else { Effort::Full };
    let wanted = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    let folder = match &arguments.models {
        Some(folder) => folder.clone(),
        None => models::folder_beside(&std::env::current_exe()?),
    };
    let command = machine::command("pipeline", &[("--save", "FOLDER"), ("--models", "FOLDER")]);
    let machine = Machine::this(arguments.machine.clone());
    let mut run = Run::begins(command, arguments.quick, arguments.note.clone());
    let mut rows: Vec<Row> = Vec::new();
    if wanted(Part::Streams) {
        report::loud("measuring several streams through one worker");
        rows.extend(streams::measure(effort, &folder, tasks).await.context("several streams")?);
    }
    if wanted(Part::Turns) {
        report::loud("measuring the second turn of a conversation");
        rows.extend(turns::measure(effort).await.context("the second turn")?);
    }
    run.load_after = load();
    let text = format!("{}\n\n{}", report::head(&machine, &run, &[]), table(&rows));
    if arguments.json {
        report::line(&serde_json::to_string_pretty(&rows)?);
    } else {
        report::line(&text);
    }
    if let Some(folder) = &arguments.save {
        report::save(folder, "pipeline", &run, ("The pipeline, measured", &text), &rows)?;
    }
    Ok(())
}
