//! What holds the weights of a model and computes with them: one device, or two that share them.

use std::sync::{Mutex, PoisonError};

use nook_base::{LayerRange, ModelPart};
use nook_gpu::Choice;
use nook_kernels::{Arithmetic, CacheKind, Compute};

#[cfg(feature = "candle")]
use super::card::Card;
use super::divided::{Divided, Home};
use super::gpu::GpuExecutor;
use super::pass::Workspace;
use crate::device::Device;
use crate::error::Fault;
use crate::file::ModelFile;
use crate::inventory::{Inventory, Loading};
use crate::parts::{LayerState, StateShape};
use crate::weights::Held;

/// What holds the weights and computes with them.
#[derive(Debug)]
pub(crate) enum Executor {
    /// The kernels of `nook-kernels`.
    Cpu(Cpu),
    /// `nook-gpu`, on a GPU of any vendor.
    Gpu(GpuExecutor),
    /// Both: what the GPU has no room or no kernels for lies with the CPU.
    Divided(Box<Divided>),
    /// candle, on a graphics card.
    #[cfg(feature = "candle")]
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
            #[cfg(feature = "candle")]
            Executor::Card(Card { inventory: $inventory, .. }) => $body,
        }
    };
}

impl Executor {
    /// Another device than the CPU.
    pub(crate) fn open(device: Device, full: bool, file: &ModelFile) -> Result<Self, Fault> {
        let choice = match device {
            Device::Gpu(number) => Choice::Index(number),
            Device::BestGpu => Choice::Best,
            _ => return Self::card(device, full, file),
        };
        GpuExecutor::open(choice, full, file).map(Self::Gpu)
    }

    /// The same with the CPU beside it, where it is a GPU of `nook-gpu`.
    pub(crate) fn beside_cpu(self, full: bool, file: &ModelFile) -> Self {
        match self {
            Self::Gpu(gpu) => {
                let cache = super::cache_kind(full);
                Self::Divided(Box::new(Divided::new(gpu, Cpu::new(full, file), cache, file)))
            }
            other => other,
        }
    }

    /// A graphics card, or candle in its place.
    #[cfg(feature = "candle")]
    fn card(device: Device, full: bool, file: &ModelFile) -> Result<Self, Fault> {
        Ok(Self::Card(Card::open(device, full, file)?))
    }

    /// This build knows none.
    #[cfg(not(feature = "candle"))]
    fn card(device: Device, _: bool, _: &ModelFile) -> Result<Self, Fault> {
        Err(Fault::DeviceSupport { device: device.to_string() })
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
            #[cfg(feature = "candle")]
            Self::Card(card) => card.inventory.held(),
        }
    }

    /// What of `part` is not held, in words; `None` when nothing is missing.
    pub(crate) fn missing(&self, part: &ModelPart) -> Option<String> {
        match self {
            Self::Cpu(cpu) => cpu.inventory.missing(part),
            Self::Gpu(gpu) => gpu.inventory.missing(part),
            Self::Divided(divided) => divided.missing(part),
            #[cfg(feature = "candle")]
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
            #[cfg(feature = "candle")]
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
            #[cfg(feature = "candle")]
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
