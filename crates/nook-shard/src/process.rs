//! A worker as its node holds it: the process, its socket, its end.
//!
//! [`Worker::start`] starts the program, hands it a token on standard input and waits until it
//! connects and shows that token, or ends, or takes too long. From then on the node opens calls on
//! [`Worker::mux`]. Dropping the last handle, or [`Worker::stop`], ends the process; its end is
//! known to everybody who waits on [`Worker::ended`], with the last lines it wrote.

use std::collections::VecDeque;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use interprocess::local_socket::tokio::prelude::*;
use nook_base::tasks::Tasks;
use nook_base::{Backend, ErrorCode, ModelDigest, ModelPart, NotedFile, PeerId};
use nook_mux::{Call, CallError, Incoming, Mux, Side};
use nook_wire::{
    GpuHolding, GpuReport, KeptHistory, LocalMessage, Message, PassCounts, WorkerMessage,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::sync::{mpsc, oneshot, watch};

use crate::program::{WorkerCommand, WorkerStartError};
use crate::{confinement, link};

/// Longest wait for a new worker to connect. Starting a process on a busy laptop can take seconds.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(20);

/// How long a worker may take to end by itself before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// Lines of a worker's standard error that are kept for the message about its end.
const LAST_LINES_MAX: usize = 20;

/// Calls that a node has open with one worker. Half of those that the worker takes: a burst of more
/// openings than it can refuse one by one would end the connection, and with it every reply.
const CALLS_OPEN_MAX: usize = crate::CALLS_MAX / 2;

/// Longest wait for a worker to take the word that something kept is not wanted any more.
const DROP_LIMIT: Duration = Duration::from_millis(250);

/// Such words after which the worker is asked whether it has taken them: a quarter of what may wait
/// there. More than that is a broken rule, and freeing takes longer than saying.
const DROPS_AT_ONCE: u32 = 16;

/// What the owner of this device allows a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerLimits {
    /// Streams of other devices at once.
    pub streams_max: u16,
    /// Bytes of weights and caches of other devices in the computer's memory.
    pub memory_bytes_max: u64,
    /// The same in a GPU's own memory; `u64::MAX` where only the GPU limits it.
    pub gpu_bytes_max: u64,
    /// Weights are freed when no conversation was held for this long, and what is kept of a
    /// conversation when it was not used for this long.
    pub idle: Duration,
    /// Where it computes. What a worker has loaded stays where it is.
    pub backend: Backend,
    /// Whether what that device cannot compute is computed on the CPU instead of being refused: the
    /// device was measured, not named.
    pub falls_back: bool,
}

/// A running worker. Cloning gives another handle to the same process.
#[derive(Debug, Clone)]
pub struct Worker {
    mux: Mux<WorkerMessage>,
    end: watch::Receiver<Option<WorkerEnd>>,
    stop: mpsc::Sender<()>,
    pid: u32,
    /// How often [`Worker::drop_kept`] was used, by all handles.
    drops: Arc<AtomicU32>,
}

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerEnd {
    /// Whether its node asked for it.
    pub asked: bool,
    /// Exit status in the system's words.
    pub status: String,
    /// Whether it ended because its GPU is gone.
    pub gpu_lost: bool,
    /// The last lines that it wrote on standard error.
    pub last_lines: Vec<String>,
}

/// Why a worker did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkerError {
    /// It said why.
    #[error("{sentence}")]
    Refused {
        /// What to act on.
        code: ErrorCode,
        /// What to show.
        sentence: String,
    },
    /// It ended, or its connection did.
    #[error("the worker process ended")]
    Gone,
    /// It answered with something else than was asked.
    #[error("the worker answered out of turn")]
    OutOfTurn,
}

/// What was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadedPart {
    /// Bytes of weights that the worker holds now.
    pub weight_bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// What a worker holds and does now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerStatus {
    /// Layers held, ascending, as ranges that do not touch.
    pub held: Vec<nook_base::LayerRange>,
    /// Conversations, those of other devices included.
    pub sessions: u16,
    /// Conversations of other devices.
    pub guest_sessions: u16,
    /// Bytes of weights.
    pub weight_bytes: u64,
    /// Bytes promised to conversations.
    pub cache_bytes: u64,
    /// Steps computed since it started.
    pub steps_done: u64,
    /// How steps shared passes, and how many wait now.
    pub passes: PassCounts,
    /// Conversations kept after their call.
    pub parked: u16,
    /// Bytes that those take, beside `cache_bytes`.
    pub parked_bytes: u64,
    /// Bytes of weights and caches of other devices in the computer's memory, part of
    /// `weight_bytes` and `cache_bytes`.
    pub lent_bytes: u64,
    /// Where its model computes; [`Backend::Auto`] while it has none.
    pub backend: Backend,
    /// What of it a GPU has; the rest is with the CPU.
    pub on_gpu: GpuHolding,
}

