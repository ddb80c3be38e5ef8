//! What other devices are told: adverts, what would be run whole for them, and which models are
//! given.

use std::sync::Arc;
use std::time::Duration;

use nook_base::limits::PREFILL_CHUNK_TOKENS;
use nook_base::{DeviceBytes, LayerRange, PeerId};
use nook_plan::{BytesPerSecond, Figure, Line, Place};
use nook_trust::Purpose;
use nook_wire::{Advert, HAVE_MODELS_MAX, Have, Message, OffloadOffer, OffloadOffers, ShardAdvert};

use super::Host;
use crate::events::{HostEffect, HostTask, Surroundings};
use crate::lent::{LendingLimits, Lent, lent_of, stretch};
use crate::residency::MEMORY_GRAINS;
use crate::terms::Given;
use nook_resources::catalogue::Entry;

/// Least time between two adverts because of streams that began or ended. Hundreds of calls in one
/// moment would else be as many adverts to every device, more than may wait there, and that ends a
/// connection.
const ADVERT_PAUSE: Duration = Duration::from_millis(100);

/// Bits of a measured time that an advert shows: it changes when the time does by a sixteenth.
const FIGURE_BITS: u32 = 4;

/// One unit of a visit of `units` units, in µs, as adverts show it.
fn told(line: Figure<Line>, units: u64) -> Option<u32> {
    let whole = line.measured().filter(|_| units > 0)?.at(units).as_micros();
    let each = u32::try_from(whole.div_ceil(u128::from(units))).unwrap_or(u32::MAX);
    let noise = (u32::BITS - each.leading_zeros()).saturating_sub(FIGURE_BITS);
    Some(each >> noise << noise)
}

/// Bytes of a card's memory in which it is told, for the same reason.
const CARD_GRAIN: u64 = 64 << 20;

/// Nothing is shared.
const NOTHING: Advert = Advert {
    sharing: false,
    shards: Vec::new(),
    streams_free: 0,
    queue_depth: 0,
    memory_free_bytes: 0,
    fetch_bytes: 0,
};

impl<C> Host<C> {
    /// What is here changed: new calls see it, running streams go on under the same permits.
    pub(super) fn relist(&mut self, context: &Surroundings<'_>) {
        let lent = Arc::new(self.lent_now(context));
        if let Some(terms) = &mut self.terms {
            terms.lent = lent;
        }
        self.advertise(context);
    }

    /// What is lent of each model.
    pub(super) fn lent_now(&self, context: &Surroundings<'_>) -> Vec<Lent> {
        let asked = |entry: &Entry| self.leases.asked(entry.digest(), None);
        let whole = context.whole().map(|entry| (entry, LayerRange::all(entry.layers())));
        let is_whole = |of: &Entry| context.whole().any(|it| it.digest() == of.digest());
        let partial = context.partial.entries().iter().filter(|it| !is_whole(&it.entry));
        let partial =
            partial.filter_map(|it| Some((&it.entry, stretch(&it.layers, &asked(&it.entry))?)));
        let sources = whole.chain(partial);
        sources
            .filter_map(|source| {
                offer_of(source, &asked(source.0), self.cap_of(source.0, context), context)
            })
            .collect()
    }

    /// A guest's stream began or ended: that is told at once, and what follows within a moment
    /// together.
    pub(super) fn stream_changed(&mut self, context: &Surroundings<'_>) {
        let since = self.advertised_at.map(|at| context.now.saturating_duration_since(at));
        let left = since.map_or(Duration::ZERO, |since| ADVERT_PAUSE.saturating_sub(since));
        if left.is_zero() {
            return self.advert_due(context);
        }
        if !std::mem::replace(&mut self.advert_waits, true) {
            self.run(HostTask::AdvertiseAfter(left));
        }
    }

    /// Tells how many streams are left.
    pub(super) fn advert_due(&mut self, context: &Surroundings<'_>) {
        self.advert_waits = false;
        self.advertise(context);
        self.survey(context.now);
    }

