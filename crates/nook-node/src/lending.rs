//! Lending layers to another device: from its OPEN to the end of the call.
//!
//! The gate has let the device in before anything here runs: [`lend`] takes the proof. The messages
//! of the call are then passed between the device and our worker as they are. What the worker says
//! in its own vocabulary never passes.

use std::path::PathBuf;
use std::sync::Arc;

use nook_base::{ErrorCode, LayerRange, ModelDigest, ModelPart};
use nook_mux::{Call, CallError};
use nook_trust::Admitted;
use nook_wire::{Message, Open, WireError, WireMessage, WorkerMessage};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::workers::Workers;

/// A model as it is lent: which file, and which of its layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lent {
    pub(crate) model: ModelDigest,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) layers: LayerRange,
}

/// What is lent to guests as long as sharing stays as it is now.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) lent: Arc<Vec<Lent>>,
    pub(crate) workers: Workers,
    /// One permit a stream; all of them taken means busy, not a queue.
    pub(crate) streams: Arc<Semaphore>,
    /// Cancelled when the owner stops sharing or this node leaves.
    pub(crate) until: CancellationToken,
}

/// Serves one call of an admitted device.
pub(crate) async fn lend(admitted: Admitted, mut call: Call<Message>, terms: Terms) {
    let until = terms.until.clone();
    let outcome = tokio::select! {
        biased;
        () = until.cancelled() => Err(WireError {
            code: ErrorCode::Draining,
            sentence: ErrorCode::Draining.sentence().to_owned(),
        }),
        outcome = open(&admitted, &mut call, &terms) => outcome,
    };
    match outcome {
        Ok(Some((worker, _stream))) => pass(call, worker, &until).await,
        Ok(None) => {}
        Err(error) => {
            tracing::info!(peer = ?admitted.peer(), code = %error.code, "a call was refused");
            refuse(call, error).await;
        }
    }
}

/// Answers a call that cannot be served; the code and the sentence are all that leaves.
pub(crate) async fn refuse(mut call: Call<Message>, error: WireError) {
    let code = error.code;
    // The other side may have left already; then there is nobody to tell.
    let _ = call.send(Message::Error(error)).await;
    call.close(Some(code));
}

type Opened = (Call<WorkerMessage>, tokio::sync::OwnedSemaphorePermit);

/// Reads OPEN and finds a worker that holds the layers; `None` when the other side has left.
async fn open(
    admitted: &Admitted,
    call: &mut Call<Message>,
    terms: &Terms,
) -> Result<Option<Opened>, WireError> {
    let Ok(message) = call.recv().await else {
        return Ok(None);
    };
    let Message::Open(open) = message else {
        return Err(error(ErrorCode::BadRequest, "a call begins with OPEN"));
    };
    let lent = find(&terms.lent, &open)?;
    // The stream is taken before the layers are loaded: whoever is over the limit costs nothing.
    let stream = terms
        .streams
        .clone()
        .try_acquire_owned()
        .map_err(|_| error(ErrorCode::Busy, ErrorCode::Busy.sentence()))?;
    tracing::info!(
        peer = ?admitted.peer(),
        model = ?open.model,
        layers = %open.layers,
        "lending layers"
    );
    let worker = terms
        .workers
        .get(lent.model, &lent.name)
        .await
        .map_err(|problem| error(problem.code, &problem.sentence))?;
    // Only the file is named here: the worker loads the layers at OPEN, under the guests' cap.
    let part = ModelPart::inner(LayerRange::with_len(open.layers.start(), 0));
    worker.load(&lent.path, lent.model, part).await.map_err(worker_error)?;
    let mut worker_call = worker.open_call().await.map_err(worker_error)?;
    let opening = WorkerMessage::from_peer(Message::Open(open));
    worker_call.send(opening).await.map_err(|_| error(ErrorCode::WorkerCrashed, ""))?;
    Ok(Some((worker_call, stream)))
}

