//! Calls of other devices: the gate decides, and only its proof leads to a worker (I-1).

use nook_base::{ErrorCode, PeerId};
use nook_link::Link;
use nook_store::AuditAsked;
use nook_trust::purpose::{CopyModels, Lend, RemoteWhole};
use nook_trust::{Purpose, Ticket};
use nook_wire::WireError;
use tokio::sync::oneshot;

use super::Host;
use crate::audit::{subject, why};
use crate::events::{HostEffect, HostTask, Surroundings};
use crate::refusal::error;
use crate::terms::{CopyPass, Guest, OwnGuest, Terms};

impl<C> Host<C> {
    /// A device begins a call.
    pub(super) fn answer(&mut self, peer: PeerId, call: C, context: &Surroundings<'_>) {
        let admitted = context.gate.admit::<Lend>(peer);
        let own = self.own_guest(peer, context);
        let copies = self.copy_pass(peer, context);
        let (code, why) = match (admitted, &self.terms) {
            (Ok(admitted), Some(terms)) => {
                let terms = terms.clone();
                return self.serve(Guest { admitted, own, copies }, call, terms);
            }
            (Err(refusal), _) => (refusal.code(), why(refusal.code())),
            (Ok(_), None) => (ErrorCode::SwitchedOff, self.why_not_lent()),
        };
        self.run(HostTask::Refuse { peer, copies, call, error: error(code, ""), why });
    }

    fn serve(&mut self, guest: Guest, call: C, terms: Terms) {
        self.push(HostEffect::StopOwnProbe);
        let cut = self.guests.entry(guest.admitted.peer());
        let revoked = cut.or_insert_with(|| terms.revoked.child_token()).clone();
        let terms = Box::new(Terms { revoked, ..terms });
        self.run(HostTask::Serve { guest: Box::new(guest), call, terms });
    }

    /// What `peer` needs to have whole requests run here; absent where the gate does not let it.
    fn own_guest(&mut self, peer: PeerId, context: &Surroundings<'_>) -> Option<OwnGuest> {
        let pass = context.gate.admit::<RemoteWhole>(peer).ok()?;
        let cut = self.own.cuts.entry(peer);
        let revoked = cut.or_insert_with(|| self.lifetime.child_token()).clone();
        Some(OwnGuest { pass, revoked })
    }

    /// What a call of `peer` needs to be given files, or why it gets none.
    fn copy_pass(
        &mut self,
        peer: PeerId,
        context: &Surroundings<'_>,
    ) -> Result<CopyPass, WireError> {
        let pass = context.gate.admit::<CopyModels>(peer);
        let pass = pass.map_err(|refusal| error(refusal.code(), ""))?;
        if !context.settings.network.give_models {
            let why = "This device gives no models: its owner has switched that off.";
            return Err(error(ErrorCode::SwitchedOff, why));
        }
        let cut = self.copies.cuts.entry(peer);
        let revoked = cut.or_insert_with(|| self.lifetime.child_token()).clone();
        Ok(CopyPass { pass, revoked })
    }

    /// A device brings steps in another's name: the gate decides on that other one (I-1).
    pub(super) fn relay(
        &mut self,
        carrier: PeerId,
        ticket: &Ticket,
        call: C,
        context: &Surroundings<'_>,
    ) {
        let admitted = context.gate.admit_ticket(ticket, carrier, context.me);
        let code = match (admitted, &self.terms) {
            (Ok(requester), Some(terms)) => {
                let named = terms.named.clone();
                let claim = ticket.claim;
                return self.run(HostTask::Join { requester, carrier, claim, call, named });
            }
            (Err(refusal), _) => {
                tracing::info!(?carrier, %refusal, "a relay was refused");
                refusal.code()
            }
            (Ok(_), None) => ErrorCode::SwitchedOff,
        };
        let claim = &ticket.claim;
        let asked = subject(AuditAsked::Relay, claim.model, None, Some(claim.layers));
        self.audit.refuse(context.unix_seconds, carrier, asked, why(code));
        self.run(HostTask::Answer { call, error: error(code, "") });
    }

    /// The way to a device to which a guest's results are to go: a linked one that the owner lets
    /// compute.
    pub(super) fn next_host(
        &mut self,
        peer: PeerId,
        answer: oneshot::Sender<Result<Link, ErrorCode>>,
        context: &Surroundings<'_>,
    ) {
        let effect = match context.gate.check(peer, Purpose::Borrow) {
            Ok(()) => HostEffect::FindLink { peer, answer },
            Err(refusal) => HostEffect::NoLink { answer, code: refusal.code() },
        };
        self.push(effect);
    }

    /// Ends what runs for devices that the gate does not let in any more, and frees what is kept
    /// for them.
    pub(super) fn end_revoked(&mut self, context: &Surroundings<'_>) {
        let revoked = |peer: &PeerId, purpose| context.gate.check(*peer, purpose).is_err();
        for (cuts, purpose, keeps) in [
            (&mut self.guests, Purpose::Lend, true),
            (&mut self.own.cuts, Purpose::RemoteWhole, true),
            (&mut self.copies.cuts, Purpose::CopyModels, false),
        ] {
            for (peer, cut) in cuts.extract_if(.., |peer, _| revoked(peer, purpose)) {
                cut.cancel();
                if keeps {
                    self.effects.push(HostEffect::Run(HostTask::ForgetKept(Some(peer))));
                }
            }
        }
        let lends = |peer| context.gate.check(peer, Purpose::Lend).is_ok();
        self.end_leases_of(|peer| !lends(peer), context);
    }
}
