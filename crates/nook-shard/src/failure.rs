//! What a worker says when it cannot do what was asked: a code to act on and a sentence.

use nook_base::backend::DEVICE_VARIABLE;
use nook_base::{ErrorCode, UnknownBackend};
use nook_model::{Fault, ModelError, ResumeError, StepError, TruncateError};
use nook_wire::WireError;

use crate::account::{Memory, Refusal};

/// A refusal or failure on its way to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: ErrorCode,
    pub(crate) sentence: String,
    /// Whether the sentence is for the owner alone: it says where a file lies, or how this device
    /// is set up.
    is_private: bool,
}

impl Failure {
    /// Whether another device than a GPU could have done it.
    pub(crate) fn is_of_gpu(&self) -> bool {
        matches!(
            self.code,
            ErrorCode::GpuMissing
                | ErrorCode::GpuOutOfMemory
                | ErrorCode::GpuNoKernel
                | ErrorCode::GpuLost
        )
    }

    pub(crate) fn new(code: ErrorCode, sentence: impl Into<String>) -> Self {
        Self { code, sentence: sentence.into(), is_private: false }
    }

    /// A failure of which only the owner reads the sentence.
    fn private(code: ErrorCode, sentence: String) -> Self {
        Self { code, sentence, is_private: true }
    }

    /// What another device hears of it; the rest is logged here.
    pub(crate) fn for_guest(self) -> Self {
        if !self.is_private {
            return self;
        }
        tracing::warn!(code = %self.code, "refused to another device: {}", self.sentence);
        self.code.into()
    }
}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Self {
        Self::new(code, code.sentence())
    }
}

/// The key of the setting that limits how much of `memory` is lent.
pub(crate) fn lending_setting(memory: Memory) -> &'static str {
    match memory {
        Memory::Computer => "distributed_inference.host.max_lent_memory_mb",
        Memory::Gpu => "distributed_inference.host.max_lent_gpu_memory_mb",
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::StreamsTaken => ErrorCode::Busy.into(),
            Refusal::NoMemory { memory, wanted, free } => {
                let of = match memory {
                    Memory::Computer => "memory",
                    Memory::Gpu => "graphics memory",
                };
                let (wanted, free) = (wanted.div_ceil(1 << 20), free >> 20);
                let setting = lending_setting(memory);
                let sentence = format!(
                    "this conversation needs {wanted} MB of {of}, {free} MB are allowed and free \
                     (`{setting}`)"
                );
                Self::new(ErrorCode::OutOfMemory, sentence)
            }
            Refusal::NotKept => ErrorCode::HistoryMismatch.into(),
        }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        let code = match error.fault {
            Fault::OutOfMemory { .. } | Fault::NoThreads => ErrorCode::OutOfMemory,
            Fault::Gpu { ref error } => of_gpu(error.code()),
            Fault::CardOutOfMemory { .. } => ErrorCode::GpuOutOfMemory,
            Fault::ContextLength { .. } => ErrorCode::TooLong,
            Fault::NoSuchLayers { .. } | Fault::NotHeld { .. } | Fault::Absent { .. } => {
                ErrorCode::BadRequest
            }
            Fault::NeedsProcessor { .. } => ErrorCode::GpuNoKernel,
            Fault::Card { .. }
            | Fault::DeviceSupport { .. }
            | Fault::DeviceMissing { .. }
            | Fault::DeviceCapability { .. } => ErrorCode::GpuMissing,
            _ => ErrorCode::BadModel,
        };
        // It begins with the path of the file.
        Self::private(code, error.to_string())
    }
}

impl From<UnknownBackend> for Failure {
    fn from(error: UnknownBackend) -> Self {
        Self::private(ErrorCode::BadRequest, format!("{DEVICE_VARIABLE}: {error}"))
    }
}

/// The codes of GPUs have the same names there and here.
fn of_gpu(code: &str) -> ErrorCode {
    let same = ErrorCode::ALL.into_iter().find(|known| known.name() == code);
    // A command that its driver refuses is a mistake in this program.
    same.unwrap_or(ErrorCode::WorkerCrashed)
}

impl From<StepError> for Failure {
    fn from(error: StepError) -> Self {
        let code = match error {
            StepError::TooLong { .. } => ErrorCode::TooLong,
            StepError::OutOfMemory { .. } => ErrorCode::OutOfMemory,
            StepError::Cancelled => ErrorCode::Cancelled,
            StepError::NotHeld { .. } | StepError::Compute { .. } => ErrorCode::WorkerCrashed,
            StepError::Gpu { ref error } => of_gpu(error.code()),
            _ => ErrorCode::BadRequest,
        };
        Self::new(code, error.to_string())
    }
}

impl From<TruncateError> for Failure {
    fn from(error: TruncateError) -> Self {
        Self::new(ErrorCode::HistoryMismatch, error.to_string())
    }
}

impl From<ResumeError> for Failure {
    fn from(error: ResumeError) -> Self {
        Self::new(ErrorCode::HistoryMismatch, error.to_string())
    }
}

impl From<Failure> for WireError {
    fn from(failure: Failure) -> Self {
        Self { code: failure.code, sentence: failure.sentence }
    }
}
