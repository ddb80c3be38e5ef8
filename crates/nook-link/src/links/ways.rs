//! Which way a link takes: when other addresses of its device are tried, and when it moves there.
//! Pure decisions.
//!
//! A *way* is a pair of addresses. The side that dials first tries other ways; the other side does
//! where it sees nothing of that, since only it may know an address. One trial at a time for each
//! device, of few addresses. Several rules keep a link from going to and fro:
//!
//! 1. Both ways are measured in turns, on connections that are equally fresh. The other one must be
//!    better in every round, and by a factor ([`Needed`]).
//! 2. What is gained must be worth a sentence: [`SAVED_MIN`] in a usual reply.
//! 3. The way that was left is not tried again for [`HELD_FOR`], unless the link ends.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use nook_wire::WayFigures;

use super::standing::{DialOrder, jittered};

/// A link stands this long before other ways are tried: whatever comes up with it is over.
const FIRST_AFTER: Duration = Duration::from_secs(3);

/// How much longer the side that dials second waits, in which it sees whether the other one tries.
const SECOND_LATER: Duration = Duration::from_secs(30);

/// From the news of an address, or of another network, to the trial: more of it may follow.
const NEWS_AFTER: Duration = Duration::from_secs(1);

/// Between the beginnings of two trials of one device, whatever the news.
const GAP: Duration = Duration::from_secs(10);

/// Between trials without any news.
const AGAIN: Duration = Duration::from_secs(600);

/// Until a trial that could not decide is repeated.
const SOON: Duration = Duration::from_secs(30);

/// How long the way that was left is not tried.
const HELD_FOR: Duration = Duration::from_secs(600);

/// First wait after nobody answered at an address; doubles up to [`AGAIN`].
const ABSENT_FIRST: Duration = Duration::from_secs(30);

/// Addresses in one trial. With the present one they stay within the connections that a device
/// takes from one address at once.
pub(super) const OTHERS_MAX: usize = 2;

/// Words of a usual reply: so often a row goes there and back.
const REPLY_STEPS: u32 = 128;

/// Bytes of a usual prompt, there and back: 512 rows of 4 KiB.
const PROMPT_BYTES: u64 = 4 << 20;

/// What a usual reply must gain.
const SAVED_MIN: Duration = Duration::from_millis(50);

/// Two addresses between which a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    pub(super) local: IpAddr,
    pub(super) remote: IpAddr,
}

/// An address that may be another way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) address: SocketAddr,
    /// The way that a connection to it would take now.
    pub(super) way: Way,
}

/// How much better another way must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Needed {
    /// 1.3 times.
    Clearly,
    /// 2 times: where the figures are blurred by what the link carries just now, and where the way
    /// leaves this device by the same interface, so that it is most likely the same cable.
    Far,
}

/// What was measured of one way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Measured {
    /// The round trip of a row, round by round.
    pub(super) rounds: Vec<Duration>,
    /// The best of its bursts.
    pub(super) bytes_per_second: u64,
}

/// What a trial comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// None is better.
    Stay,
    /// One may be better, but the link is too busy to tell.
    Later,
    /// This one is better.
    Move(usize),
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The link stays.
    Stayed,
    /// It could not be decided, or the other side did not go along.
    Undecided,
    /// The device knows no trials.
    Deaf,
}

/// When other ways of one device are tried.
#[derive(Debug)]
pub(super) struct Ways {
    order: DialOrder,
    present: Option<Present>,
    activity: Activity,
    /// When to try next, while a link stands and nothing is under way.
    due: Instant,
    begun: Option<Instant>,
    tried: BTreeMap<SocketAddr, Tried>,
    /// The way that was left, and until when it is not tried.
    left: Option<(Way, Instant)>,
}

#[derive(Debug, Clone, Copy)]
struct Present {
    link: u64,
    way: Way,
    deaf: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    Idle,
    Trying,
    /// This side asks the other one to go on elsewhere.
    Offering,
    /// This side was asked, and agreed.
    Following,
}

#[derive(Debug, Clone, Copy)]
struct Tried {
    not_before: Instant,
    absent: u32,
}

impl Way {
    pub(super) fn between(local: SocketAddr, remote: SocketAddr) -> Self {
        Self { local: local.ip().to_canonical(), remote: remote.ip().to_canonical() }
    }
}

