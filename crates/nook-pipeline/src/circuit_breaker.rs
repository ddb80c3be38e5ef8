//! How other devices did across prompts, and which are left out for a time.
//!
//! The node owns one [`CircuitBreaker`], tells it what replies report, and keeps the offers of
//! devices that are left out from the next routes ([`usable`]). A device that let a deadline pass
//! is suspected at once: for two minutes it is asked only for what nobody else offers. A device
//! that failed twice in two minutes is left out for two minutes, and for twice as long each time it
//! fails so again. Only a complete reply counts in its favour: each single step may be right and
//! every reply still be lost. The only holder of a layer is never left out.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use nook_base::PeerId;
use nook_plan::Offer;

/// Failures within [`FAILURE_WINDOW`] after which a device is left out.
pub const FAILURES_MAX: usize = 2;

/// How long a failure counts.
pub const FAILURE_WINDOW: Duration = Duration::from_secs(120);

/// How long a device is left out the first time; twice as long each time after.
pub const LEFT_OUT_FIRST: Duration = Duration::from_secs(120);

/// Longest time that a device is left out, however often it failed: after it, it may try again.
pub const LEFT_OUT_MAX: Duration = Duration::from_secs(3_600);

/// How long a device that let a deadline pass is asked only for what nobody else offers.
pub const SUSPICION: Duration = Duration::from_secs(120);

/// Devices remembered; of more, the one that failed longest ago is forgotten. A house has fewer.
const DEVICES_MAX: usize = 256;

/// What is remembered of the devices that failed.
#[derive(Debug, Clone, Default)]
pub struct CircuitBreaker {
    devices: BTreeMap<PeerId, Record>,
}

#[derive(Debug, Clone, Default)]
struct Record {
    /// Failures within the window, oldest first.
    failures: VecDeque<Instant>,
    /// When the last one happened, within the window or not.
    last: Option<Instant>,
    /// How often it was left out since it last saw a reply through.
    times: u32,
    until: Option<Instant>,
    /// Until when it is suspected of hanging.
    suspected: Option<Instant>,
}

/// What is worth keeping of one device when the node ends; times as from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitBreakerRecord {
    /// How often it was left out since it last saw a reply through.
    pub times: u32,
    /// How much longer it is left out; zero when it is not.
    pub left_out: Duration,
}

impl CircuitBreaker {
    /// `peer` failed in a reply: it was lost, too late, or answered what cannot be right. Returns
    /// whether it is left out from now on.
    pub fn failed(&mut self, peer: PeerId, now: Instant) -> bool {
        self.make_room(peer);
        let record = self.devices.entry(peer).or_default();
        record.last = Some(now);
        record.forget_old(now);
        record.failures.push_back(now);
        if record.failures.len() < FAILURES_MAX || record.is_left_out(now) {
            return false;
        }
        let doubled = LEFT_OUT_FIRST.saturating_mul(2_u32.saturating_pow(record.times));
        record.until = now.checked_add(doubled.min(LEFT_OUT_MAX));
        record.times = record.times.saturating_add(1);
        record.failures.clear();
        true
    }

    /// `peer` let a deadline pass; it may still answer, and often does. Whoever hangs in one reply
    /// is not the first choice for the next.
    pub fn late(&mut self, peer: PeerId, now: Instant) {
        self.make_room(peer);
        let record = self.devices.entry(peer).or_default();
        record.last = Some(now);
        record.suspected = now.checked_add(SUSPICION);
    }

    /// Every device that is suspected of hanging at `now`.
    pub fn all_suspected(&self, now: Instant) -> impl Iterator<Item = PeerId> {
        let is_suspected = move |record: &Record| record.suspected.is_some_and(|until| until > now);
        let suspected = self.devices.iter().filter(move |(_, record)| is_suspected(record));
        suspected.map(|(peer, _)| *peer)
    }

    /// What is worth keeping, by device.
    pub fn records(&self, now: Instant) -> impl Iterator<Item = (PeerId, CircuitBreakerRecord)> {
        self.devices.iter().filter(|(_, record)| record.times > 0).map(move |(peer, record)| {
            let left_out = record.until.map(|until| until.saturating_duration_since(now));
            let left_out = left_out.unwrap_or_default();
            (*peer, CircuitBreakerRecord { times: record.times, left_out })
        })
    }

