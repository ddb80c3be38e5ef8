//! The calls of a reply: to this device's own worker and to other devices.

use nook_base::{ActivationDtype, ErrorCode, ModelPart, PeerId};
use nook_link::Links;
use nook_pipeline::{AttemptId, Event};
use nook_plan::Place;
use nook_wire::{LocalMessage, Message, ResumePoint};

use crate::reply::generation::Generation;
use crate::reply::segment_call::{self, CallEvent, SegmentCall};
use nook_resources::adverts::barred;
use nook_resources::open_models::OpenModel;
use nook_resources::workers::Workers;

impl Generation {
    /// Starts the task that holds a new call.
    pub(super) fn open(
        &mut self,
        attempt: AttemptId,
        place: Place,
        part: ModelPart,
        (dtype, positions_max, resume): (ActivationDtype, u32, Option<ResumePoint>),
    ) {
        let events = self.hear.clone();
        let (call, task) = match place {
            Place::Local => {
                let (orders, inbox) = segment_call::orders();
                let opening = LocalMessage::OpenLocal {
                    session: self.session,
                    part,
                    dtype,
                    positions_max,
                    resume,
                };
                let (workers, model) = (self.workers.clone(), self.model.clone());
                let task = self.tasks.spawn_until_cancelled("local-call", async move {
                    match local_call(&workers, &model, part).await {
                        Ok(call) => {
                            segment_call::hold(attempt, call, opening.into(), inbox, events).await
                        }
                        Err((code, sentence)) => {
                            let event = Event::Failed { attempt, code, sentence };
                            let _ = events.send(CallEvent::Pipeline(event)).await;
                        }
                    }
                });
                (SegmentCall::Local { orders, head: part.head }, task)
            }
            Place::Peer(peer) => {
                let (orders, inbox) = segment_call::orders();
                let opening = self.opening(attempt, (peer, part), (dtype, positions_max, resume));
                let (links, book) = (self.links.clone(), self.sink.book.clone());
                let task = self.tasks.spawn_until_cancelled("peer-call", async move {
                    let revoked = barred(book, peer);
                    let held = async {
                        match peer_call(&links, peer).await {
                            Some(call) => {
                                segment_call::hold(attempt, call, opening, inbox, events.clone())
                                    .await;
                                None
                            }
                            None => Some(Event::Lost { attempt }),
                        }
                    };
                    let last = tokio::select! {
                        last = held => last,
                        () = revoked => Some(no_longer_trusted(attempt)),
                    };
                    if let Some(event) = last {
                        let _ = events.send(CallEvent::Pipeline(event)).await;
                    }
                });
                (SegmentCall::Peer(orders), task)
            }
        };
        self.handovers.opened(attempt, place, part);
        self.calls.insert(attempt, (call, task));
    }
}

/// A call to our own worker, which holds `part` by then.
pub(crate) async fn local_call(
    workers: &Workers,
    model: &OpenModel,
    part: ModelPart,
) -> Result<nook_mux::Call<nook_wire::WorkerMessage>, (ErrorCode, String)> {
    let worker = workers
        .get(model.listed.digest, &model.listed.name)
        .await
        .map_err(|error| (error.code, error.sentence))?;
    let failed = |error: nook_shard::WorkerError| match error {
        nook_shard::WorkerError::Refused { code, sentence } => (code, sentence),
        other => (ErrorCode::WorkerCrashed, other.to_string()),
    };
    model
        .listed
        .path
        .with(async |file| worker.load(&file, model.listed.digest, part).await)
        .await
        .map_err(failed)?;
    worker.open_call().await.map_err(failed)
}

fn no_longer_trusted(attempt: AttemptId) -> Event {
    let code = ErrorCode::TrustDenied;
    Event::Failed { attempt, code, sentence: code.sentence().to_owned() }
}

/// A call to `peer`; `None` where it is not connected any more.
async fn peer_call(links: &Links, peer: PeerId) -> Option<nook_mux::Call<Message>> {
    links.link(peer)?.mux().open_call().await.ok()
}