impl Ways {
    pub(super) fn new(order: DialOrder, now: Instant) -> Self {
        Self {
            order,
            present: None,
            activity: Activity::Idle,
            due: now,
            begun: None,
            tried: BTreeMap::new(),
            left: None,
        }
    }

    /// A link stands.
    pub(super) fn linked(&mut self, link: u64, way: Way, now: Instant) {
        self.present = Some(Present { link, way, deaf: false });
        self.activity = Activity::Idle;
        self.left = None;
        self.tried.retain(|_, tried| tried.absent > 0);
        let later = match self.order {
            DialOrder::First => Duration::ZERO,
            DialOrder::Second => SECOND_LATER,
        };
        self.due = now + FIRST_AFTER + later;
    }

    /// The link ended.
    pub(super) fn ended(&mut self) {
        self.present = None;
        self.activity = Activity::Idle;
        self.left = None;
    }

    /// There is an address that was not known.
    pub(super) fn news(&mut self, now: Instant) {
        let later = match self.order {
            DialOrder::First => NEWS_AFTER,
            DialOrder::Second => NEWS_AFTER + SECOND_LATER,
        };
        self.due = self.due.min(self.earliest(now + later));
    }

    /// This device is on another network: what was tried says nothing any more.
    pub(super) fn network(&mut self, now: Instant) {
        self.tried.clear();
        self.news(now);
    }

    /// The other side tries its addresses: this one need not.
    pub(super) fn knocked(&mut self, now: Instant) {
        if self.activity == Activity::Idle && self.order == DialOrder::Second {
            self.due = self.due.max(now + jittered(AGAIN));
        }
    }

    /// When to look for something to try.
    pub(super) fn due(&self) -> Option<Instant> {
        let present = self.present.filter(|present| !present.deaf)?;
        let may = self.activity == Activity::Idle && !is_this_machine(present.way.remote);
        may.then_some(self.due)
    }

    /// Begins a trial of some of `candidates`, best first, if one is due; which.
    pub(super) fn begin(&mut self, candidates: &[Candidate], now: Instant) -> Vec<Candidate> {
        let Some(present) = self.present.filter(|_| self.due().is_some_and(|due| due <= now))
        else {
            return Vec::new();
        };
        self.tried.retain(|address, _| candidates.iter().any(|it| it.address == *address));
        let held = self.left.filter(|(_, until)| now < *until).map(|(way, _)| way);
        let others = candidates.iter().filter(|it| it.way != present.way && Some(it.way) != held);
        let waits = |it: &Candidate| self.tried.get(&it.address).map(|tried| tried.not_before);
        let (ready, later): (Vec<Candidate>, Vec<Candidate>) =
            others.partition(|it| waits(it).is_none_or(|not_before| not_before <= now));
        if ready.is_empty() {
            let next = later.iter().filter_map(waits).min();
            self.due = next.unwrap_or(now + AGAIN).max(now + GAP);
            return Vec::new();
        }
        self.activity = Activity::Trying;
        self.begun = Some(now);
        ready.into_iter().take(OTHERS_MAX).collect()
    }

    /// Whether the trial of this link may offer to go on elsewhere.
    pub(super) fn may_move(&mut self, link: u64) -> bool {
        let may = self.activity == Activity::Trying && self.is_present(link);
        if may {
            self.activity = Activity::Offering;
        }
        may
    }

    /// Whether an offer of the other side is taken. Of two offers that cross neither is.
    pub(super) fn may_follow(&mut self) -> bool {
        let is_free = matches!(self.activity, Activity::Idle | Activity::Trying);
        let may = self.present.is_some() && is_free;
        if may {
            self.activity = Activity::Following;
        }
        may
    }

    /// The link of that number goes on over another way. Returns whether it is the present one.
    pub(super) fn moved(&mut self, link: u64, way: Way, now: Instant) -> bool {
        let Some(present) = self.present.as_mut().filter(|present| present.link == link) else {
            return false;
        };
        self.left = Some((present.way, now + HELD_FOR));
        present.way = way;
        self.activity = Activity::Idle;
        self.due = now + jittered(AGAIN);
        true
    }

