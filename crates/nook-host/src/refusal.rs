//! How a call is read and refused: its first message, the code and the sentence of a refusal.

use std::time::Duration;

use nook_base::ErrorCode;
use nook_mux::{Call, CallError};
use nook_shard::WorkerError;
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

/// What it means to the guest that this device's own question to its worker was refused.
pub(crate) fn worker_error(problem: WorkerError) -> WireError {
    let code = match &problem {
        WorkerError::Refused { code, .. } => *code,
        _ => ErrorCode::WorkerCrashed,
    };
    withheld(code, &problem.to_string())
}

/// A refusal whose `detail` is for this device's owner: it may say where a file lies, or how a
/// program was started. The guest hears the usual sentence of `code`.
pub(crate) fn withheld(code: ErrorCode, detail: &str) -> WireError {
    tracing::warn!(%code, "refused to another device: {detail}");
    error(code, "")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_does_not_hear_where_a_file_lies() {
        let sentence = "/data/models/qwen.gguf is damaged.".to_owned();
        let refused = worker_error(WorkerError::Refused { code: ErrorCode::BadModel, sentence });
        assert_eq!(refused, error(ErrorCode::BadModel, ""));
        assert_eq!(worker_error(WorkerError::Gone), error(ErrorCode::WorkerCrashed, ""));
    }
}
