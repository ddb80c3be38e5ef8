//! What the last replies of one model left behind, so that the next prompt computes only what is
//! new.
//!
//! A generation that ended in order keeps its [`PrefixCacheEntry`] here; the next one takes the
//! entry that shares most with its prompt, whichever door and chat either came from: the tokens
//! alone decide, so editing, asking again and clients without chats are no special cases. An entry
//! is taken out when it is used, because hosts hold each conversation once; but where a prompt
//! shares only a beginning with it, a system prompt usually, the hosts are asked for a copy of that
//! and the entry stays for its own chat and for the next prompt that begins alike. What another
//! device of the same person ran whole is remembered beside them ([`Offloaded`]), with the name
//! under which that device keeps it. In memory only, and of this device's own prompts; with a kept
//! conversation that is deleted all of it goes, with a device that is trusted less all that has a
//! part there, with the model everything, and with each of them what hosts keep for it
//! (`crate::requester::dropping`). Which of them a prompt goes on behind is decided in `going_on`.

mod going_on;

pub use going_on::{GoingOn, Hosts};

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nook_base::limits::PREFILL_CHUNK_TOKENS;
use nook_base::{PeerId, Sensitive};
use nook_pipeline::PrefixCacheEntry;
use nook_plan::Place;
use nook_wire::OffloadKept;

/// Entries of one model; of more, the one that was left longest ago is forgotten, and the prompt
/// that would have used it is computed whole. Our own worker keeps twice as many conversations in
/// all.
const ENTRIES_MAX: usize = 16;

/// Whole requests on other devices that are remembered, of one model; of more, the oldest is
/// forgotten, and the next one that begins like it is computed from the beginning there.
const OFFLOADED_MAX: usize = 8;

/// Deleted conversations that are remembered, so that a reply that was still under way leaves
/// nothing either; of more, the one deleted longest ago is forgotten, whose replies have long
/// ended.
const DELETED_MAX: usize = 64;

/// What the replies of one model left.
#[derive(Debug, Default)]
pub struct PrefixCache {
    // Guards short lists; never held across an await.
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The one left longest ago comes first.
    entries: VecDeque<Left<PrefixCacheEntry>>,
    /// As those: what other devices of the same person ran whole.
    offloaded: VecDeque<Left<Offloaded>>,
    deleted: VecDeque<i64>,
    /// Nobody looks for anything here any more.
    closed: bool,
}

/// What one reply left.
#[derive(Debug, Clone)]
struct Left<T> {
    /// The kept conversation that it belongs to.
    conversation: Option<i64>,
    what: T,
    /// A device that has a part of it may have forgotten it: see [`PrefixCache::doubt`].
    is_in_doubt: bool,
}

/// A whole request that another device of the same person ran, and may remember.
#[derive(Debug)]
pub struct Offloaded {
    /// The device.
    pub peer: PeerId,
    /// Tokens of its prompt.
    pub prompt: usize,
    /// Prompt and reply.
    pub history: Sensitive<Vec<u32>>,
    /// By what that device knows it; absent where it did not say, or keeps nothing.
    pub kept: Option<OffloadKept>,
}

/// What nobody will go on with: whoever keeps something of it is to be told
/// (`crate::requester::dropping`).
#[derive(Debug, Default)]
pub struct Unwanted {
    /// What replies over this device and others left.
    pub entries: Vec<PrefixCacheEntry>,
    /// What other devices ran whole.
    pub offloaded: Vec<Offloaded>,
}

impl Unwanted {
    /// Whether there is nothing to tell anybody.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.offloaded.is_empty()
    }
}

impl From<PrefixCacheEntry> for Unwanted {
    fn from(prefix: PrefixCacheEntry) -> Self {
        Self { entries: vec![prefix], offloaded: Vec::new() }
    }
}

impl Offloaded {
    /// Whether what its device keeps of this request would also be found under the name of
    /// `earlier`: it begins with all that was kept of that.
    fn goes_on(&self, earlier: &Self) -> bool {
        let name = earlier.kept.map(|kept| kept.position as usize);
        let begins = name.and_then(|position| earlier.history.get(..position));
        self.peer == earlier.peer && begins.is_some_and(|begins| self.history.starts_with(begins))
    }

