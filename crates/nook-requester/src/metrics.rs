//! Counters and histograms of replies for `/metrics`, recorded where they happen.
//!
//! Labels are ids, models and layers: nothing of what is asked or said.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use nook_pipeline::{HopVisit, Measure};
use nook_plan::Place;

const CORRUPTION: &str = "distributed_inference_shard_corruption_detected_total";
const HEDGES: &str = "distributed_inference_hedges_total";
const LATENCY: &str = "distributed_inference_shard_latency_ms";
const SPOT_CHECKS: &str = "distributed_inference_spot_checks_total";

/// Layer ranges that have a series of their own; the others share one. A large model can be cut in
/// thousands of ways, and whoever reads keeps every series for ever.
const SHARDS_MAX: usize = 128;

/// The label of all those beyond [`SHARDS_MAX`].
const OTHER_SHARDS: &str = "other";

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

/// What a walk computed twice: beside devices that were late or slow, by whether the other one
/// stayed; and to check, by whether the answers agreed.
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
