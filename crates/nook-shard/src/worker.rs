//! The worker process: started by its node, serves calls over one local socket, ends with its node.
//!
//! ```text
//! node ──stdin──> token, then nothing; its end means that the node is gone
//!      <─socket── AUTH token, then calls: LOAD, STATUS, OPEN, STEP …
//! ```
//!
//! The runtime only moves bytes; everything that computes runs on the thread of `compute`.

use std::ffi::OsString;
use std::io::BufRead;
use std::process::ExitCode;
use std::time::Duration;

use nook_base::tasks::Tasks;
use nook_base::{DeviceBytes, Sensitive};
use nook_mux::{Incoming, Mux, Side};
use nook_wire::{LocalMessage, WorkerMessage};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::account::{Account, Limits};
use crate::compute::Compute;
use crate::place::ComputePlace;
use crate::retained::Requester;
use crate::worker_state::WorkerState;
use crate::{confinement, link, serve};

/// How often an idle worker looks whether its time is over.
const IDLE_LOOK: Duration = Duration::from_secs(1);

/// Longest wait for calls to end when the node has closed the connection.
const LEAVING_LIMIT: Duration = Duration::from_secs(2);

/// How long the node's end leaves to a process that is ending by itself, to say why; shorter than the
/// node waits before it kills.
const SAYING_LIMIT: Duration = Duration::from_secs(1);

/// The status of a worker that ends because its GPU is gone.
pub const GPU_LOST_EXIT: u8 = 75;

/// The status of a worker that ends for any other reason than its node.
const FAILED_EXIT: u8 = 1;

/// Why a worker could not start or go on. Its text is the last line on standard error, where the
/// node finds it.
#[derive(Debug, thiserror::Error)]
enum WorkerError {
    #[error(
        "usage: worker --socket NAME, with the token on standard input; started by Inglenook only"
    )]
    Usage,
    #[error("no token on standard input")]
    NoToken,
    #[error("cannot start: {0}")]
    Start(#[source] std::io::Error),
    #[error("cannot reach the node at {socket}: {source}")]
    Connect { socket: String, source: std::io::Error },
    #[error("the GPU was lost; this process can compute nothing any more")]
    GpuLost,
    #[error("the compute thread has panicked; this process can compute nothing any more")]
    ComputePanicked,
}

/// Runs a worker to its end; `arguments` are those after `worker`.
#[must_use]
pub fn worker_main(arguments: &[OsString]) -> ExitCode {
    worker_status(arguments).into()
}

/// The same; with which status the process is to end.
#[must_use]
pub fn worker_status(arguments: &[OsString]) -> u8 {
    // Before anything else: what a thread gave up, only its own threads have given up.
    let open = confinement::worker();
    let filter = nook_base::env::text("INGLENOOK_LOG").unwrap_or_else(|| "warn".to_owned());
    // Fails only when a subscriber is set already, which is as good.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
    for what in open {
        tracing::info!("not confined by this system: {what}");
    }
    match run(arguments) {
        Ok(()) => 0,
        Err(error) => {
            tracing::error!("{error}");
            if matches!(error, WorkerError::GpuLost) { GPU_LOST_EXIT } else { FAILED_EXIT }
        }
    }
}

fn run(arguments: &[OsString]) -> Result<(), WorkerError> {
    let [flag, socket] = arguments else {
        return Err(WorkerError::Usage);
    };
    // A node hands the name over as text; anything else was typed by hand.
    let Some(socket) = socket.to_str().filter(|_| flag == "--socket") else {
        return Err(WorkerError::Usage);
    };
    let token = read_token()?;
    let (gpu_lost, broken) = (CancellationToken::new(), CancellationToken::new());
    end_with_the_node(gpu_lost.clone(), broken.clone()).map_err(WorkerError::Start)?;
    let account = Account::default();
    let compute = Compute::start(account.clone(), broken.clone()).map_err(WorkerError::Start)?;
    let worker = WorkerState { compute, account, gpu_lost, broken };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(WorkerError::Start)?;
    runtime.block_on(attend(worker, socket, token))
}

/// The token is handed over on standard input, so that no process list shows it.
fn read_token() -> Result<[u8; 32], WorkerError> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|_| WorkerError::NoToken)?;
    let bytes = data_encoding::HEXLOWER
        .decode(line.trim_end().as_bytes())
        .map_err(|_| WorkerError::NoToken)?;
    bytes.try_into().map_err(|_| WorkerError::NoToken)
}

