//! The calls of a reply: to this device's own worker and to other devices.

use std::time::Duration;

use nook_base::{ActivationDtype, ErrorCode, ModelPart, PeerId};
use nook_link::Links;
use nook_pipeline::{AttemptId, Event};
use nook_plan::Place;
use nook_shard::{Worker, WorkerError};
use nook_wire::{LocalMessage, Message, ResumePoint};
use tokio::time::timeout;

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

/// How long a worker that can do nothing more is waited for; it leaves within two seconds, and is
/// killed then.
const WORKER_LEAVES: Duration = Duration::from_secs(5);

/// A call to our own worker, which holds `part` by then. One whose GPU was lost may be there still
/// for a moment: the next one is asked then.
pub(crate) async fn local_call(
    workers: &Workers,
    model: &OpenModel,
    part: ModelPart,
) -> Result<nook_mux::Call<nook_wire::WorkerMessage>, (ErrorCode, String)> {
    let first = worker_of(workers, model).await?;
    let call = match call_of(&first, model, part).await {
        Err(WorkerError::Gone | WorkerError::Refused { code: ErrorCode::GpuLost, .. }) => {
            // Where it does not go, asking it again says why.
            let _ = timeout(WORKER_LEAVES, first.ended()).await;
            call_of(&worker_of(workers, model).await?, model, part).await
        }
        call => call,
    };
    call.map_err(|error| match error {
        WorkerError::Refused { code, sentence } => (code, sentence),
        other => (ErrorCode::WorkerCrashed, other.to_string()),
    })
}

async fn worker_of(workers: &Workers, model: &OpenModel) -> Result<Worker, (ErrorCode, String)> {
    let worker = workers.get(model.listed.digest, &model.listed.name).await;
    worker.map_err(|error| (error.code, error.sentence))
}

async fn call_of(
    worker: &Worker,
    model: &OpenModel,
    part: ModelPart,
) -> Result<nook_mux::Call<nook_wire::WorkerMessage>, WorkerError> {
    let digest = model.listed.digest;
    model.listed.path.with(async |file| worker.load(&file, digest, part).await).await?;
    worker.open_call().await
}

fn no_longer_trusted(attempt: AttemptId) -> Event {
    let code = ErrorCode::TrustDenied;
    Event::Failed { attempt, code, sentence: code.sentence().to_owned() }
}

/// A call to `peer`; `None` where it is not connected any more.
async fn peer_call(links: &Links, peer: PeerId) -> Option<nook_mux::Call<Message>> {
    links.link(peer)?.mux().open_call().await.ok()
}
