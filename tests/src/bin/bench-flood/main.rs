//! `cargo xtask bench flood`: what strangers and hostile programs cost a node that helps.
//!
//! Two nodes, each in a network namespace with a share of the cores to itself. One asks, the other
//! helps; a third machine, which is this program with another share, attacks the
//! one that helps: connections that say nothing, devices that do not exist, and programs that ask
//! for what takes most. Measured is how fast the replies of the one that asks are, what the one that
//! helps takes of memory, and how long its own window waits. Measures and prints; nothing is
//! asserted, because a busy machine is no failure. The program under test is the one that `NOOK_BIN`
//! names. Linux only, as root: elsewhere there are no namespaces.

mod attacks;
mod scene;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use nook_tests::machine::{self, Machine, Run, load};
use nook_tests::{program, report};

use crate::attacks::Attack;
use crate::scene::{Phase, Scene};

/// What strangers and hostile programs cost a node that helps.
#[derive(Debug, Clone, Parser)]
#[command(name = "bench-flood", bin_name = "cargo xtask bench flood")]
struct Arguments {
    /// Short phases: shows that the bench works, not what an attack costs
    #[arg(long)]
    quick: bool,
    /// How long each attack goes on, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 40)]
    seconds: u64,
    /// Print a JSON list instead of a table
    #[arg(long)]
    json: bool,
    /// Write `flood-<date>.md` and `.json` into this folder too
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
    // One thread: only that one is on the network of the nodes.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let told = runtime.map_err(anyhow::Error::from).and_then(|runtime| {
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, run(&arguments))
    });
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::loud(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    program::needs_a_product("flood")?;
    let command = machine::command("flood", &[("--save", "FOLDER")]);
    let machine = Machine::this(arguments.machine.clone());
    let mut run = Run::begins(command, arguments.quick, arguments.note.clone());
    let length = Duration::from_secs(if arguments.quick { 3 } else { arguments.seconds });
    let scene = Scene::set_up().await?;
    let all = [Attack::Sockets, Attack::Announcements, Attack::Requests];
    let plans: [(&str, &[Attack]); 6] = [
        ("nothing", &[]),
        ("connections", &[Attack::Sockets]),
        ("announcements", &[Attack::Announcements]),
        ("requests", &[Attack::Requests]),
        ("all at once", &all),
        ("nothing, after it", &[]),
    ];
    let mut phases = Vec::new();
    for (title, kinds) in plans {
        report::loud(&format!("measuring: {title}"));
        phases.push(scene.measure(title, kinds, length).await?);
    }
    run.load_after = load();
    let text = format!("{}\n\n{}", report::head(&machine, &run, &[scene.told()]), table(&phases));
    if arguments.json {
        report::line(&serde_json::to_string_pretty(&phases)?);
    } else {
        report::line(&text);
    }
    if let Some(folder) = &arguments.save {
        report::save(folder, "flood", &run, ("A flood, measured", &text), &phases)?;
    }
    Ok(())
}

fn table(phases: &[Phase]) -> String {
    let quiet = phases.first().map_or(f64::NAN, |phase| phase.tokens_per_s);
    let mut lines = vec![
        "| attack | done | replies | tokens/s | of those in peace | refused to the window | its \
         longest wait, ms | node, MiB | its processes, MiB |"
            .to_owned(),
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |".to_owned(),
    ];
    lines.extend(phases.iter().map(|phase| {
        let Phase { title, replies, tokens_per_s, refused, window_ms, .. } = phase;
        let percent = 100.0 * tokens_per_s / quiet;
        let (node, others) = (phase.node_kib >> 10, phase.processes_kib >> 10);
        let done = &phase.done;
        format!(
            "| {title} | {done} | {replies} | {tokens_per_s:.1} | {percent:.0} % | {refused} | \
             {window_ms:.0} | {node} | {others} |"
        )
    }));
    lines.push(String::new());
    lines.push(
        "Memory is the most that was seen, without what belongs to files. The window looks at the \
         view and asks for a short reply, again and again."
            .to_owned(),
    );
    lines.join("\n")
}
