//! How this device stands with one paired device: no link, dialling, linked. Pure decisions.
//!
//! The rules that keep two devices at exactly one link, whatever crosses on the way:
//!
//! 1. The acceptor answers HELLO; a link exists from then on. A dialler asks before it says HELLO.
//! 2. While one's own dial has not said HELLO, an arriving HELLO wins: the other end cannot know of
//!    the dial, so dropping it costs nothing.
//! 3. When both have said HELLO, the dial of the smaller id wins: the smaller side parks the
//!    arrival until its own is answered or fails, the larger side drops its own.
//! 4. When a link stands, an arrival is parked while the link is asked for a sign of life. An
//!    answer keeps it; silence or its end gives way to the arrival. So a peer that lost the link
//!    first is let in within [`PROBE_DEADLINE`], and a copied data folder cannot push the first
//!    device out.

use std::time::{Duration, Instant};

use nook_base::PeerId;
use rand::Rng;

/// How long a link may take to show a sign of life while another connection of its device waits.
pub(super) const PROBE_DEADLINE: Duration = Duration::from_secs(2);

/// First wait after a failed dial; doubles with each further failure, jittered by half.
const BACKOFF_FIRST: Duration = Duration::from_millis(250);

/// Longest wait between dials.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// How long the larger id leaves the dialling to the smaller one. Dials that cross are sorted out
/// anyway; this only makes them rare.
const SECOND_DIALLER_DELAY: Duration = Duration::from_millis(250);

/// Sightings lead to at most one dial in this time.
const SIGHTED_DIAL_INTERVAL: Duration = Duration::from_secs(1);

/// A link that ends sooner counts as a failed dial, so that two devices that throw each other out
/// do not do so in a tight loop.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// Which of two devices dials at once. The other one dials a little later, so that two dials seldom
/// cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DialOrder {
    /// This device: it has the smaller id.
    First,
    /// The other device.
    Second,
}

/// How this device stands with one other.
#[derive(Debug)]
pub(super) struct Standing {
    order: DialOrder,
    dial: Dial,
    live: Option<Live>,
    failures: u32,
    /// When to dial next, while there is no link and no dial.
    due: Instant,
    dialled_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dial {
    Idle,
    /// Under way, HELLO not yet said.
    Connecting(u64),
    /// HELLO said, not yet answered.
    Greeting(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Live {
    number: u64,
    since: Instant,
}

/// What to do with a connection that has said HELLO.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OnArrival {
    /// Answer it.
    Accept,
    /// Answer it and drop the own dial of this number.
    AcceptInsteadOf(u64),
    /// Keep it until the own dial is answered or fails.
    ParkForDial,
    /// Keep it until the link of this number has shown a sign of life, or not.
    ParkForProbe(u64),
}

impl DialOrder {
    /// That of the device `own` towards `other`.
    pub(super) fn between(own: PeerId, other: PeerId) -> Self {
        if own < other { Self::First } else { Self::Second }
    }
}

impl Standing {
    /// No link yet.
    pub(super) fn new(order: DialOrder, now: Instant) -> Self {
        let mut standing =
            Self { order, dial: Dial::Idle, live: None, failures: 0, due: now, dialled_at: None };
        standing.due = now + standing.head_start();
        standing
    }

    /// A connection of the device has said HELLO.
    pub(super) fn arrived(&self) -> OnArrival {
        match (self.live, self.dial) {
            (Some(live), _) => OnArrival::ParkForProbe(live.number),
            (None, Dial::Idle) => OnArrival::Accept,
            (None, Dial::Greeting(_)) if self.order == DialOrder::First => OnArrival::ParkForDial,
            (None, Dial::Connecting(number) | Dial::Greeting(number)) => {
                OnArrival::AcceptInsteadOf(number)
            }
        }
    }

    /// A dial begins.
    pub(super) fn dialling(&mut self, number: u64, now: Instant) {
        self.dial = Dial::Connecting(number);
        self.dialled_at = Some(now);
    }

    /// A dial wants to say HELLO; returns whether it may.
    pub(super) fn may_greet(&mut self, number: u64) -> bool {
        let may = self.live.is_none() && self.dial == Dial::Connecting(number);
        if may {
            self.dial = Dial::Greeting(number);
        }
        may
    }

    /// Whether the dial of this number is the current one.
    pub(super) fn is_dialling(&self, number: u64) -> bool {
        matches!(self.dial, Dial::Connecting(current) | Dial::Greeting(current) if current == number)
    }

    /// A link stands; any dial is over.
    pub(super) fn linked(&mut self, number: u64, now: Instant) {
        self.dial = Dial::Idle;
        self.live = Some(Live { number, since: now });
    }

    /// The current dial failed.
    pub(super) fn dial_failed(&mut self, now: Instant) {
        self.dial = Dial::Idle;
        self.back_off(now);
    }

    /// The link of this number ended; returns whether it was the current one.
    pub(super) fn link_ended(&mut self, number: u64, now: Instant) -> bool {
        let Some(live) = self.live.filter(|live| live.number == number) else {
            return false;
        };
        self.live = None;
        if now.saturating_duration_since(live.since) < SETTLED_AFTER {
            self.back_off(now);
        } else {
            self.failures = 0;
            self.due = now;
        }
        self.due += self.head_start();
        true
    }

    /// The other side cannot be talked to as things are: no use in hurrying.
    pub(super) fn refused(&mut self, now: Instant) {
        self.due = now + jittered(BACKOFF_MAX);
    }

    /// Dial at the next opportunity: the network changed, or the user wants it.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.failures = 0;
        self.due = now;
    }

    /// Discovery sees the device: dial soon, but not at the pace at which anybody can announce.
    pub(super) fn sighted(&mut self, now: Instant) {
        let earliest = self.dialled_at.map_or(now, |at| (at + SIGHTED_DIAL_INTERVAL).max(now));
        self.due = self.due.min(earliest + self.head_start());
    }

    /// When to dial next; `None` while there is a link or a dial.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.live.is_none() && self.dial == Dial::Idle).then_some(self.due)
    }

