//! Layers that other devices ask this one to hold.
//!
//! A PLACE is judged here by what the owner allows: sharing, the gate, the layers that the owner
//! named, streams, the cap on lending and the memory of the machine; the worker has the last word.

use std::collections::BTreeSet;

use nook_base::limits::WISH_EVERY;
use nook_base::{ErrorCode, LayerRange, ModelDigest, ModelPart, PeerId};
use nook_trust::purpose::Lend;
use nook_trust::{Admitted, Purpose};
use nook_wire::{Message, PlaceState, Placed, PlacementRequest};
use tokio_util::sync::CancellationToken;

use super::Host;
use super::offers::{lending_cap, offer_of};
use crate::events::{HostEffect, HostTask, Surroundings};
use crate::leases::{LeaseJob, Progress};
use crate::lent::hull;
use crate::residency::OWNERS_MEMORY;
use crate::terms::Terms;
use nook_resources::catalogue::Entry;

impl<C> Host<C> {
    /// A device asks this one to hold layers.
    pub(super) fn place(
        &mut self,
        peer: PeerId,
        wish: PlacementRequest,
        context: &Surroundings<'_>,
    ) {
        if wish.layers.is_empty() {
            // Given back, and nobody waits for an answer.
            if !self.leases.end(|model, by, _| model == wish.model && by == peer).is_empty() {
                self.relist(context);
            }
            return;
        }
        if let Some(state) = self.leases.repeated(peer, wish) {
            return self.tell_placed(peer, placed(wish, state), context);
        }
        if let Err(code) = self.grant(peer, wish, context) {
            self.note_not_held(peer, wish, code, context);
            tracing::info!(?peer, model = ?wish.model, layers = %wish.layers, %code, "not placed");
            self.tell_placed(peer, placed(wish, PlaceState::Refused { code }), context);
        }
    }

    /// Decides, and begins to load, or to fetch what is not here.
    fn grant(
        &mut self,
        peer: PeerId,
        wish: PlacementRequest,
        context: &Surroundings<'_>,
    ) -> Result<(), ErrorCode> {
        let admitted = context.gate.admit::<Lend>(peer);
        let admitted = admitted.map_err(|refusal| refusal.code())?;
        let terms = self.terms.clone().ok_or(ErrorCode::SwitchedOff)?;
        self.leases.check_rate(peer, wish.model, context.now)?;
        if terms.streams.available_permits() == 0 {
            return Err(ErrorCode::Busy);
        }
        match self.source(wish, context) {
            Some(source) => self.hold(admitted, wish, source, &terms, context),
            None => self.fetch(peer, wish, &terms, context),
        }
    }

