//! What is measured and placed before anybody asks, so that the first question is answered
//! together where that is faster.
//!
//! A device that begins to be of use (it was paired, allowed, switched on, or its owner began to
//! share) makes the usual model *wanted*, exactly as a reply with it would: devices are measured
//! (`probing`) and layers placed (`placement`) while nobody waits. So does another model that
//! becomes the usual one while such devices are there. Nothing happens on a device that has no
//! helper, nothing again while the same helpers stay, and nothing for one that comes back and was
//! measured with the model before: else a computer that is always on would load layers each time
//! that a laptop is opened.

use std::collections::BTreeSet;

use nook_base::{ModelDigest, PeerId};
use nook_plan::Place;
use nook_resources::catalogue::{self, Entry};

use super::{Requester, Surroundings};

/// The devices and the model for which everything was made ready.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    helpers: BTreeSet<PeerId>,
    model: Option<ModelDigest>,
}

impl Requester {
    /// Looks for devices that were of no use until now. Called once a second.
    pub(super) fn look_for_helpers(&mut self, around: &Surroundings<'_>) {
        let helpers = match around.settings.inference.enabled {
            true => helpers(around),
            false => BTreeSet::new(),
        };
        let usual = catalogue::usual(around.models);
        let model = usual.map(Entry::digest);
        let before = std::mem::replace(&mut self.readiness.helpers, helpers.clone());
        let is_other_model = !helpers.is_empty() && self.readiness.model != model;
        let is_new = |peer: &PeerId| {
            let speed = model.map(|model| self.estimates.speed(Place::Peer(*peer), model));
            !before.contains(peer) && speed.is_some_and(|speed| speed.decode.is_unknown())
        };
        if !is_other_model && !helpers.iter().any(is_new) {
            return;
        }
        self.readiness.model = model;
        // A model that somebody talks with goes before the usual one.
        let in_use = self.model_in_use(around.now).filter(|_| !is_other_model);
        let in_use = in_use.and_then(|model| around.entry(model));
        if let Some(entry) = in_use.or(usual) {
            let (listed, file) = (entry.listed.clone(), entry.file.clone());
            tracing::info!(model = ?listed.name, "devices can help: measuring before it matters");
            self.want_probe(listed.clone(), file.clone(), around);
            self.want_placement(listed, file, around.now);
        }
    }
}

/// Devices that share with this one, hold layers or would fetch some, and may compute for it.
fn helpers(around: &Surroundings<'_>) -> BTreeSet<PeerId> {
    let book = around.book;
    let heard = book.heard.iter().filter(|(peer, heard)| {
        let advert = &heard.advert;
        let offers = !advert.shards.is_empty() || advert.fetch_bytes > 0;
        heard.is_fresh(around.now) && advert.sharing && offers && !book.barred.contains(peer)
    });
    heard.map(|(peer, _)| *peer).collect()
}
