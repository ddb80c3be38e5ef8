//! Programs of a package, run for a bounded time.

use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use nook_base::clock;

use crate::limits::SAID_BYTES_MAX;

/// How often a program is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What a program came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    /// What it wrote to both of its outputs, cut.
    pub(crate) said: String,
}

/// Runs `program`; one that takes longer than `limit` is killed, which is an error.
pub(crate) fn run(program: &Path, words: &[&Path], limit: Duration) -> io::Result<Ran> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    let (pipe, end) = io::pipe()?;
    command.stdout(end.try_clone()?).stderr(end);
    let started = command.spawn();
    // The pipe ends only when nobody holds its other end, and the command does.
    drop(command);
    let mut child = started?;
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        let read = pipe.take(SAID_BYTES_MAX).read_to_end(&mut said);
        read.map(|_| String::from_utf8_lossy(&said).into_owned())
    });
    let started = clock::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not end in time"));
        }
        std::thread::sleep(LOOK);
    };
    // One that left a child behind keeps the pipe open: what it said is not waited for for ever.
    while !reader.is_finished() && started.elapsed() <= limit {
        std::thread::sleep(LOOK);
    }
    let said = if reader.is_finished() { reader.join().ok().and_then(Result::ok) } else { None };
    Ok(Ran { status, said: said.unwrap_or_default() })
}
