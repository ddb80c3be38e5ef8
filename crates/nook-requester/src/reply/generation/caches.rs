//! What a reply does with what a leaving host remembers: asks for it, and passes it on.
//!
//! The pipeline says when; the bytes lie in [`crate::reply::handover`], and the calls carry them.

use nook_pipeline::{AttemptId, Event};

use crate::reply::generation::Generation;
use crate::reply::segment_call::{Order, SegmentCall, put};

impl Generation {
    /// What the host of a call would take to give what it remembers, if it and this device can.
    pub(super) fn offer_of_caches(&self, attempt: AttemptId) -> Option<Event> {
        let takes = self.handovers.offer(attempt, self.history.len())?;
        Some(Event::KvCacheOffered { attempt, takes })
    }

    pub(super) fn ask_for_caches(&mut self, attempt: AttemptId) {
        let asked = match self.calls.get(&attempt).map(|(call, _)| call) {
            Some(SegmentCall::Peer(orders)) => put(orders, Order::RequestKvCache),
            // Our own worker does not leave.
            Some(SegmentCall::Local { .. }) | None => false,
        };
        if !asked {
            self.pending.push_back(Event::Lost { attempt });
        }
    }

    /// Passes on what another host remembered; where nothing came, the host begins at 0.
    pub(super) fn give_caches(&mut self, attempt: AttemptId, from: AttemptId) {
        let pieces = self.handovers.pieces_for(attempt, from);
        let sent = match (pieces, self.calls.get(&attempt).map(|(call, _)| call)) {
            (None, _) => {
                self.pending.push_back(Event::KvCacheImported { attempt, position: 0 });
                return;
            }
            (Some(pieces), Some(SegmentCall::Peer(orders))) => put(orders, Order::Give(pieces)),
            (Some(pieces), Some(SegmentCall::Local { orders, .. })) => {
                put(orders, Order::Give(pieces))
            }
            (Some(_), None) => false,
        };
        if !sent {
            self.pending.push_back(Event::Lost { attempt });
        }
    }
}
