//! Lending layers to another device: from its OPEN to the end of the call.
//!
//! The gate has let the device in before anything here runs: [`lend`] takes the proof. The messages
//! of the call are then passed between the device and our worker as they are (`passage`). What the
//! worker says in its own vocabulary never passes.

mod meter;
mod share;
mod usage;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nook_base::{ErrorCode, LayerRange, ModelDigest, ModelPart, Sensitive};
use nook_mux::Call;
use nook_trust::Admitted;
use nook_wire::{Message, Open, Want, WholeAsk, WireError, WireMessage, WorkerMessage};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::copying::giving::{self, Copier};
use crate::forwarding::{self, Chains};
use crate::lending::meter::Meter;
pub(crate) use crate::lending::share::lent;
pub(crate) use crate::lending::usage::{Presence, Usage};
use crate::passage::{self, Ends};
use crate::resources::shelf::{FilePlace, Shelf};
use crate::resources::workers::Workers;
use crate::state::Inside;
use crate::whole::{OwnGuest, hosting};

/// Longest wait for the first message of a call, and for room to refuse one. A connection makes a call out of
/// its first frame, so an honest one has said what it wants already. Who opens calls and says nothing on them
/// is refused with [`ErrorCode::PipelineStalled`] then; until then each has taken one of the calls that its
/// connection may have open, and neither a stream nor a worker.
const OPENING_LIMIT: Duration = Duration::from_secs(10);

/// A model as it is lent: which file, and which of its layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lent {
    pub(crate) model: ModelDigest,
    pub(crate) name: String,
    pub(crate) path: FilePlace,
    pub(crate) layers: LayerRange,
}

/// What is lent to guests as long as sharing stays as it is now.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) lent: Arc<Vec<Lent>>,
    pub(crate) workers: Workers,
    /// One permit a stream; all of them taken means busy, not a queue.
    pub(crate) streams: Arc<Semaphore>,
    /// Cancelled when the owner stops sharing or this node leaves: what runs finishes its step.
    pub(crate) until: CancellationToken,
    /// Cancelled when the owner trusts this guest no more: what runs ends at once.
    pub(crate) revoked: CancellationToken,
    /// Models whose workers have served guests under these terms.
    pub(crate) served: Served,
    /// The house learns from what guests are answered how fast this device is.
    pub(crate) house: mpsc::Sender<Inside>,
    /// Who is helped now, and how much.
    pub(crate) usage: Usage,
    /// Joins calls with those of other hosts.
    pub(crate) chains: Chains,
    /// Where models are opened for whole requests.
    pub(crate) shelf: Shelf,
    /// What marks of the histories of whole requests are made with. A new one with new terms, under
    /// which nothing is kept of what was before.
    pub(crate) marks_key: Sensitive<[u8; 32]>,
}

/// Models that were lent; shared by the calls under the same terms.
#[derive(Debug, Clone, Default)]
pub(crate) struct Served {
    // Guards a set of digests; never held across an await.
    models: Arc<Mutex<BTreeSet<ModelDigest>>>,
}

impl Served {
    pub(crate) fn note(&self, model: ModelDigest) {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).insert(model);
    }

    /// All of them.
    pub(crate) fn all(&self) -> BTreeSet<ModelDigest> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves one call of an admitted device; `own` where it is the owner's own besides, `copier` where it may
/// have models.
pub(crate) async fn lend(
    (admitted, own, copier): (Admitted, Option<OwnGuest>, Result<Copier, WireError>),
    mut call: Call<Message>,
    terms: Terms,
    inside: &mpsc::Sender<Inside>,
) {
    let outcome = tokio::select! {
        biased;
        () = terms.revoked.cancelled() => Err(error(ErrorCode::TrustDenied, "")),
        () = terms.until.cancelled() => Err(error(ErrorCode::Draining, "")),
        outcome = open(&admitted, &mut call, &terms) => outcome,
    };
    match outcome {
        Ok(Begun::Stream { worker, open, meter, _stream }) => {
            let (member, arrival) = terms.chains.member(&admitted, open);
            let (ends, tokens) = (Ends { member, arrival }, (&terms.until, &terms.revoked));
            passage::pass(call, worker, ends, tokens, |head| meter.see(head)).await;
        }
        Ok(Begun::Relay(ticket)) => {
            forwarding::present(admitted.peer(), &ticket, call, inside).await;
        }
        Ok(Begun::Whole(ask)) => match own {
            Some(own) => hosting::host(own, &ask, call, &terms).await,
            None => {
                let peer = admitted.peer();
                tracing::info!(?peer, "a whole request was refused: that device is not own here");
                refuse(call, error(ErrorCode::TrustDenied, "")).await;
            }
        },
        Ok(Begun::Copy(want)) => giving::give(copier, want, call).await,
        Ok(Begun::Nothing) => {}
        Err(error) => {
            tracing::info!(peer = ?admitted.peer(), code = %error.code, "a call was refused");
            refuse(call, error).await;
        }
    }
}

