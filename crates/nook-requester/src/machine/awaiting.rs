//! Layers without which a reply under way cannot go on (decision 0041).
//!
//! The device that had them is asked for the same layers as soon as it is back. All other devices
//! stay as they are: they remember what was said, so nothing is placed anew for them.

use std::sync::{Arc, Weak};

use nook_base::{LayerRange, ModelDigest, PeerId};
use nook_wire::PlacementRequest;

use crate::machine::{Effect, Requester, Surroundings};

/// What a reply that has begun cannot go on without.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) model: ModelDigest,
    /// Who had them.
    pub(crate) peer: PeerId,
    pub(crate) layers: LayerRange,
}

/// What is awaited now: each for as long as its reply holds it.
#[derive(Debug, Default)]
pub(crate) struct Awaiting(Vec<Weak<Awaited>>);

impl Awaiting {
    /// A reply waits from now on.
    pub(super) fn begin(&mut self, awaited: Weak<Awaited>) {
        self.0.retain(|awaited| awaited.strong_count() > 0);
        self.0.push(awaited);
    }

    fn now(&self) -> Vec<Arc<Awaited>> {
        self.0.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Requester {
    /// Asks devices that are back for what is awaited of them, if they do not have it yet.
    pub(super) fn ask_for_awaited(&mut self, around: &Surroundings<'_>) -> Vec<Effect> {
        let wishes = self.awaiting.now();
        let wishes = wishes.iter().map(|awaited| {
            let Awaited { model, peer, layers } = **awaited;
            (peer, PlacementRequest { model, layers })
        });
        wishes.filter_map(|(peer, wish)| self.ask_once_back(peer, wish, around)).collect()
    }
}
