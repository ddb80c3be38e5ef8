//! Which earlier reply a prompt goes on behind, and where.
//!
//! Where the planner chooses the devices it is told what each may still keep of the prompt
//! ([`PrefixCache::warm`]), so that going on is weighed against computing the beginning again
//! elsewhere; where it does not, a long enough beginning draws the reply back to the devices that
//! have it.

use nook_base::{ActivationDtype, LayerRange, PeerId};
use nook_link::Links;
use nook_pipeline::{PrefixCacheEntry, Resume};
use nook_plan::{Cached, Offer, Place, Route, Segment};

use super::PrefixCache;

/// Positions that going back to the devices of an earlier reply must save, when the house would now
/// choose others.
const DETOUR_POSITIONS_MIN: u32 = 64;

/// Positions beyond the shared beginning that make an earlier conversation worth keeping beside a
/// copy.
const COPY_REST_MIN: usize = 64;

/// Longest beginning that is copied: hosts keep it twice from then on. System prompts are shorter;
/// a longer one is taken over from the earlier conversation, which begins at 0 when it goes on.
const COPY_POSITIONS_MAX: u32 = 4096;

/// How a prompt goes on behind an earlier reply.
#[derive(Debug)]
pub struct GoingOn {
    /// Where; absent where it begins at 0 after all.
    pub resume: Option<Resume>,
    /// Whether hosts begin with a copy.
    pub copy: bool,
    /// What hosts keep until they are asked, and nobody else goes on with; absent where they copy.
    /// A reply that leaves nothing new has to have it dropped.
    pub taken: Option<PrefixCacheEntry>,
}

/// Who could go on with an earlier reply at the moment.
#[derive(Debug)]
pub struct Hosts<'a> {
    /// What other devices offer.
    pub offers: &'a [Offer],
    /// Who is connected.
    pub links: &'a Links,
    /// Whether that may be done by others than the chosen ones: not where these were chosen by what
    /// each still keeps ([`PrefixCache::warm`]).
    pub may_differ: bool,
}

impl PrefixCache {
    /// Positions of `prompt` that `peer` may remember of a whole request; 0 for none.
    pub fn known_offloaded(&self, peer: PeerId, prompt: &[u32]) -> u32 {
        let kept = self.kept();
        let ran = kept.offloaded.iter().map(|left| &left.what).filter(|ran| ran.peer == peer);
        ran.map(|ran| ran.resumable(prompt)).max().unwrap_or(0)
    }

    /// What devices have computed of `prompt` and should still keep, stretch by stretch: what
    /// planning anew is weighed against. Nothing of what is in doubt ([`Self::doubt`]). `layers`: of
    /// the model.
    pub fn warm(&self, prompt: &[u32], layers: u32) -> Vec<(Place, Cached)> {
        let kept = self.kept();
        let entries = kept.entries.iter().filter(|left| !left.is_in_doubt);
        let divided = entries.map(|left| &left.what).flat_map(|prefix| {
            let positions = prefix.resumable(prompt);
            let part = move |segment: &Segment| (segment.place, segment.part.layers, positions);
            prefix.segments().iter().map(part)
        });
        let offloaded = kept.offloaded.iter().filter(|left| !left.is_in_doubt);
        let whole = offloaded
            .map(|left| &left.what)
            .map(|ran| (Place::Peer(ran.peer), LayerRange::all(layers), ran.resumable(prompt)));
        let warm = divided.chain(whole).filter(|(_, _, positions)| *positions > 0);
        warm.map(|(place, layers, positions)| (place, Cached { layers, positions })).collect()
    }

    /// Takes the entry that saves `prompt` most positions, of those that `may` be used, and says
    /// whether hosts are to go on with a copy; then it also stays, as used last.
    pub(super) fn take(
        &self,
        prompt: &[u32],
        may: impl Fn(&PrefixCacheEntry, u32) -> bool,
    ) -> Option<(PrefixCacheEntry, bool)> {
        let entries = &mut self.kept().entries;
        let saves = entries.iter().enumerate().map(|(at, left)| (left.what.resumable(prompt), at));
        let usable = saves.filter(|(saved, at)| {
            *saved > 0 && entries.get(*at).is_some_and(|left| may(&left.what, *saved))
        });
        // Of equals the youngest: its hosts are likeliest to remember.
        let (saved, at) = usable.max()?;
        let left = entries.remove(at)?;
        let rest = left.what.positions().saturating_sub(saved as usize);
        let copy = rest >= COPY_REST_MIN && saved <= COPY_POSITIONS_MAX;
        if copy {
            entries.push_back(left.clone());
        }
        Some((left.what, copy))
    }

    /// The format of the earlier reply with other devices that `prompt` would go on best, when that
    /// saves enough.
    pub fn written_as(&self, prompt: &[u32]) -> Option<ActivationDtype> {
        let kept = self.kept();
        let is_pooled = |prefix: &&PrefixCacheEntry| {
            prefix.segments().iter().any(|segment| segment.place != Place::Local)
        };
        let entries = kept.entries.iter().map(|left| &left.what);
        let best = entries.filter(is_pooled).max_by_key(|prefix| prefix.resumable(prompt))?;
        (best.resumable(prompt) >= DETOUR_POSITIONS_MIN).then(|| best.dtype())
    }

