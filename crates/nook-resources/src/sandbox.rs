//! Processes for work on what strangers wrote: schemas of clients, templates of publishers.
//!
//! ```text
//! node ──stdin──> what it is for, then one question at a time
//!      <─stdout── "ready", then one answer for each
//! ```
//!
//! A [`Sandbox`] belongs to one open model and one kind of work. It starts `<this program> worker
//! --sandbox` when there is something to do, and keeps one that answered well for the next
//! question. A process that takes more than its time or memory is killed, and so is one whose
//! asker has left; either way all that it took is free again, and the next question gets a fresh
//! one. What the process does is [`nook_text::sandbox`]'s, how it limits itself is `process`'s.
//! Why a process: docs/decisions/0047. When forms have
//! their turn is decided in `turns`.

mod process;
mod turns;

use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nook_base::{clock, env};
use nook_shard::WorkerCommand;
use nook_text::sandbox::{Answer, Question, Setup};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::Semaphore;

pub use process::{SANDBOX_FLAG, sandbox_main};
use turns::FormTurns;

/// Processes that work at once, of all models; a further question waits for one to end. Replies are
/// few at once anyway, this holds whatever else will ask.
const WORKING_MAX: usize = 4;

/// Longest wait for a process to be ready. Starting one on a busy laptop takes seconds, laying out a
/// large vocabulary another one.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A process that was not asked for so long is not asked again: it ends a little later by itself.
const KEPT: Duration = Duration::from_secs(45);

/// How often a process that works is looked at.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// Memory of a working process at which it is killed, in bytes, whatever its system lets it have.
const MEMORY_MAX: u64 = 768 << 20;

/// Longest frame: a prompt and its conversation, several times over.
const FRAME_BYTES_MAX: usize = 128 << 20;

/// Why a question was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// It took more time or memory than it may; the question is to blame.
    #[error("it takes too much time or memory")]
    TooMuch,
    /// The process did not start; the question is not to blame.
    #[error("the process that checks it cannot be started: {0}")]
    NotStarted(String),
    /// Others' questions are worked on, and take long; the question is not to blame.
    #[error("the forms of other replies are being checked")]
    Busy,
}

/// How long a question may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Time of a processor, where the system counts it for us; whole seconds, and up to one more.
    pub processor: Duration,
    /// Time of the wall, so that a busy machine refuses nobody, and nothing waits for ever.
    pub wall: Duration,
}

/// How the processes are started; one for the node.
#[derive(Debug, Clone)]
pub struct SandboxSource {
    command: WorkerCommand,
    working: Arc<Semaphore>,
    forms: FormTurns,
}

/// The process of one model for one kind of work.
#[derive(Debug)]
pub struct Sandbox {
    source: SandboxSource,
    /// The process that waits for the next question, and since when.
    // Guards one value; never held across an await.
    idle: Mutex<Option<(Running, Instant)>>,
}

/// A process that is ready. Dropping it kills it.
#[derive(Debug)]
struct Running {
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
}

impl SandboxSource {
    /// Processes that are started as workers are.
    #[must_use]
    pub fn new(command: WorkerCommand) -> Self {
        let working = Arc::new(Semaphore::new(WORKING_MAX));
        Self { command, working, forms: FormTurns::default() }
    }

    /// This device computes for its owner, or for others: forms take little of it for a while.
    pub(crate) fn note_computing(&self) {
        self.forms.note_computing();
    }
}

impl Sandbox {
    pub(crate) fn new(source: SandboxSource) -> Self {
        Self { source, idle: Mutex::default() }
    }

    /// Asks about a form of a reply once that has its turn.
    pub(crate) async fn ask_of_form(
        &self,
        setup: impl AsyncFnOnce() -> Result<Setup, SandboxError>,
        question: &Question,
        allowance: Allowance,
    ) -> Result<Answer, SandboxError> {
        let _turn = self.source.forms.take().await.ok_or(SandboxError::Busy)?;
        self.ask(setup, question, allowance).await
    }

