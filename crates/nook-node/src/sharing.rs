//! Lending as the owner switches it: adverts out, calls of other devices in.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nook_base::limits::PREFILL_CHUNK_TOKENS;
use nook_base::{ErrorCode, LayerRange, ModelDigest, PeerId, Sensitive, clock};
use nook_mux::Call;
use nook_plan::{Figure, Line, Place};
use nook_trust::Purpose;
use nook_wire::{Advert, Message, ShardAdvert, WireError};
use tokio::sync::Semaphore;

use crate::forwarding::{self, Chains};
use crate::holdings::MEMORY_GRAINS;
use crate::house::{HouseError, Sharing};
use crate::lending::{self, Lent, Terms};
use crate::passage::DRAIN_LIMIT;
use crate::preferences::not_changed;
use crate::requester::Event;
use crate::resources::catalogue::Entry;
use crate::state::{Inside, State};

/// Waited beyond [`DRAIN_LIMIT`] for calls that end by themselves then.
const DRAIN_SLACK: Duration = Duration::from_millis(100);

/// Waits until no stream runs of the `streams` that were lent under terms that were ended, but not for long.
pub(crate) async fn drained(streams: &Semaphore, streams_max: u16) {
    let all = streams.acquire_many(u32::from(streams_max));
    // Whatever has not ended by then ends with its worker.
    let _ = tokio::time::timeout(DRAIN_LIMIT + DRAIN_SLACK, all).await;
}

/// Least time between two adverts because of streams that began or ended. Hundreds of calls in one moment
/// would else be as many adverts to every device, more than may wait there, and that ends a connection.
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

impl State {
    /// Switches lending, and keeps the choice.
    pub(crate) fn set_sharing(&mut self, sharing: Sharing) -> Result<(), HouseError> {
        let on = sharing == Sharing::On;
        let key = "distributed_inference.host.serve_shards";
        self.settings.change(&[(key, on.into())]).map_err(|error| not_changed(&error))?;
        self.apply_sharing();
        Ok(())
    }

    /// Makes lending what the settings say. Whatever ran under the old terms finishes its step and
    /// ends; where lending is off now, the memory it took is freed then.
    pub(crate) fn apply_sharing(&mut self) {
        if let Some(terms) = self.lending.terms.take() {
            self.drain(terms);
            self.drop_kept(None);
        }
        self.end_leases();
        self.lending.guests.clear();
        let settings = self.settings.settings();
        let on = settings.inference.enabled && settings.host.serve_shards;
        self.lending.sharing = if on { Sharing::On } else { Sharing::Off };
        self.holding_back.chosen.send_replace(self.lending.sharing);
        let on = on && self.holding_back.reason.is_none();
        let streams_max = u16::try_from(settings.host.max_concurrent_streams).unwrap_or(u16::MAX);
        if streams_max != self.lending.streams_max {
            self.lending.streams_max = streams_max;
            self.lending.streams = Arc::new(Semaphore::new(usize::from(streams_max)));
        }
        if on {
            self.lending.owed.clear();
            self.lending.terms = Some(Terms {
                lent: Arc::new(self.lent()),
                workers: self.workers.clone(),
                streams: self.lending.streams.clone(),
                until: self.tasks.token().child_token(),
                revoked: self.tasks.token().child_token(),
                served: lending::Served::default(),
                house: self.inside.clone(),
                usage: self.lending.usage.clone(),
                chains: Chains::new(self.me.id, self.inside.clone(), self.book.subscribe()),
                shelf: self.shelf.clone(),
                marks_key: Sensitive(rand::random()),
            });
        }
        self.advertise();
    }

    /// Ends what runs under `terms` in order, and says when nothing does any more.
    fn drain(&self, terms: Terms) {
        terms.until.cancel();
        let (inside, streams_max) = (self.inside.clone(), self.lending.streams_max);
        self.tasks.spawn_until_cancelled("drain", async move {
            drained(&terms.streams, streams_max).await;
            let _ = inside.send(Inside::Drained(terms.served.all())).await;
        });
    }

