//! What a worker says when it cannot do what was asked: a code to act on and a sentence.

use nook_base::ErrorCode;
use nook_model::{Fault, ModelError, ResumeError, StepError, TruncateError, UnknownDevice};
use nook_wire::WireError;

use crate::account::Refusal;

/// A refusal or failure on its way to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: ErrorCode,
    pub(crate) sentence: String,
}

impl Failure {
    pub(crate) fn new(code: ErrorCode, sentence: impl Into<String>) -> Self {
        Self { code, sentence: sentence.into() }
    }
}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Self {
        Self::new(code, code.sentence())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::StreamsTaken => ErrorCode::Busy.into(),
            Refusal::NoMemory { wanted, free } => Self::new(
                ErrorCode::OutOfMemory,
                format!(
                    "this conversation needs {} MB, {} MB are allowed and free",
                    wanted >> 20,
                    free >> 20
                ),
            ),
            Refusal::NotKept => ErrorCode::HistoryMismatch.into(),
        }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        let code = match error.fault {
            Fault::OutOfMemory { .. } | Fault::NoThreads => ErrorCode::OutOfMemory,
            Fault::Gpu { ref error } => of_gpu(error.code()),
            Fault::ContextLength { .. } => ErrorCode::TooLong,
            Fault::NoSuchLayers { .. }
            | Fault::NotHeld { .. }
            | Fault::Absent { .. }
            | Fault::Card { .. }
            | Fault::NoGpuKernel { .. }
            | Fault::NeedsProcessor { .. }
            | Fault::DeviceSupport { .. }
            | Fault::DeviceMissing { .. }
            | Fault::DeviceCapability { .. } => ErrorCode::BadRequest,
            _ => ErrorCode::BadModel,
        };
        Self::new(code, error.to_string())
    }
}

impl From<UnknownDevice> for Failure {
    fn from(error: UnknownDevice) -> Self {
        Self::new(ErrorCode::BadRequest, format!("INGLENOOK_DEVICE: {error}"))
    }
}

/// A GPU without memory is no crash; one that is not there was asked for by a wrong name; a lost
/// one ends the work here, so that it is done again elsewhere.
fn of_gpu(code: &str) -> ErrorCode {
    match code {
        "gpu_out_of_memory" => ErrorCode::OutOfMemory,
        "gpu_missing" => ErrorCode::BadRequest,
        _ => ErrorCode::WorkerCrashed,
    }
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
