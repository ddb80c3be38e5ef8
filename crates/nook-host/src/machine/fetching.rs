//! Layers that other devices ask for and this one lacks: fetched first, then held.
//!
//! Such a request becomes a lease at once, in the state [`PlaceState::Fetching`], so that it ends
//! as every lease does: by the owner, the gate, the pause, or whoever asked. The library takes the
//! weights ([`HostEffect::Fetch`]) from the device that asked, or from another one that gives the
//! model. When they have come the request is judged anew, by what the file itself says, and the
//! layers are loaded. Which fetches are still wanted is read from the leases after each event, so
//! none outlives its last lease.
//!
//! What came of a fetch that ended early stays for the next one, unless somebody said no: the owner
//! to sharing or to fetching, or one of the two owners to the other. Then it goes, and so it does
//! where the disk is full.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nook_base::{ErrorCode, LayerRange, ModelDigest, PeerId};
use nook_trust::purpose::Lend;
use nook_wire::{HaveModel, PlaceState, Placed, PlacementRequest};

use nook_api::Sharing;

use super::Host;
use super::offers::lending_cap;
use crate::events::{Fetched, HostEffect, Surroundings};
use crate::residency::MEMORY_GRAINS;
use crate::terms::Terms;

/// Longest time between two words on a fetch that goes on, so that whoever asked knows that it
/// does.
const FETCHING_TOLD_EVERY: Duration = Duration::from_secs(5);

/// Fetches that ended early of which it is known whose they were. One more stays on the disk until
/// room is wanted, whoever says no.
const BEGUN_MAX: usize = 64;

/// What is fetched, and what of it is of use, as the library was told last.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    /// With the devices that wait for it.
    under_way: BTreeMap<ModelDigest, BTreeSet<PeerId>>,
    needed: BTreeSet<ModelDigest>,
    /// What ended before it was complete, with the devices that waited for it; at most
    /// [`BEGUN_MAX`].
    begun: BTreeMap<ModelDigest, BTreeSet<PeerId>>,
    /// What is to go as soon as nobody asks for it.
    unwanted: BTreeSet<ModelDigest>,
}

impl Fetches {
    /// These devices are not to be helped any more: what was begun for them is unwanted.
    pub(super) fn refuse(&mut self, is_over: impl Fn(PeerId) -> bool) {
        let all = self.under_way.iter().chain(&self.begun);
        let over = all.filter(|(_, peers)| peers.iter().any(|peer| is_over(*peer)));
        self.unwanted.extend(over.map(|(model, _)| *model));
    }
}

impl<C> Host<C> {
    /// Sets out to fetch what `wish` asks for, which this device lacks, or says why not.
    pub(super) fn fetch(
        &mut self,
        peer: PeerId,
        wish: PlacementRequest,
        terms: &Terms,
        context: &Surroundings<'_>,
    ) -> Result<(), ErrorCode> {
        let PlacementRequest { model, layers } = wish;
        if !context.settings.host.fetch_layers {
            return Err(ErrorCode::FetchLimit);
        }
        if context.settings.host.layers.is_some_and(|chosen| !chosen.contains(layers)) {
            return Err(ErrorCode::ShardUnavailable);
        }
        let given = context.partial.given(model)?;
        if !LayerRange::all(given.layers).contains(layers) {
            return Err(ErrorCode::BadRequest);
        }
        let bytes = claimed_bytes(&given, layers, &self.here_of(model, context));
        if bytes > context.partial.room() {
            return Err(ErrorCode::FetchLimit);
        }
        let cap = lending_cap(context);
        if bytes > cap.memory.saturating_add(self.residency.card_bytes(model, cap)) {
            return Err(ErrorCode::OutOfMemory);
        }
        let state = PlaceState::Fetching { percent: 0 };
        self.leases.add(peer, (wish, state), terms.until.child_token(), context.now);
        tracing::info!(?peer, ?model, %layers, "fetching layers that are asked for");
        self.tell_placed(peer, Placed { model, layers, state }, context);
        self.push(HostEffect::Fetch { model, name: given.name, layers, from: peer });
        Ok(())
    }

    /// Layers came, or will not: every lease that waited for them goes on or ends.
    pub(super) fn fetched(
        &mut self,
        (model, layers): (ModelDigest, LayerRange),
        outcome: Fetched,
        context: &Surroundings<'_>,
    ) {
        let waits = self.leases.leases.iter().filter(|((of, _), lease)| {
            *of == model
                && matches!(lease.state, PlaceState::Fetching { .. })
                && layers.contains(lease.layers)
        });
        let waiting: Vec<(PeerId, LayerRange)> =
            waits.map(|((_, peer), lease)| (*peer, lease.layers)).collect();
        for (peer, layers) in waiting {
            let wish = PlacementRequest { model, layers };
            let held = match outcome {
                Fetched::Present => self.hold_fetched(peer, wish, context),
                Fetched::Stopped => Err(ErrorCode::FetchFailed),
                Fetched::Failed(code) => Err(code),
            };
            if let Err(code) = held {
                tracing::info!(?peer, ?model, %layers, %code, "fetched layers are not held");
                self.note_hold_failed((model, peer), code, context);
                self.leases.end(|of, by, _| (of, by) == (model, peer));
                let state = PlaceState::Refused { code };
                self.tell_placed(peer, Placed { model, layers, state }, context);
            }
        }
        if matches!(outcome, Fetched::Failed(ErrorCode::DiskFull)) {
            // Other programs need the room more, and the next try begins once there is some.
            self.fetches.unwanted.insert(model);
        }
        // What is here is offered, whoever asked for it.
        self.relist(context);
    }

