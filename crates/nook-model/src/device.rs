//! Where a model computes: one device of this computer, which is the same list in every build.
//!
//! Whoever loads a model names the device ([`crate::LoadedModel::new_on`]). A device that this
//! build or this machine does not have is an error, never silently another one: the caller decides
//! what to do instead. What the owner chooses is a [`Backend`].

use std::fmt;

use nook_base::Backend;

/// Where a model computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Device {
    /// The processor, by the kernels of `nook-kernels`.
    #[default]
    Cpu,
    /// The GPU with this number in the list of [`nook_gpu::adapters`], of any vendor.
    Gpu(u32),
    /// The best GPU that is no software adapter: discrete before integrated. A model that is loaded
    /// there says which one it is.
    BestGpu,
    /// candle's own code for the processor, a reference. Slower than [`Self::Cpu`].
    CandleCpu,
    /// The NVIDIA card with this number, through candle; a build with the feature `cuda`.
    Cuda(u32),
    /// Apple's graphics card with this number, through candle; a build with the feature `metal`.
    Metal(u32),
}

/// [`Backend::Auto`] is the processor: whoever has measured names what was found.
impl From<Backend> for Device {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Auto | Backend::Native => Self::Cpu,
            Backend::Gpu => Self::BestGpu,
            Backend::GpuAt(number) => Self::Gpu(number),
            Backend::Candle => Self::CandleCpu,
            Backend::CandleCuda(number) => Self::Cuda(number),
            Backend::CandleMetal(number) => Self::Metal(number),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("the processor"),
            Self::Gpu(number) => write!(f, "GPU {number}"),
            Self::BestGpu => f.write_str("the best GPU"),
            Self::CandleCpu => f.write_str("candle's processor path"),
            Self::Cuda(number) => write!(f, "NVIDIA card {number}"),
            Self::Metal(number) => write!(f, "Metal device {number}"),
        }
    }
}