    /// The route to walk and how `prompt` goes on there: that of an earlier reply, when its devices
    /// can still be asked, else the `planned` one from the beginning.
    pub fn go_on(
        &self,
        planned: Route,
        dtype: ActivationDtype,
        prompt: &[u32],
        hosts: &Hosts<'_>,
    ) -> (Route, Option<GoingOn>) {
        let may = |prefix: &PrefixCacheEntry, saved: u32| {
            let is_planned = prefix.segments() == planned.segments();
            prefix.dtype() == dtype
                && hosts.are_linked(prefix.segments())
                && (is_planned
                    || hosts.may_differ
                        && saved >= DETOUR_POSITIONS_MIN
                        && hosts.stand_in(prefix.segments(), &planned))
        };
        let Some((prefix, copy)) = self.take(prompt, may) else {
            return (planned, None);
        };
        match Route::new(planned.layers(), prefix.segments().to_vec()) {
            Ok(route) => {
                let taken = (!copy).then(|| prefix.clone());
                (route, Some(GoingOn { resume: prefix.resume(prompt), copy, taken }))
            }
            Err(error) => {
                tracing::error!(%error, "the route of an earlier reply is none");
                (planned, None)
            }
        }
    }
}

impl Hosts<'_> {
    /// Whether every other device in `segments` is connected.
    fn are_linked(&self, segments: &[Segment]) -> bool {
        segments.iter().all(|segment| match segment.place {
            Place::Local => true,
            Place::Peer(peer) => self.links.link(peer).is_some(),
        })
    }

    /// Whether `segments` may be walked instead of `planned`: the same layers stay here, and the
    /// other devices still offer theirs. A layer that this device only stood in for is no reason to
    /// stay.
    fn stand_in(&self, segments: &[Segment], planned: &Route) -> bool {
        let ends = |all: &[Segment]| (all.first().copied(), all.last().copied());
        let offered = |segment: &Segment| match segment.place {
            Place::Local => false,
            Place::Peer(peer) => self.offers.iter().any(|offer| {
                offer.peer == peer
                    && offer.streams_free > 0
                    && offer.layers.contains(segment.part.layers)
            }),
        };
        let inner = segments.get(1..segments.len().saturating_sub(1)).unwrap_or_default();
        ends(segments) == ends(planned.segments()) && inner.iter().all(offered)
    }
}

#[cfg(test)]
mod tests {
    use nook_base::Sensitive;
    use nook_plan::{Hop, Topology};

    use super::super::{OFFLOADED_MAX, Offloaded};
    use super::*;
    use crate::testing::{pooled, prefix, prefix_over};

    #[test]
    fn what_each_device_may_still_keep_of_a_prompt_is_told_by_stretches() {
        let book = PrefixCache::default();
        let [here, dad] = [Place::Local, Place::Peer(PeerId([1; 32]))];
        book.keep(prefix(&[1, 2, 3, 4]), None);
        book.keep(pooled(&[1], &[1, 2, 9]), None);
        book.keep(prefix(&[7, 7]), None);
        let history = Sensitive(vec![1, 2, 3, 4, 5]);
        let ran = Offloaded { peer: PeerId([1; 32]), prompt: 2, history, kept: None };
        book.keep_offloaded(ran, None);
        let cached = |first, count, positions| Cached {
            layers: LayerRange::with_len(first, count),
            positions,
        };
        let expected = [
            (here, cached(0, 2, 4)),
            (here, cached(0, 1, 2)),
            (dad, cached(1, 1, 2)),
            (here, cached(2, 1, 2)),
            (dad, cached(0, 3, 4)),
        ];
        assert_eq!(book.warm(&[1, 2, 3, 4, 5], 3), expected);
        assert_eq!(book.warm(&[8], 3), []);
    }

    #[test]
    fn what_a_device_may_have_forgotten_is_not_counted_on_and_still_asked_for() {
        let book = PrefixCache::default();
        let [dad, mum] = [PeerId([1; 32]), PeerId([2; 32])];
        book.keep(pooled(&[1], &[1, 2, 9]), None);
        book.keep(pooled(&[2], &[1, 2, 3]), None);
        for peer in [dad, mum] {
            let history = Sensitive(vec![1, 2, 3, 4, 5]);
            book.keep_offloaded(Offloaded { peer, prompt: 2, history, kept: None }, None);
        }
        let counted_on = || {
            let warm = book.warm(&[1, 2, 3, 4, 5], 3);
            let peers = warm.into_iter().filter_map(|(place, _)| match place {
                Place::Local => None,
                Place::Peer(peer) => Some(peer),
            });
            peers.collect::<Vec<_>>()
        };
        assert_eq!(counted_on(), [dad, mum, dad, mum]);
        book.doubt(dad);
        assert_eq!(counted_on(), [mum, mum]);
        assert_eq!(book.known_offloaded(dad, &[1, 2, 3, 4, 5]), 4, "it is asked all the same");
        let over_dad = |prefix: &PrefixCacheEntry, _| {
            prefix.segments().iter().any(|segment| segment.place == Place::Peer(dad))
        };
        assert!(book.take(&[1, 2, 9, 9], over_dad).is_some());
        // What it computes from now on it remembers.
        book.keep(pooled(&[1], &[1, 2, 3]), None);
        assert_eq!(counted_on(), [mum, dad, mum]);
    }