    /// The weights are here: judges as if the request came now.
    fn hold_fetched(
        &mut self,
        peer: PeerId,
        wish: PlacementRequest,
        context: &Surroundings<'_>,
    ) -> Result<(), ErrorCode> {
        let admitted = context.gate.admit::<Lend>(peer).map_err(|refusal| refusal.code())?;
        let terms = self.terms.clone().ok_or(ErrorCode::SwitchedOff)?;
        let (entry, here) = self.source(wish, context).ok_or(ErrorCode::FetchFailed)?;
        self.hold(admitted, wish, (entry, here), &terms, context)
    }

    /// Tells whoever waits how far their layers are.
    pub(super) fn tell_fetching(&mut self, context: &Surroundings<'_>) {
        let mut told = Vec::new();
        for ((model, peer), lease) in &mut self.leases.leases {
            let PlaceState::Fetching { percent: before } = lease.state else { continue };
            let percent = context.partial.percent(*model);
            let is_old = context.now.saturating_duration_since(lease.used) >= FETCHING_TOLD_EVERY;
            if percent == before && !is_old {
                continue;
            }
            lease.state = PlaceState::Fetching { percent };
            lease.used = context.now;
            told.push((*peer, Placed { model: *model, layers: lease.layers, state: lease.state }));
        }
        for (peer, placed) in told {
            self.tell_placed(peer, placed, context);
        }
    }

    /// Tells the library what is wanted no more, and what is of use now. Called after each event.
    pub(super) fn settle_fetches(&mut self, context: &Surroundings<'_>) {
        let wanted = self.leases.fetching();
        for (model, peers) in std::mem::replace(&mut self.fetches.under_way, wanted) {
            if !self.fetches.under_way.contains_key(&model) {
                self.push(HostEffect::StopFetching(model));
                if self.fetches.begun.len() < BEGUN_MAX {
                    self.fetches.begun.insert(model, peers);
                }
            }
        }
        self.forget_unwanted(context);
        let here = context.partial.entries().iter().map(|partial| partial.entry.digest());
        let in_use = |model: &ModelDigest| {
            self.leases.leases.keys().any(|(of, _)| of == model) || self.residency.runs(*model)
        };
        let needed: BTreeSet<ModelDigest> = here.filter(in_use).collect();
        if needed != self.fetches.needed {
            self.fetches.needed.clone_from(&needed);
            self.push(HostEffect::Needed(needed));
        }
    }

    /// Has what was begun removed where somebody said no, and nobody asks for it again.
    fn forget_unwanted(&mut self, context: &Surroundings<'_>) {
        let Self { fetches: Fetches { begun, unwanted, .. }, leases, .. } = self;
        // Complete, or gone on with.
        begun.retain(|model, _| !leases.has(*model));
        unwanted.retain(|model| !leases.has(*model));
        if self.sharing == Sharing::Off || !context.settings.host.fetch_layers {
            unwanted.extend(begun.keys());
        }
        for model in std::mem::take(unwanted) {
            self.fetches.begun.remove(&model);
            self.push(HostEffect::ForgetFetched(model));
        }
    }

    /// Bytes that this device would still spend on layers which others ask it to hold.
    pub(super) fn fetchable_bytes(&self, context: &Surroundings<'_>) -> u64 {
        if !context.settings.host.fetch_layers {
            return 0;
        }
        let grain = (context.settings.host.fetched_bytes() / MEMORY_GRAINS).max(1);
        context.partial.room() / grain * grain
    }

    fn here_of(&self, model: ModelDigest, context: &Surroundings<'_>) -> Vec<LayerRange> {
        let partial = context.partial.entries().iter();
        let of_it = partial.filter(|partial| partial.entry.digest() == model);
        of_it.flat_map(|partial| partial.layers.iter().copied()).collect()
    }
}

/// What the layers that are missing would take, by what a device says of the whole file. Nothing
/// but a first look: the file itself has the last word.
fn claimed_bytes(given: &HaveModel, layers: LayerRange, here: &[LayerRange]) -> u64 {
    let each = given.bytes / u64::from(given.layers.max(1));
    let is_missing = |layer: &u32| !here.iter().any(|here| here.contains_layer(*layer));
    each.saturating_mul(layers.iter().filter(is_missing).count() as u64)
}