/// Answers a call that cannot be served; the code and the sentence are all that leaves.
pub(crate) async fn refuse(mut call: Call<Message>, error: WireError) {
    let code = error.code;
    // The other side may have left already, or take nothing; then there is nobody to tell.
    let _ = tokio::time::timeout(OPENING_LIMIT, call.send(Message::Error(error))).await;
    call.close(Some(code));
}

/// What a call begins with; `None` where the other side has left. An error is for the other side: it has
/// said nothing for too long.
pub(crate) async fn opening(call: &mut Call<Message>) -> Result<Option<Message>, WireError> {
    match tokio::time::timeout(OPENING_LIMIT, call.recv()).await {
        Ok(message) => Ok(message.ok()),
        Err(_) => Err(error(ErrorCode::PipelineStalled, "nothing was asked on this call in time")),
    }
}

/// What a call of an admitted device begins with.
enum Begun {
    /// A stream of its own.
    Stream {
        worker: Call<WorkerMessage>,
        open: Open,
        meter: Box<Meter>,
        _stream: (tokio::sync::OwnedSemaphorePermit, Presence),
    },
    /// Steps of another device's stream; the gate is asked about that one.
    Relay(Box<nook_wire::Ticket>),
    /// A whole request, of which no id has come yet.
    Whole(Box<WholeAsk>),
    /// A model's file, which another gate decides on.
    Copy(Want),
    /// The other side has left.
    Nothing,
}

/// Reads OPEN and finds a worker that holds the layers.
async fn open(
    admitted: &Admitted,
    call: &mut Call<Message>,
    terms: &Terms,
) -> Result<Begun, WireError> {
    let Some(message) = opening(call).await? else {
        return Ok(Begun::Nothing);
    };
    let open = match message {
        Message::Open(open) => open,
        Message::Relay(ticket) => return Ok(Begun::Relay(ticket)),
        Message::WholeAsk(ask) => return Ok(Begun::Whole(ask)),
        Message::Want(want) => return Ok(Begun::Copy(want)),
        _ => return Err(error(ErrorCode::BadRequest, "a call begins with OPEN")),
    };
    let lent = find(&terms.lent, &open)?;
    // The stream is taken before the layers are loaded: whoever is over the limit costs nothing.
    let stream = terms
        .streams
        .clone()
        .try_acquire_owned()
        .map_err(|_| error(ErrorCode::Busy, ErrorCode::Busy.sentence()))?;
    let stream = (stream, terms.usage.enter(admitted.peer()));
    tracing::info!(
        peer = ?admitted.peer(),
        model = ?open.model,
        layers = %open.layers,
        "lending layers"
    );
    terms.served.note(lent.model);
    let worker = terms
        .workers
        .get(lent.model, &lent.name)
        .await
        .map_err(|problem| error(problem.code, &problem.sentence))?;
    // Only the file is named here: the worker loads the layers at OPEN, under the guests' cap.
    let part = ModelPart::inner(LayerRange::with_len(open.layers.start(), 0));
    lent.path
        .with(async |file| worker.load(&file, lent.model, part).await)
        .await
        .map_err(worker_error)?;
    // Under the name that the gate has proved, so that what is kept for it is kept for nobody else.
    let peer = admitted.peer();
    let mut worker_call = worker.open_call_for(peer).await.map_err(worker_error)?;
    let meter =
        Meter::new((peer, terms.usage.clone()), open.model, open.layers, terms.house.clone());
    let meter = Box::new(meter);
    let opening = WorkerMessage::from_peer(Message::Open(open.clone()));
    worker_call.send(opening).await.map_err(|_| error(ErrorCode::WorkerCrashed, ""))?;
    Ok(Begun::Stream { worker: worker_call, open, meter, _stream: stream })
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

pub(crate) fn worker_error(problem: nook_shard::WorkerError) -> WireError {
    match problem {
        nook_shard::WorkerError::Refused { code, sentence } => WireError { code, sentence },
        other => error(ErrorCode::WorkerCrashed, &other.to_string()),
    }
}

/// The usual sentence where `sentence` is empty.
pub(crate) fn error(code: ErrorCode, sentence: &str) -> WireError {
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
            resume: None,
        }
    }

    fn lent() -> Vec<Lent> {
        vec![Lent {
            model: ModelDigest([1; 32]),
            name: "ember".to_owned(),
            path: FilePlace::new(std::path::PathBuf::new()),
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
