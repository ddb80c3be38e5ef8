//! What is in this device's memory, as its workers say when they are asked about once a second.
//!
//! Adverts, placement and the meters read it, and what each worker may lend is counted from it; a
//! worker decides by its own account within that. Two that begin to lend within the same second can
//! be over the cap together until one of them ends. A worker that does not answer in time keeps
//! what it last said, and is not asked for a while: it may be loading, or hang.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nook_base::{DeviceBytes, LayerRange, ModelDigest};
use nook_shard::{WorkerLimits, WorkerStatus};

use nook_resources::workers::MemoryShares;

/// Where the machine has less memory left than this, its owner needs it more than guests do: nobody
/// is lent more, what is kept of conversations goes, and leases that are not in use end.
pub(crate) const OWNERS_MEMORY: u64 = 256 << 20;

/// Parts of the cap on lending in which free memory is told, so that what is told is kept and
/// hardly ever changes.
pub(crate) const MEMORY_GRAINS: u64 = 64;

/// How long no worker is asked after one has not answered: each question that it cannot take yet
/// waits in its socket.
const REST: Duration = Duration::from_secs(10);

/// What the workers said.
#[derive(Debug, Default)]
pub struct Residency {
    models: BTreeMap<ModelDigest, WorkerStatus>,
    /// Bytes that programs could still take, as the system counts; absent before the first answer.
    available: Option<u64>,
    /// Bytes of a card's own memory that each model may take, beside the computer's.
    cards: BTreeMap<ModelDigest, u64>,
    /// Whether it matters what else is done with a card.
    pub(crate) watches_cards: bool,
    /// What the workers were told last of what they may take.
    pub(crate) told: Option<(WorkerLimits, MemoryShares)>,
    is_asking: bool,
    rests_until: Option<Instant>,
}

/// One round of answers.
#[derive(Debug)]
pub struct Surveyed {
    /// Every worker that runs; `None` for one that did not answer.
    pub(crate) models: Vec<(ModelDigest, Option<WorkerStatus>)>,
    /// See [`Residency::available`].
    pub(crate) available: u64,
    /// See [`Residency::cards`].
    pub(crate) cards: BTreeMap<ModelDigest, u64>,
    /// See [`Residency::watches_cards`].
    pub(crate) watches_cards: bool,
}

impl Residency {
    /// The longest stretch of `within` that is in memory; empty at its start when none is.
    pub(crate) fn held(&self, model: ModelDigest, within: LayerRange) -> LayerRange {
        let held = self.models.get(&model).map_or(&[][..], |status| &status.held);
        let parts = held.iter().map(|held| within.intersection(*held));
        let none = LayerRange::with_len(within.start(), 0);
        // Of equals the first, so that an advert does not change by itself.
        parts.fold(none, |best, part| if part.len() > best.len() { part } else { best })
    }

    /// Whether a worker of `model` runs, and holds its file open.
    pub(crate) fn runs(&self, model: ModelDigest) -> bool {
        self.models.contains_key(&model)
    }

    /// Whether a conversation is held by the worker of `model`, and one of another device.
    pub(crate) fn conversations(&self, model: ModelDigest) -> (bool, bool) {
        let status = self.models.get(&model);
        status.map_or((false, false), |status| (status.sessions > 0, status.guest_sessions > 0))
    }

    /// Bytes that other devices take here, with all models but `but`.
    pub(crate) fn lent_bytes(&self, but: Option<ModelDigest>) -> DeviceBytes {
        let counted = self.models.iter().filter(|(model, _)| Some(**model) != but);
        counted.map(|(_, status)| lent(status)).sum()
    }

    /// Bytes that programs could still take; everything while nobody has said.
    pub fn available(&self) -> u64 {
        self.available.unwrap_or(u64::MAX)
    }

    /// Bytes that could be lent beside what is lent, as far as the machine has them: what is kept
    /// of conversations makes room.
    pub(crate) fn room(&self) -> u64 {
        let kept = self.models.values().map(|status| status.parked_bytes);
        kept.fold(self.available(), u64::saturating_add).saturating_sub(OWNERS_MEMORY)
    }

    /// Bytes of a card's own memory that guests may have of `model`, where they may have `cap` bytes
    /// of it in all. What lies there is not lent of the computer's memory.
    pub(crate) fn card_bytes(&self, model: ModelDigest, cap: DeviceBytes) -> u64 {
        self.cards.get(&model).copied().unwrap_or(0).min(cap.gpu)
    }

