//! Conversations that nobody will go on with: whoever still keeps something of them drops it.
//!
//! The asking half runs when a chat is deleted, when a temporary one ends, when a prefix-cache
//! entry makes room for a younger one, when the devices of one could not all be told in time that
//! it is kept, when one of them is trusted less, and when the model itself makes room or goes. It
//! names the conversation to every device of the entry, this one's worker included, and to the
//! device that ran it whole. Nothing is answered: what a name could not be brought to expires there
//! (`shard_eviction_idle_seconds`).

use std::collections::{BTreeMap, BTreeSet};

use nook_base::{ModelDigest, PeerId};
use nook_plan::Place;
use nook_wire::{KeptHistory, OffloadKept};

use crate::machine::{Effect, Requester, Surroundings};
use nook_resources::open_models::Listed;
use nook_resources::prefix_cache::Unwanted;

impl Requester {
    /// A conversation is deleted, or a temporary one has ended: what its replies left goes.
    pub(super) fn forget_chat(&mut self, conversation: i64) -> Vec<Effect> {
        all(self.open_models.forget(conversation))
    }

    /// Devices that may not compute for this one any more, or not see its words, drop what they
    /// keep of either, also where that is so for one model alone. Who may compute is read from the book, where a reply that ends just now sees
    /// it too.
    pub(super) fn revoke(
        &mut self,
        may_see: &BTreeSet<PeerId>,
        around: &Surroundings<'_>,
    ) -> Vec<Effect> {
        let may_compute = |peer: PeerId| around.book.keepers.contains(&peer);
        let named = &around.settings.inference.whole_models;
        let may_see = |model: &Listed, peer| may_see.contains(&peer) && named.has(&model.name);
        all(self.open_models.revoke(may_compute, may_see))
    }

    /// What the replies of models that are not here any more have left goes, and so does each open
    /// file of theirs: a deleted one takes its space until the last is closed.
    pub(super) fn keep_only_listed(&mut self, around: &Surroundings<'_>) -> Vec<Effect> {
        let is_listed = |model: ModelDigest| around.entry(model).is_some();
        self.wishes.keep_only(is_listed);
        self.probing.keep_only(is_listed);
        all(self.open_models.keep_only(is_listed))
    }
}

fn all(left: Vec<(ModelDigest, Unwanted)>) -> Vec<Effect> {
    left.iter().flat_map(|(model, unwanted)| self::unwanted(*model, unwanted)).collect()
}

/// Everybody who keeps something of what is unwanted is to drop it.
pub(super) fn unwanted(model: ModelDigest, unwanted: &Unwanted) -> Vec<Effect> {
    let drops = named(model, unwanted).into_iter().flat_map(|(place, kept)| {
        let peer = match place {
            Place::Local => None,
            Place::Peer(peer) => Some(peer),
        };
        kept.into_iter().map(move |kept| Effect::Drop(peer, kept))
    });
    drops.collect()
}

/// What each place keeps, each conversation once.
fn named(model: ModelDigest, unwanted: &Unwanted) -> BTreeMap<Place, Vec<KeptHistory>> {
    let mut places = BTreeMap::<Place, Vec<KeptHistory>>::new();
    let mut name = |place, position, mark| {
        let kept = KeptHistory { model, position, mark };
        let known = places.entry(place).or_default();
        if !known.contains(&kept) {
            known.push(kept);
        }
    };
    for prefix in &unwanted.entries {
        let (position, mark) = prefix.name();
        for segment in prefix.segments() {
            name(segment.place, position, mark);
        }
    }
    for ran in &unwanted.offloaded {
        if let Some(OffloadKept { position, mark }) = ran.kept {
            name(Place::Peer(ran.peer), position, mark);
        }
    }
    places
}