impl Worker {
    /// Starts a worker whose socket lies in `folder`, a directory that only this user can enter. It
    /// is the program of `command`, or the one beside it that has the code for `limits`' backend.
    ///
    /// # Errors
    ///
    /// [`WorkerStartError`]; [`WorkerStartError::Cuda`] where that other program does not run.
    pub async fn start(
        command: &WorkerCommand,
        folder: &Path,
        limits: WorkerLimits,
        tasks: &Tasks,
    ) -> Result<Self, WorkerStartError> {
        let usual = &command.program;
        let command = command.for_backend(limits.backend.in_force());
        let started = Self::start_program(&command, folder, limits, tasks).await;
        started.map_err(|error| match command.program == *usual {
            true => error,
            false => error.of_cuda(&command.program),
        })
    }

    async fn start_program(
        command: &WorkerCommand,
        folder: &Path,
        limits: WorkerLimits,
        tasks: &Tasks,
    ) -> Result<Self, WorkerStartError> {
        let token: [u8; 32] = rand::random();
        let tag = data_encoding::HEXLOWER.encode(&token[..6]);
        let socket = link::socket_name(folder, &tag)
            .map_err(|bytes| WorkerStartError::PathTooLong { folder: folder.to_owned(), bytes })?;
        let listener = link::listen(&socket)
            .map_err(|source| WorkerStartError::Listen { socket: socket.clone(), source })?;
        // The token in the socket's name is a part that authenticates nothing: draw the secret
        // anew.
        let token: [u8; 32] = rand::random();
        let mut process = Process::spawn(command, &socket, token, tasks).await?;
        let ready = async {
            let stream = listener
                .accept()
                .await
                .map_err(|source| WorkerStartError::Listen { socket: socket.clone(), source })?;
            let config = crate::mux_config(Side::Dialer);
            let (mux, mut incoming) = Mux::start(nook_mux::framed(stream), config, tasks);
            match incoming.recv().await {
                Some(Incoming::Control(WorkerMessage::Local(LocalMessage::Auth {
                    token: shown,
                }))) if *shown == token => Ok((mux, incoming)),
                _ => Err(WorkerStartError::Impostor),
            }
        };
        let (mux, incoming) = tokio::select! {
            ready = ready => ready?,
            end = process.ended() => return Err(end),
            () = tokio::time::sleep(START_LIMIT) => return Err(WorkerStartError::TooSlow),
        };
        let (stop, stopping) = mpsc::channel(1);
        let (end_seen, end) = watch::channel(None);
        let pid = process.child.id().unwrap_or_default();
        let worker = Self { mux: mux.clone(), end, stop, pid, drops: Arc::default() };
        worker.configure(limits).await;
        tasks.spawn("worker", process.attend(mux, incoming, stopping, end_seen));
        Ok(worker)
    }

    /// Tells the worker what its owner allows from now on.
    pub async fn configure(&self, limits: WorkerLimits) {
        let configure = LocalMessage::Configure {
            streams_max: limits.streams_max,
            memory_bytes_max: limits.memory_bytes_max,
            gpu_bytes_max: limits.gpu_bytes_max,
            idle_seconds: u32::try_from(limits.idle.as_secs()).unwrap_or(u32::MAX),
            threads: 0,
            backend: limits.backend,
            falls_back: limits.falls_back,
        };
        // A closed connection shows in `ended`.
        let _ = self.mux.send(configure.into()).await;
    }

    /// Loads what is missing of `part` from `file`; refused where that is not what was noted.
    pub async fn load(
        &self,
        file: impl Into<NotedFile>,
        model: ModelDigest,
        part: ModelPart,
    ) -> Result<LoadedPart, WorkerError> {
        let NotedFile { path, stamp } = file.into();
        loaded(self.ask(LocalMessage::Load { path, model, part, stamp }).await?)
    }

    /// Loads what is missing of `layers` for another device: refused where the cap on lending, or
    /// the memory of the machine, has no room for it.
    pub async fn load_for(
        &self,
        peer: PeerId,
        file: impl Into<NotedFile>,
        model: ModelDigest,
        layers: nook_base::LayerRange,
    ) -> Result<LoadedPart, WorkerError> {
        let NotedFile { path, stamp } = file.into();
        let mut call = self.open_call_for(peer).await?;
        let part = ModelPart::inner(layers);
        call.send(LocalMessage::Load { path, model, part, stamp }.into()).await?;
        loaded(answer(call).await?)
    }

