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
    /// Whether what cannot be done there is done on the CPU.
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
        if let Some(model) = crate::test_faults::small_gpu(backend, &file, options) {
            return Ok(model?);
        }
        Ok(LoadedModel::new_on(file, Device::from(backend), options)?)
    }
}

/// The device of `model` in the owner's words.
pub(crate) fn backend_of(model: &LoadedModel) -> Backend {
    match model.device() {
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
