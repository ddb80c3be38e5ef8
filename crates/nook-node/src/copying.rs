//! Models between the devices of the house: one download for all of them.
//!
//! ```text
//! giver (`host`): library ──► given ──HAVE──► bulletins   taker: HAVE ──► heard ──► holders ──► the window
//!        call with WANT ──► gate ──► giving ──PIECE──►            taking ──► nook-fetch ──► downloads
//! ```
//!
//! Each side asks its own gate ([`CopyModels`]): the giver whom it gives to, the taker whom it takes
//! from. What is given is the list of this device's whole, checked models and nothing else: a model is
//! asked for by its digest and read from the file that the library holds open, so no word of another device
//! ever becomes a path. Trust that falls, a switch that is turned off and a model that is removed end what is
//! under way. Files travel behind everything else on a connection, and slowly while replies are computed
//! ([`Traffic`]). A copy is a download in every other way: list, resume, room, progress, and at the end the
//! same eyes as for an import.

pub(crate) mod shown;
pub(crate) mod taking;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nook_base::{ModelDigest, PeerId};
use nook_fetch::{FILE_BYTES_MAX, HouseSource};
use nook_link::Link;
use nook_trust::Admitted;
use nook_trust::purpose::CopyModels;
use nook_wire::{Have, HaveModel};
use tokio::sync::watch;

use crate::state::State;
use nook_host::Traffic;

/// What others give to this device.
#[derive(Debug)]
pub(crate) struct Copies {
    /// What each linked device has said that it gives.
    heard: BTreeMap<PeerId, Vec<HaveModel>>,
    /// From whom this device takes; copies under way watch it.
    pub(crate) holders: watch::Sender<Arc<Holders>>,
    /// Devices that sent something else than a model as that model. Nothing is taken from them until this
    /// node starts again.
    liars: BTreeSet<PeerId>,
    /// Whom the owner wants to be asked first, by the key of the copy.
    pub(crate) first: BTreeMap<String, PeerId>,
    pub(crate) traffic: Traffic,
}

/// Devices that the gate lets give, linked and believed.
pub(crate) type Holders = BTreeMap<PeerId, Holder>;

/// One of them.
#[derive(Debug, Clone)]
pub(crate) struct Holder {
    /// The gate's proof, as new as the book.
    pub(crate) pass: Admitted<CopyModels>,
    pub(crate) link: Link,
    /// Its name, for people.
    pub(crate) name: String,
    /// What it gives; the names are harmless.
    pub(crate) models: Vec<HaveModel>,
}

impl Copies {
    /// Nothing is known of other devices yet.
    pub(crate) fn new(traffic: Traffic) -> Self {
        Self {
            heard: BTreeMap::new(),
            holders: watch::channel(Arc::default()).0,
            liars: BTreeSet::new(),
            first: BTreeMap::new(),
            traffic,
        }
    }
}

impl Holder {
    /// What it says of `model`.
    pub(crate) fn model(&self, model: ModelDigest) -> Option<&HaveModel> {
        self.models.iter().find(|have| have.model == model)
    }
}

impl State {
    /// A device says what it gives.
    pub(crate) fn on_have(&mut self, peer: PeerId, have: Have) {
        self.copies.heard.insert(peer, believable(have));
        self.publish_holders();
    }

    /// A link is new or gone: what was said on an earlier one is void.
    pub(crate) fn copies_gone(&mut self, peer: PeerId) {
        if self.copies.heard.remove(&peer).is_some() {
            self.publish_holders();
        }
    }

    /// A device sent something else than what it had said.
    pub(crate) fn disbelieve(&mut self, peer: PeerId) {
        tracing::warn!(
            ?peer,
            "it sent wrong bytes for a model; nothing is copied from it any more"
        );
        self.copies.liars.insert(peer);
        self.publish_holders();
    }

    /// Tells copies under way, and those that wait, who can be asked.
    pub(crate) fn publish_holders(&mut self) {
        let holder = |(peer, models): (&PeerId, &Vec<HaveModel>)| {
            let pass = self.gate.admit::<CopyModels>(*peer).ok()?;
            let is_believed = !models.is_empty() && !self.copies.liars.contains(peer);
            let link = self.links.link(*peer).filter(|_| is_believed)?;
            let (name, models) = (self.name_of(*peer), models.clone());
            Some((*peer, Holder { pass, link, name, models }))
        };
        let holders: Holders = self.copies.heard.iter().filter_map(holder).collect();
        self.copies.holders.send_replace(Arc::new(holders));
        self.start_downloads();
    }

    /// Whether files are to go slowly now. Asked after everything that happens, so it is as new as the view.
    pub(crate) fn weigh_traffic(&self) {
        self.copies.traffic.set(self.replies_running() > 0 || self.host.streams() > 0);
    }
}

/// What can be true of what a device says, with names that are harmless. A model that it names twice counts
/// once.
fn believable(have: Have) -> Vec<HaveModel> {
    let mut known = BTreeSet::new();
    let good = have
        .models
        .into_iter()
        .filter(|model| (1..=FILE_BYTES_MAX).contains(&model.bytes) && known.insert(model.model.0));
    let plain = |model: HaveModel| HaveModel {
        name: HouseSource::new(model.model, &model.name).name().to_owned(),
        ..model
    };
    good.map(plain).collect()
}
