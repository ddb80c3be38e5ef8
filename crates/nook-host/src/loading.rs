//! Bringing the layers of a lease into memory, and freeing those of ended ones.

use nook_base::{ErrorCode, LayerRange, ModelDigest};
use nook_shard::{Worker, WorkerError};
use nook_wire::{PlaceState, PlacementRequest};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::events::HostEvent;
use super::leases::{LeaseJob, Progress};
use nook_resources::workers::Workers;

/// Steps in which the progress of a loading is told.
const PERCENT_STEP: u8 = 10;

/// The task of one lease.
pub(crate) struct Loading {
    pub(crate) job: LeaseJob,
    pub(crate) workers: Workers,
    pub(crate) events: mpsc::Sender<HostEvent>,
}

impl Loading {
    /// Frees what is in the way, loads, and reports, unless the lease is over before.
    pub(crate) async fn run(self, cut: CancellationToken) {
        let loaded = async {
            let state = match self.load().await {
                Ok(()) => PlaceState::Held,
                Err(code) => PlaceState::Refused { code },
            };
            self.tell(state).await;
        };
        tokio::select! {
            biased;
            () = cut.cancelled() => {
                // Some of it may not be freed yet; what is leased by then is left out.
                for range in &self.job.free_first {
                    owe(self.job.wish.model, *range, &self.events).await;
                }
            }
            () = loaded => {}
        }
    }

    async fn tell(&self, state: PlaceState) {
        let LeaseJob { admitted, wish, number, .. } = &self.job;
        let (peer, model, number) = (admitted.peer(), wish.model, *number);
        let progress = Progress { peer, model, number, state };
        // A node that is leaving holds nothing any more.
        let _ = self.events.send(HostEvent::Placing(progress)).await;
    }

    async fn load(&self) -> Result<(), ErrorCode> {
        let LeaseJob { admitted, wish, name, path, free_first, .. } = &self.job;
        let PlacementRequest { model, layers } = *wish;
        let worker = self.workers.get(model, name).await.map_err(|error| error.code)?;
        // Where a conversation is held nothing is freed, and the worker says below what fits.
        free_lent(model, free_first, &worker, &self.events).await;
        let peer = admitted.peer();
        let mut told = None;
        for (done, layer) in layers.iter().enumerate() {
            let percent = u64::try_from(done).unwrap_or(0) * 100 / u64::from(layers.len().max(1));
            let percent = u8::try_from(percent).unwrap_or(100);
            // In few steps: small layers load fast.
            let step = percent / PERCENT_STEP * PERCENT_STEP;
            if told != Some(step) {
                told = Some(step);
                self.tell(PlaceState::Loading { percent: step }).await;
            }
            let one = LayerRange::with_len(layer, 1);
            path.with(async |file| worker.load_for(peer, &file, model, one).await).await.map_err(
                |error| match error {
                    WorkerError::Refused { code, .. } => code,
                    _ => ErrorCode::WorkerCrashed,
                },
            )?;
        }
        Ok(())
    }
}

/// Frees what other devices brought of `ranges`. What is in use is owed again, for the next look.
async fn free_lent(
    model: ModelDigest,
    ranges: &[LayerRange],
    worker: &Worker,
    events: &mpsc::Sender<HostEvent>,
) {
    for range in ranges {
        if worker.release(*range).await.is_err() {
            owe(model, *range, events).await;
        }
    }
}

async fn owe(model: ModelDigest, layers: LayerRange, events: &mpsc::Sender<HostEvent>) {
    // A node that is leaving ends the worker.
    let _ = events.send(HostEvent::Owed { model, layers }).await;
}

/// Frees layers that were given back, until `until` says that somebody wants some of them; it is
/// cancelled too once they are free.
pub(crate) async fn give_back(
    (model, ranges): (ModelDigest, Vec<LayerRange>),
    until: CancellationToken,
    workers: Workers,
    events: mpsc::Sender<HostEvent>,
) {
    let given_back = async {
        if let Some(worker) = workers.find(model).await {
            free_lent(model, &ranges, &worker, &events).await;
        }
        until.cancel();
    };
    tokio::select! {
        biased;
        // Whoever has asked frees first what is not among its layers.
        () = until.cancelled() => {}
        () = given_back => {}
    }
}
