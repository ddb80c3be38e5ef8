//! How a call is read and refused: its first message, the code and the sentence of a refusal.

use std::time::Duration;

use nook_base::ErrorCode;
use nook_mux::{Call, CallError};
use nook_wire::{Message, WireError};

/// Longest wait for the first message of a call, and for room to refuse one. A connection makes a
/// call out of its first frame, so an honest peer has already said what it wants. A call on which
/// nothing is said is refused with [`ErrorCode::PipelineStalled`]; until then it takes one of the
/// calls that its connection may have open, and neither a stream nor a worker.
const OPENING_LIMIT: Duration = Duration::from_secs(10);

/// Answers a call that cannot be served; the code and the sentence are all that leaves.
pub(crate) async fn refuse(mut call: Call<Message>, error: WireError) {
    let code = error.code;
    // The other side may have left already, or take nothing; then there is nobody to tell.
    let _ = tokio::time::timeout(OPENING_LIMIT, call.send(Message::Error(error))).await;
    call.close(Some(code));
}

/// What a call begins with; `None` where the other side has left. An error is for the other side:
/// it has said nothing for too long.
pub(crate) async fn opening(call: &mut Call<Message>) -> Result<Option<Message>, WireError> {
    match tokio::time::timeout(OPENING_LIMIT, call.recv()).await {
        Ok(message) => Ok(message.ok()),
        Err(_) => Err(error(ErrorCode::PipelineStalled, "nothing was asked on this call in time")),
    }
}

/// What the worker's answer means to the guest.
pub(crate) fn worker_error(problem: nook_shard::WorkerError) -> WireError {
    match problem {
        nook_shard::WorkerError::Refused { code, sentence } => WireError { code, sentence },
        other => error(ErrorCode::WorkerCrashed, &other.to_string()),
    }
}

/// A refusal; with the usual sentence of `code` where `sentence` is empty.
pub(crate) fn error(code: ErrorCode, sentence: &str) -> WireError {
    let sentence = if sentence.is_empty() { code.sentence() } else { sentence };
    WireError { code, sentence: sentence.to_owned() }
}

/// Why a relay is over, as the requester is told.
pub(crate) fn end_code(error: &CallError) -> ErrorCode {
    match error {
        CallError::Closed { code: Some(code) } => *code,
        _ => ErrorCode::ShardUnavailable,
    }
}
