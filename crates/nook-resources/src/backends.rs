//! What computes each model on this computer: the owner's choice, or what was measured.
//!
//! ```text
//! a worker starts ──> placed ──> the CPU, until it is known better
//! nothing else goes on ──> next ──> look for GPUs; measure CPU and GPU with a model in use
//!      a worker that computes elsewhere than a new one would is replaced when it is at rest
//! ```
//!
//! The state is a list of facts ([`Facts`]): GPUs as a worker process reported them, what was
//! measured of each with each model, and which of them rest after a crash. Deciding is
//! [`choice::sooner`], on those facts alone. Measuring happens in processes of its own
//! ([`measuring`]) and ends when somebody needs a worker: no reply waits for it.

mod choice;
mod measuring;
mod rests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nook_base::tasks::Tasks;
use nook_base::{Backend, ModelDigest, clock};
use nook_model::shape::LAYERS_MAX;
use tokio_util::sync::CancellationToken;

use choice::Candidate;
pub use choice::Pace;
pub use measuring::{Measurable, Unmeasured, measure};
pub use nook_wire::{GpuKind, GpuReport};

use crate::workers::WorkerSource;
use rests::Rests;

/// Models whose measurements are remembered; of more, those that were measured longest ago go.
const MODELS_MAX: usize = 64;

/// Share of a card's own memory that weights may fill, in percent: a fifth is left to others, and
/// some is for what conversations remember there.
const MEMORY_PERCENT: u64 = 70;

/// What is known of the devices that compute. Cloning gives another handle to the same facts.
#[derive(Debug, Clone, Default)]
pub struct Backends {
    // Guards a few short tables; never held across an await.
    facts: Arc<Mutex<Facts>>,
}

/// Where a worker is to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) backend: Backend,
    /// The device was measured, not named.
    pub(crate) falls_back: bool,
}

/// One measurement, as it is kept over a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// With which model.
    pub model: ModelDigest,
    /// Which device, its driver and this program's version in one text.
    pub device: String,
    /// How fast it is.
    pub pace: Pace,
    /// Layers of the model.
    pub layers: u32,
    /// Those of them that lie where the one before each lies.
    pub uncuttable: Vec<u32>,
    /// Bytes of its weights.
    pub weight_bytes: u64,
    /// When, in seconds since 1970.
    pub at: u64,
}

/// One GPU and how it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuStanding {
    /// As its driver reports it.
    pub gpu: GpuReport,
    /// Why it is used, or why not.
    pub used: GpuUse,
}

/// Why a GPU is used, or why not.
#[derive(Debug, Clone, PartialEq)]
pub enum GpuUse {
    /// The owner chose it.
    Chosen,
    /// The owner chose something else.
    NotChosen,
    /// A CPU that plays GPU: only if it is named.
    Software,
    /// It was not measured yet.
    Unmeasured,
    /// It was measured with the model that was measured last; both in tokens of a usual reply in a
    /// second.
    Measured {
        /// Whether it computes that model.
        is_used: bool,
        /// The CPU.
        cpu: f64,
        /// This GPU.
        gpu: f64,
    },
    /// It is left alone for now.
    Spared(Spared),
    /// It failed, and is asked again in a while.
    Resting {
        /// In so many minutes.
        minutes: u64,
        /// What happened.
        reason: String,
    },
    /// It cannot compute the model that was tried last.
    Unfit {
        /// Why.
        reason: String,
    },
}

/// Why a card is left alone though it would be faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spared {
    /// A battery is being drained, and a card takes more of it than its speed is worth.
    Battery,
    /// Another program uses it: a game, for instance.
    OtherPrograms,
}

/// What is worth doing while nothing else goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Survey,
    Measure(ModelDigest, Backend),
}

