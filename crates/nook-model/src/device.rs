//! Where a model computes: the choice, which is the same in every build.
//!
//! Whoever loads a model names the device ([`crate::LoadedModel::new_on`]). A device that this build
//! or this machine does not have is an error, never silently another one: the caller decides what to
//! do instead.

use std::fmt;

/// Where a model computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Device {
    /// The processor, by the kernels of `nook-kernels`.
    #[default]
    Cpu,
    /// The NVIDIA card with this number; a build with the feature `cuda`.
    Cuda(u32),
    /// Apple's graphics card with this number; a build with the feature `metal`.
    Metal(u32),
    /// candle's own code for the processor: the code of graphics cards without a graphics card, for
    /// tests. Slower than [`Self::Cpu`].
    #[cfg(feature = "candle")]
    CandleCpu,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => write!(f, "the processor"),
            Self::Cuda(number) => write!(f, "NVIDIA card {number}"),
            Self::Metal(number) => write!(f, "Metal device {number}"),
            #[cfg(feature = "candle")]
            Self::CandleCpu => write!(f, "candle's processor path"),
        }
    }
}
