//! Numbers for `/metrics`: how much moves and waits, by the names of the design.
//!
//! Counters and histograms of replies are recorded where they happen; what has a value at every moment
//! is looked at once a second. Labels are ids, models and layers: nothing of what is asked or said.

use std::collections::{BTreeMap, BTreeSet};

use nook_base::PeerId;

use crate::state::State;

const BYTES: &str = "distributed_inference_link_bytes_total";
const MEMORY: &str = "distributed_inference_model_memory_bytes";
const QUEUE: &str = "distributed_inference_queue_depth";
const STREAMS: &str = "distributed_inference_streams";

/// What was shown last, where the next look needs it.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    /// Bytes of each link, by its number, as far as they are counted; in and out.
    links: BTreeMap<u64, [u64; 2]>,
    /// Models whose memory was shown: one that is gone is shown with none.
    models: BTreeSet<String>,
}

impl State {
    /// Shows how things stand.
    pub(crate) fn show_meters(&mut self) {
        let waiting: u64 =
            self.host.residency().all().map(|(_, status)| u64::from(status.passes.waiting)).sum();
        let waits = waiting.saturating_add(self.requester.replies_waiting() as u64);
        metrics::gauge!(QUEUE).set(waits as f64);
        metrics::gauge!(STREAMS, "of" => "guests").set(f64::from(self.host.streams()));
        metrics::gauge!(STREAMS, "of" => "replies").set(self.replies_running() as f64);
        self.show_memory();
        self.show_links();
    }

    fn show_memory(&mut self) {
        let now: BTreeMap<String, u64> = self
            .host
            .residency()
            .all()
            .map(|(model, it)| {
                let bytes = it.weight_bytes.saturating_add(it.cache_bytes);
                (self.model_name(model), bytes.saturating_add(it.parked_bytes))
            })
            .collect();
        for gone in self.meters.models.iter().filter(|model| !now.contains_key(*model)) {
            metrics::gauge!(MEMORY, "model" => gone.clone()).set(0.0);
        }
        for (model, bytes) in &now {
            metrics::gauge!(MEMORY, "model" => model.clone()).set(*bytes as f64);
        }
        self.meters.models = now.into_keys().collect();
    }

    fn show_links(&mut self) {
        let links = self.links.all();
        let mut counted = BTreeMap::new();
        for link in links {
            let meter = link.mux().bytes();
            let now = [meter.read(), meter.written()];
            let before = self.meters.links.get(&link.number()).copied().unwrap_or_default();
            for (at, direction) in ["in", "out"].into_iter().enumerate() {
                let more = now[at].saturating_sub(before[at]);
                count_bytes(link.peer(), direction, more);
            }
            counted.insert(link.number(), now);
        }
        self.meters.links = counted;
    }
}

fn count_bytes(peer: PeerId, direction: &'static str, bytes: u64) {
    let peer = peer.short();
    metrics::counter!(BYTES, "peer" => peer, "direction" => direction).increment(bytes);
}