fn find<'a>(lent: &'a [Lent], open: &Open) -> Result<&'a Lent, WireError> {
    let same = lent.iter().find(|lent| lent.model == open.model).ok_or_else(|| {
        error(
            ErrorCode::WeightsMismatch,
            &format!("this device does not lend the model with digest {}", open.model.short()),
        )
    })?;
    if open.layers.is_empty() || !same.layers.contains(open.layers) {
        return Err(error(
            ErrorCode::ShardUnavailable,
            &format!("asked for layers {}, this device lends {}", open.layers, same.layers),
        ));
    }
    Ok(same)
}

/// Passes messages between a guest and the worker until either ends, or sharing does.
async fn pass(guest: Call<Message>, worker: Call<WorkerMessage>, until: &CancellationToken) {
    let (mut to_guest, mut from_guest) = guest.split();
    let (mut to_worker, mut from_worker) = worker.split();
    let inward = async {
        loop {
            let message = from_guest.recv().await?;
            to_worker.send(WorkerMessage::from_peer(message)).await?;
        }
    };
    let outward = async {
        loop {
            match from_worker.recv().await?.into_peer() {
                Ok(message) => to_guest.send(message).await?,
                // By the protocol a worker never says this on a guest's call; should it, nothing
                // of it leaves this machine.
                Err(_) => {
                    return Err(CallError::Closed { code: Some(ErrorCode::WorkerCrashed) });
                }
            }
        }
    };
    let ended: Result<std::convert::Infallible, CallError> = tokio::select! {
        biased;
        () = until.cancelled() => Err(CallError::Closed { code: Some(ErrorCode::Draining) }),
        ended = inward => ended,
        ended = outward => ended,
    };
    let Err(end) = ended;
    let code = match end {
        CallError::Closed { code } => code,
        CallError::ConnectionLost { .. } => Some(ErrorCode::WorkerCrashed),
        CallError::NotForCalls { .. } => Some(ErrorCode::BadRequest),
    };
    // Closing a call that has ended already does nothing.
    to_guest.close(code);
    to_worker.close(code);
}

fn worker_error(problem: nook_shard::WorkerError) -> WireError {
    match problem {
        nook_shard::WorkerError::Refused { code, sentence } => WireError { code, sentence },
        other => error(ErrorCode::WorkerCrashed, &other.to_string()),
    }
}

fn error(code: ErrorCode, sentence: &str) -> WireError {
    let sentence = if sentence.is_empty() { code.sentence() } else { sentence };
    WireError { code, sentence: sentence.to_owned() }
}

#[cfg(test)]
mod tests {
    use nook_base::ActivationDtype;

    use super::*;

    fn wish(model: u8, start: u32, len: u32) -> Open {
        Open {
            session: 1,
            model: ModelDigest([model; 32]),
            layers: LayerRange::with_len(start, len),
            dtype: ActivationDtype::F32,
            positions_max: 16,
        }
    }

    fn lent() -> Vec<Lent> {
        vec![Lent {
            model: ModelDigest([1; 32]),
            name: "ember".to_owned(),
            path: PathBuf::new(),
            layers: LayerRange::with_len(1, 4),
        }]
    }

    #[test]
    fn another_file_is_a_mismatch_and_other_layers_are_unavailable() {
        let code = |open: &Open| find(&lent(), open).map(|_| ()).map_err(|error| error.code);
        assert_eq!(code(&wish(1, 1, 4)), Ok(()));
        assert_eq!(code(&wish(2, 1, 4)), Err(ErrorCode::WeightsMismatch));
        assert_eq!(code(&wish(1, 0, 2)), Err(ErrorCode::ShardUnavailable));
        assert_eq!(code(&wish(1, 4, 2)), Err(ErrorCode::ShardUnavailable));
        assert_eq!(code(&wish(1, 2, 0)), Err(ErrorCode::ShardUnavailable));
    }
}
