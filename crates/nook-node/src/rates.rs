//! How fast this computer and the others go through weights, for models that nobody has computed yet.
//!
//! What replies have measured of large models is believed first. Before there was one, each computer
//! measures itself a few times when nothing has gone on for a while, and tells those that may know
//! what it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nook_base::tasks::Tasks;
use nook_base::{ActivationDtype, ModelDigest, PeerId};
use nook_plan::Place;
use nook_requester::costs;
use nook_resources::adverts::AdvertBook;
use nook_resources::catalogue::Entry;
use nook_resources::estimates::Estimates;
use tokio_util::sync::CancellationToken;

/// Ticks, one a second, without anything under way after which this computer is measured, and then
/// again: whatever else runs on it makes it slower, and may be over by then. The fastest counts.
const QUIET_TICKS: [u32; 3] = [10, 60, 600];

/// Memory that must be free for it, in bytes: several times what it takes, so that nothing else is in
/// need meanwhile. A system that lets a process have little would end it.
const ROOM_BYTES: u64 = 1 << 30;

/// Bytes of weights from which on a model says something: a smaller one lies in the processor's own
/// memory, or is over before its threads are awake.
const TELLING_BYTES: u64 = 256 << 20;

/// What a whole reply has of the rate of its products alone, in percent: attention, norms and the
/// ways between them take the rest. Measured: 86, with the shape of Llama 3.2 1B in Q4_K_M on an Intel
/// Xeon with two cores (15.5 of 18.0 GB in a second; `cargo xtask bench engine --only decode
/// --threads 2 --files llama-1b-q4_k_m`, 2026-11-28).
const SHARE_PERCENT: u64 = 85;

/// Bytes of weights in a second, by place.
pub(crate) type Rates = BTreeMap<Place, u64>;

/// How fast this computer is by itself.
#[derive(Debug, Default)]
pub(crate) struct OwnRate {
    quiet: u32,
    measured: Arc<Measured>,
    /// For which measurement, and what ends it.
    running: Option<(u32, CancellationToken)>,
}

/// What was measured of it.
#[derive(Debug, Default)]
struct Measured {
    /// Bytes in a second; 0 before the first measurement.
    best: AtomicU64,
    /// How often it was measured.
    times: AtomicU32,
}

impl OwnRate {
    /// A second has passed. What is under way meanwhile goes first.
    pub(crate) fn tick(&mut self, is_busy: bool, tasks: &Tasks) {
        if is_busy {
            self.quiet = 0;
            if let Some((_, running)) = self.running.take() {
                running.cancel();
            }
            return;
        }
        self.quiet = self.quiet.saturating_add(1);
        let times = self.measured.times.load(Ordering::Relaxed);
        let is_due = QUIET_TICKS.get(times as usize).is_some_and(|ticks| self.quiet >= *ticks);
        if is_due && self.running.as_ref().is_none_or(|(of, _)| *of != times) {
            self.running = Some((times, self.measure(tasks)));
        }
    }

    fn measure(&self, tasks: &Tasks) -> CancellationToken {
        let token = tasks.token().child_token();
        let (measured, stopping) = (Arc::clone(&self.measured), token.clone());
        tasks.spawn_until_cancelled("own-rate", async move {
            let measure = move || {
                if nook_resources::memory::memory_free() < ROOM_BYTES {
                    return None;
                }
                let threads = nook_shard::threads();
                let stop = || stopping.is_cancelled();
                let rate = nook_model::reading::weights_per_second(threads, &stop);
                nook_model::heap::give_back();
                rate
            };
            if let Ok(Some(rate)) = tokio::task::spawn_blocking(measure).await {
                tracing::debug!(rate, "bytes of weights that this computer reads in a second");
                measured.best.fetch_max(rate / 100 * SHARE_PERCENT, Ordering::Relaxed);
                measured.times.fetch_add(1, Ordering::Relaxed);
            }
        });
        token
    }

    /// Bytes of weights in a second while a reply is made, once that was measured.
    pub(crate) fn get(&self) -> Option<u64> {
        Some(self.measured.best.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }
}

/// Models of this device that say something of those who compute them.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    /// Bytes of a layer of each.
    layers: BTreeMap<ModelDigest, u64>,
    /// All models that were looked at: their tensors are counted once.
    of: Vec<ModelDigest>,
}

impl Telling {
    /// Looks at the models that are here now. A mixture of experts reads a part of its weights for a
    /// token, and says nothing.
    pub(crate) fn look(&mut self, entries: &[Entry]) {
        let of: Vec<ModelDigest> = entries.iter().map(Entry::digest).collect();
        if of == self.of {
            return;
        }
        let whole = entries.iter().filter(|entry| !entry.file.is_mixture());
        let layers = whole.map(|entry| (entry, costs(&entry.file, ActivationDtype::F16)));
        let large = layers.filter(|(_, costs)| {
            costs.layer_bytes.saturating_mul(costs.layers.into()) >= TELLING_BYTES
        });
        let layers = large.map(|(entry, costs)| (entry.digest(), costs.layer_bytes)).collect();
        *self = Self { layers, of };
    }
}