    /// The number of the live link.
    pub(super) fn live(&self) -> Option<u64> {
        self.live.map(|live| live.number)
    }

    /// Whether the live link has lasted: what comes after that is no crossing of two dials.
    pub(super) fn is_settled(&self, now: Instant) -> bool {
        self.live.is_some_and(|live| now.saturating_duration_since(live.since) >= SETTLED_AFTER)
    }

    fn head_start(&self) -> Duration {
        match self.order {
            DialOrder::First => Duration::ZERO,
            DialOrder::Second => SECOND_DIALLER_DELAY,
        }
    }

    fn back_off(&mut self, now: Instant) {
        let doubled = BACKOFF_FIRST * 2u32.saturating_pow(self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.due = now + jittered(doubled.min(BACKOFF_MAX));
    }
}

/// Between half and one and a half of `wait`: devices that lost each other in the same moment do
/// not come back in the same moment.
pub(super) fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(rand::rng().random_range(0.5..1.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(order: DialOrder) -> (Standing, Instant) {
        let now = nook_base::clock::now();
        (Standing::new(order, now), now)
    }

    #[test]
    fn an_arrival_beats_a_dial_that_has_not_said_hello() {
        for order in [DialOrder::Second, DialOrder::First] {
            let (mut standing, now) = standing(order);
            assert_eq!(standing.arrived(), OnArrival::Accept);
            standing.dialling(7, now);
            assert_eq!(standing.arrived(), OnArrival::AcceptInsteadOf(7));
            standing.linked(8, now);
            assert!(!standing.may_greet(7));
            assert!(!standing.is_dialling(7));
        }
    }

    #[test]
    fn when_both_have_said_hello_exactly_one_dial_survives() {
        let ((mut smaller, now), (mut larger, _)) =
            (standing(DialOrder::First), standing(DialOrder::Second));
        for side in [&mut smaller, &mut larger] {
            side.dialling(1, now);
            assert!(side.may_greet(1));
        }
        assert_eq!(smaller.arrived(), OnArrival::ParkForDial);
        assert_eq!(larger.arrived(), OnArrival::AcceptInsteadOf(1));
    }

    #[test]
    fn a_second_connection_waits_for_a_sign_of_life_of_the_first() {
        let (mut standing, now) = standing(DialOrder::First);
        standing.linked(3, now);
        assert_eq!(standing.arrived(), OnArrival::ParkForProbe(3));
        assert_eq!(standing.due(), None);
        assert!(!standing.link_ended(2, now), "an older link");
        assert!(standing.link_ended(3, now));
        assert_eq!(standing.arrived(), OnArrival::Accept);
    }

    #[test]
    fn the_larger_id_dials_too_but_later() {
        let ((smaller, now), (larger, _)) =
            (standing(DialOrder::First), standing(DialOrder::Second));
        assert_eq!(smaller.due(), Some(now));
        assert!(larger.due().unwrap() > now);
        assert!(larger.due().unwrap() <= now + Duration::from_secs(2));
    }

    #[test]
    fn waits_grow_to_half_a_minute_and_a_hint_ends_them() {
        let (mut standing, now) = standing(DialOrder::First);
        for _ in 0..40 {
            standing.dialling(1, now);
            standing.dial_failed(now);
            assert!(standing.due().unwrap() <= now + BACKOFF_MAX * 3 / 2);
        }
        assert!(standing.due().unwrap() >= now + BACKOFF_MAX / 2);
        standing.sighted(now);
        assert_eq!(standing.due(), Some(now + SIGHTED_DIAL_INTERVAL));
        standing.hurry(now);
        assert_eq!(standing.due(), Some(now));
    }

    #[test]
    fn a_link_that_lasted_is_redialled_at_once_and_a_short_one_is_not() {
        let (mut standing, now) = standing(DialOrder::First);
        standing.linked(1, now);
        standing.link_ended(1, now + SETTLED_AFTER);
        assert_eq!(standing.due(), Some(now + SETTLED_AFTER));
        standing.linked(2, now);
        standing.link_ended(2, now);
        assert!(standing.due().unwrap() > now);
    }
}