    /// Frees those of `layers` that were loaded for other devices only; refused as busy while any
    /// conversation is held.
    pub async fn release(&self, layers: nook_base::LayerRange) -> Result<(), WorkerError> {
        match self.ask(LocalMessage::Release { layers }).await? {
            LocalMessage::Unloaded => Ok(()),
            _ => Err(WorkerError::OutOfTurn),
        }
    }

    /// What it holds and does now.
    pub async fn status(&self) -> Result<WorkerStatus, WorkerError> {
        match self.ask(LocalMessage::Status).await? {
            LocalMessage::StatusReport {
                held,
                sessions,
                guest_sessions,
                weight_bytes,
                cache_bytes,
                steps_done,
                passes,
                parked,
                parked_bytes,
                lent_bytes,
                backend,
                on_gpu,
                ..
            } => Ok(WorkerStatus {
                held,
                sessions,
                guest_sessions,
                weight_bytes,
                cache_bytes,
                steps_done,
                passes,
                parked,
                parked_bytes,
                lent_bytes,
                backend,
                on_gpu,
            }),
            _ => Err(WorkerError::OutOfTurn),
        }
    }

    /// The GPUs of this computer, as their drivers tell.
    pub async fn gpus(&self) -> Result<Vec<GpuReport>, WorkerError> {
        match self.ask(LocalMessage::ListGpus).await? {
            LocalMessage::Gpus { gpus } => Ok(gpus),
            _ => Err(WorkerError::OutOfTurn),
        }
    }

    /// A new call that serves `peer`: what is kept when it ends well is kept for that device alone.
    pub async fn open_call_for(&self, peer: PeerId) -> Result<Call<WorkerMessage>, WorkerError> {
        let mut call = self.open_call().await?;
        call.send(LocalMessage::OnBehalf { peer }.into()).await?;
        Ok(call)
    }

    /// Frees what is kept for `peer`, or for every other device than this one.
    pub async fn forget(&self, peer: Option<PeerId>) {
        // A closed connection shows in `ended`, and what was kept is gone with it.
        let _ = self.mux.send(LocalMessage::Forget { peer }.into()).await;
    }

    /// Frees what `peer`, or this device itself, keeps of one conversation. Best effort: it waits
    /// no longer than [`DROP_LIMIT`] for a worker that reads nothing.
    pub async fn drop_kept(&self, peer: Option<PeerId>, kept: KeptHistory) {
        let told = async {
            // As in `forget`.
            let _ = self.mux.send(LocalMessage::DropKeptOf { peer, kept }.into()).await;
            if self.drops.fetch_add(1, Ordering::Relaxed) % DROPS_AT_ONCE == DROPS_AT_ONCE - 1 {
                // What comes before a question was taken when that is answered.
                let _ = self.status().await;
            }
        };
        // What a busy worker is not told goes when its time is over.
        let _ = tokio::time::timeout(DROP_LIMIT, told).await;
    }

    /// A new call, for one conversation. Beyond [`CALLS_OPEN_MAX`] it is `busy`, at once.
    pub async fn open_call(&self) -> Result<Call<WorkerMessage>, WorkerError> {
        if self.mux.calls_open() >= CALLS_OPEN_MAX {
            let code = ErrorCode::Busy;
            return Err(WorkerError::Refused { code, sentence: code.sentence().to_owned() });
        }
        self.mux.open_call().await.map_err(|_| WorkerError::Gone)
    }

