//! Whole requests between two devices of the same person: everything, from token ids to sampling, on one
//! of them.
//!
//! This is the only case in which ids leave the asking device, so it has three locks. The asker's owner
//! switches it on (`distributed_inference.whole_on_own_devices`); the asker's gate says that the other
//! device is its owner's own, and what it yields lies in the advert book (`adverts::OwnDevice`), so that a
//! reply has a proof of the moment; the host's gate says the same of the asker, and only then does the host
//! answer, and only after that answer do ids go out. Each side notices at once when its lock falls.
//!
//! Here is what both say to each other beforehand, on the connection: which models a host would run whole.
//! The asker's part of a request is `reply::elsewhere`, the host's is [`hosting`].

pub(crate) mod hosting;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nook_base::{LayerRange, PeerId, clock};
use nook_plan::{BytesPerSecond, Place};
use nook_trust::{Admitted, Purpose};
use nook_wire::{Message, WholeOffer, WholeOffers};
use tokio_util::sync::CancellationToken;

use crate::state::State;

/// What is known of other devices of the same person. At most one entry for each linked device.
#[derive(Debug, Default)]
pub(crate) struct Wholes {
    /// Who was told anything on the link that there is.
    told: BTreeSet<PeerId>,
    /// Ends what runs here whole for one device, when it is its owner's own no more.
    cuts: BTreeMap<PeerId, CancellationToken>,
}

/// A device that may have whole requests run here, as the gate has just said.
#[derive(Debug, Clone)]
pub(crate) struct OwnGuest {
    pass: Admitted,
    /// Cancelled when the gate says so no more.
    revoked: CancellationToken,
}

impl Wholes {
    /// A link is gone: what was said on it is void.
    pub(crate) fn gone(&mut self, peer: PeerId) {
        self.told.remove(&peer);
    }
}

impl State {
    /// Tells a device of the same person what would be run whole for it, with every advert. One that is not
    /// is told nothing; but who was told something hears for as long as it is linked that there is nothing
    /// any more.
    pub(crate) fn offer_whole_to(&mut self, peer: PeerId) {
        if self.links.link(peer).is_none() {
            return;
        }
        let offers = match self.gate.admit(peer, Purpose::RemoteWhole) {
            Ok(pass) => self.whole_offers(&pass),
            Err(_) => WholeOffers::default(),
        };
        if offers.offers.is_empty() && !self.whole.told.contains(&peer) {
            return;
        }
        self.whole.told.insert(peer);
        self.bulletins.post(peer, Message::WholeOffers(offers));
    }

    /// The models of which all layers are lent now.
    fn whole_offers(&self, _pass: &Admitted) -> WholeOffers {
        let Some(terms) = &self.lending.terms else { return WholeOffers::default() };
        let now = clock::now();
        let offer = |lent: &crate::lending::Lent| {
            let entry = self.catalogue.iter().find(|entry| entry.digest() == lent.model)?;
            if lent.layers != LayerRange::all(entry.layers()) {
                return None;
            }
            let facts = self.requester.gauges().facts(lent.model, now);
            let known = facts.speeds.get(&Place::Local).cloned().unwrap_or_default();
            let (ends, load) = (known.speed.ends.measured(), known.speed.load.measured());
            let us = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
            let kb = |rate: BytesPerSecond| u32::try_from(rate.0 / 1000).unwrap_or(u32::MAX);
            Some(WholeOffer {
                model: lent.model,
                ends_us: ends.map(us),
                // Where no layer is left in memory, what lay behind them was freed with them.
                ends_held: known.head_held
                    && !self.holdings.held(lent.model, lent.layers).is_empty(),
                load_kb_per_s: load.map(kb),
            })
        };
        WholeOffers { offers: terms.lent.iter().filter_map(offer).collect() }
    }

    /// What `peer` needs to have whole requests run here; absent where the gate does not let it.
    pub(crate) fn own_guest(&mut self, peer: PeerId) -> Option<OwnGuest> {
        let pass = self.gate.admit(peer, Purpose::RemoteWhole).ok()?;
        let revoked =
            self.whole.cuts.entry(peer).or_insert_with(|| self.tasks.token().child_token());
        Some(OwnGuest { pass, revoked: revoked.clone() })
    }

    /// Ends what runs whole for devices that are the owner's own no more, and frees what is kept for them.
    pub(crate) fn end_revoked_wholes(&mut self) {
        let gate = &self.gate;
        let mut revoked = Vec::new();
        self.whole.cuts.retain(|peer, cut| {
            let stays = gate.admit(*peer, Purpose::RemoteWhole).is_ok();
            if !stays {
                cut.cancel();
                revoked.push(*peer);
            }
            stays
        });
        for peer in revoked {
            self.drop_kept(Some(peer));
        }
    }
}