    /// Takes back what an earlier run of the node has kept.
    pub fn restore(&mut self, peer: PeerId, kept: CircuitBreakerRecord, now: Instant) {
        self.make_room(peer);
        let record = self.devices.entry(peer).or_default();
        record.last = Some(now);
        record.times = kept.times;
        let left_out = kept.left_out.min(LEFT_OUT_MAX);
        record.until = now.checked_add(left_out).filter(|_| !left_out.is_zero());
    }

    /// A reply in which `peer` computed came to its end.
    pub fn seen_through(&mut self, peer: PeerId, now: Instant) {
        let Some(record) = self.devices.get_mut(&peer) else {
            return;
        };
        record.suspected = None;
        record.forget_old(now);
        // Failing every other reply is no good conduct.
        if record.failures.is_empty() && !record.is_left_out(now) {
            self.devices.remove(&peer);
        }
    }

    /// The device is not paired any more.
    pub fn forget(&mut self, peer: PeerId) {
        self.devices.remove(&peer);
    }

    /// How much longer `peer` is left out; `None` when it is not.
    #[must_use]
    pub fn left_out(&self, peer: PeerId, now: Instant) -> Option<Duration> {
        let until = self.devices.get(&peer)?.until?;
        until.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// Every device that is left out at `now`.
    pub fn all_left_out(&self, now: Instant) -> impl Iterator<Item = PeerId> {
        let out = self.devices.iter().filter(move |(_, record)| record.is_left_out(now));
        out.map(|(peer, _)| *peer)
    }

    fn make_room(&mut self, peer: PeerId) {
        if self.devices.len() < DEVICES_MAX || self.devices.contains_key(&peer) {
            return;
        }
        let oldest = self.devices.iter().min_by_key(|(_, record)| record.last);
        if let Some(oldest) = oldest.map(|(peer, _)| *peer) {
            self.devices.remove(&oldest);
        }
    }
}

impl Record {
    fn forget_old(&mut self, now: Instant) {
        let is_old = |at: &Instant| now.saturating_duration_since(*at) >= FAILURE_WINDOW;
        while self.failures.front().is_some_and(is_old) {
            self.failures.pop_front();
        }
    }

    fn is_left_out(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until > now)
    }
}

/// The offers without those of devices that `is_left_out` names, except where such a device alone
/// offers some layer.
pub fn usable(offers: Vec<Offer>, is_left_out: impl Fn(PeerId) -> bool) -> Vec<Offer> {
    let (out, mut kept): (Vec<Offer>, Vec<Offer>) =
        offers.into_iter().partition(|offer| is_left_out(offer.peer));
    let holders = kept.clone();
    let is_only_holder = |offer: &Offer| {
        let mut layers = offer.layers.iter();
        layers.any(|layer| !holders.iter().any(|other| other.layers.contains_layer(layer)))
    };
    kept.extend(out.into_iter().filter(is_only_holder));
    kept
}

#[cfg(test)]
mod tests {
    use nook_base::LayerRange;

    use super::*;

    const DESK: PeerId = PeerId([1; 32]);