    /// Nothing of other devices runs on the workers of `models` any more: unless lending is on again,
    /// the machine is its owner's, all of it.
    pub(crate) fn free(&mut self, models: BTreeSet<ModelDigest>) {
        if self.lending.terms.is_some() {
            // The new terms may allow less; what is still wanted comes back under them.
            return self.take_back_lent(models);
        }
        self.lending.owed.extend(models);
        // A worker that is loading for a guest who is gone answers nobody; with no reply of our own
        // there is nothing to ask it either.
        let force = self.replies_running() == 0;
        let (workers, models) = (self.workers.clone(), self.lending.owed.clone());
        if force {
            self.lending.owed.clear();
        }
        self.tasks.spawn_until_cancelled("free", async move {
            for model in models {
                workers.free(model, force).await;
            }
        });
    }

    /// What is here changed: new calls see it, running streams go on under the same permits.
    pub(crate) fn relist_lent(&mut self) {
        let lent = Arc::new(self.lent());
        if let Some(terms) = &mut self.lending.terms {
            terms.lent = lent;
        }
        self.advertise();
    }

    /// What is lent of each model.
    fn lent(&self) -> Vec<Lent> {
        let entries = self.catalogue.iter();
        let asked = |entry: &Entry| self.leases.asked(entry.digest(), None);
        entries.filter_map(|entry| self.lent_of(entry, &asked(entry))).collect()
    }

    /// Layers of one model that would be lent if others asked for these.
    pub(crate) fn offered(&self, entry: &Entry, asked: &[LayerRange]) -> Option<LayerRange> {
        self.lent_of(entry, asked).map(|lent| lent.layers)
    }

    fn lent_of(&self, entry: &Entry, asked: &[LayerRange]) -> Option<Lent> {
        let host = &self.settings.settings().host;
        let others: Vec<LayerRange> = self
            .heard
            .values()
            .flat_map(|heard| &heard.advert.shards)
            .filter(|shard| shard.model == entry.digest())
            .map(|shard| shard.layers)
            .collect();
        lending::lent(entry, host, self.lending_cap(), &others, asked)
    }

    /// A guest's stream began or ended: that is told at once, and what follows within a moment together.
    pub(crate) fn on_lending(&mut self) {
        let since = self.advertised_at.map(|at| clock::now().saturating_duration_since(at));
        let left = since.map_or(Duration::ZERO, |since| ADVERT_PAUSE.saturating_sub(since));
        if left.is_zero() {
            return self.on_advert_due();
        }
        if std::mem::replace(&mut self.lending.tells_soon, true) {
            return;
        }
        let inside = self.inside.clone();
        self.tasks.spawn_until_cancelled("tell-soon", async move {
            tokio::time::sleep(left).await;
            // A house that is leaving tells its devices otherwise.
            let _ = inside.send(Inside::AdvertDue).await;
        });
    }

    /// Tells how many streams are left.
    pub(crate) fn on_advert_due(&mut self) {
        self.lending.tells_soon = false;
        self.advertise();
        self.survey();
    }

    /// Tells every device that may use it what is lent now.
    pub(crate) fn advertise(&mut self) {
        self.advertised_at = Some(clock::now());
        self.relist_given();
        for peer in self.bulletins.peers() {
            self.advertise_to(peer);
            self.offer_whole_to(peer);
            self.offer_copies_to(peer);
        }
    }

    /// Tells one device; one that may not use anything hears that nothing is shared.
    pub(crate) fn advertise_to(&self, peer: PeerId) {
        let advert = match self.gate.admit(peer, Purpose::Lend) {
            Ok(_) => self.advert(),
            Err(_) => Advert {
                sharing: false,
                shards: Vec::new(),
                streams_free: 0,
                queue_depth: 0,
                memory_free_bytes: 0,
            },
        };
        self.bulletins.post(peer, Message::Advert(advert));
    }

