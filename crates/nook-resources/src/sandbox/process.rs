//! The process itself: limits first, then what strangers wrote.
//!
//! It limits itself before it reads a byte of theirs, because a process may lower its own limits
//! without any privilege, and code that runs between fork and exec would be unsafe. What each
//! system lets it limit: Linux processor time, memory, and what [`confinement`] names; other Unix
//! systems processor time and core dumps; Windows nothing. The node's watch (time of the wall,
//! memory in use) holds everywhere.

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use nook_shard::confinement;
use nook_text::sandbox::{STACK_BYTES, Sandboxed};

/// The argument behind `worker` that asks for such a process.
pub const SANDBOX_FLAG: &str = "--sandbox";

/// It ends when it was not asked for so long. Longer than the node keeps one.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// Processor time for making ready.
const SETUP_SECONDS: u32 = 20;

/// Memory that a form may take, in bytes.
const FORM_BYTES: u64 = 64 << 20;

/// Memory that a rendering may take: up to four times what it may make
/// ([`nook_text::template::MADE_BYTES_MAX`]), and the stack of its thread.
const RENDERING_BYTES: u64 = (256 + 64) << 20;

/// Runs to its end.
#[must_use]
pub fn sandbox_main() -> ExitCode {
    // Its node says of its workers what this system leaves open.
    let _ = confinement::sandbox();
    limits::processor(SETUP_SECONDS);
    let worked = std::thread::Builder::new()
        .name("sandbox".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(|| work().is_some());
    match worked.map(std::thread::JoinHandle::join) {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// None where the node said something that cannot be.
fn work() -> Option<()> {
    let frames = frames().ok()?;
    let setup = postcard::from_bytes(&frames.recv().ok()?).ok()?;
    let ready = Sandboxed::new(setup)?;
    say(b"ready")?;
    limits::memory(if ready.is_for_forms() { FORM_BYTES } else { RENDERING_BYTES });
    loop {
        let Ok(seconds) = frames.recv_timeout(IDLE_LIMIT) else { return Some(()) };
        limits::processor(u32::from_le_bytes(seconds.try_into().ok()?));
        let question = frames.recv().ok()?;
        let answer = ready.answer(serde_json::from_slice(&question).ok()?)?;
        drop(question);
        say(&serde_json::to_vec(&answer).ok()?)?;
    }
}

/// What comes on standard input, read by a thread of its own. Its end ends the process, whatever it
/// does just then: the node is gone.
fn frames() -> io::Result<Receiver<Vec<u8>>> {
    // One that waits while another is answered.
    let (sender, frames) = mpsc::sync_channel(1);
    std::thread::Builder::new().name("questions".to_owned()).spawn(move || {
        let mut stdin = io::stdin().lock();
        while let Ok(frame) = frame(&mut stdin) {
            if sender.send(frame).is_err() {
                return;
            }
        }
        std::process::exit(0);
    })?;
    Ok(frames)
}

fn frame(from: &mut impl io::Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    let mut frame = Vec::new();
    from.take(length.into()).read_to_end(&mut frame)?;
    if frame.len() == length as usize {
        Ok(frame)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

fn say(frame: &[u8]) -> Option<()> {
    let mut stdout = io::stdout().lock();
    let length = u32::try_from(frame.len()).ok()?;
    stdout.write_all(&length.to_le_bytes()).ok()?;
    stdout.write_all(frame).ok()?;
    stdout.flush().ok()
}

/// Limits that fail to be set leave the node's watch.
#[cfg(unix)]
mod limits {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use rustix::time::{ClockId, clock_gettime};

    /// So many seconds of a processor from now on, and up to one more: the system counts whole ones.
    pub(super) fn processor(seconds: u32) {
        let taken = clock_gettime(ClockId::ProcessCPUTime).tv_sec;
        let taken = u64::try_from(taken).unwrap_or_default();
        lower(Resource::Cpu, taken + 1 + u64::from(seconds));
    }

    /// So many bytes more than now.
    #[cfg(target_os = "linux")]
    pub(super) fn memory(bytes: u64) {
        // Read as text, so that no crate is needed for one number (proc_pid_status(5)).
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        if let Some(kib) = kib {
            lower(Resource::Data, (kib << 10) + bytes);
        }
    }

    /// Only Linux counts what is mapped.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn memory(_bytes: u64) {}

    /// Sets the soft limit: that may be raised again for the next question, and what it does at the
    /// limit is to end.
    fn lower(resource: Resource, to: u64) {
        let maximum = getrlimit(resource).maximum;
        let current = Some(maximum.map_or(to, |maximum| maximum.min(to)));
        let _ = setrlimit(resource, Rlimit { current, maximum });
    }
}

/// Nothing here limits itself.
#[cfg(not(unix))]
mod limits {
    pub(super) fn processor(_seconds: u32) {}

    pub(super) fn memory(_bytes: u64) {}
}