    /// The connection itself.
    #[must_use]
    pub fn mux(&self) -> &Mux<WorkerMessage> {
        &self.mux
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn end(&self) -> Option<WorkerEnd> {
        self.end.borrow().clone()
    }

    /// Waits for its end.
    pub async fn ended(&self) -> WorkerEnd {
        let mut end = self.end.clone();
        match end.wait_for(Option::is_some).await {
            Ok(seen) => seen.clone().unwrap_or_else(WorkerEnd::unknown),
            Err(_) => WorkerEnd::unknown(),
        }
    }

    /// Ends it: asks first, kills after [`STOP_LIMIT`]. All its memory is free when this returns.
    pub async fn stop(&self) {
        // A full queue means that somebody has asked already.
        let _ = self.stop.try_send(());
        self.ended().await;
    }

    async fn ask(&self, question: LocalMessage) -> Result<LocalMessage, WorkerError> {
        let mut call = self.open_call().await?;
        call.send(question.into()).await?;
        answer(call).await
    }
}

async fn answer(mut call: Call<WorkerMessage>) -> Result<LocalMessage, WorkerError> {
    match call.recv().await? {
        WorkerMessage::Local(answer) => Ok(answer),
        WorkerMessage::Peer(Message::Error(error)) => {
            Err(WorkerError::Refused { code: error.code, sentence: error.sentence })
        }
        WorkerMessage::Peer(_) => Err(WorkerError::OutOfTurn),
    }
}

fn loaded(answer: LocalMessage) -> Result<LoadedPart, WorkerError> {
    match answer {
        LocalMessage::Loaded { weight_bytes, load_ms, .. } => {
            Ok(LoadedPart { weight_bytes, took: Duration::from_millis(u64::from(load_ms)) })
        }
        _ => Err(WorkerError::OutOfTurn),
    }
}

impl WorkerEnd {
    fn unknown() -> Self {
        Self {
            asked: true,
            status: "the node is shutting down".to_owned(),
            gpu_lost: false,
            last_lines: Vec::new(),
        }
    }
}

impl From<CallError> for WorkerError {
    fn from(_: CallError) -> Self {
        Self::Gone
    }
}

/// The child process before and after it is ready.
struct Process {
    child: Child,
    // Held open for the worker's life: its end tells the worker that the node is gone.
    stdin: ChildStdin,
    lines: Lines,
    /// Closed when everything that it wrote was read.
    all_read: oneshot::Receiver<()>,
}

/// The last lines of the worker's standard error.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<VecDeque<String>>>);

impl Process {
    async fn spawn(
        command: &WorkerCommand,
        socket: &str,
        token: [u8; 32],
        tasks: &Tasks,
    ) -> Result<Self, WorkerStartError> {
        let failed = |source| WorkerStartError::Spawn { program: command.program.clone(), source };
        let mut child = tokio::process::Command::new(&command.program)
            .args(&command.arguments)
            .args(["--socket", socket])
            .env_clear()
            .envs(confinement::environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let missing = || failed(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        let mut stdin = child.stdin.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let mut line = data_encoding::HEXLOWER.encode(&token);
        line.push('\n');
        // A program that has ended already reads nothing. Why it did is what it wrote, and its status:
        // whoever waits for it to be ready hears of that, not of a pipe.
        let _ = async {
            stdin.write_all(line.as_bytes()).await?;
            stdin.flush().await
        }
        .await;
        let lines = Lines::default();
        let keep = lines.clone();
        let (reading, all_read) = oneshot::channel::<()>();
        tasks.spawn("worker-lines", async move {
            let _reading = reading;
            let mut reader = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = reader.next_line().await {
                tracing::info!(target: "worker", "{line}");
                keep.push(line);
            }
        });
        Ok(Self { child, stdin, lines, all_read })
    }

    /// Waits for an end that comes before the worker was ready.
    async fn ended(&mut self) -> WorkerStartError {
        let status = self.child.wait().await;
        // Its last words may come a moment after its end; whoever inherited its standard error holds
        // nobody up.
        let _ = tokio::time::timeout(STOP_LIMIT, &mut self.all_read).await;
        WorkerStartError::Ended {
            status: words(status),
            last_line: self.lines.last().unwrap_or_else(|| "it wrote nothing".to_owned()),
        }
    }

    /// Stays with the process until it has ended, and tells everybody how.
    async fn attend(
        mut self,
        mux: Mux<WorkerMessage>,
        mut incoming: mpsc::Receiver<Incoming<WorkerMessage>>,
        mut stopping: mpsc::Receiver<()>,
        end: watch::Sender<Option<WorkerEnd>>,
    ) {
        let asked = loop {
            tokio::select! {
                // Closed when the last handle is dropped: nobody needs this worker any more.
                _ = stopping.recv() => break true,
                _ = self.child.wait() => break false,
                // A worker calls nobody and says nothing after it showed its token.
                event = incoming.recv() => if event.is_none() { break false },
            }
        };
        mux.close(None);
        drop(self.stdin);
        let status = match tokio::time::timeout(STOP_LIMIT, self.child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                // Killing fails only when it has ended just now.
                let _ = self.child.start_kill();
                self.child.wait().await
            }
        };
        // As in `ended`: its last line says why it ended.
        let _ = tokio::time::timeout(STOP_LIMIT, self.all_read).await;
        let code = status.as_ref().ok().and_then(std::process::ExitStatus::code);
        let gpu_lost = code == Some(i32::from(crate::GPU_LOST_EXIT));
        let status = words(status);
        if !asked {
            tracing::warn!(%status, "a worker ended unexpectedly");
        }
        end.send_replace(Some(WorkerEnd { asked, status, gpu_lost, last_lines: self.lines.all() }));
    }
}

impl Lines {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LAST_LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn last(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).back().cloned()
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

fn words(status: std::io::Result<std::process::ExitStatus>) -> String {
    status.map_or_else(|error| error.to_string(), |status| status.to_string())
}
