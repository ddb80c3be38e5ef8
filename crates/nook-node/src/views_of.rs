//! How types of other crates are told in views. Functions, because neither side is of this crate.

use nook_base::ErrorCode;

use crate::house::HouseError;
use crate::views::{Reason, SystemReason};

/// The reason of a file that the system refuses.
pub(crate) fn reason_of_file(error: &nook_store::FileError) -> Reason {
    Reason { means: SystemReason::of(error.kind), said: error.reason.clone() }
}

/// A task of this node was lost with its answer.
pub(crate) fn task_lost(_: tokio::task::JoinError) -> HouseError {
    ErrorCode::WorkerCrashed.into()
}
