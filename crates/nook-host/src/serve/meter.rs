//! What the answers to one guest show: how fast this device is, and how much it has given.
//!
//! A device that only lends measures itself by this, and tells it in its adverts. Numbers and a
//! device's id are all that is looked at.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nook_base::{LayerRange, ModelDigest, ModelPart, PeerId};
use nook_pipeline::HopVisit;
use nook_plan::Place;
use nook_wire::ResultHead;
use tokio::sync::mpsc;

use crate::events::HostEvent;
use crate::usage::Usage;

/// Answers that are collected before they are reported; one message for each token would keep the
/// node busy. What a full inbox has no place for is not told.
const COLLECTED_MAX: usize = 32;

/// Looks at the answers of one call.
pub(crate) struct Meter {
    model: ModelDigest,
    layers: LayerRange,
    /// Of the device that asks, for the thank-you number.
    guest: String,
    usage: Usage,
    events: mpsc::Sender<HostEvent>,
    // Guards a short list; never held across an await.
    collected: Mutex<Vec<HopVisit>>,
}

impl Meter {
    pub(crate) fn new(
        (guest, usage): (PeerId, Usage),
        model: ModelDigest,
        layers: LayerRange,
        events: mpsc::Sender<HostEvent>,
    ) -> Self {
        Self { model, layers, guest: guest.short(), usage, events, collected: Mutex::default() }
    }

    /// A step was answered.
    pub(crate) fn see(&self, head: &ResultHead) {
        metrics::counter!("distributed_inference_lent_tokens_total", "peer" => self.guest.clone())
            .increment(u64::from(head.count));
        self.usage.add(head.count);
        let us = |us: u32| Duration::from_micros(u64::from(us));
        let visit = HopVisit {
            place: Place::Local,
            part: ModelPart::inner(self.layers),
            rows: head.count,
            logits: false,
            compute: us(head.compute_us),
            queue: us(head.queue_us),
            wire: Duration::ZERO,
            overlapped: false,
            forwarded: false,
        };
        let mut collected = self.collected.lock().unwrap_or_else(PoisonError::into_inner);
        collected.push(visit);
        if collected.len() >= COLLECTED_MAX {
            self.tell(std::mem::take(&mut collected));
        }
    }

    fn tell(&self, visits: Vec<HopVisit>) {
        let _ = self.events.try_send(HostEvent::Measured { model: self.model, visits });
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let rest = std::mem::take(self.collected.get_mut().unwrap_or_else(PoisonError::into_inner));
        if !rest.is_empty() {
            self.tell(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use nook_base::ActivationDtype;

    use super::*;

    #[test]
    fn what_a_guest_is_answered_is_told_in_few_messages_and_none_is_lost() {
        let (events, mut inbox) = mpsc::channel(8);
        let layers = LayerRange::with_len(1, 4);
        let usage = Usage::default();
        let guest = (PeerId([1; 32]), usage.clone());
        let meter = Meter::new(guest, ModelDigest([2; 32]), layers, events);
        for step in 0..COLLECTED_MAX as u64 + 3 {
            meter.see(&ResultHead {
                step,
                position: 0,
                count: 1,
                hidden: 8,
                dtype: ActivationDtype::F16,
                compute_us: 700,
                queue_us: 20,
                bulk: false,
            });
        }
        drop(meter);
        assert_eq!(usage.take(), COLLECTED_MAX as u64 + 3);
        let mut told = Vec::new();
        while let Ok(HostEvent::Measured { visits, .. }) = inbox.try_recv() {
            told.push(visits);
        }
        assert_eq!(told.iter().map(Vec::len).collect::<Vec<_>>(), [COLLECTED_MAX, 3]);
        let visit = told[0][0];
        assert_eq!((visit.place, visit.part.layers), (Place::Local, layers));
        assert_eq!(visit.compute, Duration::from_micros(700));
    }
}
