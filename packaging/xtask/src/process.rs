//! Runs other programs: shown before they start, judged by their exit status.
//!
//! [`Program`] is built up and then either [`Program::run`] (its output goes straight through),
//! [`Program::test`] (the same, for a check), [`Program::succeeds`] (silent question) or
//! [`Program::output`] (its output is wanted).

mod last_lines;

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal as _, Read as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};

use self::last_lines::LastLines;
use crate::{outside, say};

/// How often a program with a limit is looked at.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// A program with its arguments, not started yet.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
    limit: Option<Duration>,
}

impl Program {
    /// `program` without arguments, to run in `folder`.
    pub(crate) fn new(program: impl AsRef<OsStr>, folder: &Path) -> Self {
        let mut command = Command::new(program);
        command.current_dir(folder).stdin(Stdio::null());
        Self { command, limit: None }
    }

    /// Adds arguments.
    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Keeps an environment variable from the program.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Lets the program read from the person.
    pub(crate) fn with_keyboard(mut self) -> Self {
        self.command.stdin(Stdio::inherit());
        self
    }

    /// What the program writes to standard output goes to standard error: the other is for a result.
    pub(crate) fn aside(mut self) -> Self {
        self.command.stdout(std::io::stderr());
        self
    }

    /// Ends the program, as a failure, when it takes longer.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Runs to the end with its output going through; any exit status but 0 is an error.
    pub(crate) fn run(self) -> Result<()> {
        // Whoever writes straight to a terminal that others write to as well cannot be told apart.
        if say::Voice::here().is_beside() { self.run_and_quote() } else { self.run_through() }
    }

    fn run_through(mut self) -> Result<()> {
        let shown = self.shown();
        say::command(&shown);
        let status = self.status()?;
        if !status.success() {
            bail!("`{shown}` failed: {status}");
        }
        Ok(())
    }

    /// Like [`Program::run`]. The error of a program that fails has more lines than one where
    /// nobody watches: what the program wrote last, so that the end of a long log tells what
    /// failed.
    pub(crate) fn test(self) -> Result<()> {
        if std::io::stdout().is_terminal() { self.run() } else { self.run_and_quote() }
    }