    /// Asks; dropping this kills the process that works on it.
    pub(crate) async fn ask(
        &self,
        setup: impl AsyncFnOnce() -> Result<Setup, SandboxError>,
        question: &Question,
        allowance: Allowance,
    ) -> Result<Answer, SandboxError> {
        let asked = serde_json::to_vec(question).map_err(|_| SandboxError::TooMuch)?;
        let Ok(_working) = self.source.working.acquire().await else {
            return Err(SandboxError::NotStarted("the node is leaving".to_owned()));
        };
        let mut running = match self.take() {
            Some(running) => running,
            None => Running::start(&self.source.command, &setup().await?).await?,
        };
        let pid = running.child.id().unwrap_or_default();
        let answered = tokio::select! {
            answered = running.ask(&asked, allowance) => answered.ok(),
            () = tokio::time::sleep(allowance.wall) => None,
            () = too_large(pid) => None,
        };
        let Some(answer) = answered.filter(Answer::is_sound) else {
            // Its memory is free again when this returns. Killing fails only when it has ended.
            let _ = running.child.kill().await;
            return Err(SandboxError::TooMuch);
        };
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some((running, clock::now()));
        Ok(answer)
    }

    fn take(&self) -> Option<Running> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (mut running, since) = kept?;
        let is_fresh = clock::now().duration_since(since) < KEPT;
        // One that was killed from outside is not there any more.
        (is_fresh && matches!(running.child.try_wait(), Ok(None))).then_some(running)
    }
}

impl Running {
    async fn start(command: &WorkerCommand, setup: &Setup) -> Result<Self, SandboxError> {
        let started = async {
            let mut running = Self::spawn(command)?;
            let setup = postcard::to_stdvec(setup).map_err(io::Error::other)?;
            write(&mut running.to, &setup).await?;
            match read(&mut running.from).await {
                Ok(_ready) => Ok(running),
                // How it ended says more than that it did.
                Err(_) => Err(io::Error::other(running.child.wait().await?.to_string())),
            }
        };
        match tokio::time::timeout(START_LIMIT, started).await {
            Ok(started) => {
                started.map_err(|error: io::Error| SandboxError::NotStarted(error.to_string()))
            }
            Err(_) => Err(SandboxError::NotStarted("it was not ready in time".to_owned())),
        }
    }

    fn spawn(command: &WorkerCommand) -> io::Result<Self> {
        let mut child = tokio::process::Command::new(&command.program)
            .args(&command.arguments)
            .arg(SANDBOX_FLAG)
            .env_clear()
            .envs(env::bare())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let to = child.stdin.take().ok_or_else(missing)?;
        let from = child.stdout.take().ok_or_else(missing)?;
        Ok(Self { child, to, from })
    }

    async fn ask(&mut self, question: &[u8], allowance: Allowance) -> io::Result<Answer> {
        let seconds = u32::try_from(allowance.processor.as_secs()).unwrap_or(u32::MAX);
        write(&mut self.to, &seconds.to_le_bytes()).await?;
        write(&mut self.to, question).await?;
        let answer = read(&mut self.from).await?;
        Ok(serde_json::from_slice(&answer)?)
    }
}

async fn write(to: &mut ChildStdin, frame: &[u8]) -> io::Result<()> {
    let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
    to.write_all(&length.to_le_bytes()).await?;
    to.write_all(frame).await?;
    to.flush().await
}

async fn read(from: &mut ChildStdout) -> io::Result<Vec<u8>> {
    let length = from.read_u32_le().await? as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    let mut frame = Vec::new();
    from.take(length as u64).read_to_end(&mut frame).await?;
    if frame.len() == length { Ok(frame) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Ends when the process `pid` takes more than [`MEMORY_MAX`]. Where the system limits it itself,
/// it ends before.
async fn too_large(pid: u32) {
    loop {
        tokio::time::sleep(LOOK_PAUSE).await;
        let taken = tokio::task::spawn_blocking(move || crate::memory::memory_of(pid)).await;
        if matches!(taken, Ok(Some(taken)) if taken > MEMORY_MAX) {
            return;
        }
    }
}
