//! `cargo xtask bench home`: from two or three fresh installations to a reply of all of them, and
//! how true the predictions are.
//!
//! The nodes are as they are installed, each in a network namespace of its own, paired and allowed
//! with the commands that people type. The asking one alone has the model, or only its ends of it;
//! in some households it computes more slowly than the others, or has not the memory. Measures and prints; nothing is asserted, because a busy machine is no
//! failure. The program under test is the one that `NOOK_BIN` names.

mod scene;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use nook_tests::machine::{self, Machine, Run, load};
use nook_tests::program::{self, Effort};
use nook_tests::{models, report};

use crate::scene::{Measured, Plan};

/// From fresh installations to a reply of all of them.
#[derive(Debug, Clone, Parser)]
#[command(name = "bench-home", bin_name = "cargo xtask bench home")]
struct Arguments {
    /// One household with a small model: shows that the bench works, not how fast anything is
    #[arg(long)]
    quick: bool,
    /// Only the households whose title has this in it
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print a JSON list instead of tables
    #[arg(long)]
    json: bool,
    /// Where the files of random weights are kept [default: `bench-models` in the target folder]
    #[arg(long, value_name = "FOLDER")]
    models: Option<PathBuf>,
    /// Write `home-<date>.md` and `.json` into this folder too
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
    /// What the machine is called in the report, instead of what the system says
    #[arg(long, value_name = "TEXT")]
    machine: Option<String>,
    /// A remark for the report: what else ran meanwhile
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    program::run(|_| async move { run(&arguments).await })
}

async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    program::needs_a_product("home")?;
    let effort = Effort::of(arguments.quick);
    let folder = match &arguments.models {
        Some(folder) => folder.clone(),
        None => models::folder_beside(&std::env::current_exe()?),
    };
    let command = machine::command("home", &[("--save", "FOLDER"), ("--models", "FOLDER")]);
    let machine = Machine::this(arguments.machine.clone());
    let mut run = Run::begins(command, arguments.quick, arguments.note.clone());
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    let is_wanted = |plan: &Plan| {
        arguments.only.as_ref().is_none_or(|text| plan.title().contains(text.as_str()))
    };
    for plan in Plan::all(effort).into_iter().filter(is_wanted) {
        report::loud(&format!("measuring {}", plan.title()));
        // What was measured of the others takes long, and is told all the same.
        match plan.measure(&folder).await.with_context(|| plan.title()) {
            Ok(measured) => all.push(measured),
            Err(error) => {
                report::loud(&format!("{error:#}"));
                failed.push(plan.title());
            }
        }
    }
    run.load_after = load();
    let text = format!("{}\n\n{}", report::head(&machine, &run, &[]), tables(&all));
    if arguments.json {
        report::line(&serde_json::to_string_pretty(&all)?);
    } else {
        report::line(&text);
    }
    if let Some(folder) = &arguments.save {
        report::save(folder, "home", &run, ("Fresh installations, measured", &text), &all)?;
    }
    anyhow::ensure!(failed.is_empty(), "not measured: {}", failed.join("; "));
    Ok(())
}

/// Two tables: how long it takes until replies are made together, and what was predicted of them.
fn tables(all: &[Measured]) -> String {
    let mut lines = vec![
        "| household | commands | first layers there, s | measured with them, s | its part there, s \
         | copied, MB | first reply with others |"
            .to_owned(),
        "| --- | --- | --- | --- | --- | --- | --- |".to_owned(),
    ];
    lines.extend(all.iter().map(|it| {
        let first = it.first_pooled().map_or("none".to_owned(), |number| format!("no. {number}"));
        format!(
            "| {} | {} | {:.1} | {:.1} | {} | {:.0} | {first} |",
            it.title,
            it.commands,
            it.first_layers_s,
            it.measured_s,
            it.part_s.map_or("-".to_owned(), |seconds| format!("{seconds:.1}")),
            it.copied_mb,
        )
    }));
    lines.push(String::new());
    lines.push(
        "| household | replies | together | predicted within 25 % | alone, tokens/s | together, \
         tokens/s | ratio |"
            .to_owned(),
    );
    lines.push("| --- | --- | --- | --- | --- | --- | --- |".to_owned());
    lines.extend(all.iter().map(|it| {
        let (alone, together) = (it.alone_tokens_per_s, it.together_tokens_per_s());
        format!(
            "| {} | {} | {} | {} | {} | {} | {} |",
            it.title,
            it.replies.len(),
            it.replies.iter().filter(|reply| reply.pooled).count(),
            it.replies.iter().filter(|reply| reply.is_within(0.25)).count(),
            alone.map_or("refused".to_owned(), |it| format!("{it:.2}")),
            together.map_or("-".to_owned(), |it| format!("{it:.2}")),
            together.zip(alone).map_or("-".to_owned(), |(it, alone)| format!("{:.2}", it / alone)),
        )
    }));
    lines.push(String::new());
    lines.push(
        "Times count from the last answer to *May these two computers help each other?*".into(),
    );
    lines.join("\n")
}