    #[test]
    fn the_format_of_a_long_reply_with_others_is_kept_and_that_of_one_alone_is_not() {
        let hop = |layers| Hop { peer: PeerId([1; 32]), layers };
        let topology = Topology::or_alone(4, 1, 1).expect("four layers have a middle");
        let route = Route::boomerang(topology, &[hop(topology.middle())]).expect("a legal route");
        let long: Vec<u32> = (1..=DETOUR_POSITIONS_MIN + 8).collect();
        let asked = [&long[..], &[7]].concat();
        let book = PrefixCache::default();
        assert_eq!(book.written_as(&asked), None);
        book.keep(prefix(&long), None);
        assert_eq!(book.written_as(&asked), None, "alone nothing travels");
        book.keep(prefix_over(&route, ActivationDtype::Q8, &long), None);
        assert_eq!(book.written_as(&asked), Some(ActivationDtype::Q8));
        assert_eq!(book.written_as(&asked[..20]), None, "too little is saved");
        assert_eq!(book.written_as(&[9; 100]), None);
    }

    #[test]
    fn the_entry_that_saves_most_is_taken_and_only_once() {
        let book = PrefixCache::default();
        for prompt in [&[1, 2, 3, 4][..], &[1, 2, 3, 4, 5, 6], &[9, 9]] {
            book.keep(prefix(prompt), None);
        }
        let asked = [1, 2, 3, 4, 5, 6, 7];
        let saved = |taken: Option<(PrefixCacheEntry, bool)>| {
            taken.map(|(prefix, _)| prefix.resumable(&asked))
        };
        assert_eq!(saved(book.take(&asked, |_, _| false)), None, "nobody may");
        assert_eq!(saved(book.take(&asked, |_, _| true)), Some(6));
        assert_eq!(saved(book.take(&asked, |_, _| true)), Some(4));
        assert_eq!(saved(book.take(&asked, |_, _| true)), None);
        assert!(book.take(&[9, 9, 1], |_, _| true).is_some());
    }

    #[test]
    fn a_beginning_that_several_prompts_share_is_copied_and_the_entry_stays() {
        let book = PrefixCache::default();
        let long: Vec<u32> = (0..40 + COPY_REST_MIN as u32).collect();
        book.keep(prefix(&long), None);
        let other = |last: u32| [&long[..40], &[1_000 + last, 1]].concat();
        for last in 0..3 {
            let (taken, copy) = book.take(&other(last), |_, _| true).unwrap();
            assert_eq!((taken.resumable(&other(last)), copy), (40, true));
        }
        // A chat that only goes on takes the entry.
        let goes_on = [&long[..], &[7]].concat();
        assert!(!book.take(&goes_on, |_, _| true).unwrap().1);
        assert!(book.kept().entries.is_empty());
    }

    #[test]
    fn what_ran_elsewhere_goes_on_where_a_step_ended_and_with_its_device_alone() {
        let book = PrefixCache::default();
        let [dad, mum] = [PeerId([1; 32]), PeerId([2; 32])];
        let history: Vec<u32> = (0..400).collect();
        let ran = |peer| {
            let history = Sensitive(history.clone());
            Offloaded { peer, prompt: 300, history, kept: None }
        };
        assert_eq!(book.known_offloaded(dad, &history), 0);
        book.keep_offloaded(ran(dad), Some(5));
        let longer: Vec<u32> = (0..500).collect();
        assert_eq!(book.known_offloaded(dad, &longer), 399, "the last token was not computed on");
        assert_eq!(book.known_offloaded(dad, &history[..350]), 349, "something is left to compute");
        assert_eq!(book.known_offloaded(dad, &history[..290]), 256, "the end of a piece");
        assert_eq!(book.known_offloaded(dad, &[0, 1, 9]), 0);
        assert_eq!(book.known_offloaded(dad, &[]), 0);
        assert_eq!(book.known_offloaded(mum, &longer), 0, "another device");
        drop(book.forget(5));
        assert_eq!(book.known_offloaded(dad, &longer), 0, "the conversation is deleted");
        book.keep_offloaded(ran(dad), Some(5));
        assert_eq!(book.known_offloaded(dad, &longer), 0, "it ended after that");
        for number in 0..2 * OFFLOADED_MAX as u8 {
            book.keep_offloaded(ran(PeerId([number; 32])), None);
        }
        assert_eq!(book.kept().offloaded.len(), OFFLOADED_MAX);
    }
}
