//! Numbers for `/metrics`: how much moves and waits, by the names of the design.
//!
//! Counters and histograms of replies are recorded where they happen; what has a value at every moment
//! is looked at once a second. Labels are ids, models and layers: nothing of what is asked or said.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use nook_base::PeerId;
use nook_pipeline::{HopVisit, Measure};
use nook_plan::Place;

use crate::state::State;

const BYTES: &str = "distributed_inference_link_bytes_total";
const CORRUPTION: &str = "distributed_inference_shard_corruption_detected_total";
const HEDGES: &str = "distributed_inference_hedges_total";
const LATENCY: &str = "distributed_inference_shard_latency_ms";
const MEMORY: &str = "distributed_inference_model_memory_bytes";
const QUEUE: &str = "distributed_inference_queue_depth";
const SPOT_CHECKS: &str = "distributed_inference_spot_checks_total";
const STREAMS: &str = "distributed_inference_streams";

/// Stretches of layers that have a series of their own; the others share one. A large model can be cut in
/// thousands of ways, and whoever reads keeps every series for ever.
const SHARDS_MAX: usize = 128;

/// The label of all those beyond [`SHARDS_MAX`].
const OTHER_SHARDS: &str = "other";

/// What was shown last, where the next look needs it.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    /// Bytes of each link, by its number, as far as they are counted; in and out.
    links: BTreeMap<u64, [u64; 2]>,
    /// Models whose memory was shown: one that is gone is shown with none.
    models: BTreeSet<String>,
}

/// What each decode step of other devices took, the way and the waiting there included. Shards are
/// named as in the design: `ember:1-4`.
pub(crate) fn shard_latencies<'a>(model: &str, visits: impl IntoIterator<Item = &'a HopVisit>) {
    let visits = visits.into_iter().filter(|it| it.rows == 1 && it.place != Place::Local);
    for visit in visits {
        let took = visit.compute + visit.queue + visit.wire;
        let shard = shard_label(&SHARDS, format!("{model}:{}", visit.part.layers));
        metrics::histogram!(LATENCY, "shard_id" => shard).record(took.as_secs_f64() * 1e3);
    }
}

/// The stretches that have a series, as the recorder of this process has.
// Guards a set of few names; never held across an await.
static SHARDS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Under which name a stretch is shown.
fn shard_label(known: &Mutex<BTreeSet<String>>, shard: String) -> String {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= SHARDS_MAX && !known.contains(&shard) {
        return OTHER_SHARDS.to_owned();
    }
    known.insert(shard.clone());
    shard
}

/// A device answered what cannot be right, in a reply or to a golden probe.
pub(crate) fn corruption_detected() {
    metrics::counter!(CORRUPTION).increment(1);
}

/// What a walk computed twice: beside devices that were late or slow, by whether the other one stayed;
/// and to check, by whether the answers agreed.
pub(crate) fn computed_twice(measure: &Measure) {
    let lost = measure.hedges.saturating_sub(measure.hedges_won);
    for (won, count) in [("yes", measure.hedges_won), ("no", lost)] {
        metrics::counter!(HEDGES, "won" => won).increment(u64::from(count));
    }
    let agreed = measure.spot_checks.saturating_sub(measure.contradictions);
    for (answer, count) in [("yes", agreed), ("no", measure.contradictions)] {
        metrics::counter!(SPOT_CHECKS, "agreed" => answer).increment(u64::from(count));
    }
}

impl State {
    /// Shows how things stand.
    pub(crate) fn show_meters(&mut self) {
        let waiting: u64 =
            self.host.residency().all().map(|(_, status)| u64::from(status.passes.waiting)).sum();
        let waits = waiting.saturating_add(self.waiting.len() as u64);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_beyond_the_limit_share_a_series() {
        let known = Mutex::default();
        let label = |at: usize| shard_label(&known, format!("ember:{at}-{at}"));
        for at in 0..SHARDS_MAX {
            assert_eq!(label(at), format!("ember:{at}-{at}"));
        }
        assert_eq!(label(SHARDS_MAX), OTHER_SHARDS);
        assert_eq!(label(3), "ember:3-3", "what is shown stays shown");
    }
}
