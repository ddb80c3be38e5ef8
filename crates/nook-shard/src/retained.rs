//! Conversations kept after their call, for the same requester to go on with.
//!
//! A requester that closes a call cleanly may ask its next question soon, and then only the new
//! positions need computing. Whatever is kept here can be computed again, so it is the first to go
//! when memory is wanted. A conversation is found by whose it is, what computed it and how, and by
//! the mark of its history; nothing is ever found by anybody else. Pure: time comes as an argument,
//! and what leaves is handed to the caller to drop.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nook_base::{ActivationDtype, DeviceBytes, ModelDigest, ModelPart, PeerId};
use nook_model::Session;
use nook_wire::{KeptHistory, ResumePoint};

use crate::history::History;

/// Most conversations kept; the one that was used longest ago makes room for the next.
pub(crate) const PARKED_MAX: usize = 32;

/// Most bytes that this device's own conversations keep: what guests keep is part of what is lent,
/// and the owner's memory has no other cap here. The one used longest ago makes room, and one that
/// is larger by itself is not kept.
pub(crate) const OWN_PARKED_BYTES_MAX: u64 = 1 << 30;

/// Dropped conversations that are remembered: the word may overtake the end of the calls that it is
/// about, which are several where several parts are computed here. Of more, the one named longest
/// ago is forgotten, as is one whose time is over; what comes of it after that goes when its own
/// time is over.
pub(crate) const DROPPED_MAX: usize = 64;

/// Whose conversation it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Requester {
    /// This device.
    Owner,
    /// Another one, as the gate let it in.
    Guest(PeerId),
}

/// What must be the same for a conversation to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetainedKey {
    pub(crate) requester: Requester,
    pub(crate) model: ModelDigest,
    pub(crate) part: ModelPart,
    /// Activations rounded otherwise would have filled the cache otherwise.
    pub(crate) dtype: ActivationDtype,
}

/// A conversation between two calls.
#[derive(Debug)]
pub(crate) struct Kept<S> {
    pub(crate) session: S,
    pub(crate) history: History,
}

/// What a kept conversation can still do.
pub(crate) trait Resumable {
    /// Positions it remembers.
    fn position(&self) -> u32;
    /// Whether it can go on after `position` positions and come to have `positions_max`.
    fn can_resume(&self, position: u32, positions_max: u32) -> bool;
}

/// All that is kept.
#[derive(Debug)]
pub(crate) struct Retained<S> {
    /// The one used longest ago first.
    spots: Vec<Spot<S>>,
    /// What is not to be kept when it comes, the one named longest ago first.
    dropped: VecDeque<Dropped>,
}

#[derive(Debug)]
struct Dropped {
    requester: Requester,
    named: KeptHistory,
    since: Instant,
}

#[derive(Debug)]
struct Spot<S> {
    key: RetainedKey,
    kept: Kept<S>,
    bytes: DeviceBytes,
    since: Instant,
}

/// What a parked conversation gave back: dropping it frees the memory.
pub(crate) type Evicted<S> = Vec<Kept<S>>;

impl<S> Default for Retained<S> {
    fn default() -> Self {
        Self { spots: Vec::new(), dropped: VecDeque::new() }
    }
}

impl<S: Resumable> Retained<S> {
    /// Keeps a conversation; those that had to make room for it come back, itself when it is too
    /// large.
    pub(crate) fn park(
        &mut self,
        key: RetainedKey,
        kept: Kept<S>,
        bytes: DeviceBytes,
        now: Instant,
    ) -> Evicted<S> {
        let spot = Spot { key, kept, bytes, since: now };
        if self.dropped.iter().any(|dropped| spot.is_of(dropped.requester, &dropped.named)) {
            return vec![spot.kept];
        }
        self.spots.push(spot);
        let mut evicted = Vec::new();
        while self.spots.len() > PARKED_MAX {
            evicted.extend(self.evict_oldest(|_| true));
        }
        while self.own_bytes() > OWN_PARKED_BYTES_MAX {
            evicted.extend(self.evict_oldest(|spot| spot.key.requester == Requester::Owner));
        }
        evicted
    }

    /// Which spot has the conversation that goes on at `point`: of several the one that would
    /// forget the fewest positions.
    pub(crate) fn find(
        &self,
        key: &RetainedKey,
        point: ResumePoint,
        positions_max: u32,
    ) -> Option<usize> {
        let fits = |spot: &Spot<S>| {
            spot.key == *key
                && spot.kept.history.at(point.position) == Some(point.mark)
                && spot.kept.session.can_resume(point.position, positions_max)
        };
        let fitting = self.spots.iter().enumerate().filter(|(_, spot)| fits(spot));
        let nearest = fitting.min_by_key(|(_, spot)| spot.kept.session.position());
        nearest.map(|(index, _)| index)
    }

