//! Conversations that nobody will go on with: whoever still keeps something of them drops it.
//!
//! The asking half ([`State::forget_chat`], [`State::drop_trails`]) runs when a chat is deleted, when a
//! temporary one ends, and when a trail makes room for a younger one: it names the conversation to every
//! device of the trail, this one's worker included. The hosting half ([`State::on_drop_kept`]) hands the
//! name to the worker, which frees the memory at once. Nothing is answered and nothing is repeated: a
//! device that is not connected, or too busy to listen, keeps what it has no longer than
//! `shard_eviction_idle_seconds`, as it always did.

use std::collections::BTreeMap;
use std::time::Duration;

use nook_base::{ModelDigest, PeerId};
use nook_pipeline::Trail;
use nook_plan::Place;
use nook_wire::{FEATURE_DROP, HistoryMark, KeptHistory, Message};

use crate::state::State;

/// Longest wait for one device to be told; handing a message over takes no time unless a link is stuck.
const TELL_LIMIT: Duration = Duration::from_secs(2);

impl State {
    /// A conversation is deleted, or a temporary one has ended: what its replies left goes.
    pub(crate) fn forget_chat(&self, conversation: i64) {
        for (model, trails) in self.shelf.forget(conversation) {
            self.drop_trails(model, &trails);
        }
    }

    /// Tells everybody who keeps something of `trails`, each device in a task of its own, so that one that
    /// does not listen keeps nobody from hearing it.
    pub(crate) fn drop_trails(&self, model: ModelDigest, trails: &[Trail]) {
        for (place, kept) in named(model, trails) {
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
fn named(model: ModelDigest, trails: &[Trail]) -> BTreeMap<Place, Vec<KeptHistory>> {
    let mut places = BTreeMap::<Place, Vec<KeptHistory>>::new();
    for trail in trails {
        let (position, mark) = trail.name();
        let kept = KeptHistory { model, position, mark: HistoryMark(mark.0) };
        for segment in trail.segments() {
            let known = places.entry(segment.place).or_default();
            if !known.contains(&kept) {
                known.push(kept);
            }
        }
    }
    places
}