#[derive(Debug, Default)]
struct Facts {
    /// `None` until a worker process has looked.
    gpus: Option<Vec<GpuReport>>,
    measured: Vec<Measurement>,
    /// Models that a GPU cannot compute, or has no room for; until the program ends.
    unfit: BTreeMap<(ModelDigest, u32), String>,
    rests: Rests,
    /// Models that were computed since the program started, while the choice was automatic.
    used: BTreeSet<ModelDigest>,
    /// What the owner chose, as the workers were told last.
    wanted: Backend,
    /// Why cards are left alone now, unless the owner says otherwise.
    spared: Option<Spared>,
    /// What is being measured ends with it.
    running: Option<CancellationToken>,
    /// Something is to be kept.
    is_new: bool,
}

impl Backends {
    /// Somebody needs the processor: whatever is being measured ends.
    pub fn disturb(&self) {
        if let Some(running) = &self.lock().running {
            running.cancel();
        }
    }

    /// Where a worker for `model` that starts now computes, where the owner chose `wanted`.
    pub(crate) fn begin(&self, wanted: Backend, model: ModelDigest) -> Placed {
        let mut facts = self.lock();
        facts.wanted = wanted;
        if matches!(wanted, Backend::Auto | Backend::Gpu) {
            facts.used.insert(model);
        }
        facts.placed(wanted, model, clock::now())
    }

    /// The same, for a worker that runs.
    pub(crate) fn placed(&self, wanted: Backend, model: ModelDigest) -> Placed {
        self.lock().placed(wanted, model, clock::now())
    }

    /// A worker that computed at `placed` ended by itself. If that was a measured GPU, it rests for
    /// so long, and the model is not at fault.
    pub(crate) fn crashed(&self, placed: Placed, reason: &str) -> Option<Duration> {
        let Placed { backend: Backend::GpuAt(number), falls_back: true } = placed else {
            return None;
        };
        Some(self.lock().rests.note(number, reason, clock::now()))
    }

    /// A worker that was to compute at `placed` computes on the CPU: the GPU cannot do it.
    pub(crate) fn fell_back(&self, placed: Placed, model: ModelDigest) {
        if let Placed { backend: Backend::GpuAt(number), falls_back: true } = placed {
            let reason = "it has too little memory for it";
            self.lock().unfit.insert((model, number), reason.to_owned());
        }
    }

    /// Whether cards are left alone from now on; true where that changed.
    #[must_use]
    pub fn spare_cards(&self, why: Option<Spared>) -> bool {
        std::mem::replace(&mut self.lock().spared, why) != why
    }

    /// Whether there is a card that is chosen by itself: then it matters what else is done with it.
    #[must_use]
    pub fn watches_cards(&self) -> bool {
        let facts = self.lock();
        let is_card = |gpu: &GpuReport| gpu.kind == GpuKind::Discrete;
        facts.wanted == Backend::Auto && facts.hardware().any(is_card)
    }

    /// The owner chose something else.
    pub(crate) fn want(&self, wanted: Backend) {
        self.lock().wanted = wanted;
    }

    /// Bytes of a card's own memory that weights of `model` may take beside the computer's; none
    /// where no such card was chosen for it.
    #[must_use]
    pub fn card_bytes(&self, model: ModelDigest) -> u64 {
        let facts = self.lock();
        facts.card_bytes(model, clock::now())
    }

