//! What other devices offer: the adverts heard, as the node's event loop publishes them to replies.
//!
//! A book is a snapshot. It holds only devices that the gate lets compute on this machine's
//! prompts, so that whoever routes by it cannot route past the gate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nook_base::{ModelDigest, PeerId};
use nook_plan::Offer;
use nook_trust::Admitted;
use nook_trust::purpose::RemoteWhole;
use nook_wire::{Advert, OffloadOffer};
use tokio::sync::watch;

/// An advert and when it was heard.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    /// What it said.
    pub advert: Advert,
    /// When it was heard.
    pub at: Instant,
    /// How long it counts: four times what the owner set a device may be silent.
    pub life: Duration,
    /// Version of the app there.
    pub app_version: String,
}

/// Who may be asked for what.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AdvertBook {
    /// Admitted and connected devices, with their adverts.
    pub heard: BTreeMap<PeerId, Heard>,
    /// Paired devices that the gate does not let compute: what they compute already ends at once.
    pub barred: BTreeSet<PeerId>,
    /// Paired devices that may compute, and so keep what their replies leave; none while pooling is
    /// switched off.
    pub keepers: BTreeSet<PeerId>,
    /// Devices that failed repeatedly: asked only for layers that nobody else offers.
    pub left_out: BTreeSet<PeerId>,
    /// Devices that hung a moment ago: the same for a short while.
    pub suspected: BTreeSet<PeerId>,
    /// Devices that compute a model wrongly: asked for no layer of it.
    pub wrong: BTreeSet<(PeerId, ModelDigest)>,
    /// Devices of the same person that run whole requests, where this device's owner wants that.
    pub own: BTreeMap<PeerId, OwnDevice>,
    /// Devices that may compute, are not linked and can be woken, with how long it took the last
    /// time; none where this device's owner does not want that.
    pub asleep: BTreeMap<PeerId, Option<Duration>>,
    /// Names of all devices that are known, for people.
    pub names: BTreeMap<PeerId, String>,
}

/// A device of the same person that runs whole requests of this one.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnDevice {
    /// The gate's proof that a whole request may go there, as new as the book.
    pub pass: Admitted<RemoteWhole>,
    /// The models.
    pub offers: Vec<OffloadOffer>,
}

impl OwnDevice {
    /// What it says of `model`.
    pub fn offer(&self, model: ModelDigest) -> Option<&OffloadOffer> {
        self.offers.iter().find(|offer| offer.model == model)
    }
}

impl Heard {
    /// Whether it still counts at `now`.
    pub fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < self.life
    }
}

impl AdvertBook {
    /// Fresh offers for one model.
    pub fn offers(&self, model: ModelDigest, now: Instant) -> Vec<Offer> {
        self.offers_besides(&[], model, now)
    }

    /// Fresh offers of all but the devices that are of no use any more. Whoever was left out may be
    /// the only one that offers some layer then, even if nobody has noticed yet that the others are
    /// gone.
    pub fn offers_besides(
        &self,
        failed: &[PeerId],
        model: ModelDigest,
        now: Instant,
    ) -> Vec<Offer> {
        let is_wrong = |peer: PeerId| self.wrong.contains(&(peer, model)) || failed.contains(&peer);
        let mut offers = self.all_offers(model, now);
        offers.retain(|offer| !is_wrong(offer.peer));
        nook_pipeline::usable(offers, |peer| self.is_last_choice(peer))
    }

    /// Fresh offers of all devices, also of those that are not to be used.
    pub fn all_offers(&self, model: ModelDigest, now: Instant) -> Vec<Offer> {
        let fresh =
            self.heard.iter().filter(|(_, heard)| heard.is_fresh(now) && heard.advert.sharing);
        fresh
            .flat_map(|(peer, heard)| {
                let advert = &heard.advert;
                let shards = advert.shards.iter().filter(move |shard| shard.model == model);
                shards.map(|shard| Offer {
                    peer: *peer,
                    layers: shard.layers,
                    held: shard.held,
                    queue_depth: advert.queue_depth,
                    streams_free: advert.streams_free,
                })
            })
            .collect()
    }