/// Ends this process when standard input ends: then the node is gone, however it went, or wants it
/// gone.
fn end_with_the_node(
    gpu_lost: CancellationToken,
    broken: CancellationToken,
) -> std::io::Result<()> {
    std::thread::Builder::new().name("node-watch".to_owned()).spawn(move || {
        let mut sink = Vec::new();
        let mut stdin = std::io::stdin().lock();
        while matches!(stdin.read_until(b'\n', &mut sink), Ok(read) if read > 0) {
            sink.clear();
        }
        let status = match (gpu_lost.is_cancelled(), broken.is_cancelled()) {
            (true, _) => GPU_LOST_EXIT,
            (false, true) => FAILED_EXIT,
            (false, false) => std::process::exit(0),
        };
        // This process is ending by itself, and its main thread is about to say why.
        std::thread::sleep(SAYING_LIMIT);
        std::process::exit(status.into())
    })?;
    Ok(())
}

async fn attend(worker: WorkerState, socket: &str, token: [u8; 32]) -> Result<(), WorkerError> {
    let stream = link::connect(socket)
        .await
        .map_err(|source| WorkerError::Connect { socket: socket.to_owned(), source })?;
    let tasks = Tasks::new();
    let config = crate::mux_config(Side::Acceptor);
    let (mux, mut incoming) = Mux::<WorkerMessage>::start(nook_mux::framed(stream), config, &tasks);
    if mux.send(LocalMessage::Auth { token: Sensitive(token) }.into()).await.is_err() {
        return Ok(());
    }
    let (idle_choice, idle_changes) = mpsc::channel(1);
    tasks.spawn_until_cancelled("eviction", evict_when_idle(worker.clone(), idle_changes));
    loop {
        let event = tokio::select! {
            event = incoming.recv() => event,
            () = worker.gpu_lost.cancelled() => break,
            // A node that finds this process alive would use it for every later request.
            () = worker.broken.cancelled() => break,
        };
        let Some(event) = event else { break };
        match event {
            Incoming::Call(call) => {
                let worker = worker.clone();
                tasks.spawn_until_cancelled("call", serve::serve(worker, call));
            }
            Incoming::Control(WorkerMessage::Local(LocalMessage::Configure {
                streams_max,
                memory_bytes_max,
                gpu_bytes_max,
                idle_seconds,
                backend,
                falls_back,
                ..
            })) => {
                worker.compute.place(ComputePlace { backend, falls_back }).await;
                let bytes_max = DeviceBytes { memory: memory_bytes_max, gpu: gpu_bytes_max };
                worker.account.allow(Limits { bytes_max, guests_max: streams_max });
                // The receiver lives as long as this process.
                let _ = idle_choice.send(Duration::from_secs(u64::from(idle_seconds))).await;
            }
            Incoming::Control(WorkerMessage::Local(LocalMessage::Forget { peer })) => {
                worker.account.forget(peer);
            }
            Incoming::Control(WorkerMessage::Local(LocalMessage::DropKeptOf { peer, kept })) => {
                let requester = peer.map_or(Requester::Owner, Requester::Guest);
                worker.account.drop_kept(requester, kept, nook_base::clock::now());
            }
            Incoming::Control(_) => {}
        }
    }
    tasks.shut_down(LEAVING_LIMIT).await;
    match (worker.gpu_lost.is_cancelled(), worker.broken.is_cancelled()) {
        (true, _) => Err(WorkerError::GpuLost),
        (false, true) => Err(WorkerError::ComputePanicked),
        (false, false) => Ok(()),
    }
}

/// Frees the weights when no conversation was held for the time that the owner chose, and what is
/// kept of a conversation when it was not used for as long.
async fn evict_when_idle(worker: WorkerState, mut changes: mpsc::Receiver<Duration>) {
    let mut limit = Duration::from_secs(600);
    let mut idle_since = nook_base::clock::now();
    let mut look = tokio::time::interval(IDLE_LOOK);
    loop {
        tokio::select! {
            Some(chosen) = changes.recv() => limit = chosen,
            _ = look.tick() => {
                let now = nook_base::clock::now();
                worker.account.expire(now, limit);
                let balance = worker.account.balance();
                // In use means: a conversation is held, whether or not a step runs this instant.
                if balance.sessions > 0 || balance.weights == 0 {
                    idle_since = now;
                } else if now.duration_since(idle_since) >= limit {
                    tracing::info!(bytes = balance.weights, "idle: freeing the layers");
                    worker.release_all().await;
                }
            }
        }
    }
}