    /// Tells every linked device what is lent and given now.
    pub(super) fn advertise(&mut self, context: &Surroundings<'_>) {
        self.advertised_at = Some(context.now);
        self.relist_given(context);
        for peer in context.linked {
            self.tell_all(*peer, context);
        }
    }

    /// Nothing has been said on this link.
    pub(super) fn link_up(&mut self, peer: PeerId, context: &Surroundings<'_>) {
        self.forget_told(peer);
        self.tell_all(peer, context);
    }

    /// A link is new or gone: what was said on an earlier one is void.
    pub(super) fn forget_told(&mut self, peer: PeerId) {
        self.own.told.remove(&peer);
        self.copies.told.remove(&peer);
    }

    fn tell_all(&mut self, peer: PeerId, context: &Surroundings<'_>) {
        // One that may not use anything hears that nothing is shared.
        let advert = match context.gate.check(peer, Purpose::Lend) {
            Ok(_) => self.advert(context),
            Err(_) => NOTHING,
        };
        self.push(HostEffect::Tell(peer, Message::Advert(advert)));
        self.offer_whole_to(peer, context);
        self.offer_copies_to(peer, context);
    }

    /// What is lent, as adverts say it.
    pub(super) fn advert(&self, context: &Surroundings<'_>) -> Advert {
        let Some(terms) = &self.terms else { return NOTHING };
        let shard = |lent: &Lent| {
            let speed = context.estimates.speed(Place::Local, lent.model);
            let layers = u64::from(lent.layers.len());
            let rows = u64::from(PREFILL_CHUNK_TOKENS);
            ShardAdvert {
                model: lent.model,
                layers: lent.layers,
                held: self.residency.held(lent.model, lent.layers),
                decode_us_per_layer: told(speed.decode, layers),
                prefill_us_per_layer_token: told(speed.prefill, layers.saturating_mul(rows)),
            }
        };
        let free = u16::try_from(terms.streams.available_permits()).unwrap_or(u16::MAX);
        Advert {
            sharing: true,
            shards: terms.lent.iter().map(shard).collect(),
            streams_free: free,
            queue_depth: self.streams_max.saturating_sub(free),
            memory_free_bytes: self.lendable_bytes(context),
            fetch_bytes: self.fetchable_bytes(context),
        }
    }

    /// Bytes that guests could still have: what the caps leave, as far as the machine has it, and
    /// a card that computes.
    /// Rounded down, so that what is told is kept and an advert does not change with every page.
    fn lendable_bytes(&self, context: &Surroundings<'_>) -> u64 {
        let cap = lending_cap(context);
        let left = cap.minus(self.residency.lent_bytes(None)).memory;
        let grain = (cap.memory / MEMORY_GRAINS).max(1);
        let bytes = left.min(self.residency.room());
        // A cap that nothing was taken from is told as it is.
        let bytes = if bytes == cap.memory { bytes } else { bytes / grain * grain };
        let card = self.residency.cards_free(cap);
        bytes.saturating_add(card / CARD_GRAIN * CARD_GRAIN)
    }

    /// Most bytes of one model that guests may have: in the computer's memory and on a card.
    pub(super) fn cap_of(&self, entry: &Entry, context: &Surroundings<'_>) -> u64 {
        let cap = lending_cap(context);
        cap.memory.saturating_add(self.residency.card_bytes(entry.digest(), cap))
    }

    /// Tells a device of the same person what would be run whole for it, with every advert. One
    /// that is not is told nothing; but whoever was told something hears for as long as it is
    /// linked that there is nothing any more.
    fn offer_whole_to(&mut self, peer: PeerId, context: &Surroundings<'_>) {
        if !context.linked.contains(&peer) {
            return;
        }
        let offers = match context.gate.check(peer, Purpose::RemoteWhole) {
            Ok(_) => self.whole_offers(context),
            Err(_) => OffloadOffers::default(),
        };
        if offers.offers.is_empty() && !self.own.told.contains(&peer) {
            return;
        }
        self.own.told.insert(peer);
        self.push(HostEffect::Tell(peer, Message::OffloadOffers(offers)));
    }