    /// Bytes of a card's own memory that guests could still have of `model`.
    pub(crate) fn card_free(&self, model: ModelDigest, cap: DeviceBytes) -> u64 {
        self.free_of(self.cards.get(&model).copied().unwrap_or(0), cap)
    }

    /// The most of [`Self::card_free`] of any model.
    pub(crate) fn cards_free(&self, cap: DeviceBytes) -> u64 {
        self.free_of(self.cards.values().copied().max().unwrap_or(0), cap)
    }

    /// What of `bytes` on a card is free, and left of `cap`.
    fn free_of(&self, bytes: u64, cap: DeviceBytes) -> u64 {
        let left = cap.minus(self.lent_bytes(None)).gpu;
        bytes.saturating_sub(self.card_used()).min(left)
    }

    /// Bytes that all workers have on a card.
    fn card_used(&self) -> u64 {
        self.models.values().map(|status| status.on_gpu.bytes).fold(0, u64::saturating_add)
    }

    /// What each worker may have lent so that all together stay below `cap` and the machine has
    /// what it needs. What a card has free its worker knows itself.
    pub(crate) fn shares(&self, cap: DeviceBytes) -> MemoryShares {
        let grain = (cap.memory / MEMORY_GRAINS).max(1);
        let room = self.room() / grain * grain;
        let all = self.lent_bytes(None);
        let share = |own: DeviceBytes| {
            let left = cap.minus(all.minus(own));
            // Without a cap nothing is told anew when something is lent.
            let gpu = if cap.gpu == u64::MAX { u64::MAX } else { left.gpu };
            DeviceBytes { memory: left.memory.min(own.memory.saturating_add(room)), gpu }
        };
        let of = self.models.iter().map(|(model, status)| (*model, share(lent(status))));
        MemoryShares { of: of.collect(), rest: share(DeviceBytes::default()) }
    }

    /// What each worker said last.
    pub fn all(&self) -> impl Iterator<Item = (ModelDigest, &WorkerStatus)> {
        self.models.iter().map(|(model, status)| (*model, status))
    }

    /// Whether the workers are to be asked now; from here on they are.
    pub(crate) fn begin_survey(&mut self, now: Instant) -> bool {
        let rests = self.rests_until.is_some_and(|until| until > now);
        !rests && !std::mem::replace(&mut self.is_asking, true)
    }