/// What is known of every place, rounded so that a trembling figure changes nothing.
pub(crate) fn rates(
    own: Option<u64>,
    estimates: &Estimates,
    book: &AdvertBook,
    (telling, told): (&Telling, impl Fn(PeerId) -> Option<u64>),
) -> Rates {
    let telling = &telling.layers;
    let mut rates: Rates = BTreeMap::new();
    for (peer, heard) in &book.heard {
        for shard in &heard.advert.shards {
            let us = shard.decode_us_per_layer.map(u64::from);
            note(&mut rates, Place::Peer(*peer), telling.get(&shard.model), us.map(|us| us * 1000));
        }
    }
    for (place, model, speed) in estimates.all() {
        let slope = speed.decode.measured().map(|line| line.slope.as_nanos());
        let slope = slope.and_then(|nanos| u64::try_from(nanos).ok());
        note(&mut rates, place, telling.get(&model), slope);
    }
    let peers = book.heard.keys().map(|peer| (Place::Peer(*peer), told(*peer)));
    for (place, rate) in peers.chain([(Place::Local, own)]) {
        // What another device says may be nonsense.
        if let Some(rate) = rate.filter(|rate| *rate > 0) {
            rates.entry(place).or_insert(rate);
        }
    }
    rates.into_iter().map(|(place, rate)| (place, rounded(rate))).collect()
}

/// Takes in that a layer of so many bytes took so many nanoseconds; the fastest counts, as anything
/// else that ran meanwhile only made it slower.
fn note(rates: &mut Rates, place: Place, layer: Option<&u64>, nanos: Option<u64>) {
    let (Some(bytes), Some(nanos)) = (layer, nanos.filter(|nanos| *nanos > 0)) else { return };
    let rate = u128::from(*bytes) * 1_000_000_000 / u128::from(nanos);
    let rate = u64::try_from(rate).unwrap_or(u64::MAX);
    let known = rates.entry(place).or_default();
    *known = (*known).max(rate);
}

/// To two figures.
pub(crate) fn rounded(rate: u64) -> u64 {
    let unit = 10u64.saturating_pow(rate.checked_ilog10().unwrap_or(0).saturating_sub(1));
    rate / unit * unit
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nook_base::clock;
    use nook_plan::{Line, Speed};
    use nook_resources::adverts::Heard;
    use nook_wire::Advert;

    use super::*;

    #[test]
    fn rates_are_rounded_to_two_figures() {
        for (rate, expected) in
            [(0, 0), (7, 7), (99, 99), (123, 120), (18_765_432_100, 18_000_000_000)]
        {
            assert_eq!(rounded(rate), expected);
        }
    }

    #[test]
    fn the_fastest_of_what_a_place_has_shown_counts() {
        let mut rates = Rates::new();
        let here = Place::Local;
        note(&mut rates, here, Some(&20_000_000), Some(2_000_000));
        note(&mut rates, here, Some(&20_000_000), Some(1_000_000));
        note(&mut rates, here, Some(&20_000_000), Some(4_000_000));
        note(&mut rates, here, None, Some(1));
        note(&mut rates, here, Some(&1), Some(0));
        assert_eq!(rates, BTreeMap::from([(here, 20_000_000_000)]));
    }

    #[test]
    fn what_a_device_says_of_itself_counts_until_a_reply_has_shown_it() {
        let peer = PeerId([1; 32]);
        let advert = Advert {
            sharing: true,
            shards: Vec::new(),
            streams_free: 1,
            queue_depth: 0,
            memory_free_bytes: 1 << 30,
            fetch_bytes: 0,
        };
        let (at, life, app_version) = (clock::now(), Duration::from_secs(120), String::new());
        let heard = Heard { advert, at, life, app_version };
        let mut book = AdvertBook::default();
        book.heard.insert(peer, heard);
        let (large, small) = (ModelDigest([2; 32]), ModelDigest([3; 32]));
        let layers = BTreeMap::from([(large, 20_000_000)]);
        let telling = Telling { layers, of: vec![large, small] };
        let of = |estimates: &Estimates, told: Option<u64>| {
            let known = rates(None, estimates, &book, (&telling, |_| told));
            known.get(&Place::Peer(peer)).copied()
        };
        let mut estimates = Estimates::default();
        assert_eq!(of(&estimates, None), None);
        assert_eq!(of(&estimates, Some(0)), None, "nonsense");
        assert_eq!(of(&estimates, Some(12_345)), Some(12_000));
        let line = Line { fixed: Duration::ZERO, slope: Duration::from_millis(2) };
        let speed = Speed { decode: Some(line).into(), ..Speed::default() };
        estimates.restore_speed((Place::Peer(peer), small), &speed, at);
        assert_eq!(of(&estimates, Some(12_345)), Some(12_000), "a small model says nothing");
        estimates.restore_speed((Place::Peer(peer), large), &speed, at);
        assert_eq!(of(&estimates, Some(12_345)), Some(10_000_000_000), "20 MB in 2 ms");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn this_computer_is_measured_after_a_quiet_while() {
        let tasks = Tasks::new();
        let mut own = OwnRate::default();
        for busy in [false, false, true] {
            own.tick(busy, &tasks);
        }
        for _ in 1..QUIET_TICKS[0] {
            own.tick(false, &tasks);
        }
        assert!(own.running.is_none(), "something went on a moment ago");
        own.tick(false, &tasks);
        let (_, first) = own.running.clone().unwrap();
        own.tick(true, &tasks);
        assert!(first.is_cancelled(), "whatever else is under way goes first");
        for _ in 0..QUIET_TICKS[0] {
            own.tick(false, &tasks);
        }
        while own.get().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let none = Telling::default();
        let known =
            rates(own.get(), &Estimates::default(), &AdvertBook::default(), (&none, |_| None));
        assert_eq!(known.keys().collect::<Vec<_>>(), [&Place::Local]);
        tasks.cancel();
    }
}
