//! Where a model computes: the choice, which is the same in every build.
//!
//! Whoever loads a model names the device ([`crate::LoadedModel::new_on`]). A device that this
//! build or this machine does not have is an error, never silently another one: the caller decides
//! what to do instead.

use std::fmt;
use std::str::FromStr;

/// Where a model computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Device {
    /// The processor, by the kernels of `nook-kernels`.
    #[default]
    Cpu,
    /// The GPU with this number in the list of [`nook_gpu::adapters`], of any vendor.
    Gpu(u32),
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
            Self::Gpu(number) => write!(f, "GPU {number}"),
            Self::Cuda(number) => write!(f, "NVIDIA card {number}"),
            Self::Metal(number) => write!(f, "Metal device {number}"),
            #[cfg(feature = "candle")]
            Self::CandleCpu => write!(f, "candle's processor path"),
        }
    }
}

/// A text that names no [`Device`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no device to compute on; there are cpu, gpu:0, cuda, cuda:1, metal")]
pub struct UnknownDevice {
    /// What was said instead.
    pub text: String,
}

impl FromStr for Device {
    type Err = UnknownDevice;

    /// `cpu`; `gpu:0`, always with its number; `cuda` and `metal`, with a number if it is not the
    /// first: `cuda:1`. In a build with the feature `candle` there is `candle-cpu` too.
    fn from_str(text: &str) -> Result<Self, UnknownDevice> {
        let unknown = || UnknownDevice { text: text.to_owned() };
        let (kind, number) = text.split_once(':').unwrap_or((text, "0"));
        let number: u32 = number.parse().map_err(|_| unknown())?;
        match kind {
            "cpu" if text == kind => Ok(Self::Cpu),
            // Which GPU is the best is measured, not guessed: a text without a number names none.
            "gpu" if text != kind => Ok(Self::Gpu(number)),
            "cuda" => Ok(Self::Cuda(number)),
            "metal" => Ok(Self::Metal(number)),
            #[cfg(feature = "candle")]
            "candle-cpu" if text == kind => Ok(Self::CandleCpu),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_by_kind_and_number() {
        for (text, device) in [
            ("cpu", Device::Cpu),
            ("gpu:0", Device::Gpu(0)),
            ("gpu:12", Device::Gpu(12)),
            ("cuda", Device::Cuda(0)),
            ("cuda:3", Device::Cuda(3)),
            ("metal:1", Device::Metal(1)),
        ] {
            assert_eq!(text.parse(), Ok(device), "{text}");
        }
        for text in
            ["", "gpu", "gpu:", "cpu:1", "cuda:", "cuda:-1", "cuda:x", "CUDA", "cuda:4294967296"]
        {
            assert_eq!(text.parse::<Device>(), Err(UnknownDevice { text: text.to_owned() }));
        }
    }
}
