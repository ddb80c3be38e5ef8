//! Models between the devices of the house: one download for all of them.
//!
//! ```text
//! giver: library ──► given ──HAVE──► bulletins            taker: HAVE ──► heard ──► holders ──► the window
//!        call with WANT ──► gate ──► giving ──PIECE──►            taking ──► nook-fetch ──► downloads
//! ```
//!
//! Each side asks its own gate ([`Purpose::Copy`]): the giver whom it gives to, the taker whom it takes
//! from. What is given is the list of this device's whole, checked models and nothing else: a model is
//! asked for by its digest and read from the file that the library holds open, so no word of another device
//! ever becomes a path. Trust that falls, a switch that is turned off and a model that is removed end what is
//! under way. Files travel behind everything else on a connection, and slowly while replies are computed
//! ([`traffic`]). A copy is a download in every other way: list, resume, room, progress, and at the end the
//! same eyes as for an import.

pub(crate) mod giving;
pub(crate) mod shown;
pub(crate) mod taking;
#[cfg(test)]
mod tests;
pub(crate) mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nook_base::{ErrorCode, ModelDigest, PeerId};
use nook_fetch::{FILE_BYTES_MAX, HouseSource};
use nook_link::Link;
use nook_model::ModelFile;
use nook_trust::{Admitted, Purpose};
use nook_wire::{FEATURE_COPY, HAVE_MODELS_MAX, Have, HaveModel, Message, WireError};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::copying::giving::Copier;
use crate::copying::traffic::Traffic;
use crate::lending::error;
use crate::state::State;

/// Calls on which files are given at once, to all devices together; one more is refused as busy, and that
/// device tries again or asks another. More would only share the line and the disk.
const GIVEN_MAX: usize = 2;

/// What this device gives, and what others give to it.
#[derive(Debug)]
pub(crate) struct Copies {
    /// What each linked device has said that it gives.
    heard: BTreeMap<PeerId, Vec<HaveModel>>,
    /// What each linked device was told last.
    told: BTreeMap<PeerId, Have>,
    /// Ends what is given to one device, when it is trusted too little.
    cuts: BTreeMap<PeerId, CancellationToken>,
    /// What is given now; calls under way watch it.
    given: watch::Sender<Arc<Vec<Given>>>,
    seats: Arc<Semaphore>,
    /// From whom this device takes; copies under way watch it.
    pub(crate) holders: watch::Sender<Arc<Holders>>,
    /// Devices that sent something else than a model as that model. Nothing is taken from them until this
    /// node starts again.
    liars: BTreeSet<PeerId>,
    /// Whom the owner wants to be asked first, by the key of the copy.
    pub(crate) first: BTreeMap<String, PeerId>,
    pub(crate) traffic: Traffic,
}

/// A model that is given. Its file is held open, as the library's check left it.
#[derive(Clone)]
pub(crate) struct Given {
    model: ModelDigest,
    name: String,
    layers: u32,
    file: ModelFile,
}

/// Devices that the gate lets give, linked and believed.
pub(crate) type Holders = BTreeMap<PeerId, Holder>;

/// One of them.
#[derive(Debug, Clone)]
pub(crate) struct Holder {
    /// The gate's proof, as new as the book.
    pub(crate) pass: Admitted,
    pub(crate) link: Link,
    /// Its name, for people.
    pub(crate) name: String,
    /// What it gives; the names are harmless.
    pub(crate) models: Vec<HaveModel>,
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            heard: BTreeMap::new(),
            told: BTreeMap::new(),
            cuts: BTreeMap::new(),
            given: watch::channel(Arc::default()).0,
            seats: Arc::new(Semaphore::new(GIVEN_MAX)),
            holders: watch::channel(Arc::default()).0,
            liars: BTreeSet::new(),
            first: BTreeMap::new(),
            traffic: Traffic::default(),
        }
    }
}

impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Given({:?}, {} bytes)", self.model, self.file.file_bytes())
    }
}

impl Given {
    fn told(&self) -> HaveModel {
        HaveModel {
            model: self.model,
            bytes: self.file.file_bytes(),
            layers: self.layers,
            name: self.name.clone(),
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
        self.copies.told.remove(&peer);
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
    fn publish_holders(&mut self) {
        let holder = |(peer, models): (&PeerId, &Vec<HaveModel>)| {
            let pass = self.gate.admit(*peer, Purpose::Copy).ok()?;
            let is_believed = !models.is_empty() && !self.copies.liars.contains(peer);
            let link = self.links.link(*peer).filter(|_| is_believed)?;
            let (name, models) = (self.name_of(*peer), models.clone());
            Some((*peer, Holder { pass, link, name, models }))
        };
        let holders: Holders = self.copies.heard.iter().filter_map(holder).collect();
        self.copies.holders.send_replace(Arc::new(holders));
        self.start_downloads();
    }

    /// The gate or the list of models has changed: what is given, and to and from whom, follows at once.
    pub(crate) fn weigh_copies(&mut self) {
        let gate = &self.gate;
        self.copies.cuts.retain(|peer, cut| {
            let stays = gate.admit(*peer, Purpose::Copy).is_ok();
            if !stays {
                cut.cancel();
            }
            stays
        });
        self.publish_holders();
    }

    /// What is given now: every model of the library but the one that each device brings along.
    pub(crate) fn relist_given(&mut self) {
        let on = self.settings.settings().network.give_models;
        let entries = self.catalogue.iter().filter(|entry| on && !entry.built_in);
        let given: Vec<Given> = entries
            .take(HAVE_MODELS_MAX)
            .map(|entry| Given {
                model: entry.digest(),
                name: entry.listed.name.clone(),
                layers: entry.layers(),
                file: entry.file.clone(),
            })
            .collect();
        // Also where nothing is told anew: a file that was opened again replaces the one from before.
        self.copies.given.send_replace(Arc::new(given));
    }

    /// Tells a device what is given to it, when that has changed. One that does not know of copies, or that
    /// the gate does not let, is told nothing; but who was told something hears that there is nothing more.
    pub(crate) fn offer_copies_to(&mut self, peer: PeerId) {
        let Some(link) = self.links.link(peer) else { return };
        if link.hello().features & FEATURE_COPY == 0 {
            return;
        }
        let have = match self.gate.admit(peer, Purpose::Copy) {
            Ok(_) => Have { models: self.copies.given.borrow().iter().map(Given::told).collect() },
            Err(_) => Have::default(),
        };
        if self.copies.told.get(&peer).map_or(have.models.is_empty(), |told| *told == have) {
            return;
        }
        self.copies.told.insert(peer, have.clone());
        self.bulletins.post(peer, Message::Have(have));
    }

    /// What a call of `peer` needs to be given files, or why it gets none.
    pub(crate) fn copier(&mut self, peer: PeerId) -> Result<Copier, WireError> {
        let pass = self.gate.admit(peer, Purpose::Copy);
        let pass = pass.map_err(|refusal| error(refusal.code(), ""))?;
        if !self.settings.settings().network.give_models {
            let why = "This device gives no models: its owner has switched that off.";
            return Err(error(ErrorCode::ExperimentalDisabled, why));
        }
        let cuts = &mut self.copies.cuts;
        let revoked = cuts.entry(peer).or_insert_with(|| self.tasks.token().child_token()).clone();
        Ok(Copier {
            pass,
            revoked,
            given: self.copies.given.subscribe(),
            seats: self.copies.seats.clone(),
            traffic: self.copies.traffic.clone(),
        })
    }

    /// Whether files are to go slowly now. Asked after everything that happens, so it is as new as the view.
    pub(crate) fn weigh_traffic(&self) {
        self.copies.traffic.set(self.replies_running() > 0 || self.streams() > 0);
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