    fn start() -> Instant {
        nook_base::clock::now()
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn two_failures_in_two_minutes_leave_a_device_out_for_two_minutes() {
        let (mut conduct, now) = (CircuitBreaker::default(), start());
        assert!(!conduct.failed(DESK, now));
        assert_eq!(conduct.left_out(DESK, now), None);
        assert!(conduct.failed(DESK, now + s(119)));
        assert_eq!(conduct.left_out(DESK, now + s(119)), Some(s(120)));
        assert_eq!(conduct.all_left_out(now + s(238)).collect::<Vec<_>>(), [DESK]);
        assert_eq!(conduct.left_out(DESK, now + s(239)), None);

        let mut apart = CircuitBreaker::default();
        assert!(!apart.failed(DESK, now) && !apart.failed(DESK, now + s(120)));
    }

    #[test]
    fn the_time_doubles_up_to_a_cap_until_a_reply_is_seen_through() {
        let (mut conduct, mut now) = (CircuitBreaker::default(), start());
        let mut times = Vec::new();
        for _ in 0..8 {
            conduct.failed(DESK, now);
            assert!(conduct.failed(DESK, now));
            let left = conduct.left_out(DESK, now).unwrap();
            times.push(left.as_secs());
            now += left;
        }
        assert_eq!(times, [120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600]);
        conduct.seen_through(DESK, now);
        conduct.failed(DESK, now);
        assert!(conduct.failed(DESK, now));
        assert_eq!(conduct.left_out(DESK, now), Some(LEFT_OUT_FIRST));
    }

    #[test]
    fn who_fails_every_other_reply_is_left_out_all_the_same() {
        let (mut conduct, now) = (CircuitBreaker::default(), start());
        conduct.failed(DESK, now);
        conduct.seen_through(DESK, now + s(10));
        assert!(conduct.failed(DESK, now + s(20)));
        // A reply that began before and ends now does not bring it back.
        conduct.seen_through(DESK, now + s(30));
        assert!(conduct.left_out(DESK, now + s(30)).is_some());
    }

    #[test]
    fn who_hangs_once_is_suspected_at_once_until_time_or_a_reply_clears_it() {
        let (mut conduct, now) = (CircuitBreaker::default(), start());
        let suspected =
            |conduct: &CircuitBreaker, at| conduct.all_suspected(at).collect::<Vec<_>>();
        assert_eq!(suspected(&conduct, now), []);
        conduct.late(DESK, now);
        assert_eq!(suspected(&conduct, now), [DESK]);
        assert_eq!(suspected(&conduct, now + SUSPICION), []);
        assert_eq!(conduct.left_out(DESK, now), None, "suspicion is no verdict");
        conduct.seen_through(DESK, now + s(1));
        assert_eq!(suspected(&conduct, now + s(1)), []);
    }

    #[test]
    fn what_is_kept_over_a_restart_is_the_time_left_and_the_doubling() {
        let (mut before, now) = (CircuitBreaker::default(), start());
        for _ in 0..2 {
            before.failed(DESK, now);
            before.failed(DESK, now);
        }
        let records: Vec<_> = before.records(now + s(20)).collect();
        let kept = CircuitBreakerRecord { times: 1, left_out: s(100) };
        assert_eq!(records, [(DESK, kept)]);
        let mut after = CircuitBreaker::default();
        after.restore(DESK, kept, now);
        assert_eq!(after.left_out(DESK, now), Some(s(100)));
        let later = now + s(100);
        assert_eq!(after.left_out(DESK, later), None);
        after.failed(DESK, later);
        assert!(after.failed(DESK, later));
        assert_eq!(after.left_out(DESK, later), Some(2 * LEFT_OUT_FIRST));
        after.restore(DESK, CircuitBreakerRecord { times: 9, left_out: Duration::MAX }, now);
        assert_eq!(after.left_out(DESK, now), Some(LEFT_OUT_MAX), "no file bars it for longer");
    }

    #[test]
    fn the_only_holder_of_a_layer_stays() {
        let offer = |id: u8, start, len| Offer {
            peer: PeerId([id; 32]),
            layers: LayerRange::with_len(start, len),
            held: LayerRange::with_len(start, len),
            queue_depth: 0,
            streams_free: 1,
        };
        let left_out = |peer: PeerId| peer.0[0] <= 2;
        let peers =
            |offers| usable(offers, left_out).iter().map(|o| o.peer.0[0]).collect::<Vec<_>>();
        assert_eq!(peers(vec![offer(1, 0, 4), offer(3, 0, 2), offer(4, 2, 2)]), [3, 4]);
        assert_eq!(peers(vec![offer(1, 0, 5), offer(3, 0, 2), offer(4, 2, 2)]), [3, 4, 1]);
        assert_eq!(peers(vec![offer(1, 0, 4), offer(2, 0, 4)]), [1, 2]);
        assert_eq!(peers(Vec::new()), [0_u8; 0]);
    }

    #[test]
    fn the_memory_is_bounded_and_forgets_the_oldest() {
        let (mut conduct, now) = (CircuitBreaker::default(), start());
        for index in 0..=DEVICES_MAX {
            let mut id = [0; 32];
            id[..8].copy_from_slice(&index.to_le_bytes());
            conduct.failed(PeerId(id), now + s(index as u64));
        }
        assert_eq!(conduct.devices.len(), DEVICES_MAX);
        assert!(!conduct.devices.contains_key(&PeerId([0; 32])));
    }
}
