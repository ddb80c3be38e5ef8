//! Processes from outside: signals, and who started whom.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use nook_api::{NodeError, NodeHandle};
use nook_base::clock;

/// Longest wait for a program that is asked to end, and for the moment when it is.
const END_LIMIT: Duration = Duration::from_secs(60);

/// How long a throttled process runs at a time.
const RUNS: Duration = Duration::from_millis(5);

/// What can be done to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Ends it at once, as a power cut would.
    Kill,
    /// Stops it without ending it, as a closed lid would.
    Stop,
    /// Lets it go on.
    Continue,
    /// Asks it politely to end.
    Terminate,
}

/// Sends a signal. A process that has gone is no error.
pub fn signal(pid: u32, signal: Signal) {
    let name = match signal {
        Signal::Kill => "-KILL",
        Signal::Stop => "-STOP",
        Signal::Continue => "-CONT",
        Signal::Terminate => "-TERM",
    };
    // It may have ended by itself a moment ago.
    let _ = Command::new("kill").args([name, &pid.to_string()]).stderr(Stdio::null()).status();
}

/// The system gives a process no more memory from now on; what it has is its own. A process that
/// has gone is an error, and so is a machine without `prlimit` (util-linux).
pub(crate) fn starve(pid: u32) -> anyhow::Result<()> {
    let ran = Command::new("prlimit").args(["--pid", &pid.to_string(), "--data=0"]).status()?;
    anyhow::ensure!(ran.success(), "prlimit: {ran}");
    Ok(())
}

/// Asks a program to end once `when` says so, and waits for its end; what it said. One that does
/// not end is killed, which is an error.
pub async fn interrupted(child: Child, when: mpsc::Receiver<()>) -> anyhow::Result<Output> {
    let pid = child.id();
    let interrupting = tokio::task::spawn_blocking(move || {
        when.recv_timeout(END_LIMIT)?;
        signal(pid, Signal::Terminate);
        anyhow::Ok(())
    });
    interrupting.await??;
    let waiting = tokio::task::spawn_blocking(move || child.wait_with_output());
    let ended = tokio::time::timeout(END_LIMIT, waiting).await;
    if ended.is_err() {
        signal(pid, Signal::Kill);
    }
    Ok(ended.context("the signal was lost")???)
}

/// Processes that stand still. Dropping it lets them go on.
#[derive(Debug)]
pub struct Standstill {
    pids: Vec<u32>,
}

impl Standstill {
    /// Stops them.
    #[must_use]
    pub fn of(pids: Vec<u32>) -> Self {
        pids.iter().for_each(|pid| signal(*pid, Signal::Stop));
        Self { pids }
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        self.pids.iter().for_each(|pid| signal(*pid, Signal::Continue));
    }
}

/// Processes that run for a small part of the time only. Dropping it lets them go on freely.
#[derive(Debug)]
pub struct Throttle {
    who: Throttled,
    wish: Arc<AtomicU8>,
    thread: Option<JoinHandle<()>>,
}

/// Which processes run slowly.
#[derive(Debug, Clone)]
enum Throttled {
    /// These.
    These(Vec<u32>),
    /// All that a process has started and will start.
    ChildrenOf(u32),
}

impl Throttled {
    fn pids(&self) -> Vec<u32> {
        match self {
            Self::These(pids) => pids.clone(),
            Self::ChildrenOf(parent) => children(*parent),
        }
    }
}

/// How often it is looked for new children: a look reads of every process of the machine.
const CHILDREN_EVERY: Duration = Duration::from_millis(500);

/// How throttled processes are to go on; each is looked at while they stand still.
const SLOWLY: u8 = 0;
const FREELY: u8 = 1;
const NOT_AT_ALL: u8 = 2;

impl Throttle {
    /// Makes them about `factor` times slower from now on; they stand still when this returns.
    #[must_use]
    pub fn start(pids: Vec<u32>, factor: u32) -> Self {
        Self::of(Throttled::These(pids), factor)
    }

    /// The same for all that `parent` has started and will start.
    #[must_use]
    pub(crate) fn of_children(parent: u32, factor: u32) -> Self {
        Self::of(Throttled::ChildrenOf(parent), factor)
    }

    fn of(who: Throttled, factor: u32) -> Self {
        let wish = Arc::new(AtomicU8::new(SLOWLY));
        let (seen, theirs) = (Arc::clone(&wish), who.clone());
        let all = |pids: &[u32], kind| pids.iter().for_each(|pid| signal(*pid, kind));
        let mut pids = theirs.pids();
        all(&pids, Signal::Stop);
        let thread = thread::spawn(move || {
            let mut looked = clock::now();
            loop {
                thread::sleep(RUNS * factor.saturating_sub(1));
                match seen.load(Ordering::Relaxed) {
                    NOT_AT_ALL => return,
                    FREELY => return all(&theirs.pids(), Signal::Continue),
                    _ => {}
                }
                all(&pids, Signal::Continue);
                thread::sleep(RUNS);
                if clock::now().saturating_duration_since(looked) >= CHILDREN_EVERY {
                    (pids, looked) = (theirs.pids(), clock::now());
                }
                all(&pids, Signal::Stop);
            }
        });
        Self { who, wish, thread: Some(thread) }
    }

    /// From now on they stand still.
    #[must_use]
    pub fn stand_still(mut self) -> Standstill {
        self.end(NOT_AT_ALL);
        Standstill::of(self.who.pids())
    }

    fn end(&mut self, wish: u8) {
        self.wish.store(wish, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It can only have ended.
            let _ = thread.join();
        }
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.end(FREELY);
    }
}

/// The worker processes of a house in this process.
pub async fn workers_of(house: &NodeHandle) -> Result<Vec<u32>, NodeError> {
    let vitals = house.vitals().await?;
    Ok(vitals.workers.into_iter().map(|worker| worker.pid).collect())
}

/// The processes that `parent` has started, and those that they have, as far as they still run.
#[must_use]
pub fn descendants(parent: u32) -> Vec<u32> {
    let mut found = children(parent);
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        found.extend(children(*pid));
        at += 1;
    }
    found
}

/// The processes that `parent` has started and that still run.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

/// Whether the process `pid` is there and has not ended.
pub(crate) fn lives(pid: u32) -> bool {
    status_field(pid, "State:").is_some_and(|state| !state.starts_with(['Z', 'X']))
}

fn parent_of(pid: u32) -> Option<u32> {
    let parent = status_field(pid, "PPid:")?.parse().ok()?;
    lives(pid).then_some(parent)
}

fn status_field(pid: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().to_owned())
}