    /// Whether a device is asked only for layers that nobody else offers.
    pub fn is_last_choice(&self, peer: PeerId) -> bool {
        self.left_out.contains(&peer) || self.suspected.contains(&peer)
    }

    /// The same where one device offers nothing.
    pub fn without(&self, peer: PeerId) -> Self {
        let mut book = self.clone();
        book.heard.remove(&peer);
        book.own.remove(&peer);
        book
    }

    /// A device's name for people.
    pub fn name(&self, peer: &PeerId) -> String {
        self.names.get(peer).cloned().unwrap_or_else(|| peer.short())
    }
}

/// Waits until the owner trusts `peer` too little to compute for this device; for ever if that
/// never happens.
pub async fn barred(mut book: watch::Receiver<Arc<AdvertBook>>, peer: PeerId) {
    if book.wait_for(|book| book.barred.contains(&peer)).await.is_err() {
        // The house is leaving, and every task with it.
        std::future::pending::<()>().await;
    }
}

/// Waits until a whole request may go to `peer` no more, or it offers none any more; for ever if
/// that never happens.
pub async fn own_no_more(mut book: watch::Receiver<Arc<AdvertBook>>, peer: PeerId) {
    if book.wait_for(|book| !book.own.contains_key(&peer)).await.is_err() {
        // As in `barred`.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use nook_base::limits::ADVERT_LIFE;
    use nook_base::{LayerRange, clock};
    use nook_wire::ShardAdvert;

    use super::*;

    fn book(sharing: bool, age: Duration) -> (AdvertBook, Instant) {
        let now = clock::now() + ADVERT_LIFE;
        let shard = ShardAdvert {
            model: ModelDigest([1; 32]),
            layers: LayerRange::with_len(2, 3),
            held: LayerRange::with_len(2, 0),
            decode_us_per_layer: None,
            prefill_us_per_layer_token: None,
        };
        let advert = Advert {
            sharing,
            shards: vec![shard],
            streams_free: 2,
            queue_depth: 1,
            memory_free_bytes: 0,
            fetch_bytes: 0,
        };
        let heard = [(
            PeerId([7; 32]),
            Heard { advert, at: now - age, life: ADVERT_LIFE, app_version: String::new() },
        )]
        .into();
        (AdvertBook { heard, ..AdvertBook::default() }, now)
    }

    #[test]
    fn an_advert_counts_for_its_life_and_no_longer() {
        let (young, now) = book(true, ADVERT_LIFE - Duration::from_secs(1));
        assert_eq!(young.offers(ModelDigest([1; 32]), now).len(), 1);
        let (old, now) = book(true, ADVERT_LIFE);
        assert!(old.offers(ModelDigest([1; 32]), now).is_empty());
    }

    #[test]
    fn a_device_that_computes_a_model_wrongly_offers_nothing_of_it() {
        let (mut book, now) = book(true, Duration::ZERO);
        book.wrong = [(PeerId([7; 32]), ModelDigest([2; 32]))].into();
        assert_eq!(book.offers(ModelDigest([1; 32]), now).len(), 1, "another model");
        book.wrong = [(PeerId([7; 32]), ModelDigest([1; 32]))].into();
        assert!(book.offers(ModelDigest([1; 32]), now).is_empty());
    }

    #[test]
    fn who_was_left_out_is_asked_when_all_others_have_failed() {
        let (mut book, now) = book(true, Duration::ZERO);
        let (left_out, other) = (PeerId([7; 32]), PeerId([8; 32]));
        let heard = book.heard[&left_out].clone();
        book.heard.insert(other, heard);
        book.left_out = [left_out].into();
        let asked = |failed: &[PeerId]| {
            let offers = book.offers_besides(failed, ModelDigest([1; 32]), now);
            offers.iter().map(|offer| offer.peer).collect::<Vec<_>>()
        };
        assert_eq!(asked(&[]), [other]);
        assert_eq!(asked(&[other]), [left_out]);
    }

    #[test]
    fn a_device_that_does_not_share_or_holds_another_file_offers_nothing() {
        let (off, now) = book(false, Duration::ZERO);
        assert!(off.offers(ModelDigest([1; 32]), now).is_empty());
        let (on, now) = book(true, Duration::ZERO);
        assert!(on.offers(ModelDigest([2; 32]), now).is_empty());
    }
}
