//! A node that has a mistake in it: a panic ends it with a status and a sentence, or is shown as a
//! problem, and what was saved is there at the next start. Only in builds with the feature
//! `test-panics`, which this package's tests turn on.

#![cfg(target_os = "linux")] // who started whom is read from /proc
#![allow(clippy::unwrap_used, reason = "test code outside `#[test]` functions")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Looks after which a test gives up: only what hangs takes so long.
const LOOKS_MAX: u32 = 6_000;

/// A running `nook up`. Dropping it ends the process.
struct Up {
    home: TempDir,
    child: Child,
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command for the node in `home`.
fn nook(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nook"));
    command.arg("--home").arg(home).stdin(Stdio::null());
    for name in ["INGLENOOK_HOME", "INGLENOOK_LOG"] {
        command.env_remove(name);
    }
    command.env("INGLENOOK_KEYRING", "off").env("INGLENOOK_TEST_PANIC", order(home));
    command
}

/// The file that tells the node to panic.
fn order(home: &Path) -> PathBuf {
    home.join("panic-order")
}

impl Up {
    /// Starts it in a home of its own and waits until it is up.
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let settings = "[network]\nlisten_port = 0\nloopback = true\n";
        std::fs::write(home.path().join("settings.toml"), settings).unwrap();
        let child = start(home.path());
        Self { home, child }
    }

    fn home(&self) -> &Path {
        self.home.path()
    }

    /// What a command that speaks to it prints.
    fn ask(&self, words: &[&str]) -> String {
        let output = nook(self.home()).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Has it panic; `who` as the node knows it. The file appears whole.
    fn order_panic(&self, who: &str) {
        let draft = self.home().join("panic-draft");
        std::fs::write(&draft, who).unwrap();
        std::fs::rename(draft, order(self.home())).unwrap();
    }

    /// Its worker processes.
    fn workers(&self) -> Vec<u32> {
        let parent = format!("PPid:\t{}", self.child.id());
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| status_of(*pid).lines().any(|line| line == parent)).collect()
    }

    /// How it ended by itself, and what it wrote to standard error.
    fn end(&mut self) -> (ExitStatus, String) {
        let mut stderr = self.child.stderr.take().unwrap();
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap(), said)
    }
}

fn start(home: &Path) -> Child {
    let mut command = nook(home);
    command.args(["up", "--no-port"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    if !first.contains("is up") {
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        panic!("it did not start: {said}");
    }
    child
}

fn status_of(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

/// Whether a process is there; one that has ended and waits for its parent is not.
fn lives(pid: u32) -> bool {
    let status = status_of(pid);
    !status.is_empty() && !status.contains("State:\tZ") && !status.contains("State:\tX")
}

#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..LOOKS_MAX {
        if holds() {
            return;
        }
        std::thread::sleep(LOOK);
    }
    panic!("it never came: {what}");
}

#[test]
fn a_panic_of_the_loop_ends_the_node_with_a_status_and_a_sentence() {
    let mut up = Up::new();
    up.ask(&["share", "on"]);
    up.ask(&["generate", "--prompt", "Once", "--max-tokens", "4"]);
    let workers = up.workers();
    assert!(!workers.is_empty(), "the model lies in a worker");
    up.order_panic("loop");
    let (status, said) = up.end();
    assert_eq!(status.code(), Some(5), "{said}");
    for part in ["error: ", "\"house\"", "a test ordered it", "saved is kept", "log", "`nook up`"] {
        assert!(said.contains(part), "no {part} in: {said}");
    }
    assert!(!said.contains("leaving …"), "{said}");
    until("its workers have ended", || !workers.iter().any(|pid| lives(*pid)));
    // The home is free, and what was chosen before is there.
    up.child = start(up.home());
    assert!(up.ask(&["share", "--json"]).contains("\"on\": true"));
}

#[test]
fn a_panic_of_another_task_is_a_problem_that_is_shown_and_ends_nothing() {
    let mut up = Up::new();
    up.order_panic("task");
    // It fails when there is a problem, so only what it prints counts.
    let doctor = || nook(up.home()).args(["doctor"]).output().unwrap().stdout;
    until("the problem is shown", || String::from_utf8_lossy(&doctor()).contains("test-task"));
    assert!(up.child.try_wait().unwrap().is_none(), "the node goes on");
}