    /// Takes the conversation of a spot out.
    pub(crate) fn take(&mut self, index: usize) -> Option<Kept<S>> {
        (index < self.spots.len()).then(|| self.spots.remove(index).kept)
    }

    /// Frees what guests keep, the longest unused first, until it is no more than `bytes` in either
    /// memory; with `is_one`, what lies with the GPU lies in the computer's.
    pub(crate) fn shrink_lent(&mut self, bytes: DeviceBytes, is_one: bool) -> Evicted<S> {
        let counted = |of: DeviceBytes| match is_one {
            true => DeviceBytes::in_memory(of.total()),
            false => of,
        };
        let mut evicted = Vec::new();
        loop {
            let over = counted(self.lent_bytes()).minus(bytes);
            // One that takes nothing where too much lies would go for nothing.
            let helps = |spot: &Spot<S>| {
                spot.is_lent() && counted(spot.bytes).least(over) != DeviceBytes::default()
            };
            match self.evict_oldest(helps) {
                Some(kept) => evicted.push(kept),
                None => return evicted,
            }
        }
    }

    /// Frees what was not used for `life`, and forgets what was dropped as long ago: the calls that
    /// the word had overtaken have long ended, and the same words may be said again.
    pub(crate) fn expire(&mut self, now: Instant, life: Duration) -> Evicted<S> {
        let is_over = |since: Instant| now.saturating_duration_since(since) >= life;
        self.dropped.retain(|dropped| !is_over(dropped.since));
        self.evict(|spot| is_over(spot.since))
    }

    /// Frees what a device keeps, or every other device than this one.
    pub(crate) fn forget(&mut self, peer: Option<PeerId>) -> Evicted<S> {
        self.evict(|spot| match peer {
            Some(peer) => spot.key.requester == Requester::Guest(peer),
            None => spot.is_lent(),
        })
    }

    /// Frees what `requester` keeps of one conversation, of every part that is computed here, and
    /// does not keep those that come later.
    pub(crate) fn drop_kept(
        &mut self,
        requester: Requester,
        named: KeptHistory,
        now: Instant,
    ) -> Evicted<S> {
        self.dropped.retain(|known| (known.requester, known.named) != (requester, named));
        while self.dropped.len() >= DROPPED_MAX {
            self.dropped.pop_front();
        }
        self.dropped.push_back(Dropped { requester, named, since: now });
        self.evict(|spot| spot.is_of(requester, &named))
    }

    /// Frees everything.
    pub(crate) fn clear(&mut self) -> Evicted<S> {
        self.evict(|_| true)
    }

    /// How many are kept.
    pub(crate) fn len(&self) -> usize {
        self.spots.len()
    }

    /// Bytes that guests keep.
    pub(crate) fn lent_bytes(&self) -> DeviceBytes {
        self.bytes_of(Spot::is_lent)
    }

    /// Bytes in all.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_of(|_| true).total()
    }

    fn own_bytes(&self) -> u64 {
        self.bytes_of(|spot| !spot.is_lent()).total()
    }

    fn bytes_of(&self, counts: impl Fn(&Spot<S>) -> bool) -> DeviceBytes {
        self.spots.iter().filter(|spot| counts(spot)).map(|spot| spot.bytes).sum()
    }

    fn evict_oldest(&mut self, may_go: impl Fn(&Spot<S>) -> bool) -> Option<Kept<S>> {
        let index = self.spots.iter().position(may_go)?;
        self.take(index)
    }

    fn evict(&mut self, goes: impl Fn(&Spot<S>) -> bool) -> Evicted<S> {
        self.spots.extract_if(.., |spot| goes(spot)).map(|spot| spot.kept).collect()
    }
}

impl<S> Spot<S> {
    fn is_lent(&self) -> bool {
        self.key.requester != Requester::Owner
    }

    fn is_of(&self, requester: Requester, named: &KeptHistory) -> bool {
        (self.key.requester, self.key.model) == (requester, named.model)
            && self.kept.history.at(named.position) == Some(named.mark)
    }
}

impl Kept<Session> {
    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> DeviceBytes {
        let history = DeviceBytes::in_memory(self.history.bytes());
        self.session.cache_bytes_by_device().plus(history)
    }
}

impl Resumable for Session {
    fn position(&self) -> u32 {
        Self::position(self)
    }

    fn can_resume(&self, position: u32, positions_max: u32) -> bool {
        self.check_resume(position, positions_max).is_ok()
    }
}

#[cfg(test)]
mod tests;