    /// Positions after which it may go on with `prompt`: where one of its steps ended. The last
    /// token was chosen and not computed on; a prompt is read in pieces.
    fn resumable(&self, prompt: &[u32]) -> u32 {
        let same = self.history.iter().zip(prompt).take_while(|(one, other)| one == other).count();
        let most = self.history.len().min(prompt.len()).saturating_sub(1);
        let same = u32::try_from(same.min(most)).unwrap_or(u32::MAX);
        match same as usize >= self.prompt {
            true => same,
            false => same - same % PREFILL_CHUNK_TOKENS,
        }
    }
}

impl PrefixCache {
    /// Keeps an entry of a reply, which belongs to a kept conversation or to none. What nobody will
    /// go on with now comes back, for the hosts to be told (`dropping`). An entry that leaves its
    /// name to a younger one, which said the same again, is not told of: hosts would drop both.
    pub fn keep(&self, prefix: PrefixCacheEntry, conversation: Option<i64>) -> Unwanted {
        let Kept { entries, deleted, closed, .. } = &mut *self.kept();
        if *closed || conversation.is_some_and(|it| deleted.contains(&it)) {
            return prefix.into();
        }
        entries.push_back(Left::of(conversation, prefix));
        let beyond = entries.len().saturating_sub(ENTRIES_MAX);
        let mut gone: Vec<PrefixCacheEntry> =
            entries.drain(..beyond).map(|left| left.what).collect();
        gone.retain(|gone| entries.iter().all(|stays| stays.what.name() != gone.name()));
        Unwanted { entries: gone, offloaded: Vec::new() }
    }

    /// The conversation is deleted: what it has left goes, and comes back for the hosts to be told.
    pub fn forget(&self, conversation: i64) -> Unwanted {
        let Kept { entries, offloaded, deleted, .. } = &mut *self.kept();
        while deleted.len() >= DELETED_MAX {
            deleted.pop_front();
        }
        deleted.push_back(conversation);
        let is_of = |of: Option<i64>| of == Some(conversation);
        Unwanted {
            entries: taken(entries, |of, _| is_of(of)),
            offloaded: taken(offloaded, |of, _| is_of(of)),
        }
    }

    /// Takes out what has a part on a device that may not compute for this one any more, or has
    /// words on one that may not see them any more, for all its hosts to be told.
    pub fn revoke(
        &self,
        may_compute: impl Fn(PeerId) -> bool,
        may_see: impl Fn(PeerId) -> bool,
    ) -> Unwanted {
        let Kept { entries, offloaded, .. } = &mut *self.kept();
        let is_barred = |peer| !may_compute(peer);
        Unwanted {
            entries: taken(entries, |_, prefix| has_part(prefix, is_barred)),
            offloaded: taken(offloaded, |_, ran| !may_see(ran.peer)),
        }
    }

    /// `peer` may have started anew or stopped sharing, and with that forgotten what it has of all
    /// this. It is still asked where the route leads over it, and says so if it has; but nobody is
    /// told before a reply that it will go on there, nor chosen for it.
    pub fn doubt(&self, peer: PeerId) {
        let Kept { entries, offloaded, .. } = &mut *self.kept();
        for left in entries.iter_mut().filter(|left| has_part(&left.what, |other| other == peer)) {
            left.is_in_doubt = true;
        }
        for left in offloaded.iter_mut().filter(|left| left.what.peer == peer) {
            left.is_in_doubt = true;
        }
    }

    /// The model makes room for another, or is gone: nobody goes on with anything that was left of
    /// it, nor with what replies that are still under way leave. All of it comes back, for the
    /// hosts to be told.
    pub fn close(&self) -> Unwanted {
        let Kept { entries, offloaded, closed, .. } = &mut *self.kept();
        *closed = true;
        Unwanted { entries: taken(entries, |_, _| true), offloaded: taken(offloaded, |_, _| true) }
    }

