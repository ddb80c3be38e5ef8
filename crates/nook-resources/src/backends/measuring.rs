//! Looks for GPUs, and measures one device with one model, in a worker process made for it.
//!
//! Drivers are foreign code: they crash, hang and take memory. So the process is bounded from here,
//! in time and in memory, and its end says no more than "not this device". What is measured goes
//! through the calls that replies use, so it is what replies will see.

use std::time::Duration;

use nook_base::tasks::Tasks;
use nook_base::{Activation, ActivationDtype, Backend, ErrorCode, LayerRange, ModelDigest, PeerId};
use nook_model::ModelFile;
use nook_plan::Line;
use nook_shard::{Worker, WorkerError, WorkerLimits};
use nook_wire::{GpuReport, Message, Open, PrefixHash, StepHead, WorkerMessage};

use super::Pace;
use crate::file_place::FilePlace;
use crate::memory::memory_free;
use crate::workers::WorkerSource;

/// Longest time for one device, its start and the loading of a few layers included.
const MEASURE_LIMIT: Duration = Duration::from_secs(30);

/// Longest wait for the drivers to say which GPUs there are.
const SURVEY_LIMIT: Duration = Duration::from_secs(15);

/// Layers of the larger of the two measurements, where the model has as many.
const LAYERS_MAX: u32 = 3;

/// Tokens of the prompt that is measured: a few of the pieces in which prompts are computed.
const PROMPT_ROWS: u32 = 64;

/// Steps of one token; the first also builds kernels, and the fastest counts.
const TOKEN_STEPS: usize = 6;

/// What the process may take besides the layers: the program, kernels, buffers, the driver.
const SPARE_BYTES: u64 = 1 << 30;

/// How often its memory is looked at.
const MEMORY_LOOK: Duration = Duration::from_millis(200);

/// Layers are loaded and computed as for another device, which is bounded; no device has this id.
const NOBODY: PeerId = PeerId([0; 32]);

/// A model that can be measured.
#[derive(Debug, Clone)]
pub struct Measurable {
    /// Which one.
    pub model: ModelDigest,
    /// Where its file is.
    pub path: FilePlace,
    /// Its header.
    pub file: ModelFile,
}

/// Why nothing was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmeasured {
    /// The process ended, hung, or took too much.
    Broke(String),
    /// The device cannot compute this model.
    Unfit(String),
    /// There is no memory for it now.
    NoRoom,
}

impl From<WorkerError> for Unmeasured {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Refused {
                code: ErrorCode::GpuLost | ErrorCode::WorkerCrashed,
                sentence,
            } => Self::Broke(sentence),
            WorkerError::Refused { sentence, .. } => Self::Unfit(sentence),
            other => Self::Broke(other.to_string()),
        }
    }
}

/// The GPUs of this computer; none where their drivers do not answer.
pub(crate) async fn survey(source: &WorkerSource, tasks: &Tasks) -> Vec<GpuReport> {
    let gpus = async {
        let worker = start(source, Backend::Native, 0, tasks).await?;
        let gpus = worker.gpus().await;
        worker.stop().await;
        Ok::<_, Unmeasured>(gpus?)
    };
    match tokio::time::timeout(SURVEY_LIMIT, gpus).await {
        Ok(Ok(gpus)) => gpus,
        // Dropping its last handle ends the process.
        Ok(Err(_)) | Err(_) => {
            tracing::info!("the drivers of this computer did not say which GPUs there are");
            Vec::new()
        }
    }
}

/// How fast `backend` computes the layers of `what`.
///
/// # Errors
///
/// [`Unmeasured`] says whether the device, the model or the memory is why.
pub async fn measure(
    source: &WorkerSource,
    what: &Measurable,
    backend: Backend,
    tasks: &Tasks,
) -> Result<Pace, Unmeasured> {
    let layers = LayerRange::all(what.file.shape().layers.min(LAYERS_MAX));
    let bytes = what.file.weight_bytes(&nook_base::ModelPart::inner(layers));
    // On a GPU they lie in both memories for a moment.
    let cap = bytes.saturating_mul(2).saturating_add(SPARE_BYTES);
    let free = tokio::task::spawn_blocking(memory_free).await.map_err(|_| Unmeasured::NoRoom)?;
    if free < cap.saturating_add(SPARE_BYTES) {
        return Err(Unmeasured::NoRoom);
    }
    let measured = async {
        let worker = start(source, backend, cap, tasks).await?;
        let outcome = tokio::select! {
            outcome = steps(&worker, what, layers) => outcome,
            end = worker.ended() => {
                let said = end.last_lines.last().map_or("it said nothing", String::as_str);
                Err(Unmeasured::Broke(format!("{}; {said}", end.status)))
            }
            () = too_large(worker.pid(), cap) => {
                Err(Unmeasured::Broke(format!("it took more than {} MB of memory", cap >> 20)))
            }
        };
        worker.stop().await;
        outcome
    };
    let hung = || Unmeasured::Broke(format!("it took more than {} s", MEASURE_LIMIT.as_secs()));
    tokio::time::timeout(MEASURE_LIMIT, measured).await.unwrap_or_else(|_| Err(hung()))
}

