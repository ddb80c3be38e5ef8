//! Where a worker computes: what its node said, and how a model comes there.

use nook_base::Backend;
use nook_model::{Device, LoadOptions, LoadedModel, ModelFile, Precision};
use nook_wire::{GpuKind, GpuReport};

use crate::failure::Failure;

/// Where a worker computes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ComputePlace {
    /// What its node said; the variable of the environment wins.
    pub(crate) backend: Backend,
    /// Whether what cannot be done there is done on the CPU: layer by layer, or all of it.
    pub(crate) falls_back: bool,
}

impl ComputePlace {
    /// The CPU, after another device could not do it.
    pub(crate) const FALLEN_BACK: Self = Self { backend: Backend::Native, falls_back: false };

    /// A model there, of which nothing is held yet.
    pub(crate) fn open(self, file: ModelFile) -> Result<LoadedModel, Failure> {
        let backend = if self == Self::FALLEN_BACK {
            self.backend
        } else {
            Backend::override_of_environment().unwrap_or(Ok(self.backend))?
        };
        let options = LoadOptions { threads: crate::threads(), precision: Precision::Auto };
        #[cfg(all(feature = "test-faults", debug_assertions))]
        if let Some(gpu) = crate::test_faults::small_gpu(backend) {
            return Ok(match self.falls_back {
                true => LoadedModel::with_gpu_and_cpu(file, &gpu, options)?,
                false => LoadedModel::with_gpu(file, &gpu, options)?,
            });
        }
        let device = Device::from(backend);
        Ok(match self.falls_back {
            // What the owner named does it all, or says why not.
            false => LoadedModel::new_on(file, device, options)?,
            true => LoadedModel::new_beside(file, device, options)?,
        })
    }
}

/// The device of `model` in the owner's words. It is the CPU where nothing of the model is on a GPU
/// that could have had some of it.
pub(crate) fn backend_of(model: &LoadedModel) -> Backend {
    let is_empty = model.held_on_gpu().is_empty() && !model.held().is_empty();
    match model.device() {
        Device::Gpu(_) | Device::BestGpu if is_empty => Backend::Native,
        Device::Cpu => Backend::Native,
        Device::BestGpu => Backend::Gpu,
        Device::Gpu(number) => Backend::GpuAt(number),
        Device::CandleCpu => Backend::Candle,
        Device::Cuda(number) => Backend::CandleCuda(number),
        Device::Metal(number) => Backend::CandleMetal(number),
    }
}

/// All GPUs of this computer. Loads their drivers, which may take long or crash.
pub(crate) fn gpus() -> Vec<GpuReport> {
    use nook_model::nook_gpu::{AdapterInfo, AdapterKind, adapters};
    let report = |info: AdapterInfo| GpuReport {
        number: info.index,
        name: info.name,
        api: info.api.to_owned(),
        driver: info.driver,
        kind: match info.kind {
            AdapterKind::Discrete => GpuKind::Discrete,
            AdapterKind::Integrated => GpuKind::Integrated,
            AdapterKind::Virtual => GpuKind::Virtual,
            AdapterKind::Software => GpuKind::Software,
            AdapterKind::Unknown => GpuKind::Unknown,
        },
        memory: info.memory,
    };
    adapters().into_iter().map(report).collect()
}