    /// The other side offered, and the link did not move.
    pub(super) fn not_moved(&mut self, link: u64, now: Instant) {
        if self.is_present(link) && self.activity == Activity::Following {
            self.activity = Activity::Idle;
            self.due = now + jittered(SOON);
        }
    }

    /// A trial of the link of that number is over, and the link did not move.
    pub(super) fn over(
        &mut self,
        link: u64,
        (answered, absent): (&[SocketAddr], &[SocketAddr]),
        ending: Ending,
        now: Instant,
    ) {
        for address in absent {
            let count = self.tried.get(address).map_or(0, |tried| tried.absent);
            let wait = (ABSENT_FIRST * 2_u32.saturating_pow(count.min(16))).min(AGAIN);
            let tried = Tried { not_before: now + wait, absent: count.saturating_add(1) };
            self.tried.insert(*address, tried);
        }
        let wait = if ending == Ending::Stayed { AGAIN } else { SOON };
        let not_before = now + jittered(wait);
        for address in answered {
            self.tried.insert(*address, Tried { not_before, absent: 0 });
        }
        let Some(present) = self.present.as_mut().filter(|present| present.link == link) else {
            return;
        };
        present.deaf |= ending == Ending::Deaf;
        // An offer of the other side may have come between.
        if self.activity != Activity::Following {
            self.activity = Activity::Idle;
        }
        // There may be more than were tried; `begin` finds out when the next is.
        self.due = self.earliest(now);
    }

    fn is_present(&self, link: u64) -> bool {
        self.present.is_some_and(|present| present.link == link)
    }

    fn earliest(&self, at: Instant) -> Instant {
        self.begun.map_or(at, |begun| at.max(begun + GAP))
    }
}

/// A household on one machine: nothing is faster than its own address.
fn is_this_machine(remote: IpAddr) -> bool {
    remote == Ipv4Addr::LOCALHOST || remote == Ipv6Addr::LOCALHOST
}

impl Needed {
    fn factor(self) -> f64 {
        match self {
            Self::Clearly => 1.3,
            Self::Far => 2.0,
        }
    }
}

impl Measured {
    /// The figures of all rounds.
    pub(super) fn figures(&self) -> Option<WayFigures> {
        let round_trip = median(&self.rounds)?;
        let us = u32::try_from(round_trip.as_micros()).unwrap_or(u32::MAX);
        Some(WayFigures { round_trip_us: us.max(1), bytes_per_second: self.bytes_per_second })
    }

    /// What a usual reply spends on this way, by the figures of one round.
    fn price(&self, round: usize) -> Option<Duration> {
        let bytes_per_second = u32::try_from(self.bytes_per_second).unwrap_or(u32::MAX).max(1);
        let prompt = Duration::from_secs(PROMPT_BYTES) / bytes_per_second;
        Some(*self.rounds.get(round)? * REPLY_STEPS + prompt)
    }

    /// Whether this way is better than `present` in every round that both have.
    fn beats(&self, present: &Self, needed: Needed) -> bool {
        let rounds = self.rounds.len().min(present.rounds.len());
        let better = |round| {
            let (Some(own), Some(theirs)) = (self.price(round), present.price(round)) else {
                return false;
            };
            own.mul_f64(needed.factor()) <= theirs && own + SAVED_MIN <= theirs
        };
        rounds > 0 && (0..rounds).all(better)
    }
}

/// Which of `others` the link should take. `busy`: it carried other things meanwhile.
pub(super) fn judge(present: &Measured, others: &[(Measured, Needed)], busy: bool) -> Verdict {
    let at_least = if busy { Needed::Far } else { Needed::Clearly };
    let beat = |more: Needed| {
        let better = others
            .iter()
            .enumerate()
            .filter(move |(_, (measured, needed))| measured.beats(present, (*needed).max(more)));
        better.min_by_key(|(_, (measured, _))| {
            let whole = Measured {
                rounds: median(&measured.rounds).into_iter().collect(),
                ..measured.clone()
            };
            whole.price(0)
        })
    };
    match (beat(at_least), beat(Needed::Clearly)) {
        (Some((index, _)), _) => Verdict::Move(index),
        (None, Some(_)) => Verdict::Later,
        (None, None) => Verdict::Stay,
    }
}

/// The one in the middle.
pub(super) fn median(times: &[Duration]) -> Option<Duration> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

#[cfg(test)]
mod tests;
