//! What can go wrong with a GPU, and whose turn it is then.
//!
//! The kinds are few because callers act on them: put layers elsewhere (no memory),
//! replay on another device (lost), or choose another adapter (missing). Messages carry sizes and
//! causes, never numbers of a model or its activations.

/// A GPU that could not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// No adapter at all, or none that may be chosen by itself.
    #[error("no GPU with a usable driver was found; install its driver, or compute on the CPU")]
    Missing,
    /// The named adapter is not there.
    #[error(
        "there is no GPU {asked:?}; there are: {known}. Name one of them, or compute on the CPU"
    )]
    UnknownAdapter {
        /// What was asked for.
        asked: String,
        /// The adapters that there are.
        known: String,
    },
    /// The adapter is there and could not be opened.
    #[error(
        "the GPU {name} could not be opened: {reason}; check its driver, or compute on the CPU"
    )]
    Unusable {
        /// Name of the adapter.
        name: String,
        /// What its driver said.
        reason: String,
    },
    /// The memory budget does not hold it. Nothing was uploaded, and everything held before still
    /// is.
    #[error(
        "{what} needs {needed} bytes of GPU memory, and {free} of {budget} are free; load fewer \
         layers on this GPU"
    )]
    OutOfMemory {
        /// What the memory is for.
        what: &'static str,
        /// Bytes needed.
        needed: u64,
        /// Bytes of the budget that are free.
        free: u64,
        /// Bytes of the budget.
        budget: u64,
    },
    /// The device is gone: the driver was reset, the card was removed, or it did not answer in
    /// time.
    #[error("the GPU {name} was lost: {reason}; what it computed is done again elsewhere")]
    Lost {
        /// Name of the adapter.
        name: String,
        /// What the driver said.
        reason: String,
    },
    /// Sizes that do not fit each other, or the limits of the device.
    #[error("{what}: {got} where {expected} is expected; compute on the CPU")]
    Size {
        /// Which size.
        what: &'static str,
        /// The size that came.
        got: usize,
        /// What it must be, or at most be.
        expected: usize,
    },
    /// The driver or its validation refused a command: a mistake in this program.
    #[error("the GPU refused a command: {reason}; compute on the CPU")]
    Refused {
        /// What it said.
        reason: String,
    },
}

impl GpuError {
    /// Whether less in its memory would have helped.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::OutOfMemory { .. })
    }

    /// The stable code that callers and front ends act on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing | Self::UnknownAdapter { .. } | Self::Unusable { .. } => "gpu_missing",
            Self::OutOfMemory { .. } => "gpu_out_of_memory",
            Self::Lost { .. } => "gpu_lost",
            Self::Size { .. } | Self::Refused { .. } => "gpu_refused",
        }
    }
}
