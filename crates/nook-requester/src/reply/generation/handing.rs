//! The requester's part in a chain of hosts: naming its calls, signing tickets, knowing whom to
//! ask.
//!
//! What the hosts do with that is `forwarding`; when it is done, the pipeline decides.

use std::collections::BTreeSet;

use nook_base::{ActivationDtype, ModelPart, PeerId};
use nook_link::{Link, Links};
use nook_pipeline::{AttemptId, Event};
use nook_trust::TicketClaim;
use nook_wire::{Message, Open, ResumePoint};

use super::Generation;
use crate::reply::segment_call::{Order, SegmentCall, put};

impl Generation {
    /// What a call to another device begins with; remembered for the ticket that may name it.
    pub(super) fn opening(
        &mut self,
        attempt: AttemptId,
        (peer, part): (PeerId, ModelPart),
        (dtype, positions_max, resume): (ActivationDtype, u32, Option<ResumePoint>),
    ) -> Message {
        let open = Open {
            // A name for this call alone.
            session: rand::random(),
            model: self.model.listed.digest,
            layers: part.layers,
            dtype,
            positions_max,
            resume,
        };
        self.asked.insert(attempt, (peer, open.clone()));
        Message::Open(open)
    }

    /// Asks the host of `attempt` to hand its results to that of `next`, with a ticket for it.
    pub(super) fn forward(&mut self, attempt: AttemptId, next: AttemptId) {
        let asked = self.asked.get(&attempt).zip(self.asked.get(&next));
        let call = self.calls.get(&attempt).map(|(call, _)| call);
        let (Some(((carrier, _), (host, open))), Some(SegmentCall::Peer(orders))) = (asked, call)
        else {
            return;
        };
        let ticket = self.key.issue(TicketClaim {
            carrier: *carrier,
            host: *host,
            session: open.session,
            model: open.model,
            layers: open.layers,
            dtype: open.dtype,
            positions_max: open.positions_max,
        });
        let head = Message::Forward(Box::new(ticket));
        if !put(orders, Order::Send { head, tensor: None }) {
            // As in `send`.
            self.pending.push_back(Event::Lost { attempt });
        }
    }
}

/// Devices that are linked with this one. Whether two of them are linked with each other they say
/// when they are asked to forward.
pub(super) fn linked(links: &Links) -> BTreeSet<PeerId> {
    links.all().iter().map(Link::peer).collect()
}
