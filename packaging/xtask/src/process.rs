//! Runs other programs: shown before they start, judged by their exit status.
//!
//! [`Program`] is built up and then either [`Program::run`] (its output goes straight through),
//! [`Program::succeeds`] (silent question) or [`Program::output`] (its output is wanted).

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};

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

    /// Ends the program, as a failure, when it takes longer.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Runs to the end with its output going through; any exit status but 0 is an error.
    pub(crate) fn run(mut self) -> Result<()> {
        let shown = self.shown();
        say::command(&shown);
        let status = self.status()?;
        if !status.success() {
            bail!("`{shown}` failed: {status}");
        }
        Ok(())
    }

    /// Whether the program runs and succeeds; its output is not shown.
    pub(crate) fn succeeds(mut self) -> bool {
        self.command.stdout(Stdio::null()).stderr(Stdio::null());
        self.status().is_ok_and(|status| status.success())
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

    #[test]
    fn a_missing_program_does_not_succeed() {
        assert!(!Program::new("no-such-program", Path::new(".")).succeeds());
    }
}