    pub(crate) fn advert(&self) -> Advert {
        let Some(terms) = &self.lending.terms else {
            return Advert {
                sharing: false,
                shards: Vec::new(),
                streams_free: 0,
                queue_depth: 0,
                memory_free_bytes: 0,
            };
        };
        let shard = |lent: &Lent| {
            let speed = self.requester.gauges().speed(Place::Local, lent.model);
            let layers = u64::from(lent.layers.len());
            let rows = u64::from(PREFILL_CHUNK_TOKENS);
            ShardAdvert {
                model: lent.model,
                layers: lent.layers,
                held: self.holdings.held(lent.model, lent.layers),
                decode_us_per_layer: told(speed.decode, layers),
                prefill_us_per_layer_token: told(speed.prefill, layers.saturating_mul(rows)),
            }
        };
        let free = u16::try_from(terms.streams.available_permits()).unwrap_or(u16::MAX);
        Advert {
            sharing: true,
            shards: terms.lent.iter().map(shard).collect(),
            streams_free: free,
            queue_depth: self.lending.streams_max.saturating_sub(free),
            memory_free_bytes: self.lendable_bytes(),
        }
    }

    /// Most bytes that guests may have in all.
    pub(crate) fn lending_cap(&self) -> u64 {
        self.settings.settings().host.shard_bytes(crate::resources::memory::memory_total())
    }

    /// Bytes that guests could still have: what the cap leaves, as far as the machine has it. Rounded
    /// down, so that what is told is kept and an advert does not change with every page.
    fn lendable_bytes(&self) -> u64 {
        let cap = self.lending_cap();
        let left = cap.saturating_sub(self.holdings.lent_bytes(None));
        let grain = (cap / MEMORY_GRAINS).max(1);
        let bytes = left.min(self.holdings.room());
        // A cap that nothing was taken from is told as it is.
        if bytes == cap { cap } else { bytes / grain * grain }
    }

    /// A device begins a call: the gate decides, and only its proof leads to a worker (I-1).
    pub(crate) fn on_call(&mut self, peer: PeerId, call: Call<Message>) {
        let admitted = self.gate.admit(peer, Purpose::Lend);
        let own = self.own_guest(peer);
        let copier = self.copier(peer);
        if admitted.is_ok() && self.lending.terms.is_some() {
            self.ask(Event::Lending);
        }
        let refusal = match (admitted, &self.lending.terms) {
            (Ok(admitted), Some(terms)) => {
                let inside = self.inside.clone();
                let guest = self.lending.guests.entry(peer);
                let revoked = guest.or_insert_with(|| terms.revoked.child_token()).clone();
                let terms = Terms { revoked, ..terms.clone() };
                self.tasks.spawn_until_cancelled("lend", async move {
                    // A full queue loses the note; the advert is repeated anyway.
                    let _ = inside.try_send(Inside::Lending);
                    lending::lend((admitted, own, copier), call, terms, &inside).await;
                    let _ = inside.try_send(Inside::Lending);
                });
                return;
            }
            (Err(refusal), _) => refusal.code(),
            (Ok(_), None) => ErrorCode::ExperimentalDisabled,
        };
        let error = WireError { code: refusal, sentence: refusal.sentence().to_owned() };
        let answered =
            forwarding::relay_or_refuse((peer, copier), call, error, self.inside.clone());
        self.tasks.spawn_until_cancelled("refuse", answered);
    }

    /// Ends the calls of devices that the gate does not let in any more.
    pub(crate) fn end_revoked_calls(&mut self) {
        let gate = &self.gate;
        let mut revoked = Vec::new();
        self.lending.guests.retain(|peer, cut| {
            let stays = gate.admit(*peer, Purpose::Lend).is_ok();
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

    /// What workers keep of a device's conversations between two calls goes with its leave to call.
    pub(crate) fn drop_kept(&self, peer: Option<PeerId>) {
        let workers = self.workers.clone();
        self.tasks.spawn_until_cancelled("forget", async move { workers.forget(peer).await });
    }

    /// Streams of other devices that run here now, also those of ended terms that still drain.
    pub(crate) fn streams(&self) -> u16 {
        self.lending.usage.guests().values().fold(0, |all, one| all.saturating_add(*one))
    }
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