    fn run_and_quote(mut self) -> Result<()> {
        let shown = self.shown();
        say::command(&shown);
        let (pipe, end) = std::io::pipe().context("cannot make a pipe")?;
        self.command.stdout(end.try_clone()?).stderr(end);
        let started = self.command.spawn();
        // The pipe ends only when nobody holds its other end, and the command does.
        self.command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = started.with_context(|| format!("cannot start `{shown}`"))?;
        let last = LastLines::of(pipe);
        let ended = self.wait(&mut child);
        let last = last.take();
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => bail!(with_lines(&format!("`{shown}` failed: {status}"), &last)),
            Err(error) => bail!(with_lines(&format!("{error:#}"), &last)),
        }
    }

    /// Whether the program runs and succeeds; its output is not shown.
    pub(crate) fn succeeds(mut self) -> bool {
        self.command.stdout(Stdio::null()).stderr(Stdio::null());
        self.status().is_ok_and(|status| status.success())
    }

    /// Whether the program succeeds; its output goes through, and it is not shown that it runs.
    pub(crate) fn ends_well(mut self) -> Result<bool> {
        Ok(self.status()?.success())
    }

    /// Runs to the end with its output going through, whatever its exit status, which this gives; `None`
    /// where a signal ended it.
    pub(crate) fn exit_code(mut self) -> Result<Option<i32>> {
        say::command(&self.shown());
        Ok(self.status()?.code())
    }

    /// What the program wrote to standard output; an exit status but 0 is an error.
    pub(crate) fn output(mut self) -> Result<String> {
        let shown = self.shown();
        self.command.stdout(Stdio::piped());
        let mut child = self.command.spawn().with_context(|| format!("cannot start `{shown}`"))?;
        let mut pipe = child.stdout.take().expect("the child was started with a pipe");
        let reader = std::thread::spawn(move || {
            let mut said = String::new();
            pipe.read_to_string(&mut said).map(|_| said)
        });
        let status = self.wait(&mut child)?;
        if !status.success() {
            bail!("`{shown}` failed: {status}");
        }
        let said = reader.join().map_err(|_| anyhow!("reading from `{shown}` panicked"))?;
        said.with_context(|| format!("`{shown}` wrote no UTF-8"))
    }

    /// What the program wrote, if it ran and succeeded; nothing is shown.
    pub(crate) fn output_quietly(mut self) -> Option<String> {
        let output = self.command.stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8(output.stdout).ok())?
    }

    /// Starts the program with its standard output in a pipe.
    pub(crate) fn piped(mut self) -> Result<Child> {
        let shown = self.shown();
        say::command(&shown);
        self.command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{shown}`"))
    }

    fn status(&mut self) -> Result<ExitStatus> {
        let mut child =
            self.command.spawn().with_context(|| format!("cannot start `{}`", self.shown()))?;
        self.wait(&mut child)
    }

    fn wait(&self, child: &mut Child) -> Result<ExitStatus> {
        let Some(limit) = self.limit else {
            return child.wait().with_context(|| format!("cannot wait for `{}`", self.shown()));
        };
        let started = outside::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if started.elapsed() > limit {
                child.kill()?;
                child.wait()?;
                bail!("`{}` was ended: it took longer than {} s", self.shown(), limit.as_secs());
            }
            std::thread::sleep(LOOK_AGAIN_AFTER);
        }
    }

    fn shown(&self) -> String {
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        words.map(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// The Cargo that started us, so that a `+toolchain` is kept.
pub(crate) fn cargo(folder: &Path) -> Program {
    Program::new(outside::variable("CARGO").unwrap_or_else(|| OsString::from("cargo")), folder)
}

/// npm; on Windows it is a script that needs its extension spelled.
pub(crate) fn npm(folder: &Path) -> Program {
    Program::new(if cfg!(windows) { "npm.cmd" } else { "npm" }, folder)
}

/// A first line, and what a program wrote last, set apart from what xtask says itself.
fn with_lines(first: &str, last: &[String]) -> String {
    std::iter::once(first.to_owned())
        .chain(last.iter().map(|line| format!("    | {line}")))
        .collect::<Vec<_>>()
        .join("\n")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+.,:/@%^~*".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_command_can_be_pasted() {
        let program = Program::new("nook", Path::new(".")).args(["--prompt", "it's late", ""]);
        assert_eq!(program.shown(), r"nook --prompt 'it'\''s late' ''");
    }

    #[test]
    fn a_failing_program_is_an_error_that_names_it() {
        let error = cargo(Path::new(".")).args(["no-such-command"]).run().unwrap_err();
        assert!(error.to_string().contains("no-such-command"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_failing_test_says_what_it_wrote_last() {
        let script = "for i in $(seq 100); do echo line $i; done; echo the fault >&2; exit 3";
        let test = Program::new("sh", Path::new(".")).args(["-c", script]);
        let error = test.run_and_quote().unwrap_err().to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert!(lines[0].ends_with("failed: exit status: 3"), "{error}");
        assert_eq!(lines[1], "    | line 42");
        assert_eq!(lines.last(), Some(&"    | the fault"));
    }

    #[cfg(unix)]
    #[test]
    fn a_test_that_leaves_a_program_behind_ends_all_the_same() {
        let script = "sleep 60 & echo begun; exit 1";
        let test = Program::new("sh", Path::new(".")).args(["-c", script]);
        let error = test.run_and_quote().unwrap_err().to_string();
        assert!(error.ends_with("    | begun"), "{error}");
    }

    #[test]
    fn a_missing_program_does_not_succeed() {
        assert!(!Program::new("no-such-program", Path::new(".")).succeeds());
    }
}
