//! Models between the devices of the house: one download for all of them.
//!
//! ```text
//! giver (`host`): library ──► given ──HAVE──► outbox   taker: HAVE ──► heard ──► holders ──► the window
//!        call with WANT ──► gate ──► giving ──PIECE──►            taking ──► nook-fetch ──► downloads
//! ```
//!
//! Each side asks its own gate ([`CopyModels`]): the giver whom it gives to, the taker whom it
//! takes from. What is given is the list of this device's whole, checked models and nothing else: a
//! model is asked for by its digest and read from the file that the library holds open, so no word
//! of another device ever becomes a path. Trust that falls, a switch that is turned off and a model
//! that is removed end what is under way. Files travel behind everything else on a connection, and
//! slowly while replies are computed ([`Traffic`]). A copy is a download in every other way: list,
//! resume, room, progress, and at the end the same eyes as for an import.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nook_base::{ModelDigest, PeerId};
use nook_fetch::{FILE_BYTES_MAX, HouseSource};
use nook_link::Link;
use nook_resources::traffic::Traffic;
use nook_trust::Admitted;
use nook_trust::purpose::CopyModels;
use nook_wire::{Have, HaveModel};
use tokio::sync::watch;

/// What others give to this device.
#[derive(Debug)]
pub(crate) struct Copies {
    /// What each linked device has said that it gives.
    pub(crate) heard: BTreeMap<PeerId, Vec<HaveModel>>,
    /// From whom this device takes; copies under way watch it.
    pub(crate) holders: watch::Sender<Arc<Holders>>,
    /// Devices that sent something else than a model as that model. Nothing is taken from them
    /// until this node starts again.
    pub(crate) liars: BTreeSet<PeerId>,
    /// Whom the owner wants to be asked first, by the key of the copy.
    pub(crate) first: BTreeMap<String, PeerId>,
    pub(crate) traffic: Traffic,
}

/// Devices that the gate lets give, linked and believed.
pub type Holders = BTreeMap<PeerId, Holder>;

/// A device that this one may copy from.
#[derive(Debug, Clone)]
pub struct Giver {
    /// The gate's proof, as new as the last change of trust.
    pub pass: Admitted<CopyModels>,
    /// The link to it.
    pub link: Link,
    /// Its name, for people.
    pub name: String,
}

/// One of them, with what it gives.
#[derive(Debug, Clone)]
pub struct Holder {
    /// The device.
    pub(crate) giver: Giver,
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

    /// Whether a device says that it has `model` from which nothing is taken any more.
    pub(crate) fn is_said_by_liars(&self, model: ModelDigest) -> bool {
        let mut said = self.liars.iter().filter_map(|peer| self.heard.get(peer)).flatten();
        said.any(|have| have.model == model)
    }
}

impl Holder {
    /// What it says of `model`.
    pub(crate) fn model(&self, model: ModelDigest) -> Option<&HaveModel> {
        self.models.iter().find(|have| have.model == model)
    }
}

/// What can be true of what a device says, with names that are harmless. A model that it names
/// twice counts once.
pub(crate) fn believable(have: Have) -> Vec<HaveModel> {
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