    /// Takes in what they said.
    pub(crate) fn take(&mut self, surveyed: Surveyed, now: Instant) {
        self.is_asking = false;
        self.available = Some(surveyed.available);
        self.cards = surveyed.cards;
        self.watches_cards = surveyed.watches_cards;
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

/// What of a worker's memory other devices take, as the two caps count it.
fn lent(status: &WorkerStatus) -> DeviceBytes {
    let gpu = if status.on_gpu.shares_memory { 0 } else { status.on_gpu.lent_bytes };
    DeviceBytes { memory: status.lent_bytes, gpu }
}

#[cfg(test)]
mod tests {
    use nook_base::clock;

    use super::*;

    const MODEL: ModelDigest = ModelDigest([1; 32]);

    fn status(held: &[LayerRange], lent_bytes: u64) -> WorkerStatus {
        WorkerStatus {
            held: held.to_vec(),
            sessions: 1,
            lent_bytes,
            backend: nook_base::Backend::Native,
            ..WorkerStatus::default()
        }
    }

    fn surveyed(models: Vec<(ModelDigest, Option<WorkerStatus>)>) -> Surveyed {
        Surveyed { models, available: 7, cards: BTreeMap::new(), watches_cards: false }
    }

    #[test]
    fn the_longest_stretch_of_what_is_offered_is_said_to_be_held() {
        let (mut residency, now) = (Residency::default(), clock::now());
        let range = LayerRange::with_len;
        assert_eq!(residency.held(MODEL, range(2, 6)), range(2, 0));
        let held = [range(0, 4), range(5, 9)];
        residency.take(surveyed(vec![(MODEL, Some(status(&held, 5)))]), now);
        assert_eq!(residency.held(MODEL, range(2, 6)), range(5, 3));
        assert_eq!(residency.held(MODEL, range(1, 5)), range(1, 3));
        assert_eq!(residency.held(ModelDigest([2; 32]), range(1, 5)), range(1, 0));
        let lent = |but| residency.lent_bytes(but);
        let memory = DeviceBytes::in_memory;
        assert_eq!((lent(None), lent(Some(MODEL))), (memory(5), memory(0)));
        assert_eq!(residency.conversations(MODEL), (true, false));
    }

    #[test]
    fn the_cap_is_one_for_all_workers_and_the_machine_keeps_its_reserve() {
        let (mut residency, now) = (Residency::default(), clock::now());
        let other = ModelDigest([2; 32]);
        let cap = DeviceBytes { memory: 64_000, gpu: u64::MAX };
        let share = |memory| DeviceBytes { memory, gpu: u64::MAX };
        assert_eq!(residency.shares(cap).rest, cap);
        let models = || {
            let kept = WorkerStatus { parked_bytes: 5_000, ..status(&[], 10_000) };
            vec![(MODEL, Some(kept)), (other, Some(status(&[], 20_000)))]
        };
        let shares = |of: [u64; 2], rest| MemoryShares {
            of: BTreeMap::from([(MODEL, share(of[0])), (other, share(of[1]))]),
            rest: share(rest),
        };
        for (available, expected) in [
            (u64::MAX, shares([44_000, 54_000], 34_000)),
            // What is kept makes room for whoever comes.
            (OWNERS_MEMORY + 20_500, shares([35_000, 45_000], 25_000)),
            (OWNERS_MEMORY - 4_000, shares([11_000, 21_000], 1_000)),
            (0, shares([10_000, 20_000], 0)),
        ] {
            residency.take(
                Surveyed {
                    models: models(),
                    available,
                    cards: BTreeMap::new(),
                    watches_cards: false,
                },
                now,
            );
            assert_eq!(residency.shares(cap), expected, "{available}");
        }
    }

    #[test]
    fn the_cap_on_graphics_memory_is_one_for_all_workers_and_counts_no_shared_memory() {
        let (mut residency, now) = (Residency::default(), clock::now());
        let [first, second, shared] = [1, 2, 3].map(|number| ModelDigest([number; 32]));
        let with_gpu = |lent_bytes, shares_memory| WorkerStatus {
            on_gpu: nook_wire::GpuHolding {
                bytes: 900,
                lent_bytes,
                shares_memory,
                ..Default::default()
            },
            ..status(&[], 0)
        };
        let models = vec![
            (first, Some(with_gpu(300, false))),
            (second, Some(with_gpu(100, false))),
            // It computes from the memory of the computer, where it is counted.
            (shared, Some(with_gpu(500, true))),
        ];
        let cards = BTreeMap::from([(first, 5_000)]);
        residency.take(Surveyed { cards, ..surveyed(models) }, now);
        let cap = |gpu| DeviceBytes { memory: 64_000, gpu };
        let shares = residency.shares(cap(1_000));
        let of = |model| shares.of[&model].gpu;
        assert_eq!((of(first), of(second), of(shared), shares.rest.gpu), (900, 700, 600, 600));
        assert_eq!(residency.shares(cap(u64::MAX)).of[&first].gpu, u64::MAX);
        // Of a card with 5000 bytes 2700 are in use.
        let free = |gpu| residency.card_free(first, cap(gpu));
        assert_eq!((free(u64::MAX), free(1_000), free(400), free(0)), (2_300, 600, 0, 0));
        assert_eq!(
            (residency.cards_free(cap(500)), residency.card_free(second, cap(500))),
            (100, 0)
        );
        let all = |gpu| residency.card_bytes(first, cap(gpu));
        assert_eq!((all(u64::MAX), all(500)), (5_000, 500));
    }

    #[test]
    fn a_worker_that_says_nothing_keeps_what_it_said_and_one_that_is_gone_holds_nothing() {
        let (mut residency, now) = (Residency::default(), clock::now());
        let all = LayerRange::all(4);
        residency.take(surveyed(vec![(MODEL, Some(status(&[all], 0)))]), now);
        residency.take(surveyed(vec![(MODEL, None)]), now);
        assert_eq!(residency.held(MODEL, all), all);
        assert!(residency.rests_until.is_some_and(|until| until > now));
        residency.take(surveyed(Vec::new()), now);
        assert!(residency.held(MODEL, all).is_empty());
    }
}
