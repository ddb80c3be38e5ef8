//! Conversations that nobody will go on with: whoever still keeps something of them drops it.
//!
//! The asking half ([`State::forget_chat`], [`State::drop_unwanted`]) runs when a chat is deleted, when a
//! temporary one ends, when a trail makes room for a younger one, and when the devices of one could not all
//! be told in time that it is kept: it names the conversation to every device of the trail, this one's
//! worker included, and to the device that ran it whole. The hosting half ([`State::on_drop_kept`]) hands the
//! name to the worker, which frees the memory at once. Nothing is answered and nothing is repeated: a
//! device that is not connected, or too busy to listen, keeps what it has no longer than
//! `shard_eviction_idle_seconds`, as it always did.

use std::collections::BTreeMap;
use std::time::Duration;

use nook_base::{ModelDigest, PeerId};
use nook_plan::Place;
use nook_wire::{FEATURE_DROP, HistoryMark, KeptHistory, Message, WholeKept};

use crate::reply::Unwanted;
use crate::state::State;

/// Longest wait for one device to be told; handing a message over takes no time unless a link is stuck.
const TELL_LIMIT: Duration = Duration::from_secs(2);

impl State {
    /// A conversation is deleted, or a temporary one has ended: what its replies left goes.
    pub(crate) fn forget_chat(&self, conversation: i64) {
        for (model, unwanted) in self.shelf.forget(conversation) {
            self.drop_unwanted(model, &unwanted);
        }
    }

    /// Tells everybody who keeps something of what is unwanted, each device in a task of its own, so that one that
    /// does not listen keeps nobody from hearing it.
    pub(crate) fn drop_unwanted(&self, model: ModelDigest, unwanted: &Unwanted) {
        for (place, kept) in named(model, unwanted) {
            let (links, workers) = (self.links.clone(), self.workers.clone());
            self.tasks.spawn_until_cancelled("drop-kept", async move {
                let told = async {
                    match place {
                        Place::Local => workers.drop_kept(None, kept).await,
                        Place::Peer(peer) => {
                            let link = links.link(peer);
                            let understands =
                                link.filter(|link| link.hello().features & FEATURE_DROP != 0);
                            let Some(link) = understands else { return };
                            for kept in kept {
                                // A link that ends takes nothing along that would not go by itself.
                                let _ = link.mux().send(Message::DropKept(kept)).await;
                            }
                        }
                    }
                };
                let _ = tokio::time::timeout(TELL_LIMIT, told).await;
            });
        }
    }

    /// A device will not go on with a conversation. It needs no leave for that: only what is kept for
    /// itself is looked at, and a device that lost its leave has nothing here.
    pub(crate) fn on_drop_kept(&self, peer: PeerId, kept: KeptHistory) {
        if !self.workers.try_drop_kept(peer, kept) {
            tracing::debug!(?peer, "too busy to drop what is kept; it goes when its time is over");
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