    /// The file that has what `wish` asks for, and the stretch of layers in it that can be lent;
    /// absent where layers are missing.
    pub(super) fn source<'a>(
        &self,
        wish: PlacementRequest,
        context: &Surroundings<'a>,
    ) -> Option<(&'a Entry, LayerRange)> {
        if let Some(entry) = context.whole().find(|entry| entry.digest() == wish.model) {
            return Some((entry, LayerRange::all(entry.layers())));
        }
        let mut partial = context.partial.entries().iter();
        let partial = partial.find(|partial| partial.entry.digest() == wish.model)?;
        let here = partial.layers.iter().find(|here| here.contains(wish.layers))?;
        Some((&partial.entry, *here))
    }

    /// Begins to load layers that are in `entry`, within the stretch `here`.
    pub(super) fn hold(
        &mut self,
        admitted: Admitted<Lend>,
        wish: PlacementRequest,
        (entry, here): (&Entry, LayerRange),
        terms: &Terms,
        context: &Surroundings<'_>,
    ) -> Result<(), ErrorCode> {
        let peer = admitted.peer();
        let mut asked = self.leases.asked(wish.model, Some(peer));
        asked.push(wish.layers);
        let offered = offer_of((entry, here), &asked, self.cap_of(entry, context), context);
        let offered = offered.ok_or(ErrorCode::OutOfMemory)?.layers;
        self.check_limits(entry, wish, offered, context)?;
        let (name, path) = (entry.listed.name.clone(), entry.listed.path.clone());
        let ended = self.leases.end(|model, by, lease| {
            let is_coming = matches!(lease.state, PlaceState::Fetching { .. });
            model == wish.model && by != peer && !is_coming && !offered.contains(lease.layers)
        });
        let cut = terms.until.child_token();
        let state = PlaceState::Loading { percent: 0 };
        let number = self.leases.add(peer, (wish, state), cut.clone(), context.now);
        let free_first = self.leases.take_owed(wish.model);
        terms.served.note(wish.model);
        for (loser, placed) in ended {
            self.tell_placed(loser, placed, context);
        }
        tracing::info!(?peer, model = ?wish.model, layers = %wish.layers, "holding layers");
        let job = Box::new(LeaseJob { admitted, wish, number, name, path, free_first });
        self.run(HostTask::Load { job, cut });
        self.relist(context);
        Ok(())
    }

    /// The owner's named layers, the others' greater need, and memory, in that order.
    fn check_limits(
        &self,
        entry: &Entry,
        wish: PlacementRequest,
        offered: LayerRange,
        context: &Surroundings<'_>,
    ) -> Result<(), ErrorCode> {
        if !LayerRange::all(entry.layers()).contains(wish.layers) {
            return Err(ErrorCode::BadRequest);
        }
        if !offered.contains(wish.layers) {
            let chosen = context.settings.host.layers;
            let is_too_long = chosen.is_none() && wish.layers.len() > offered.len();
            let code =
                if is_too_long { ErrorCode::OutOfMemory } else { ErrorCode::ShardUnavailable };
            return Err(code);
        }
        let held = self.residency.held(wish.model, wish.layers);
        let missing = wish.layers.iter().filter(|layer| !held.contains_layer(*layer));
        let one = |layer| ModelPart::inner(LayerRange::with_len(layer, 1));
        let adds: u64 = missing.map(|layer| entry.file.weight_bytes(&one(layer))).sum();
        // What a card has room for takes nothing of the computer's memory.
        let cap = lending_cap(context);
        let adds = adds.saturating_sub(self.residency.card_free(wish.model, cap));
        let others = self.residency.lent_bytes(Some(wish.model)).memory;
        let fits = adds.saturating_add(others) <= cap.memory && adds <= self.residency.room();
        if fits { Ok(()) } else { Err(ErrorCode::OutOfMemory) }
    }

    /// A loading goes on, or came to its end: its device is told, unless it has been told by now
    /// that the lease is over.
    pub(super) fn placing(&mut self, progress: Progress, context: &Surroundings<'_>) {
        let Progress { peer, model, number, state } = progress;
        let key = (model, peer);
        let Some(lease) = self.leases.leases.get_mut(&key).filter(|it| it.number == number) else {
            return;
        };
        lease.state = state;
        lease.used = context.now;
        let layers = lease.layers;
        self.tell_placed(peer, Placed { model, layers, state }, context);
        if matches!(state, PlaceState::Loading { .. }) {
            return;
        }
        if let PlaceState::Refused { code } = state {
            self.note_hold_failed(key, code, context);
            self.leases.end(|of, by, _| (of, by) == key);
            self.relist(context);
        }
        self.survey(context.now);
    }

    /// Ends what is not used, what the owner needs and what the gate does not allow any more, and
    /// frees what was given back. Called when the workers have said what they hold.
    pub(super) fn look_at_leases(&mut self, context: &Surroundings<'_>) {
        let now = context.now;
        let idle = context.settings.host.shard_eviction_idle;
        let is_tight = self.residency.available() < OWNERS_MEMORY;
        let residency = &self.residency;
        for ((model, _), lease) in &mut self.leases.leases {
            if residency.conversations(*model).1 {
                lease.used = now;
            }
        }
        let ended = self.leases.end(|model, peer, lease| {
            let is_held = lease.state == PlaceState::Held;
            let unused = now.saturating_duration_since(lease.used);
            // The worker may have freed them by itself, or ended.
            let is_gone = is_held
                && unused > WISH_EVERY
                && !residency.held(model, lease.layers).contains(lease.layers);
            let is_unused = is_held && (unused >= idle || (is_tight && !unused.is_zero()));
            is_gone || is_unused || context.gate.check(peer, Purpose::Lend).is_err()
        });
        if !ended.is_empty() {
            self.relist(context);
        }
        for (peer, placed) in ended {
            tracing::info!(?peer, model = ?placed.model, "layers are not held any more");
            self.tell_placed(peer, placed, context);
        }
        self.free_what_is_owed();
    }

    /// Ends the leases of the devices that `is_over` names.
    pub(super) fn end_leases_of(
        &mut self,
        is_over: impl Fn(PeerId) -> bool,
        context: &Surroundings<'_>,
    ) {
        self.fetches.refuse(&is_over);
        let ended = self.leases.end(|_, peer, _| is_over(peer));
        if ended.is_empty() {
            return;
        }
        self.relist(context);
        for (peer, placed) in ended {
            tracing::info!(?peer, model = ?placed.model, "layers are not held any more");
            self.tell_placed(peer, placed, context);
        }
        self.free_what_is_owed();
    }

    /// Ends every lease: the terms under which they were given are over.
    pub(super) fn end_leases(&mut self, context: &Surroundings<'_>) {
        for (peer, placed) in self.leases.end(|_, _, _| true) {
            self.tell_placed(peer, placed, context);
        }
    }

    /// Frees what guests brought with these models, as soon as no conversation is held, but for
    /// what is leased by then.
    pub(super) fn take_back(&mut self, models: BTreeSet<ModelDigest>, context: &Surroundings<'_>) {
        for model in models {
            if let Some(entry) = context.entries().find(|entry| entry.digest() == model) {
                self.leases.owe(model, LayerRange::all(entry.layers()));
            }
        }
    }

    fn free_what_is_owed(&mut self) {
        let owed = self.leases.owed.keys();
        let free: Vec<ModelDigest> =
            owed.filter(|model| !self.residency.conversations(**model).0).copied().collect();
        for model in free {
            let ranges = self.leases.take_owed(model);
            let Some(all) = hull(&ranges) else { continue };
            let until = CancellationToken::new();
            self.leases.freeing.insert(model, (all, until.clone()));
            self.run(HostTask::Release { model, ranges, until });
        }
    }

    /// Tells a device, if it is there. One whose link is gone comes back with an advert, which says
    /// the same.
    pub(super) fn tell_placed(&mut self, peer: PeerId, placed: Placed, context: &Surroundings<'_>) {
        if context.linked.contains(&peer) {
            self.push(HostEffect::Tell(peer, Message::Placed(placed)));
        }
    }
}

fn placed(wish: PlacementRequest, state: PlaceState) -> Placed {
    Placed { model: wish.model, layers: wish.layers, state }
}
