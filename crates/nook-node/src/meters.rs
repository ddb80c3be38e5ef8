//! Numbers for `/metrics`: how much moves and waits, by the names of the design.
//!
//! Counters and histograms of replies are recorded where they happen; what has a value at every
//! moment is looked at once a second. Labels are ids, models and layers: nothing of what is asked
//! or said.

use std::collections::{BTreeMap, BTreeSet};

use nook_base::PeerId;
use nook_link::Link;

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

/// How things stand now.
#[derive(Debug)]
pub(crate) struct Figures {
    /// What waits: passes in the workers, and replies for a place.
    pub(crate) waiting: u64,
    /// Streams of other devices.
    pub(crate) guests: u16,
    /// Replies of this device.
    pub(crate) replies: usize,
    /// Bytes of memory by model.
    pub(crate) memory: BTreeMap<String, u64>,
    /// The links that stand.
    pub(crate) links: Vec<Link>,
}

impl Meters {
    /// Shows how things stand.
    pub(crate) fn show(&mut self, now: Figures) {
        metrics::gauge!(QUEUE).set(now.waiting as f64);
        metrics::gauge!(STREAMS, "of" => "guests").set(f64::from(now.guests));
        metrics::gauge!(STREAMS, "of" => "replies").set(now.replies as f64);
        self.show_memory(now.memory);
        self.show_links(&now.links);
    }

    fn show_memory(&mut self, now: BTreeMap<String, u64>) {
        for gone in self.models.iter().filter(|model| !now.contains_key(*model)) {
            metrics::gauge!(MEMORY, "model" => gone.clone()).set(0.0);
        }
        for (model, bytes) in &now {
            metrics::gauge!(MEMORY, "model" => model.clone()).set(*bytes as f64);
        }
        self.models = now.into_keys().collect();
    }

    fn show_links(&mut self, links: &[Link]) {
        let mut counted = BTreeMap::new();
        for link in links {
            let meter = link.mux().bytes();
            let now = [meter.read(), meter.written()];
            let before = self.links.get(&link.number()).copied().unwrap_or_default();
            for (at, direction) in ["in", "out"].into_iter().enumerate() {
                let more = now[at].saturating_sub(before[at]);
                count_bytes(link.peer(), direction, more);
            }
            counted.insert(link.number(), now);
        }
        self.links = counted;
    }
}

fn count_bytes(peer: PeerId, direction: &'static str, bytes: u64) {
    let peer = peer.short();
    metrics::counter!(BYTES, "peer" => peer, "direction" => direction).increment(bytes);
}
