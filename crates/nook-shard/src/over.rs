//! Why a call of the worker is over, and what becomes such a reason.

use nook_base::ErrorCode;
use nook_mux::{CallError, TensorRecvError};
use nook_wire::WorkerMessage;

use crate::failure::Failure;

/// Why a call is over.
pub(crate) enum Over {
    /// The other side closed it or went away.
    Closed,
    /// This side ends it, and says why.
    Failed(Failure),
}

impl From<Failure> for Over {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<CallError> for Over {
    fn from(_: CallError) -> Self {
        Self::Closed
    }
}

impl From<TensorRecvError<WorkerMessage>> for Over {
    fn from(error: TensorRecvError<WorkerMessage>) -> Self {
        match error {
            TensorRecvError::Call(_) => Self::Closed,
            // A tensor that breaks the rules is the caller's fault and is answered.
            broken => Self::Failed(Failure::new(ErrorCode::BadRequest, broken.to_string())),
        }
    }
}

/// What came is not what may come now.
pub(crate) fn out_of_turn(sentence: &str) -> Failure {
    Failure::new(ErrorCode::BadRequest, sentence)
}
