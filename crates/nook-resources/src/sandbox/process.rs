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
    confinement::processor_limit(SETUP_SECONDS);
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
    confinement::memory_limit(if ready.is_for_forms() { FORM_BYTES } else { RENDERING_BYTES });
    loop {
        let Ok(seconds) = frames.recv_timeout(IDLE_LIMIT) else { return Some(()) };
        confinement::processor_limit(u32::from_le_bytes(seconds.try_into().ok()?));
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