    /// Keeps what another device has run whole. What nobody will go on with now comes back, for
    /// that device to be told; not where a later request has gone on with it, whose own name is
    /// told in time.
    pub fn keep_offloaded(&self, ran: Offloaded, conversation: Option<i64>) -> Unwanted {
        let Kept { offloaded, deleted, closed, .. } = &mut *self.kept();
        if *closed || conversation.is_some_and(|it| deleted.contains(&it)) {
            return Unwanted { entries: Vec::new(), offloaded: vec![ran] };
        }
        offloaded.push_back(Left::of(conversation, ran));
        let beyond = offloaded.len().saturating_sub(OFFLOADED_MAX);
        let mut gone: Vec<Offloaded> = offloaded.drain(..beyond).map(|left| left.what).collect();
        gone.retain(|gone| !offloaded.iter().any(|stays| stays.what.goes_on(gone)));
        Unwanted { entries: Vec::new(), offloaded: gone }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Left<T> {
    fn of(conversation: Option<i64>, what: T) -> Self {
        Self { conversation, what, is_in_doubt: false }
    }
}

/// Whether a device that `is_one` has a part of it.
fn has_part(prefix: &PrefixCacheEntry, is_one: impl Fn(PeerId) -> bool) -> bool {
    prefix.segments().iter().any(|segment| match segment.place {
        Place::Local => false,
        Place::Peer(peer) => is_one(peer),
    })
}

/// Takes out what `goes` names, by the conversation that it belongs to and what it is.
fn taken<T>(kept: &mut VecDeque<Left<T>>, goes: impl Fn(Option<i64>, &T) -> bool) -> Vec<T> {
    let all = std::mem::take(kept).into_iter();
    let (gone, stay): (VecDeque<_>, VecDeque<_>) =
        all.partition(|left| goes(left.conversation, &left.what));
    *kept = stay;
    gone.into_iter().map(|left| left.what).collect()
}

#[cfg(test)]
mod tests {
    use nook_wire::PrefixHash;

    use super::*;
    use crate::testing::{pooled, prefix};

    #[test]
    fn the_oldest_entry_makes_room_and_is_handed_out_for_its_hosts_to_be_told() {
        let book = PrefixCache::default();
        let prompts = 1..=ENTRIES_MAX as u32 + 1;
        let gone: Vec<PrefixCacheEntry> =
            prompts.flat_map(|first| book.keep(prefix(&[first, 2]), None).entries).collect();
        let saves = |first| gone.iter().map(|it| it.resumable(&[first, 2, 3])).collect::<Vec<_>>();
        assert_eq!((saves(1), saves(2)), (vec![2], vec![0]));
        assert!(book.take(&[1, 2, 3], |_, _| true).is_none());
        assert!(book.take(&[2, 2, 3], |_, _| true).is_some());
        assert_eq!(book.kept().entries.len(), ENTRIES_MAX - 1);
    }

    #[test]
    fn what_was_said_again_is_not_told_of_while_the_younger_one_stays() {
        let book = PrefixCache::default();
        assert_eq!(prefix(&[1, 2]).name(), prefix(&[1, 2]).name());
        for _ in 0..2 * ENTRIES_MAX {
            assert!(
                book.keep(prefix(&[1, 2]), None).is_empty(),
                "hosts would drop the younger too"
            );
        }
        let others = 1..=ENTRIES_MAX as u32;
        let gone = others.map(|other| book.keep(prefix(&[9, other]), None).entries.len());
        assert_eq!(gone.sum::<usize>(), 1, "the last of them");
    }

    #[test]
    fn a_deleted_conversation_leaves_nothing_and_neither_does_its_last_reply() {
        let book = PrefixCache::default();
        book.keep(prefix(&[1, 2]), Some(7));
        book.keep(prefix(&[3, 4]), Some(8));
        book.keep(prefix(&[5, 6]), None);
        let gone = book.forget(7).entries;
        let names =
            |gone: &[PrefixCacheEntry]| gone.iter().map(|it| it.name().0).collect::<Vec<_>>();
        assert_eq!(names(&gone), [2], "its hosts are told");
        // A reply that was under way when the conversation was deleted.
        assert_eq!(names(&book.keep(prefix(&[1, 2, 3]), Some(7)).entries), [3]);
        assert!(book.take(&[1, 2, 3, 4], |_, _| true).is_none());
        assert!(book.take(&[3, 4, 5], |_, _| true).is_some());
        assert!(book.take(&[5, 6, 7], |_, _| true).is_some());
        (0..2 * DELETED_MAX as i64).for_each(|number| drop(book.forget(number)));
        assert_eq!(book.kept().deleted.len(), DELETED_MAX);
    }

    #[test]
    fn what_has_a_part_on_a_device_that_is_trusted_less_goes_and_the_rest_stays() {
        let book = PrefixCache::default();
        book.keep(pooled(&[1, 2], &[1]), None);
        book.keep(pooled(&[2, 3], &[1, 2]), Some(7));
        book.keep(pooled(&[3], &[1, 2, 3]), None);
        book.keep(prefix(&[1, 2, 3, 4]), None);
        book.keep_offloaded(ran(&[1, 2, 3]), None);
        book.keep_offloaded(Offloaded { peer: PeerId([4; 32]), ..ran(&[1, 2]) }, None);
        let positions = |gone: &Unwanted| -> [Vec<u32>; 2] {
            let kept = gone.offloaded.iter().filter_map(|ran| Some(ran.kept?.position));
            [gone.entries.iter().map(|it| it.name().0).collect(), kept.collect()]
        };
        let none: [Vec<u32>; 2] = Default::default();
        assert_eq!(positions(&book.revoke(|_| true, |_| true)), none);
        let gone = book.revoke(|_| true, |peer| peer != PeerId([1; 32]));
        assert_eq!(positions(&gone), [vec![], vec![2]]);
        let gone = book.revoke(|peer| peer != PeerId([2; 32]), |_| true);
        assert_eq!(positions(&gone), [vec![1, 2], vec![]], "all hosts of both hear it");
        assert!(book.take(&[1, 2, 3, 4, 5], |_, _| true).is_some());
        assert_eq!(positions(&book.close()), [vec![3], vec![1]]);
        assert_eq!(positions(&book.keep(prefix(&[1, 2, 3, 4]), None)), [vec![4], vec![]]);
        assert_eq!(positions(&book.keep_offloaded(ran(&[1, 2, 3]), None)), [vec![], vec![2]]);
        assert!(book.take(&[1, 2, 3, 4, 5], |_, _| true).is_none());
    }

    /// A request that Dad's PC ran whole, and keeps without its last token.
    fn ran(history: &[u32]) -> Offloaded {
        let position = history.len() as u32 - 1;
        let kept = Some(OffloadKept { position, mark: PrefixHash([position as u8; 16]) });
        let history = Sensitive(history.to_vec());
        Offloaded { peer: PeerId([1; 32]), prompt: 2, history, kept }
    }

    fn names(unwanted: &Unwanted) -> Vec<u32> {
        assert!(unwanted.entries.is_empty());
        unwanted.offloaded.iter().map(|ran| ran.kept.map_or(0, |kept| kept.position)).collect()
    }

    #[test]
    fn the_device_that_ran_a_deleted_conversation_whole_is_told_of_every_reply() {
        let book = PrefixCache::default();
        let [first, second] = [[1, 2, 3, 4].as_slice(), &[1, 2, 3, 4, 5, 6, 7]];
        book.keep_offloaded(ran(first), Some(7));
        book.keep_offloaded(ran(&[8, 8, 8]), Some(8));
        book.keep_offloaded(ran(second), Some(7));
        assert_eq!(names(&book.forget(7)), [3, 6]);
        assert_eq!(names(&book.forget(7)), [0; 0]);
        // A reply that was under way when the conversation was deleted.
        assert_eq!(names(&book.keep_offloaded(ran(second), Some(7))), [6]);
        assert_eq!(names(&book.forget(8)), [2]);
    }

    #[test]
    fn the_device_of_the_oldest_whole_request_is_told_unless_a_later_one_went_on_with_it() {
        let book = PrefixCache::default();
        book.keep_offloaded(ran(&[1, 2, 3, 4]), None);
        book.keep_offloaded(ran(&[5, 6, 7, 8, 9]), None);
        // Goes on behind the first, without its last token.
        book.keep_offloaded(ran(&[1, 2, 3, 9, 9, 9, 9]), None);
        let others = 1..=OFFLOADED_MAX as u32;
        let told: Vec<u32> = others
            .flat_map(|other| names(&book.keep_offloaded(ran(&[70 + other, 1]), None)))
            .collect();
        assert_eq!(told, [4, 6]);
        assert_eq!(book.kept().offloaded.len(), OFFLOADED_MAX);
    }
}
