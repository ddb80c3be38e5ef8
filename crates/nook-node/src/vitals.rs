//! What is under way in this node, as numbers: almost all of them are 0 again once nobody asks for
//! anything.
//!
//! Front ends ask the node's event loop ([`nook_api::NodeHandle::vitals`]); the loop counts what it
//! owns and lets a task ask the workers. `cargo xtask soak` looks for leaks with it, and so can an
//! owner whose fan never stops.

use std::time::Duration;

use nook_api::{Vitals, WorkerVitals};
use nook_base::ModelDigest;
use nook_resources::catalogue::Entry;

use crate::state::State;
use nook_api::Answer;

/// Longest wait for one worker's own numbers; one that is loading says nothing and is left out.
const WORKER_LIMIT: Duration = Duration::from_secs(1);

impl State {
    /// Counts, and answers once the workers have too.
    pub(crate) fn count_vitals(&self, answer: Answer<Vitals>) {
        let mut vitals = Vitals {
            tasks: self.tasks.running(),
            replies: self.replies_running(),
            replies_waiting: self.requester.replies_waiting(),
            streams: self.host.streams(),
            workers: Vec::new(),
        };
        let named = |entry: &Entry| (entry.digest(), entry.listed.name.clone());
        let models: Vec<(ModelDigest, String)> = self.library.entries().iter().map(named).collect();
        let workers = self.workers.clone();
        self.tasks.spawn_until_cancelled("vitals", async move {
            for (digest, model) in models {
                let Some(worker) = workers.find(digest).await else { continue };
                let asked = tokio::time::timeout(WORKER_LIMIT, worker.status()).await;
                let Ok(Ok(status)) = asked else { continue };
                vitals.workers.push(WorkerVitals {
                    pid: worker.pid(),
                    model,
                    sessions: status.sessions,
                    guest_sessions: status.guest_sessions,
                    parked: status.parked,
                    weight_bytes: status.weight_bytes,
                    cache_bytes: status.cache_bytes,
                    parked_bytes: status.parked_bytes,
                    backend: status.backend.to_string(),
                });
            }
            // Nobody waits any more: then nobody wants to know.
            let _ = answer.send(Ok(vitals));
        });
    }
}