    /// The same of every model that was measured, where it is not none.
    #[must_use]
    pub fn cards(&self) -> BTreeMap<ModelDigest, u64> {
        let (facts, now) = (self.lock(), clock::now());
        let models = facts.measured.iter().map(|it| (it.model, facts.card_bytes(it.model, now)));
        models.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Looks for GPUs, if nobody has yet in this run of the program.
    pub(crate) async fn survey(&self, source: &WorkerSource, tasks: &Tasks) {
        if self.lock().gpus.is_none() {
            let gpus = measuring::survey(source, tasks).await;
            self.lock().gpus = Some(gpus);
        }
    }

    /// Does the next thing that is worth knowing; true where something was found out. `known` are
    /// the models that lie here.
    pub(crate) async fn learn(
        &self,
        (source, tasks): (&WorkerSource, &Tasks),
        wanted: Backend,
        known: &[Measurable],
    ) -> bool {
        let token = CancellationToken::new();
        let is_known = |model| known.iter().any(|it| it.model == model);
        let wish = {
            let mut facts = self.lock();
            let Some(wish) = facts.wish(wanted, is_known, clock::now()) else { return false };
            facts.running = Some(token.clone());
            wish
        };
        let learning = async {
            match wish {
                Wish::Survey => self.survey(source, tasks).await,
                Wish::Measure(model, backend) => {
                    let Some(what) = known.iter().find(|it| it.model == model) else { return };
                    let outcome = measure(source, what, backend, tasks).await;
                    self.lock().take(what, backend, outcome, (clock::now(), clock::unix_seconds()));
                }
            }
        };
        let found = tokio::select! {
            // Dropping what runs ends its process.
            () = token.cancelled() => false,
            () = learning => true,
        };
        self.lock().running = None;
        found
    }

    /// Whether there is something to learn of models that `is_known` says where they are.
    #[must_use]
    pub fn is_curious(&self, wanted: Backend, is_known: impl Fn(ModelDigest) -> bool) -> bool {
        self.lock().wish(wanted, is_known, clock::now()).is_some()
    }

    /// Every GPU, and how it stands where the owner chose `wanted`; `None` before anybody looked.
    #[must_use]
    pub fn standings(&self, wanted: Backend) -> Option<Vec<GpuStanding>> {
        let facts = self.lock();
        let now = clock::now();
        let standing = |gpu: &GpuReport| GpuStanding {
            gpu: gpu.clone(),
            used: facts.standing(gpu, wanted, now),
        };
        Some(facts.gpus.as_ref()?.iter().map(standing).collect())
    }

    /// What is to be kept over a restart.
    #[must_use]
    pub fn to_keep(&self) -> Vec<Measurement> {
        self.lock().measured.clone()
    }

    /// Whether something was measured since this was asked last.
    #[must_use]
    pub fn take_news(&self) -> bool {
        std::mem::take(&mut self.lock().is_new)
    }

    /// Goes on from what an earlier run measured.
    pub fn restore(&self, kept: Vec<Measurement>) {
        self.lock().measured = kept;
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Facts {
    fn placed(&self, wanted: Backend, model: ModelDigest, now: Instant) -> Placed {
        let named = |backend| Placed { backend, falls_back: false };
        match wanted {
            Backend::Auto => match self.sooner(model, now) {
                Some(number) => Placed { backend: Backend::GpuAt(number), falls_back: true },
                None => named(Backend::Native),
            },
            Backend::Gpu => match self.fastest(model, now) {
                // The owner wants a GPU and names none: what does not fit there is no reason to
                // refuse.
                Some(number) => Placed { backend: Backend::GpuAt(number), falls_back: true },
                None => named(Backend::Gpu),
            },
            other => named(other),
        }
    }

    fn fastest(&self, model: ModelDigest, now: Instant) -> Option<u32> {
        let cpu = self.of(model, &cpu())?;
        let fastest = choice::fastest(&cpu.pace, &self.candidates(model, now), cpu.layers)?;
        Some(fastest.number)
    }

    fn card_bytes(&self, model: ModelDigest, now: Instant) -> u64 {
        let Backend::GpuAt(number) = self.placed(self.wanted, model, now).backend else { return 0 };
        let mut cards = self.hardware().filter(|gpu| gpu.kind == GpuKind::Discrete);
        let memory = cards.find(|gpu| gpu.number == number).and_then(|gpu| gpu.memory);
        memory.map_or(0, |bytes| bytes / 100 * MEMORY_PERCENT)
    }

    fn sooner(&self, model: ModelDigest, now: Instant) -> Option<u32> {
        let cpu = self.of(model, &cpu())?;
        let mut candidates = self.candidates(model, now);
        if self.spared.is_some() {
            candidates.retain(|it| !self.is_discrete(it.number));
        }
        choice::sooner(&cpu.pace, &candidates, cpu.layers)
    }

    fn is_discrete(&self, number: u32) -> bool {
        self.hardware().any(|gpu| gpu.number == number && gpu.kind == GpuKind::Discrete)
    }

    /// GPUs that may be chosen, with how fast they compute `model` and how much of it they hold.
    fn candidates(&self, model: ModelDigest, now: Instant) -> Vec<Candidate> {
        let usable = self.hardware().filter(|gpu| {
            !self.rests.rests(gpu.number, now) && !self.unfit.contains_key(&(model, gpu.number))
        });
        let measured = usable.filter_map(|gpu| Some((gpu, self.of(model, &device_of(gpu))?)));
        let candidate = |(gpu, it): (&GpuReport, &Measurement)| Candidate {
            number: gpu.number,
            pace: it.pace,
            layers: layers_there(gpu.memory, it),
        };
        measured.map(candidate).filter(|it| it.layers > 0).collect()
    }

    /// GPUs that are no CPUs.
    fn hardware(&self) -> impl Iterator<Item = &GpuReport> {
        self.gpus.iter().flatten().filter(|gpu| gpu.kind != GpuKind::Software)
    }

    fn of(&self, model: ModelDigest, device: &str) -> Option<&Measurement> {
        self.measured.iter().find(|it| it.model == model && it.device == device)
    }

    fn wish(
        &self,
        wanted: Backend,
        is_known: impl Fn(ModelDigest) -> bool,
        now: Instant,
    ) -> Option<Wish> {
        if self.running.is_some() || !matches!(wanted, Backend::Auto | Backend::Gpu) {
            return None;
        }
        if self.gpus.is_none() {
            // What an earlier run has chosen is chosen again before the first reply.
            let had_gpu = self.measured.iter().any(|it| it.device != cpu());
            return (had_gpu || !self.used.is_empty()).then_some(Wish::Survey);
        }
        let gpus: Vec<&GpuReport> = self.hardware().collect();
        if gpus.is_empty() {
            return None;
        }
        self.used.iter().filter(|model| is_known(**model)).find_map(|model| {
            let is_measured = |device: &str| self.of(*model, device).is_some();
            let usable = |gpu: &&&GpuReport| {
                !is_measured(&device_of(gpu))
                    && !self.rests.rests(gpu.number, now)
                    && !self.unfit.contains_key(&(*model, gpu.number))
            };
            let unknown = gpus.iter().find(usable).map(|gpu| Backend::GpuAt(gpu.number));
            // The processor is measured with the first of them, in the same hour.
            let backend = match unknown {
                Some(_) if !is_measured(&cpu()) && !self.rests.rests(CPU, now) => Backend::Native,
                other => other?,
            };
            Some(Wish::Measure(*model, backend))
        })
    }

    fn take(
        &mut self,
        what: &Measurable,
        backend: Backend,
        outcome: Result<Pace, Unmeasured>,
        (now, unix): (Instant, u64),
    ) {
        let number = if let Backend::GpuAt(number) = backend { number } else { CPU };
        let device = match backend {
            Backend::GpuAt(number) => {
                self.hardware().find(|gpu| gpu.number == number).map(device_of)
            }
            _ => Some(cpu()),
        };
        match (outcome, device) {
            (Ok(pace), Some(device)) => {
                let model = what.model;
                let layers = what.file.shape().layers;
                tracing::info!(%backend, tokens_per_second = pace.tokens_per_second(layers), "measured");
                self.measured.retain(|it| (it.model, &it.device) != (model, &device));
                let weight_bytes = what.file.weight_bytes(&nook_base::ModelPart::whole(layers));
                self.measured.push(Measurement {
                    model,
                    device,
                    pace,
                    layers,
                    uncuttable: what.file.uncuttable(),
                    weight_bytes,
                    at: unix,
                });
                self.forget_old();
                self.is_new = true;
            }
            (Err(Unmeasured::Unfit(reason)), _) if number != CPU => {
                tracing::info!(%backend, "not used for this model: {reason}");
                self.unfit.insert((what.model, number), reason);
            }
            (Err(Unmeasured::Broke(reason) | Unmeasured::Unfit(reason)), _) => {
                tracing::warn!(%backend, "not measured: {reason}");
                self.rests.note(number, &reason, now);
            }
            (Err(Unmeasured::NoRoom), _) => {
                self.rests.note(number, "there was too little free memory to measure it", now);
            }
            (Ok(_), None) => {}
        }
    }

    fn forget_old(&mut self) {
        let mut models: Vec<(u64, ModelDigest)> =
            self.measured.iter().map(|it| (it.at, it.model)).collect();
        models.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let mut kept = BTreeSet::new();
        for (_, model) in models {
            if kept.len() < MODELS_MAX {
                kept.insert(model);
            }
        }
        self.measured.retain(|it| kept.contains(&it.model));
    }

    fn standing(&self, gpu: &GpuReport, wanted: Backend, now: Instant) -> GpuUse {
        match wanted {
            Backend::GpuAt(number) if number == gpu.number => return GpuUse::Chosen,
            Backend::Auto | Backend::Gpu if gpu.kind == GpuKind::Software => {
                return GpuUse::Software;
            }
            Backend::Auto | Backend::Gpu => {}
            _ => return GpuUse::NotChosen,
        }
        if let Some((left, reason)) = self.rests.of(gpu.number, now) {
            let (minutes, reason) = (left.as_secs().div_ceil(60), reason.to_owned());
            return GpuUse::Resting { minutes, reason };
        }
        let spared = self.spared.filter(|_| gpu.kind == GpuKind::Discrete);
        if let Some(why) = spared.filter(|_| wanted == Backend::Auto) {
            return GpuUse::Spared(why);
        }
        let device = device_of(gpu);
        let last = self.measured.iter().filter(|it| it.device == device).max_by_key(|it| it.at);
        let both = last.and_then(|it| Some((it, self.of(it.model, &cpu())?)));
        if let Some((of_gpu, of_cpu)) = both {
            if let Some(reason) = self.unfit.get(&(of_gpu.model, gpu.number)) {
                return GpuUse::Unfit { reason: reason.clone() };
            }
            let placed = self.placed(wanted, of_gpu.model, now);
            return GpuUse::Measured {
                is_used: placed.backend == Backend::GpuAt(gpu.number),
                cpu: of_cpu.pace.tokens_per_second(of_cpu.layers),
                gpu: of_gpu.pace.tokens_per_second(of_gpu.layers),
            };
        }
        let unfit = self.unfit.iter().find(|((_, number), _)| *number == gpu.number);
        match unfit {
            Some((_, reason)) => GpuUse::Unfit { reason: reason.clone() },
            None if wanted == Backend::Gpu => GpuUse::Chosen,
            None => GpuUse::Unmeasured,
        }
    }
}

/// How many layers of what was measured fit into `memory`; all where nobody knows how much it is.
/// Layers between which the model cannot be cut fit together or not at all.
fn layers_there(memory: Option<u64>, measured: &Measurement) -> u32 {
    // What was kept in a file may be damaged.
    let layers = measured.layers.min(LAYERS_MAX);
    let Some(memory) = memory else { return layers };
    let layer = (measured.weight_bytes / u64::from(measured.layers.max(1))).max(1);
    let room = memory / 100 * MEMORY_PERCENT / layer;
    let is_begin = |layer: &u32| !measured.uncuttable.contains(layer);
    let (mut there, mut start) = (0, 0);
    while start < layers {
        let end = (start + 1..layers).find(is_begin).unwrap_or(layers);
        if u64::from(there + end - start) <= room {
            there += end - start;
        }
        start = end;
    }
    there
}

/// Stands for the processor among the numbers of GPUs: a measurement of it can fail as well.
const CPU: u32 = u32::MAX;

/// The processor, computed on by this version of the program.
fn cpu() -> String {
    format!("cpu, {}", nook_base::VERSION)
}

/// A GPU with its driver: another of either is measured anew.
fn device_of(gpu: &GpuReport) -> String {
    let GpuReport { name, api, driver, .. } = gpu;
    format!("{api}, {name}, {driver}, {}", nook_base::VERSION)
}

#[cfg(test)]
mod tests;
