//! The weights that one worker holds: layers one by one, embedding and head apart.
//!
//! Ranges are views of what is held, so overlapping ranges never load a layer twice. Holding and
//! releasing need `&mut`, computing only `&`: several sessions may step at once from several
//! threads. They share the model's compute threads, so they gain nothing by it; what gains is to
//! step several sessions together ([`LoadedModel::step_batch`]).
//!
//! Where a model computes is chosen once, when it is made ([`Device`]): everything else is the
//! same.

mod card;
mod divided;
mod gpu;
pub mod handover;
pub mod pass;
mod places;
pub mod session;

use std::sync::{Mutex, PoisonError};

use nook_base::{LayerRange, ModelPart};
use nook_gpu::Choice;
use nook_kernels::{Arithmetic, CacheKind, Compute};

use crate::device::Device;
use crate::error::{Fault, ModelError};
use crate::file::ModelFile;
use crate::inventory::{Inventory, Loading};
use crate::parts::{Block, LayerState, StateShape};
use crate::weights::{Held, Named};
use card::Card;
use divided::{Divided, Home};
use gpu::GpuExecutor;
use pass::Workspace;
use session::Session;

/// How a model is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadOptions {
    /// Threads that compute; 0 counts as 1. Results do not depend on it.
    pub threads: usize,
    /// How exactly it computes.
    pub precision: Precision,
}

/// How exactly a model computes. Results depend on it a little, so all hosts of a route must choose
/// alike; [`Precision::Auto`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// As [`ModelFile::is_small`] says: [`Self::Full`] for small models, else [`Self::Fast`].
    #[default]
    Auto,
    /// Activations, keys and values in single precision.
    Full,
    /// Keys and values in half precision, and products with quantised weights in bytes
    /// ([`Arithmetic::Bytes`]).
    Fast,
}

const EMBEDDING: ModelPart = ModelPart { layers: LayerRange::all(0), embedding: true, head: false };
const HEAD: ModelPart = ModelPart { layers: LayerRange::all(0), embedding: false, head: true };

/// A model with some of its weights in memory.
#[derive(Debug)]
pub struct LoadedModel {
    file: ModelFile,
    compute: Compute,
    cache: CacheKind,
    executor: Executor,
}

/// What holds the weights and computes with them.
#[derive(Debug)]
pub(crate) enum Executor {
    /// The kernels of `nook-kernels`.
    Cpu(Cpu),
    /// `nook-gpu`, on a GPU of any vendor.
    Gpu(GpuExecutor),
    /// Both: what the GPU has no room for lies with the CPU.
    Divided(Box<Divided>),
    /// candle, on the CPU or on a graphics card.
    Card(Card),
}

/// Weights for the CPU.
#[derive(Debug)]
pub(crate) struct Cpu {
    arithmetic: Arithmetic,
    pub(crate) inventory: Inventory<Held>,
    /// Buffers between two steps. The lock guards the list alone, not a step.
    workspaces: Mutex<Vec<Workspace>>,
}

/// Runs `$body` for each inventory of an executor, `$inventory` standing for it.
macro_rules! each_inventory {
    ($executor:expr, $inventory:ident => $body:expr) => {
        match $executor {
            Executor::Cpu(Cpu { inventory: $inventory, .. }) => $body,
            Executor::Gpu(GpuExecutor { inventory: $inventory, .. }) => $body,
            Executor::Divided(divided) => {
                let Divided { gpu, cpu, .. } = &mut **divided;
                {
                    let $inventory = &mut gpu.inventory;
                    $body;
                }
                let $inventory = &mut cpu.inventory;
                $body;
            }
            Executor::Card(Card { inventory: $inventory, .. }) => $body,
        }
    };
}

impl LoadedModel {
    /// A model of which nothing is held yet, on the CPU. Starts the compute threads.
    pub fn new(file: ModelFile, options: LoadOptions) -> Result<Self, ModelError> {
        Self::new_on(file, Device::Cpu, options)
    }

    /// As [`Self::new`], on `device`. Fails when this build or this machine cannot compute there:
    /// never computes elsewhere instead.
    pub fn new_on(
        file: ModelFile,
        device: Device,
        options: LoadOptions,
    ) -> Result<Self, ModelError> {
        let Ok(compute) = Compute::new(options.threads) else {
            return Err(file.error(Fault::NoThreads));
        };
        if device == Device::Cpu {
            return Ok(Self::with_compute(file, compute, options.precision));
        }
        let full = options.precision.is_full(&file);
        match Executor::open(device, full, &file) {
            Ok(executor) => Ok(Self { cache: cache_kind(full), file, compute, executor }),
            Err(fault) => Err(file.error(fault)),
        }
    }

