//! Processes from outside: signals, and who started whom.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

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

/// Processes that run for a small part of the time only. Dropping it lets them go on freely.
#[derive(Debug)]
pub struct Throttle {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Throttle {
    /// Makes them about `factor` times slower from now on.
    pub(crate) fn start(pids: Vec<u32>, factor: u32) -> Self {
        let ends = Arc::<AtomicBool>::default();
        let seen = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            let all = |kind| pids.iter().for_each(|pid| signal(*pid, kind));
            while !seen.load(Ordering::Relaxed) {
                all(Signal::Stop);
                thread::sleep(RUNS * factor.saturating_sub(1));
                all(Signal::Continue);
                thread::sleep(RUNS);
            }
        });
        Self { ends, thread: Some(thread) }
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It can only have ended.
            let _ = thread.join();
        }
    }
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
