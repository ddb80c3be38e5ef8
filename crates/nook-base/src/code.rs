//! The error codes that cross process and network walls, and the sentence that people see for each.

use serde::{Deserialize, Serialize};

/// Why something was refused or ended. One list for wire, port, window and command line.
///
/// A code is added only when somebody acts on it. The position of a variant is its number on the
/// wire: add at the end, never reorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorCode {
    /// Pooling or sharing is switched off.
    SwitchedOff,
    /// No device, this one included, can compute a needed layer.
    ShardUnavailable,
    /// No progress within the deadline.
    PipelineStalled,
    /// The devices hold different files under one model.
    WeightsMismatch,
    /// The request breaks a rule that its sender could have kept.
    BadRequest,
    /// The owner of that device does not allow it at this trust level.
    TrustDenied,
    /// All streams of that device are taken.
    Busy,
    /// The other device speaks another protocol version.
    VersionMismatch,
    /// Host and requester hold different conversations.
    HistoryMismatch,
    /// Longer than the model or the session allows.
    TooLong,
    /// The device is leaving; it accepts nothing new.
    Draining,
    /// Not enough memory for the layers or the conversation.
    OutOfMemory,
    /// The worker process ended unexpectedly.
    WorkerCrashed,
    /// An activation arrived that cannot be right.
    CorruptActivation,
    /// Too many requests in too short a time.
    RateLimited,
    /// The model, or the thing named, is not here.
    NotFound,
    /// The model file is damaged or not supported.
    BadModel,
    /// The caller ended it.
    Cancelled,
    /// A number is larger than the agreed activation format can write; a wider one is needed.
    ActivationOverflow,
    /// The disk of that device has no room for the layers.
    DiskFull,
    /// The owner of that device lets it fetch no layers, or no more.
    FetchLimit,
    /// That device fetched the layers and did not get them.
    FetchFailed,
    /// The GPU that was named is not there, cannot be used, or this build cannot.
    GpuMissing,
    /// The layers or the conversation do not fit into the memory of the GPU.
    GpuOutOfMemory,
    /// Weights of that format cannot be computed on a GPU.
    GpuNoKernel,
    /// The GPU is gone, or its driver was reset.
    GpuLost,
}

impl ErrorCode {
    /// Every code, in wire order.
    pub const ALL: [Self; 26] = [
        Self::SwitchedOff,
        Self::ShardUnavailable,
        Self::PipelineStalled,
        Self::WeightsMismatch,
        Self::BadRequest,
        Self::TrustDenied,
        Self::Busy,
        Self::VersionMismatch,
        Self::HistoryMismatch,
        Self::TooLong,
        Self::Draining,
        Self::OutOfMemory,
        Self::WorkerCrashed,
        Self::CorruptActivation,
        Self::RateLimited,
        Self::NotFound,
        Self::BadModel,
        Self::Cancelled,
        Self::ActivationOverflow,
        Self::DiskFull,
        Self::FetchLimit,
        Self::FetchFailed,
        Self::GpuMissing,
        Self::GpuOutOfMemory,
        Self::GpuNoKernel,
        Self::GpuLost,
    ];

    /// The stable name that programs match on.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SwitchedOff => "switched_off",
            Self::ShardUnavailable => "shard_unavailable",
            Self::PipelineStalled => "pipeline_stalled",
            Self::WeightsMismatch => "weights_mismatch",
            Self::BadRequest => "bad_request",
            Self::TrustDenied => "trust_denied",
            Self::Busy => "busy",
            Self::VersionMismatch => "version_mismatch",
            Self::HistoryMismatch => "history_mismatch",
            Self::TooLong => "too_long",
            Self::Draining => "draining",
            Self::OutOfMemory => "out_of_memory",
            Self::WorkerCrashed => "worker_crashed",
            Self::CorruptActivation => "corrupt_activation",
            Self::RateLimited => "rate_limited",
            Self::NotFound => "not_found",
            Self::BadModel => "bad_model",
            Self::Cancelled => "cancelled",
            Self::ActivationOverflow => "activation_overflow",
            Self::DiskFull => "disk_full",
            Self::FetchLimit => "fetch_limit",
            Self::FetchFailed => "fetch_failed",
            Self::GpuMissing => "gpu_missing",
            Self::GpuOutOfMemory => "gpu_out_of_memory",
            Self::GpuNoKernel => "gpu_no_kernel",
            Self::GpuLost => "gpu_lost",
        }
    }

    /// The sentence that people see when nothing more exact is known.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::SwitchedOff => "Sharing is switched off on that device.",
            Self::ShardUnavailable => {
                "No device in reach can compute a part of this model. Add a device, or choose a smaller model."
            }
            Self::PipelineStalled => "A device stopped answering and nobody could take over.",
            Self::WeightsMismatch => {
                "The devices hold different versions of this model. Use the same file on both."
            }
            Self::BadRequest => "The request is not valid.",
            Self::TrustDenied => {
                "The owner of that device has not allowed this. Raise its trust level there, under Household."
            }
            Self::Busy => {
                "That device is busy with as many replies as it allows. Try again shortly."
            }
            Self::VersionMismatch => {
                "The devices run versions of Inglenook that do not understand each other. Update the older one."
            }
            Self::HistoryMismatch => {
                "The devices remember this chat differently; it has to be read again from the start."
            }
            Self::TooLong => {
                "The conversation is longer than this model can hold. Start a new chat, or shorten it."
            }
            Self::Draining => "That device is leaving and takes no new work.",
            Self::OutOfMemory => {
                "There is not enough free memory. Close something, or choose a smaller model."
            }
            Self::WorkerCrashed => {
                "The part of Inglenook that computes the model ended unexpectedly. Try again."
            }
            Self::CorruptActivation => {
                "A device sent back numbers that cannot be right. Its result was not used."
            }
            Self::RateLimited => "Too many attempts. Wait a little, then try again.",
            Self::NotFound => "There is nothing of that name here.",
            Self::BadModel => "The model file is damaged, or of a kind that is not supported.",
            Self::Cancelled => "Stopped.",
            Self::ActivationOverflow => {
                "Numbers of this model are too large for f16 activations. Use f32 for it."
            }
            Self::DiskFull => {
                "The disk of that device has no room for the layers. Make some there."
            }
            Self::FetchLimit => {
                "That device may fetch no more layers. Its owner can allow it there, under Settings, Sharing."
            }
            Self::FetchFailed => {
                "That device could not get the layers. A device that has the whole model must be on, and let it copy."
            }
            Self::GpuMissing => {
                "What was chosen to compute with cannot be used on that device. Check the driver, or choose automatically, under Settings."
            }
            Self::GpuOutOfMemory => {
                "The graphics card has too little memory for it. Choose automatically, under Settings, or a smaller model."
            }
            Self::GpuNoKernel => {
                "candle cannot compute this model. Choose automatically, under Settings."
            }
            Self::GpuLost => {
                "The graphics card stopped answering. What it computed is done again elsewhere."
            }
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_name_and_a_sentence() {
        let mut names: Vec<_> = ErrorCode::ALL.iter().map(|c| c.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ErrorCode::ALL.len());
        assert!(ErrorCode::ALL.iter().all(|c| c.sentence().ends_with('.')));
    }
}