    /// As [`Self::new_on`], but a GPU need not do it all: layers that it has no memory for are
    /// computed by the CPU. On a device that is no GPU of `nook-gpu` the same as there.
    pub fn new_beside(
        file: ModelFile,
        device: Device,
        options: LoadOptions,
    ) -> Result<Self, ModelError> {
        let mut model = Self::new_on(file, device, options)?;
        let full = options.precision.is_full(&model.file);
        model.executor = model.executor.beside_cpu(full, &model.file);
        Ok(model)
    }

    /// As [`Self::new_on`], on an open GPU, whose memory budget all models on it share.
    ///
    /// # Errors
    ///
    /// [`Fault::NoThreads`].
    pub fn with_gpu(
        file: ModelFile,
        gpu: &nook_gpu::Gpu,
        options: LoadOptions,
    ) -> Result<Self, ModelError> {
        let Ok(compute) = Compute::new(options.threads) else {
            return Err(file.error(Fault::NoThreads));
        };
        let full = options.precision.is_full(&file);
        let executor = Executor::Gpu(GpuExecutor::new(gpu.clone(), full, &file));
        Ok(Self { cache: cache_kind(full), file, compute, executor })
    }

    /// As [`Self::with_gpu`], with the CPU beside it, as in [`Self::new_beside`].
    ///
    /// # Errors
    ///
    /// [`Fault::NoThreads`].
    pub fn with_gpu_and_cpu(
        file: ModelFile,
        gpu: &nook_gpu::Gpu,
        options: LoadOptions,
    ) -> Result<Self, ModelError> {
        let mut model = Self::with_gpu(file, gpu, options)?;
        let full = options.precision.is_full(&model.file);
        model.executor = model.executor.beside_cpu(full, &model.file);
        Ok(model)
    }

    /// The GPU that it computes on, if it is one of `nook-gpu`'s.
    #[must_use]
    pub fn gpu(&self) -> Option<&nook_gpu::Gpu> {
        match &self.executor {
            Executor::Gpu(gpu) => Some(gpu.gpu()),
            Executor::Divided(divided) => Some(divided.gpu.gpu()),
            _ => None,
        }
    }

    /// The layers that are held and that a GPU computes: ranges in order that do not touch.
    #[must_use]
    pub fn held_on_gpu(&self) -> Vec<LayerRange> {
        match &self.executor {
            Executor::Gpu(gpu) => gpu.inventory.held(),
            Executor::Divided(divided) => divided.gpu.inventory.held(),
            _ => Vec::new(),
        }
    }

