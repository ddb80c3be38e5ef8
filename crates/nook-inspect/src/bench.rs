//! How fast one device of this computer computes a model: prompts, single tokens, several streams at
//! once, the memory that it takes, and the logits, by which two devices can be compared.
//!
//! All in the calling process, which whoever compares devices starts anew for each: a driver that
//! crashes then ends one measurement. Each figure is the best of some rounds behind a round that is
//! not counted, because whatever disturbs a computer makes it slower.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nook_base::limits::STEP_TOKENS_MAX;
use nook_base::{Backend, ModelPart, clock};
use nook_model::{
    BatchPiece, Device, Input, LoadOptions, LoadedModel, LogitRows, ModelFile, Output, Precision,
    Session, StepError,
};
use serde::{Deserialize, Serialize};

use crate::InspectError;

/// Rounds that are counted.
const ROUNDS: u32 = 3;

/// What to measure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BenchWish {
    /// The model file.
    pub model: PathBuf,
    /// What computes; [`Backend::Auto`] is the processor.
    #[serde(with = "backend_text")]
    pub backend: Backend,
    /// Positions of the prompt.
    pub prompt: u32,
    /// Tokens that are written after it, one a step.
    pub tokens: u32,
    /// Conversations that write together.
    pub streams: u32,
    /// Compute threads; `None` for one for each core.
    pub threads: Option<usize>,
}

/// What was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BenchView {
    /// What computed: `native`, `gpu:0`.
    pub backend: String,
    /// What it is called: the processor, or the card with its driver.
    pub device: String,
    /// Compute threads of the processor.
    pub threads: usize,
    /// Seconds from opening the file until all of it was in memory.
    pub load_seconds: f64,
    /// Positions of a prompt in a second.
    pub prompt_per_second: f64,
    /// Tokens in a second, one a step.
    pub tokens_per_second: f64,
    /// Tokens of all streams in a second, one of each a step.
    pub streams_per_second: f64,
    /// Most bytes of memory that the process had; absent where the system does not say.
    pub memory_bytes: Option<u64>,
    /// Bytes of a GPU's memory that weights, caches and steps took.
    pub gpu_bytes: Option<u64>,
    /// The logits behind the last position of the prompt; left out once they were compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logits: Vec<f32>,
}

/// What a bench of this model says of the model.
#[derive(Debug, Clone, Serialize)]
pub struct BenchedModel {
    /// Its name.
    pub name: String,
    /// Its architecture, as GGUF calls it.
    pub architecture: String,
    /// How its weights are quantised.
    pub quantisation: String,
    /// Layers.
    pub layers: u32,
    /// Width of its hidden states.
    pub hidden: u32,
    /// Bytes of all weights.
    pub weight_bytes: u64,
}

/// What the file at `path` is.
pub fn benched_model(path: &Path) -> Result<BenchedModel, InspectError> {
    let file = ModelFile::open(path)?;
    let shape = file.shape();
    Ok(BenchedModel {
        name: file.name().to_owned(),
        architecture: file.architecture().to_owned(),
        quantisation: file.quantisation(),
        layers: shape.layers,
        hidden: shape.hidden,
        weight_bytes: file.weight_bytes(&ModelPart::whole(shape.layers)),
    })
}

/// Measures one device.
pub fn bench(wish: &BenchWish) -> Result<BenchView, InspectError> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = wish.threads.unwrap_or_else(cores).max(1);
    let begun = clock::now();
    let file = ModelFile::open(&wish.model)?;
    let options = LoadOptions { threads, precision: Precision::Auto };
    let mut model = LoadedModel::new_on(file.clone(), Device::from(wish.backend), options)?;
    let part = ModelPart::whole(file.shape().layers);
    model.hold(&part)?;
    let load = begun.elapsed();
    let window = file.shape().context_length;
    let prompt = wish.prompt.clamp(1, window.saturating_sub(1).max(1));
    let tokens = wish.tokens.clamp(1, window.saturating_sub(prompt).max(1));
    let mut bench = Bench { model, part, prompt, tokens, logits: Vec::new() };
    let step = |source| InspectError::Step { position: 0, source };
    let (reading, writing) = bench.alone().map_err(step)?;
    let together = bench.together(wish.streams.max(1)).map_err(step)?;
    let Bench { model, logits, .. } = bench;
    Ok(BenchView {
        backend: named(&model),
        device: model.gpu().map_or_else(|| "processor".to_owned(), described),
        threads,
        load_seconds: load.as_secs_f64(),
        prompt_per_second: per_second(prompt, reading),
        tokens_per_second: per_second(tokens, writing),
        streams_per_second: per_second(tokens.saturating_mul(wish.streams.max(1)), together),
        memory_bytes: peak_memory(),
        gpu_bytes: model.gpu().map(nook_model::nook_gpu::Gpu::used_bytes),
        logits,
    })
}

