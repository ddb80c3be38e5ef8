//! Which code computes models, and on what: the choice, which is the same in every build.
//!
//! The setting `distributed_inference.backend` and the variable [`DEVICE_VARIABLE`] name it, a node
//! tells its workers, and `nook-model` opens it. What a build or a machine does not have is an error
//! there, never silently something else; only [`Backend::Auto`] leaves the choice to measurements.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The variable of the environment that wins over the setting.
pub const DEVICE_VARIABLE: &str = "INGLENOOK_DEVICE";

/// Which code computes models, and on what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Backend {
    /// What was measured to answer sooner: the CPU or one of the GPUs. The CPU until it is known.
    #[default]
    Auto,
    /// The kernels of `nook-kernels`, on the CPU.
    Native,
    /// `nook-gpu`, on the GPU that was measured to be the fastest; never a software adapter.
    Gpu,
    /// `nook-gpu`, on the GPU of this number in the list that `nook doctor` shows.
    GpuAt(u32),
    /// candle on the CPU: the reference.
    Candle,
    /// candle on the NVIDIA card of this number, in the separate program `nook-worker-cuda`.
    CandleCuda(u32),
    /// candle on Apple's graphics card of this number, in builds with the feature `metal`.
    CandleMetal(u32),
}

/// A text that names no [`Backend`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} names nothing to compute with; there are {}", Backend::FORMS)]
pub struct UnknownBackend {
    /// What was said instead.
    pub text: String,
}

impl Backend {
    /// What a text may be, in words.
    pub const FORMS: &str = "`auto`, `native`, `gpu`, `gpu:0` (or another number), `candle`, \
                             `candle:cuda:0` (or another number) and `candle:metal`";

    /// As [`DEVICE_VARIABLE`] names it: as the setting does, or in the shorter words `cpu`, `cuda`,
    /// `cuda:1`, `metal` and `candle-cpu`.
    ///
    /// # Errors
    ///
    /// [`UnknownBackend`] for every other text.
    pub fn of_variable(text: &str) -> Result<Self, UnknownBackend> {
        let (kind, number) = text.split_once(':').unwrap_or((text, "0"));
        let short = match kind {
            "cpu" if text == kind => Some(Self::Native),
            "candle-cpu" if text == kind => Some(Self::Candle),
            "cuda" => plain(number).map(Self::CandleCuda),
            "metal" => plain(number).map(Self::CandleMetal),
            _ => None,
        };
        short.map_or_else(|| text.parse(), Ok)
    }

    /// What the variable says, if it is set.
    #[must_use]
    pub fn override_of_environment() -> Option<Result<Self, UnknownBackend>> {
        crate::env::text(DEVICE_VARIABLE).map(|text| Self::of_variable(&text))
    }

    /// What counts where the owner's setting is `self`: the variable wins. One that names nothing
    /// is told by the worker that was to compute there.
    #[must_use]
    pub fn in_force(self) -> Self {
        Self::override_of_environment().and_then(Result::ok).unwrap_or(self)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Native => f.write_str("native"),
            Self::Gpu => f.write_str("gpu"),
            Self::GpuAt(number) => write!(f, "gpu:{number}"),
            Self::Candle => f.write_str("candle"),
            Self::CandleCuda(number) => write!(f, "candle:cuda:{number}"),
            Self::CandleMetal(0) => f.write_str("candle:metal"),
            Self::CandleMetal(number) => write!(f, "candle:metal:{number}"),
        }
    }
}

impl FromStr for Backend {
    type Err = UnknownBackend;

    fn from_str(text: &str) -> Result<Self, UnknownBackend> {
        let numbered = |kind: &str| text.strip_prefix(kind).and_then(plain);
        match text {
            "auto" => Some(Self::Auto),
            "native" => Some(Self::Native),
            "gpu" => Some(Self::Gpu),
            "candle" => Some(Self::Candle),
            "candle:cuda" => Some(Self::CandleCuda(0)),
            "candle:metal" => Some(Self::CandleMetal(0)),
            _ => None,
        }
        .or_else(|| numbered("gpu:").map(Self::GpuAt))
        .or_else(|| numbered("candle:cuda:").map(Self::CandleCuda))
        .or_else(|| numbered("candle:metal:").map(Self::CandleMetal))
        .ok_or_else(|| UnknownBackend { text: text.to_owned() })
    }
}

/// A number in digits alone: `parse` would take a sign, too.
fn plain(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for (text, backend) in [
            ("auto", Backend::Auto),
            ("native", Backend::Native),
            ("gpu", Backend::Gpu),
            ("gpu:0", Backend::GpuAt(0)),
            ("gpu:12", Backend::GpuAt(12)),
            ("candle", Backend::Candle),
            ("candle:cuda:0", Backend::CandleCuda(0)),
            ("candle:cuda:3", Backend::CandleCuda(3)),
            ("candle:metal", Backend::CandleMetal(0)),
            ("candle:metal:1", Backend::CandleMetal(1)),
        ] {
            assert_eq!(text.parse(), Ok(backend), "{text}");
            assert_eq!(backend.to_string(), text);
            assert_eq!(Backend::of_variable(text), Ok(backend), "{text}");
        }
        assert_eq!("candle:cuda".parse(), Ok(Backend::CandleCuda(0)));
    }

    #[test]
    fn the_variable_knows_shorter_words_too() {
        for (text, backend) in [
            ("cpu", Backend::Native),
            ("cuda", Backend::CandleCuda(0)),
            ("cuda:3", Backend::CandleCuda(3)),
            ("metal:1", Backend::CandleMetal(1)),
            ("candle-cpu", Backend::Candle),
        ] {
            assert_eq!(Backend::of_variable(text), Ok(backend), "{text}");
            assert!(text.parse::<Backend>().is_err(), "{text} is no setting");
        }
    }

    #[test]
    fn everything_else_is_refused_with_what_there_is() {
        for text in [
            "",
            "cpu:1",
            "gpu:",
            "gpu:x",
            "gpu:-1",
            "gpu:+1",
            "GPU",
            "cuda:",
            "cuda:4294967296",
            "candle:",
            "candle:cpu",
            "native:0",
            "auto ",
        ] {
            let error = Backend::of_variable(text).unwrap_err();
            assert_eq!(error, UnknownBackend { text: text.to_owned() });
            let said = error.to_string();
            assert!(said.contains("`gpu:0`") && said.contains("`candle:cuda:0`"), "{said}");
        }
    }
}