    /// As [`Self::new`], computing where the caller says.
    #[must_use]
    pub fn with_compute(file: ModelFile, compute: Compute, precision: Precision) -> Self {
        let full = precision.is_full(&file);
        let executor = Executor::Cpu(Cpu::new(full, &file));
        Self { cache: cache_kind(full), file, compute, executor }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &ModelFile {
        &self.file
    }

    /// The threads of the CPU. What is not worth a graphics card's while runs there too.
    #[must_use]
    pub fn compute(&self) -> &Compute {
        &self.compute
    }

    /// Where it computes.
    #[must_use]
    pub fn device(&self) -> Device {
        match &self.executor {
            Executor::Cpu(_) => Device::Cpu,
            Executor::Gpu(gpu) => gpu.device(),
            Executor::Divided(divided) => divided.gpu.device(),
            Executor::Card(card) => card.device(),
        }
    }

    /// How its sessions hold keys and values.
    #[must_use]
    pub fn cache_kind(&self) -> CacheKind {
        self.cache
    }

    /// Bytes that the caches of one session over `layers` take at `positions` positions.
    #[must_use]
    pub fn cache_bytes(&self, layers: LayerRange, positions: u32) -> u64 {
        let positions = match &self.executor {
            Executor::Cpu(_) => positions,
            Executor::Gpu(_) | Executor::Divided(_) => gpu::whole_blocks(positions),
            Executor::Card(_) => card::whole_blocks(positions),
        };
        self.file.cache_bytes_as(self.cache, layers, positions)
    }

    /// Bytes that the weights of `part` take where this model computes. Formats that a graphics
    /// card has no kernel for are wider there than in the file.
    #[must_use]
    pub fn part_bytes(&self, part: &ModelPart) -> u64 {
        match &self.executor {
            Executor::Cpu(_) => self.file.weight_bytes(part),
            Executor::Gpu(gpu) => gpu.part_bytes(&self.file, part),
            Executor::Divided(divided) => divided.part_bytes(&self.file, part, u64::MAX).total(),
            Executor::Card(card) => card.part_bytes(&self.file, part),
        }
    }

    /// Loads what is missing of `part`. After a failure everything that was held is still held, and
    /// what was loaded before the failure too.
    pub fn hold(&mut self, part: &ModelPart) -> Result<(), ModelError> {
        let file = self.file.clone();
        self.hold_from(&file, part)
    }

    /// The same from another file of the model, which has tensors that this one's lacks. Fails where
    /// the two are not laid out alike.
    pub fn hold_from(&mut self, file: &ModelFile, part: &ModelPart) -> Result<(), ModelError> {
        self.hold_within(file, part, u64::MAX)
    }

    /// Gives the memory of `layers` back. Sessions over them fail from their next step on.
    pub fn release(&mut self, layers: LayerRange) {
        self.executor.release(layers);
    }

    /// Gives the memory of the embedding back.
    pub fn release_embedding(&mut self) {
        self.executor.release_embedding();
    }

    /// Gives the memory of the head back.
    pub fn release_head(&mut self) {
        self.executor.release_head();
    }

    /// For when nothing will be computed for a while: gives back the buffers between two steps,
    /// which the next step makes anew, and what the allocator still holds of everything that was
    /// freed.
    pub fn rest(&mut self) {
        self.executor.rest();
        nook_kernels::heap::give_back();
    }

    /// The layers that are held: ranges in order that do not touch.
    #[must_use]
    pub fn held(&self) -> Vec<LayerRange> {
        self.executor.held()
    }

    /// Whether the embedding is held.
    #[must_use]
    pub fn has_embedding(&self) -> bool {
        self.missing(&EMBEDDING).is_none()
    }

    /// Whether the head is held.
    #[must_use]
    pub fn has_head(&self) -> bool {
        self.missing(&HEAD).is_none()
    }

    /// Whether all of `part` is held.
    #[must_use]
    pub fn holds(&self, part: &ModelPart) -> bool {
        self.missing(part).is_none()
    }

    /// Bytes of the weights that are held.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        let (embedding, head) = (self.has_embedding(), self.has_head());
        let ends = ModelPart { embedding, head, ..EMBEDDING };
        let layers = self.held().into_iter().map(|layers| {
            // What any layer needs is counted with each range; it is a few hundred bytes.
            self.part_bytes(&ModelPart::inner(layers))
        });
        self.part_bytes(&ends) + layers.sum::<u64>()
    }

    /// A new session over `part`, which must be held, of at most `positions_max` positions.
    pub fn session(&self, part: ModelPart, positions_max: u32) -> Result<Session, ModelError> {
        self.check_layers(part.layers)?;
        if let Some(what) = self.missing(&part) {
            return Err(self.file.error(Fault::NotHeld { what }));
        }
        let mut ends = [part.layers.start(), part.layers.end()].into_iter();
        if let Some(layer) = ends.find(|layer| !self.file.may_cut(*layer)) {
            return Err(self.file.error(Fault::Cut { layer }));
        }
        let limit = self.file.shape().context_length;
        if positions_max > limit {
            return Err(self.file.error(Fault::ContextLength { limit, asked: positions_max }));
        }
        Ok(Session::new(self, part, positions_max))
    }

    /// What of `part` is not held, in words; `None` when nothing is missing.
    pub(crate) fn missing(&self, part: &ModelPart) -> Option<String> {
        self.executor.missing(part)
    }

    pub(crate) fn executor(&self) -> &Executor {
        &self.executor
    }

    /// What a new session remembers of the layer `index`: nothing yet.
    pub(crate) fn empty_state(&self, index: u32, block: &Block<Named>) -> LayerState {
        self.executor.empty_state(index, block.state(), self.cache)
    }

    fn check_layers(&self, layers: LayerRange) -> Result<(), ModelError> {
        let total = self.file.shape().layers;
        if LayerRange::all(total).contains(layers) {
            return Ok(());
        }
        Err(self.file.error(Fault::NoSuchLayers { layers: total, asked: layers.to_string() }))
    }
}

impl Executor {
    /// Another device than the CPU.
    pub(crate) fn open(device: Device, full: bool, file: &ModelFile) -> Result<Self, Fault> {
        let choice = match device {
            Device::Gpu(number) => Choice::Index(number),
            Device::BestGpu => Choice::Best,
            _ => return Card::open(device, full, file).map(Self::Card),
        };
        GpuExecutor::open(choice, full, file).map(Self::Gpu)
    }

