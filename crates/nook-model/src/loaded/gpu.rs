//! The third executor: the same descriptions of models, computed by `nook-gpu` on a GPU of any
//! vendor.
//!
//! [`GpuExecutor`] owns the device and the weights on it ([`OnGpu`]). A step brings token ids or
//! hidden states to the device, takes them through the layers there and brings hidden states or
//! logits back; keys and values stay on the device ([`GpuState`]). Few rows are one submission;
//! many are several, so that the desktop and a cancellation get in between ([`recorder`]).
//!
//! Results agree with the CPU's within rounding, not bit for bit. Activations are rounded to bytes
//! as on the CPU, and what a session remembers is handed over in the CPU's bytes, so a reply may
//! move between them.
//!
//! There is code for every part of every architecture, and for every format of weights. What the
//! device has no memory for is refused by figure when it is to be loaded: the caller keeps it on the
//! CPU.

mod attention;
mod beside;
mod block;
mod delta;
mod feed_forward;
mod laurel;
mod layer_inputs;
mod mamba2;
mod mixture;
mod mla;
mod pass;
mod recorder;
mod shared_attention;
mod short_conv;
mod state;
mod step;
mod streams;
mod weights;
mod workspace;

use std::sync::Mutex;

use nook_base::ModelPart;
use nook_gpu::{Choice, Gpu, GpuError, OpenOptions};
use nook_kernels::CacheKind;

use crate::device::Device;
use crate::error::Fault;
use crate::file::ModelFile;
use crate::inventory::Inventory;
use crate::loaded::session::StepError;
use crate::parts::StateShape;
use weights::{GpuLoading, OnGpu, bytes_on_gpu};
use workspace::Workspace;

pub(crate) use state::{GpuState, whole_blocks};

/// A GPU with weights on it.
#[derive(Debug)]
pub(crate) struct GpuExecutor {
    choice: Device,
    gpu: Gpu,
    /// Whether weights and activations are held in single precision.
    full: bool,
    pub(crate) inventory: Inventory<OnGpu>,
    /// Buffers between two steps. The lock guards the list alone, not a step.
    workspaces: Mutex<Vec<Workspace>>,
}

impl GpuExecutor {
    /// Opens a GPU. Nothing of `file` is loaded yet.
    pub(crate) fn open(choice: Choice, full: bool, file: &ModelFile) -> Result<Self, Fault> {
        let options = OpenOptions { choice, ..OpenOptions::default() };
        Ok(Self::new(Gpu::open(&options)?, full, file))
    }

    /// On an open GPU.
    pub(crate) fn new(gpu: Gpu, full: bool, file: &ModelFile) -> Self {
        Self {
            choice: Device::Gpu(gpu.info().index),
            gpu,
            full,
            inventory: Inventory::new(file.shape().layers),
            workspaces: Mutex::new(Vec::new()),
        }
    }

    /// Which device it is.
    pub(crate) fn device(&self) -> Device {
        self.choice
    }

    /// The open GPU.
    pub(crate) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Loads what is missing of `part`.
    pub(crate) fn load(&mut self, file: &ModelFile, part: &ModelPart) -> Result<(), Fault> {
        // What a lost device holds is gone, though nothing of it is missing here.
        self.gpu.check()?;
        let mut loading = GpuLoading { file, gpu: &self.gpu, full: self.full };
        self.inventory.load(file, part, &mut loading)
    }

    /// Bytes that the weights of `part` take on the device.
    pub(crate) fn part_bytes(&self, file: &ModelFile, part: &ModelPart) -> u64 {
        file.tensors_of(part).map(|tensor| bytes_on_gpu(tensor, self.full)).sum()
    }

    /// What a session remembers of a layer: nothing yet.
    pub(crate) fn empty_state(&self, shape: StateShape, kind: CacheKind) -> GpuState {
        GpuState::new(&self.gpu, shape, kind)
    }

    /// Gives back the buffers between two steps.
    pub(crate) fn rest(&mut self) {
        self.workspaces.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
    }
}

impl From<GpuError> for Fault {
    fn from(error: GpuError) -> Self {
        Self::Gpu { error }
    }
}

impl From<GpuError> for StepError {
    fn from(error: GpuError) -> Self {
        Self::Gpu { error }
    }
}
