//! What a model takes of which memory: the computer's, or that of a GPU.
//!
//! Whoever lends memory has a limit for each. A GPU that computes from the computer's memory is
//! counted as a place of its own here, too: [`LoadedModel::gpu_shares_memory`] says that the two
//! are one.

use nook_base::{DeviceBytes, LayerRange, ModelPart};

use super::{Executor, LoadedModel};
use crate::error::{Fault, ModelError};
use crate::file::ModelFile;

impl LoadedModel {
    /// Whether the GPU that it computes on has no memory of its own.
    #[must_use]
    pub fn gpu_shares_memory(&self) -> bool {
        self.gpu().is_some_and(|gpu| gpu.info().shares_memory)
    }

    /// As [`Self::hold_from`]; where the CPU stands beside a GPU, what is new on the GPU takes no
    /// more than `gpu_max` bytes there, with what conversations over it will remember. The rest lies
    /// with the CPU. A GPU that computes alone takes it all: whoever has a limit asks
    /// [`Self::part_bytes_by_device`] before.
    ///
    /// # Errors
    ///
    /// As [`Self::hold_from`].
    pub fn hold_within(
        &mut self,
        file: &ModelFile,
        part: &ModelPart,
        gpu_max: u64,
    ) -> Result<(), ModelError> {
        self.check_layers(part.layers)?;
        if !file.is_laid_out_like(&self.file) {
            return Err(file.error(Fault::OtherLayout));
        }
        let loaded = match &mut self.executor {
            Executor::Cpu(cpu) => cpu.load(file, part, &self.compute),
            Executor::Gpu(gpu) => gpu.load(file, part),
            Executor::Divided(divided) => divided.load(file, part, (&self.compute, gpu_max)),
            Executor::Card(card) => card.load(file, part),
        };
        loaded.map_err(|fault| file.error(fault))
    }

    /// [`Self::part_bytes`] where they lie, or would if a load may take `gpu_max` bytes of the GPU.
    /// What candle computes counts as the computer's memory.
    #[must_use]
    pub fn part_bytes_by_device(&self, part: &ModelPart, gpu_max: u64) -> DeviceBytes {
        match &self.executor {
            Executor::Gpu(gpu) => DeviceBytes { memory: 0, gpu: gpu.part_bytes(&self.file, part) },
            Executor::Divided(divided) => divided.part_bytes(&self.file, part, gpu_max),
            Executor::Cpu(_) | Executor::Card(_) => DeviceBytes::in_memory(self.part_bytes(part)),
        }
    }

    /// [`Self::cache_bytes`] where they lie, or would, as in [`Self::part_bytes_by_device`].
    #[must_use]
    pub fn cache_bytes_by_device(
        &self,
        layers: LayerRange,
        positions: u32,
        gpu_max: u64,
    ) -> DeviceBytes {
        match &self.executor {
            Executor::Gpu(_) => DeviceBytes { memory: 0, gpu: self.cache_bytes(layers, positions) },
            Executor::Divided(divided) => {
                divided.cache_bytes(&self.file, layers, (positions, gpu_max))
            }
            Executor::Cpu(_) | Executor::Card(_) => {
                DeviceBytes::in_memory(self.cache_bytes(layers, positions))
            }
        }
    }

    /// Bytes of the GPU's memory that a load leaves for what conversations over these layers, which
    /// are held there, will remember. Nothing where the GPU computes alone.
    #[must_use]
    pub fn kept_free(&self, layers: impl IntoIterator<Item = u32>) -> u64 {
        let Executor::Divided(divided) = &self.executor else { return 0 };
        let there = layers.into_iter().filter(|at| divided.gpu.inventory.layer(*at).is_some());
        there.map(|at| divided.kept_free(&self.file, at)).fold(0, u64::saturating_add)
    }

    /// Lets layers that are not held be placed anew when they are loaded next, for whoever needs
    /// them then. Not while a session remembers any of them: it would look for it elsewhere.
    pub fn unsettle(&mut self) {
        if let Executor::Divided(divided) = &mut self.executor {
            divided.unsettle(&self.file);
        }
    }
}