    /// The models of which all layers are lent now.
    fn whole_offers(&self, context: &Surroundings<'_>) -> OffloadOffers {
        let offer = |lent: &Lent| {
            let entry = context.whole().find(|entry| entry.digest() == lent.model)?;
            if lent.layers != LayerRange::all(entry.layers()) {
                return None;
            }
            let facts = context.estimates.facts(lent.model, context.now);
            let known = facts.speeds.get(&Place::Local).cloned().unwrap_or_default();
            let (ends, load) = (known.speed.ends.measured(), known.speed.load.measured());
            let us = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
            let kb = |rate: BytesPerSecond| u32::try_from(rate.0 / 1000).unwrap_or(u32::MAX);
            Some(OffloadOffer {
                model: lent.model,
                ends_us: ends.map(us),
                // Where no layer is left in memory, what lay behind them was freed with them.
                ends_held: known.head_held
                    && !self.residency.held(lent.model, lent.layers).is_empty(),
                load_kb_per_s: load.map(kb),
            })
        };
        OffloadOffers { offers: self.lent().iter().filter_map(offer).collect() }
    }

    /// What is given now: every model of the library but the one that each device brings along.
    fn relist_given(&mut self, context: &Surroundings<'_>) {
        let on = context.settings.network.give_models;
        let entries = context.whole().filter(|entry| on && !entry.built_in);
        let given = entries.take(HAVE_MODELS_MAX).map(|entry| Given {
            model: entry.digest(),
            name: entry.listed.name.clone(),
            layers: entry.layers(),
            file: entry.file.clone(),
            place: entry.listed.path.clone(),
        });
        self.copies.given = Arc::new(given.collect());
        // Also where nothing is told anew: a file that was opened again replaces the one from
        // before.
        self.run(HostTask::Give(self.copies.given.clone()));
    }

    /// Tells a device what is given to it, when that has changed. One that the gate does not let is
    /// told nothing; but whoever was told something hears that there is nothing more.
    fn offer_copies_to(&mut self, peer: PeerId, context: &Surroundings<'_>) {
        if !context.linked.contains(&peer) {
            return;
        }
        let have = match context.gate.check(peer, Purpose::CopyModels) {
            Ok(_) => Have { models: self.copies.given.iter().map(Given::told).collect() },
            Err(_) => Have::default(),
        };
        if self.copies.told.get(&peer).map_or(have.models.is_empty(), |told| *told == have) {
            return;
        }
        self.copies.told.insert(peer, have.clone());
        self.push(HostEffect::Tell(peer, Message::Have(have)));
    }
}

/// What of a model would be lent if others asked for these layers, of those that are `here`, in
/// `bytes_max` bytes.
pub(super) fn offer_of(
    (entry, here): (&Entry, LayerRange),
    asked: &[LayerRange],
    bytes_max: u64,
    context: &Surroundings<'_>,
) -> Option<Lent> {
    let host = &context.settings.host;
    let others: Vec<LayerRange> = context
        .heard
        .values()
        .flat_map(|heard| &heard.advert.shards)
        .filter(|shard| shard.model == entry.digest())
        .map(|shard| shard.layers)
        .collect();
    let limits =
        LendingLimits { chosen: host.layers, bytes_max, streams: host.max_concurrent_streams };
    lent_of((entry, here), limits, &others, asked)
}

/// Most bytes that guests may have in all, of the computer's memory and of its cards' own.
pub(super) fn lending_cap(context: &Surroundings<'_>) -> DeviceBytes {
    let host = &context.settings.host;
    DeviceBytes { memory: host.shard_bytes(context.memory_total), gpu: host.gpu_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_for_the_stretch_that_is_lent_and_hardly_ever_change() {
        let us = Duration::from_micros;
        let line = |fixed, slope| Figure::Measured(Line { fixed: us(fixed), slope: us(slope) });
        assert_eq!(told(Figure::Unknown, 4), None);
        assert_eq!(told(line(100, 15), 0), None);
        // 100 + 4 x 15 over four layers.
        assert_eq!(told(line(100, 15), 4), Some(40));
        assert_eq!(told(line(0, 1000), 4), told(line(0, 1015), 4));
        assert_ne!(told(line(0, 1000), 4), told(line(0, 1100), 4));
    }
}
