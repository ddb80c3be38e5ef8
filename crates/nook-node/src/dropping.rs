//! Conversations that nobody will go on with: whoever still keeps something of them drops it.
//!
//! The asking half ([`State::forget_chat`], [`State::drop_of_barred`], [`State::drop_unwanted`]) runs when a
//! chat is deleted, when a temporary one ends, when a trail makes room for a younger one, when the devices of
//! one could not all be told in time that it is kept, when one of them is trusted less, and when the model
//! itself makes room or goes. It names the conversation to every device of the trail, this one's worker
//! included, and to the device that ran it whole: in order, over `bulletins`, and before a link is closed
//! because of it; a device that is not connected hears it when it is back. The hosting half
//! (`host`) hands the name to the worker, which frees the memory at once, and keeps nothing
//! that comes later of a call that the name has overtaken. Nothing is answered: what a name could not be
//! brought to is kept no longer than `shard_eviction_idle_seconds`, as it always was.

use std::collections::BTreeMap;

use nook_base::{ModelDigest, PeerId};
use nook_plan::Place;
use nook_trust::Purpose;
use nook_wire::{FEATURE_DROP, HistoryMark, KeptHistory, Message, WholeKept};

use crate::reply::Unwanted;
use crate::state::State;

impl State {
    /// A conversation is deleted, or a temporary one has ended: what its replies left goes.
    pub(crate) fn forget_chat(&mut self, conversation: i64) {
        for (model, unwanted) in self.shelf.forget(conversation) {
            self.drop_unwanted(model, &unwanted);
        }
    }

    /// Devices that may not compute for this one any more, or not see its words, drop what they keep of
    /// either. Who may compute is read from the book, where a reply that ends just now sees it too. Called
    /// while the links still stand.
    pub(crate) fn drop_of_barred(&mut self) {
        let inference = &self.settings.settings().inference;
        let whole = inference.enabled && inference.whole_on_own_devices;
        let sees = |peer: PeerId| whole && self.gate.admit(peer, Purpose::RemoteWhole).is_ok();
        let book = self.book.borrow().clone();
        for (model, unwanted) in self.shelf.revoke(|peer| book.keepers.contains(&peer), sees) {
            self.drop_unwanted(model, &unwanted);
        }
        for peer in self.bulletins.peers() {
            if !self.gate.level(peer).may_connect() {
                self.bulletins.say_now(peer);
            }
        }
    }

    /// Tells everybody who keeps something of what is unwanted.
    pub(crate) fn drop_unwanted(&mut self, model: ModelDigest, unwanted: &Unwanted) {
        for (place, kept) in named(model, unwanted) {
            for kept in kept {
                match place {
                    Place::Local => self.workers.drop_kept(None, kept),
                    Place::Peer(peer) => self.say_drop(peer, kept),
                }
            }
        }
    }

    /// Tells one device, as soon as there is a link to it. One that does not understand is told nothing.
    pub(crate) fn say_drop(&mut self, peer: PeerId, kept: KeptHistory) {
        let link = self.links.link(peer);
        match link.map(|link| link.hello().features & FEATURE_DROP != 0) {
            Some(false) => {}
            // A link of which the house has not heard yet counts from then on.
            Some(true) if self.bulletins.hears(peer) => {
                self.bulletins.post(peer, Message::DropKept(kept));
            }
            _ if self.peers.get(peer).is_some() => self.bulletins.owe(peer, kept),
            _ => {}
        }
    }
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
    for trail in &unwanted.trails {
        let (position, mark) = trail.name();
        for segment in trail.segments() {
            name(segment.place, position, HistoryMark(mark.0));
        }
    }
    for ran in &unwanted.elsewhere {
        if let Some(WholeKept { position, mark }) = ran.kept {
            name(Place::Peer(ran.peer), position, mark);
        }
    }
    places
}
