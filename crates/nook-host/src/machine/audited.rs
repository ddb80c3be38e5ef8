//! What the state machine itself notes of what others ask: layers that they have held here, and
//! what it refuses.

use std::collections::BTreeMap;
use std::time::Instant;

use nook_api::views::AuditEntryView;
use nook_base::{ErrorCode, LayerRange, ModelDigest, ModelPart, PeerId};
use nook_store::{AuditAsked, AuditSubject, AuditWho, AuditWhy};
use nook_trust::Purpose;
use nook_wire::PlacementRequest;

use super::Host;
use crate::audit::{Line, Moment, subject, why};
use crate::events::Surroundings;

/// Leases as they are noted, by model and device; at most one for each lease.
pub(super) type Held = BTreeMap<(ModelDigest, PeerId), (LayerRange, Line)>;

impl<C> Host<C> {
    /// What other devices asked of this one, what was asked last first.
    pub fn audit(&self, now: Instant, unix_seconds: u64) -> Vec<AuditEntryView> {
        self.audit.view(now, unix_seconds)
    }

    /// Somebody was refused a connection before any device was proved.
    pub fn note_turned_away(&self, unix: u64, who: AuditWho, why: AuditWhy, times: u64) {
        self.audit.turned_away(unix, who, why, times);
    }

    /// Why a call of a device that the gate lets in is refused: nothing is lent now.
    pub(super) fn why_not_lent(&self) -> AuditWhy {
        if self.paused().is_some() { AuditWhy::Paused } else { AuditWhy::SwitchedOff }
    }

    /// A device that wanted layers held is refused.
    pub(super) fn note_not_held(
        &self,
        peer: PeerId,
        wish: PlacementRequest,
        code: ErrorCode,
        context: &Surroundings<'_>,
    ) {
        let is_closed = code == ErrorCode::SwitchedOff;
        let why = if is_closed { self.why_not_lent() } else { why(code) };
        let asked = asked_to_hold((wish.model, wish.layers), context);
        self.audit.refuse(context.unix_seconds, peer, asked, why);
    }

    /// Layers of a lease will not be there.
    pub(super) fn note_hold_failed(
        &mut self,
        key: (ModelDigest, PeerId),
        code: ErrorCode,
        context: &Surroundings<'_>,
    ) {
        if let Some((_, line)) = self.held.remove(&key) {
            line.refuse(moment(context), why(code));
        }
    }

    /// Notes the leases that there are now and those that have ended. Called after each event.
    pub(super) fn settle_held(&mut self, context: &Surroundings<'_>) {
        let Self { held, leases, audit, terms, .. } = self;
        let over = held.extract_if(.., |key, (layers, _)| {
            leases.leases.get(key).is_none_or(|lease| lease.layers != *layers)
        });
        for ((_, peer), (_, line)) in over {
            let why = match (context.gate.check(peer, Purpose::Lend), &terms) {
                (Err(_), _) => Some(AuditWhy::TooLittleTrust),
                (Ok(()), None) => Some(AuditWhy::Leaving),
                (Ok(()), Some(_)) => None,
            };
            line.end(moment(context), why);
        }
        for ((model, peer), lease) in &leases.leases {
            let (_, line) = held.entry((*model, *peer)).or_insert_with(|| {
                let asked = asked_to_hold((*model, lease.layers), context);
                (lease.layers, audit.begin(moment(context), *peer, asked))
            });
            if line.holds_nothing() {
                // They may still be on their way.
                line.holds(weight_bytes((*model, lease.layers), context));
            }
        }
    }
}

fn moment(context: &Surroundings<'_>) -> Moment {
    Moment { now: context.now, unix: context.unix_seconds }
}

fn asked_to_hold(
    (model, layers): (ModelDigest, LayerRange),
    context: &Surroundings<'_>,
) -> AuditSubject {
    let entry = context.entries().find(|entry| entry.digest() == model);
    let name = match entry {
        Some(entry) => Some(entry.listed.name.clone()),
        None => context.partial.given(model).ok().map(|given| given.name),
    };
    subject(AuditAsked::Hold, model, name.as_deref(), Some(layers))
}

/// What the weights of these layers take; nothing while they are not here.
fn weight_bytes((model, layers): (ModelDigest, LayerRange), context: &Surroundings<'_>) -> u64 {
    let entry = context.entries().find(|entry| entry.digest() == model);
    let part = ModelPart::inner(layers);
    entry.map_or(0, |entry| entry.file.weight_bytes(&part))
}
