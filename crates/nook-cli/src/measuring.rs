//! The process that measures: `nook measurer`.
//!
//! ```text
//! nook privacy measure ──stdin──> what to measure
//!                      <─stdout── how far it is, then what was measured or why not: a line each
//! ```
//!
//! A process of its own, so that its memory can be held to what a measurement may take, from
//! outside of the code that measures, and so that running out of it ends nothing else. It reads a
//! file that strangers made, so it gives up what a worker gives up. Its standard input stays open
//! while it is wanted: the end of it is its own.

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context as _, anyhow, bail};
use nook_privacy::{
    BESIDE_WEIGHTS_MAX, MeasureWish, OUT_OF_MEMORY, Prepared, PrivacyView, Progress,
};
use nook_shard::confinement::{self, MemoryBound};
use serde::{Deserialize, Serialize};

use crate::output;

/// The word that starts this program as such a process.
pub(crate) const WORD: &str = "measurer";

/// What the standard library says before it ends a process that gets no memory
/// (`std::alloc::handle_alloc_error`).
const NO_MEMORY: &str = "memory allocation of ";

/// What mapping a layer's weights can take beside them, in bytes: the rest of huge pages.
const BESIDE_A_LAYER: u64 = 4 << 20;

/// What the process says, a line each.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    /// How far it is.
    Progress(Progress),
    /// The end.
    Measured(Box<PrivacyView>),
    /// The end, with the reason.
    Refused(String),
}

/// Measures in a process of its own, and tells `progress` how far it is. Waits until it is done.
pub(crate) fn measure(
    wish: &MeasureWish,
    progress: &dyn Fn(Progress),
) -> anyhow::Result<PrivacyView> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut child = Command::new(program)
        .arg(WORD)
        .env_clear()
        .envs(confinement::environment())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the process that measures")?;
    let log = pass_on(child.stderr.take());
    let told = listen(&mut child, wish, progress);
    // Its standard input is closed by now, which ends it if it has not ended by itself.
    let status = child.wait().context("cannot wait for the process that measures")?;
    let is_out_of_memory = log.is_some_and(|log| log.join().unwrap_or_default());
    match told? {
        Some(Said::Measured(view)) => Ok(*view),
        Some(Said::Refused(why)) => Err(anyhow!(why)),
        Some(Said::Progress(_)) | None if is_out_of_memory => Err(anyhow!(OUT_OF_MEMORY)),
        Some(Said::Progress(_)) | None => Err(ended(status)),
    }
}

fn ended(status: ExitStatus) -> anyhow::Error {
    anyhow!(
        "the process that measures ended before it was done ({status}), perhaps for lack of memory"
    )
}

/// Tells the process what to measure and listens to it; the last that it said.
fn listen(
    child: &mut Child,
    wish: &MeasureWish,
    progress: &dyn Fn(Progress),
) -> anyhow::Result<Option<Said>> {
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("the process that measures has no pipes");
    };
    let mut order = serde_json::to_vec(wish)?;
    order.push(b'\n');
    // One that has ended already reads nothing; why it did is in its status.
    let _ = stdin.write_all(&order).and_then(|()| stdin.flush());
    for line in BufReader::new(stdout).lines() {
        let line = line.context("cannot read from the process that measures")?;
        match serde_json::from_str(&line).context("the process that measures said something odd")? {
            Said::Progress(at) => progress(at),
            last => return Ok(Some(last)),
        }
    }
    Ok(None)
}

/// Passes on what the process logs; in the end whether it says that it got no memory.
fn pass_on(stderr: Option<impl Read + Send + 'static>) -> Option<JoinHandle<bool>> {
    let lines = BufReader::new(stderr?).lines();
    let reading = std::thread::Builder::new().name("measurer-log".to_owned()).spawn(move || {
        let mut is_out_of_memory = false;
        for line in lines.map_while(Result::ok) {
            // Whatever it says behind that is of no use to anybody.
            is_out_of_memory |= line.starts_with(NO_MEMORY);
            if !is_out_of_memory {
                output::note(line);
            }
        }
        is_out_of_memory
    });
    reading.ok()
}

/// Runs as that process, to its end.
#[must_use]
pub(crate) fn run() -> ExitCode {
    let _ = confinement::worker();
    let Some(wish) = wished() else { return ExitCode::FAILURE };
    let last = match measured(&wish) {
        Ok(view) => Said::Measured(Box::new(view)),
        Err(error) => Said::Refused(format!("{:#}", anyhow::Error::new(error))),
    };
    if say(&last) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What is to be measured. From then on the end of standard input ends the process.
fn wished() -> Option<MeasureWish> {
    let mut stdin = BufReader::new(std::io::stdin());
    let mut line = String::new();
    stdin.read_line(&mut line).ok()?;
    let wish = serde_json::from_str(&line).ok()?;
    let watching = std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let _ = std::io::copy(&mut stdin, &mut std::io::sink());
        std::process::exit(1);
    });
    watching.ok().map(|_| wish)
}

fn measured(wish: &MeasureWish) -> Result<PrivacyView, nook_privacy::PrivacyError> {
    // Before this process limits itself.
    let (free, bound) = (nook_node::memory_free(), MemoryBound::begin());
    // What a file makes of its header and vocabulary is held to the same.
    bound.hold_to(BESIDE_WEIGHTS_MAX);
    let prepared = Prepared::of(wish, free)?;
    let (weights, layers) = (prepared.weight_bytes(), u64::from(prepared.layers()));
    let mapped = weights.saturating_add(weights / 8).saturating_add(layers * BESIDE_A_LAYER);
    bound.hold_to(mapped.saturating_add(BESIDE_WEIGHTS_MAX));
    let before = bound.taken();
    let loaded = prepared.load()?;
    if let (Some(before), Some(after)) = (before, bound.taken()) {
        bound.hold_to(after.saturating_sub(before).saturating_add(BESIDE_WEIGHTS_MAX));
    }
    let told = Cell::new(None);
    loaded.measure(&|at| {
        let step = Some(at.thousandths());
        if told.replace(step) != step {
            // Nobody listens: the end of standard input ends this process as well.
            let _ = say(&Said::Progress(at));
        }
    })
}

/// Says it; whether somebody listens.
fn say(what: &Said) -> bool {
    let Ok(mut line) = serde_json::to_vec(what) else { return false };
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line).and_then(|()| stdout.flush()).is_ok()
}