async fn start(
    source: &WorkerSource,
    backend: Backend,
    memory_bytes_max: u64,
    tasks: &Tasks,
) -> Result<Worker, Unmeasured> {
    let limits = WorkerLimits {
        streams_max: 2,
        memory_bytes_max,
        gpu_bytes_max: u64::MAX,
        idle: MEASURE_LIMIT,
        backend,
        falls_back: false,
    };
    let started = Worker::start(&source.command, &source.folder, limits, tasks).await;
    started.map_err(|error| Unmeasured::Broke(error.to_string()))
}

/// Ends when the process `pid` takes more than `cap` bytes.
async fn too_large(pid: u32, cap: u64) {
    loop {
        tokio::time::sleep(MEMORY_LOOK).await;
        let taken = tokio::task::spawn_blocking(move || crate::memory::memory_of(pid)).await;
        if matches!(taken, Ok(Some(taken)) if taken > cap) {
            return;
        }
    }
}

async fn steps(worker: &Worker, what: &Measurable, layers: LayerRange) -> Result<Pace, Unmeasured> {
    what.path.with(async |file| worker.load_for(NOBODY, &file, what.model, layers).await).await?;
    let one = LayerRange::all(1);
    let small = stretch(worker, what, one).await?;
    let large = if layers == one { small } else { stretch(worker, what, layers).await? };
    let rows = u64::from(PROMPT_ROWS);
    let line = |small: Duration, large: Duration, rows: u64| {
        let of = |layers: LayerRange, took| (u64::from(layers.len()) * rows, took);
        Line::through(of(one, small), of(layers, large))
    };
    Ok(Pace { decode: line(small.0, large.0, 1), prefill: line(small.1, large.1, rows) })
}

/// The fastest step of one token and of a prompt over `layers`.
async fn stretch(
    worker: &Worker,
    what: &Measurable,
    layers: LayerRange,
) -> Result<(Duration, Duration), Unmeasured> {
    let broke = |_| Unmeasured::Broke(WorkerError::Gone.to_string());
    let hidden = what.file.shape().row;
    let rows = [PROMPT_ROWS, PROMPT_ROWS].into_iter().chain([1; TOKEN_STEPS]);
    let positions_max = rows.clone().sum();
    let mut call = worker.open_call_for(NOBODY).await?;
    let dtype = ActivationDtype::F32;
    let open = Open { session: 0, model: what.model, layers, dtype, positions_max, resume: None };
    call.send(Message::Open(open).into()).await.map_err(broke)?;
    expect(call.recv().await.map_err(broke)?, |it| matches!(it, Message::Opened { .. }))?;
    let (mut token, mut prompt) = (Duration::MAX, Duration::MAX);
    let mut position = 0;
    for (step, count) in (0..).zip(rows) {
        let head = StepHead {
            step,
            position,
            count,
            hidden,
            dtype,
            history_before: mark(position),
            history_after: mark(position + count),
            bulk: count > 1,
        };
        let numbers = Activation::from_f32(&numbers(count, hidden), hidden, dtype);
        let numbers = numbers.map_err(|error| Unmeasured::Unfit(error.to_string()))?;
        let sent = call.send_tensor(Message::Step(head).into(), numbers.bytes().clone()).await;
        sent.map_err(broke)?;
        let mut took = Duration::MAX;
        expect(call.recv().await.map_err(broke)?, |it| {
            let Message::Result(head) = it else { return false };
            took = Duration::from_micros(u64::from(head.compute_us));
            true
        })?;
        let rows = call.recv_activation(count, hidden, dtype).await;
        rows.map_err(|_| Unmeasured::Broke(WorkerError::OutOfTurn.to_string()))?;
        let fastest = if count == 1 { &mut token } else { &mut prompt };
        *fastest = (*fastest).min(took);
        position += count;
    }
    call.close(Some(ErrorCode::Cancelled));
    Ok((token, prompt))
}

fn expect(message: WorkerMessage, is_it: impl FnOnce(&Message) -> bool) -> Result<(), Unmeasured> {
    match message {
        WorkerMessage::Peer(Message::Error(error)) => {
            Err(WorkerError::Refused { code: error.code, sentence: error.sentence }.into())
        }
        WorkerMessage::Peer(message) if is_it(&message) => Ok(()),
        _ => Err(WorkerError::OutOfTurn.into()),
    }
}

fn mark(position: u32) -> PrefixHash {
    PrefixHash(u128::from(position).to_le_bytes())
}

/// Numbers about as large as hidden states are, and about nothing.
fn numbers(rows: u32, hidden: u32) -> Vec<f32> {
    let count = u64::from(rows) * u64::from(hidden);
    (0..count).map(|at| (at as f32 * 0.37).sin()).collect()
}