/// As [`bench()`], for another program: `wish` is a [`BenchWish`] in JSON, and so is the [`BenchView`]
/// that comes back.
///
/// # Errors
///
/// Those of [`bench()`], and [`InspectError::Wish`] for a text that is no wish.
pub fn bench_as_told(wish: &str) -> Result<String, InspectError> {
    let wish: BenchWish = serde_json::from_str(wish)?;
    Ok(serde_json::to_string(&bench(&wish)?)?)
}

/// A [`Backend`] as the setting names it.
mod backend_text {
    use nook_base::Backend;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(it: &Backend, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(it)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Backend, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

struct Bench {
    model: LoadedModel,
    part: ModelPart,
    prompt: u32,
    tokens: u32,
    logits: Vec<f32>,
}

impl Bench {
    /// The shortest time of a prompt, and of the tokens behind it.
    fn alone(&mut self) -> Result<(Duration, Duration), StepError> {
        let (mut reading, mut writing) = (Duration::MAX, Duration::MAX);
        for round in 0..=ROUNDS {
            let mut session = self.session();
            let begun = clock::now();
            self.logits = self.read(&mut session)?;
            let read = begun.elapsed();
            let begun = clock::now();
            for at in 0..self.tokens {
                let input = [self.token(self.prompt + at)];
                session.step(&self.model, Input::Tokens(&input), LogitRows::Last)?;
            }
            keep_shorter((round, begun), &mut writing);
            if round > 0 {
                reading = reading.min(read);
            }
        }
        Ok((reading, writing))
    }

    /// The shortest time in which so many conversations write their tokens, each step one of each.
    fn together(&self, streams: u32) -> Result<Duration, StepError> {
        let mut shortest = Duration::MAX;
        for round in 0..=ROUNDS {
            let mut sessions: Vec<Session> = (0..streams).map(|_| self.session()).collect();
            let begun = clock::now();
            for at in 0..self.tokens {
                let inputs: Vec<[u32; 1]> =
                    (0..streams).map(|stream| [self.token(at + 31 * stream)]).collect();
                let pieces = sessions.iter_mut().zip(&inputs);
                let mut batch: Vec<BatchPiece<'_>> = pieces
                    .map(|(session, ids)| BatchPiece {
                        session,
                        input: Input::Tokens(ids),
                        rows: LogitRows::Last,
                    })
                    .collect();
                self.model.step_batch(&mut batch, &|| false).map_err(|error| error.error)?;
            }
            keep_shorter((round, begun), &mut shortest);
        }
        Ok(shortest)
    }

    fn session(&self) -> Session {
        let window = self.prompt.saturating_add(self.tokens);
        let session = self.model.session(self.part, window);
        session.expect("the part is held, and the window was bounded by the model's")
    }

    /// Reads the prompt as a reply does, in as few steps as may be; the last logits.
    fn read(&self, session: &mut Session) -> Result<Vec<f32>, StepError> {
        let ids: Vec<u32> = (0..self.prompt).map(|at| self.token(at)).collect();
        let mut logits = Vec::new();
        for chunk in ids.chunks(STEP_TOKENS_MAX as usize) {
            let done = session.step(&self.model, Input::Tokens(chunk), LogitRows::Last)?;
            if let Output::Logits { values, .. } = done {
                logits = values;
            }
        }
        Ok(logits)
    }

    /// Some token; the same at the same position of every device.
    fn token(&self, position: u32) -> u32 {
        let vocabulary = u64::from(self.model.file().shape().vocabulary.max(1));
        let mixed = u64::from(position).wrapping_mul(7919).wrapping_add(104_729) % vocabulary;
        u32::try_from(mixed).unwrap_or(0)
    }
}

/// Counts a round, unless it is the first.
fn keep_shorter((round, begun): (u32, Instant), shortest: &mut Duration) {
    if round > 0 {
        *shortest = (*shortest).min(begun.elapsed());
    }
}

fn per_second(count: u32, time: Duration) -> f64 {
    f64::from(count) / time.as_secs_f64().max(1e-9)
}

/// Where `model` computes, in the owner's words.
fn named(model: &LoadedModel) -> String {
    match model.device() {
        Device::Cpu => Backend::Native.to_string(),
        Device::Gpu(number) => Backend::GpuAt(number).to_string(),
        other => other.to_string(),
    }
}

fn described(gpu: &nook_model::nook_gpu::Gpu) -> String {
    let info = gpu.info();
    format!("{} ({}, {})", info.name, info.api, info.driver)
}

/// The most memory that this process has had (`VmHWM` of proc_pid_status(5)).
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}