    /// The same with the CPU beside it, where it is a GPU of `nook-gpu`.
    pub(crate) fn beside_cpu(self, full: bool, file: &ModelFile) -> Self {
        match self {
            Self::Gpu(gpu) => {
                let cache = cache_kind(full);
                Self::Divided(Box::new(Divided::new(gpu, Cpu::new(full, file), cache, file)))
            }
            other => other,
        }
    }

    pub(crate) fn release(&mut self, layers: LayerRange) {
        each_inventory!(self, inventory => inventory.release(layers));
    }

    pub(crate) fn release_embedding(&mut self) {
        each_inventory!(self, inventory => inventory.release_embedding());
    }

    pub(crate) fn release_head(&mut self) {
        each_inventory!(self, inventory => inventory.release_head());
    }

    /// The layers that are held: ranges in order that do not touch.
    pub(crate) fn held(&self) -> Vec<LayerRange> {
        match self {
            Self::Cpu(cpu) => cpu.inventory.held(),
            Self::Gpu(gpu) => gpu.inventory.held(),
            Self::Divided(divided) => divided.held(),
            Self::Card(card) => card.inventory.held(),
        }
    }

    /// What of `part` is not held, in words; `None` when nothing is missing.
    pub(crate) fn missing(&self, part: &ModelPart) -> Option<String> {
        match self {
            Self::Cpu(cpu) => cpu.inventory.missing(part),
            Self::Gpu(gpu) => gpu.inventory.missing(part),
            Self::Divided(divided) => divided.missing(part),
            Self::Card(card) => card.inventory.missing(part),
        }
    }

    /// What a new session remembers of the layer `index`: nothing yet.
    pub(crate) fn empty_state(
        &self,
        index: u32,
        shape: StateShape,
        cache: CacheKind,
    ) -> LayerState {
        match self {
            _ if shape == StateShape::Nothing => shape.empty(cache),
            Self::Cpu(_) => shape.empty(cache),
            Self::Gpu(gpu) => LayerState::on_device(gpu.empty_state(shape, cache)),
            Self::Divided(divided) => match divided.home_of_layer(index) {
                Home::Gpu => LayerState::on_device(divided.gpu.empty_state(shape, cache)),
                Home::Cpu => shape.empty(cache),
            },
            Self::Card(card) => LayerState::on_device(card.empty_state(shape, cache)),
        }
    }

    /// Gives back the buffers between two steps.
    pub(crate) fn rest(&mut self) {
        match self {
            Self::Cpu(cpu) => cpu.rest(),
            Self::Gpu(gpu) => gpu.rest(),
            Self::Divided(divided) => {
                divided.gpu.rest();
                divided.cpu.rest();
            }
            Self::Card(_) => {}
        }
    }
}

impl Cpu {
    pub(crate) fn new(full: bool, file: &ModelFile) -> Self {
        Self {
            arithmetic: if full { Arithmetic::Floats } else { Arithmetic::Bytes },
            inventory: Inventory::new(file.shape().layers),
            workspaces: Mutex::new(Vec::new()),
        }
    }

    /// Loads what is missing of `part`.
    pub(crate) fn load(
        &mut self,
        file: &ModelFile,
        part: &ModelPart,
        compute: &Compute,
    ) -> Result<(), Fault> {
        let mut loading = Loading::new(file, compute, self.arithmetic);
        self.inventory.load(file, part, &mut loading)
    }

    fn rest(&mut self) {
        *self.workspaces.get_mut().unwrap_or_else(PoisonError::into_inner) = Vec::new();
    }

    /// Buffers for one step: those of an earlier one, where no other step has them.
    pub(crate) fn take_workspace(&self) -> Workspace {
        let mut all = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        all.pop().unwrap_or_default()
    }

    /// Keeps buffers for the next step.
    pub(crate) fn keep_workspace(&self, workspace: Workspace) {
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner).push(workspace);
    }
}

impl Precision {
    /// Whether `file` computes in single precision.
    fn is_full(self, file: &ModelFile) -> bool {
        match self {
            Self::Auto => file.is_small(),
            Self::Full => true,
            Self::Fast => false,
        }
    }
}

/// How keys and values are held.
fn cache_kind(full: bool) -> CacheKind {
    if full { CacheKind::F32 } else { CacheKind::F16 }
}
