//! `cargo xtask bench pipeline`: what a household gains by computing together, against the budgets
//! of the design.
//!
//! Measures and prints; nothing is asserted, because a busy machine is no failure. Each part is a
//! module that knows nothing of the others and gives [`rows::Row`]s:
//!
//! - [`divided`]: a model on two one-thread workers, against one: decode and a long prompt.
//! - [`hop`]: what a hop costs beyond its computing.
//! - [`construct`]: from asking to the first byte, where layers are held.
//! - [`streams`]: several conversations through one worker process, against one.
//! - [`losses`]: from the loss of a helper to the next token.
//! - [`pause`]: from pausing to memory free.
//! - [`turns`]: the second turn of a conversation, against a cold prompt.
//! - [`formats`]: what the formats of activations cost in fidelity; no budget, but the reason for
//!   them.
//!
//! The program under test is the one that `NOOK_BIN` names.

mod construct;
mod divided;
mod formats;
mod hop;
mod losses;
mod pause;
mod rows;
mod streams;
mod turns;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use nook_base::tasks::Tasks;
use nook_tests::machine::{self, Machine, Run, load};
use nook_tests::program::{self, Effort};
use nook_tests::{models, report};

use crate::rows::{Row, table};

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
    Decode,
    Hop,
    Construct,
    Prefill,
    Streams,
    Losses,
    Pause,
    Turns,
    Fidelity,
}

impl Part {
    fn title(self) -> &'static str {
        match self {
            Self::Decode => "decode over two workers against one",
            Self::Hop => "overhead per hop",
            Self::Construct => "construction to first byte",
            Self::Prefill => "prefill over two workers against one",
            Self::Streams => "several streams through one worker",
            Self::Losses => "the loss of a helper to the next token",
            Self::Pause => "pause to memory free",
            Self::Turns => "the second turn of a conversation",
            Self::Fidelity => "fidelity of the formats of activations",
        }
    }

    async fn measure(
        self,
        effort: Effort,
        folder: &Path,
        tasks: &Tasks,
    ) -> anyhow::Result<Vec<Row>> {
        match self {
            Self::Decode => divided::decode(effort, folder).await,
            Self::Hop => hop::measure(effort, tasks).await,
            Self::Construct => construct::measure(effort).await,
            Self::Prefill => divided::prefill(effort, folder).await,
            Self::Streams => streams::measure(effort, folder, tasks).await,
            Self::Losses => losses::measure(effort, folder).await,
            Self::Pause => pause::measure(effort, folder).await,
            Self::Turns => turns::measure(effort).await,
            Self::Fidelity => formats::measure(effort).await,
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    program::run(|tasks| async move { run(&arguments, &tasks).await })
}

async fn run(arguments: &Arguments, tasks: &Tasks) -> anyhow::Result<()> {
    program::needs_a_product("pipeline")?;
    let effort = Effort::of(arguments.quick);
    let folder = match &arguments.models {
        Some(folder) => folder.clone(),
        None => models::folder_beside(&std::env::current_exe()?),
    };
    let command = machine::command("pipeline", &[("--save", "FOLDER"), ("--models", "FOLDER")]);
    let machine = Machine::this(arguments.machine.clone());
    let mut run = Run::begins(command, arguments.quick, arguments.note.clone());
    let mut rows: Vec<Row> = Vec::new();
    for part in Part::value_variants() {
        if arguments.only.is_empty() || arguments.only.contains(part) {
            report::loud(&format!("measuring {}", part.title()));
            let measured = part.measure(effort, &folder, tasks).await;
            rows.extend(measured.with_context(|| part.title())?);
        }
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
