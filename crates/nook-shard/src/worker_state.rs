//! What every call of a worker shares.

use nook_wire::{GpuHolding, LocalMessage};
use tokio_util::sync::CancellationToken;

use crate::account::Account;
use crate::compute::Compute;

/// What every call of this worker shares.
#[derive(Debug, Clone)]
pub(crate) struct WorkerState {
    pub(crate) compute: Compute,
    pub(crate) account: Account,
    /// Cancelled when the GPU is gone: nothing can be computed in this process any more.
    pub(crate) gpu_lost: CancellationToken,
    /// Cancelled when the compute thread has panicked: the same.
    pub(crate) broken: CancellationToken,
}

impl WorkerState {
    /// Frees all that is in memory and not in use.
    pub(crate) async fn release_all(&self) {
        self.account.free_parked();
        self.compute.release_all().await;
    }

    /// What this worker holds and does now.
    pub(crate) async fn status(&self) -> LocalMessage {
        let holding = self.compute.holding().await;
        let balance = self.account.balance();
        LocalMessage::StatusReport {
            held: holding.layers,
            embedding: holding.embedding,
            head: holding.head,
            sessions: balance.sessions,
            guest_sessions: balance.guests,
            weight_bytes: balance.weights,
            cache_bytes: balance.caches,
            steps_done: holding.steps_done,
            passes: holding.passes,
            parked: balance.parked,
            parked_bytes: balance.parked_bytes,
            lent_bytes: balance.lent,
            backend: holding.backend,
            on_gpu: GpuHolding {
                lent_bytes: balance.lent_on_gpu,
                kept_bytes: balance.kept_on_gpu,
                ..holding.on_gpu
            },
        }
    }
}
