//! What is in this device's memory, as its workers say when they are asked about once a second.
//!
//! Owned by the house loop. Adverts, placement and the meters read it; nobody trusts it for more than
//! that, because a worker decides by its own account. A worker that does not answer in time keeps
//! what it last said, and is left in peace for a while: it may be loading, or stand still.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nook_base::{LayerRange, ModelDigest, clock};
use nook_shard::WorkerStatus;

use crate::state::{Inside, State};

/// How long no worker is asked after one has not answered: each question that it cannot take yet
/// waits in its socket.
const REST: Duration = Duration::from_secs(10);

/// What the workers said.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    models: BTreeMap<ModelDigest, WorkerStatus>,
    /// Bytes that programs could still take, as the system counts; absent before the first answer.
    available: Option<u64>,
    is_asking: bool,
    rests_until: Option<Instant>,
}

/// One round of answers.
#[derive(Debug)]
pub(crate) struct Surveyed {
    /// Every worker that runs; `None` for one that did not answer.
    pub(crate) models: Vec<(ModelDigest, Option<WorkerStatus>)>,
    /// See [`Holdings::available`].
    pub(crate) available: u64,
}

impl Holdings {
    /// The longest stretch of `within` that is in memory; empty at its start when none is.
    pub(crate) fn held(&self, model: ModelDigest, within: LayerRange) -> LayerRange {
        let held = self.models.get(&model).map_or(&[][..], |status| &status.held);
        let parts = held.iter().map(|held| within.intersection(*held));
        let none = LayerRange::with_len(within.start(), 0);
        // Of equals the first, so that an advert does not change by itself.
        parts.fold(none, |best, part| if part.len() > best.len() { part } else { best })
    }

    /// Whether a conversation is held by the worker of `model`, and one of another device.
    pub(crate) fn conversations(&self, model: ModelDigest) -> (bool, bool) {
        let status = self.models.get(&model);
        status.map_or((false, false), |status| (status.sessions > 0, status.guest_sessions > 0))
    }

    /// Bytes that other devices take here, with all models but `but`.
    pub(crate) fn lent_bytes(&self, but: Option<ModelDigest>) -> u64 {
        let counted = self.models.iter().filter(|(model, _)| Some(**model) != but);
        counted.map(|(_, status)| status.lent_bytes).fold(0, u64::saturating_add)
    }

    /// Bytes that programs could still take; everything while nobody has said.
    pub(crate) fn available(&self) -> u64 {
        self.available.unwrap_or(u64::MAX)
    }

    /// What each worker said last.
    pub(crate) fn all(&self) -> impl Iterator<Item = (ModelDigest, &WorkerStatus)> {
        self.models.iter().map(|(model, status)| (*model, status))
    }

    fn take(&mut self, surveyed: Surveyed, now: Instant) {
        self.is_asking = false;
        self.available = Some(surveyed.available);
        let mut before = std::mem::take(&mut self.models);
        for (model, status) in surveyed.models {
            if status.is_none() {
                self.rests_until = now.checked_add(REST);
            }
            if let Some(status) = status.or_else(|| before.remove(&model)) {
                self.models.insert(model, status);
            }
        }
    }
}

impl State {
    /// Asks the workers, unless that is under way.
    pub(crate) fn survey(&mut self) {
        let now = clock::now();
        let rests = self.holdings.rests_until.is_some_and(|until| until > now);
        if self.holdings.is_asking || rests {
            return;
        }
        self.holdings.is_asking = true;
        let (workers, inside) = (self.workers.clone(), self.inside.clone());
        self.tasks.spawn_until_cancelled("survey", async move {
            let models = workers.survey().await;
            let available = crate::replies::memory_free();
            // A house that is leaving asks nothing any more.
            let _ = inside.send(Inside::Surveyed(Surveyed { models, available })).await;
        });
    }

    /// Takes in what the workers said; whoever may use this device is told what has changed.
    pub(crate) fn on_surveyed(&mut self, surveyed: Surveyed) {
        let now = clock::now();
        let before = self.advert();
        self.holdings.take(surveyed, now);
        self.look_at_leases(now);
        if self.advert() != before {
            self.advertise();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: ModelDigest = ModelDigest([1; 32]);

    fn status(held: &[LayerRange], lent_bytes: u64) -> WorkerStatus {
        WorkerStatus {
            held: held.to_vec(),
            sessions: 1,
            guest_sessions: 0,
            weight_bytes: 0,
            cache_bytes: 0,
            steps_done: 0,
            passes: nook_shard::PassCounts::default(),
            parked: 0,
            parked_bytes: 0,
            lent_bytes,
        }
    }

    fn surveyed(models: Vec<(ModelDigest, Option<WorkerStatus>)>) -> Surveyed {
        Surveyed { models, available: 7 }
    }

    #[test]
    fn the_longest_stretch_of_what_is_offered_is_said_to_be_held() {
        let (mut holdings, now) = (Holdings::default(), clock::now());
        let range = LayerRange::with_len;
        assert_eq!(holdings.held(MODEL, range(2, 6)), range(2, 0));
        let held = [range(0, 4), range(5, 9)];
        holdings.take(surveyed(vec![(MODEL, Some(status(&held, 5)))]), now);
        assert_eq!(holdings.held(MODEL, range(2, 6)), range(5, 3));
        assert_eq!(holdings.held(MODEL, range(1, 5)), range(1, 3));
        assert_eq!(holdings.held(ModelDigest([2; 32]), range(1, 5)), range(1, 0));
        assert_eq!((holdings.lent_bytes(None), holdings.lent_bytes(Some(MODEL))), (5, 0));
        assert_eq!(holdings.conversations(MODEL), (true, false));
    }

    #[test]
    fn a_worker_that_says_nothing_keeps_what_it_said_and_one_that_is_gone_holds_nothing() {
        let (mut holdings, now) = (Holdings::default(), clock::now());
        let all = LayerRange::all(4);
        holdings.take(surveyed(vec![(MODEL, Some(status(&[all], 0)))]), now);
        holdings.take(surveyed(vec![(MODEL, None)]), now);
        assert_eq!(holdings.held(MODEL, all), all);
        assert!(holdings.rests_until.is_some_and(|until| until > now));
        holdings.take(surveyed(Vec::new()), now);
        assert!(holdings.held(MODEL, all).is_empty());
    }
}
