//! What each device brings: how fast the usual reply is with it and without it.
//!
//! A device that the owner has not allowed to compute is counted as if it were allowed, so that the
//! owner can decide by it; nothing is asked of it, and nothing is routed by what is found here.

use std::collections::BTreeMap;
use std::time::Instant;

use nook_base::PeerId;
use nook_plan::{Basis, Device, ModelCosts, Place, Prediction, Request, Situation, Standing, plan};
use nook_resources::adverts::{AdvertBook, Heard};

use super::{Encoded, Question};

/// Devices that are looked at; of more, those with the highest ids are not.
const DEVICES_MAX: usize = 16;

/// What one device brings, in tokens of the usual reply in a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gain {
    /// The device.
    pub(crate) peer: PeerId,
    /// With it, and with whoever else is used then.
    pub(crate) with_it: f64,
    /// Without it; `None` where the reply cannot be made without it.
    pub(crate) without_it: Option<f64>,
    /// Whether both rest on measurements alone.
    pub(crate) is_measured: bool,
}

impl Question {
    /// What each device brings that offers layers of this model. `guests` are the adverts of devices
    /// that may not compute for this one.
    pub(crate) fn gains(
        &self,
        told: &Encoded,
        book: &AdvertBook,
        guests: &BTreeMap<PeerId, Heard>,
        now: Instant,
    ) -> Vec<Gain> {
        let (model, here, request) = (self.costs(), self.here(told), self.request(told));
        let known = self.others(told, book, now);
        let household = Household { model: &model, request: &request, here: &here };
        let used = known.iter().filter(|device| device.standing == Standing::Ready);
        let of_used = used.filter_map(|it| household.gain_of(it, &known));
        // As the book would be if the owner allowed it.
        let guests = guests.iter().filter_map(|(peer, heard)| {
            let mut book = book.clone();
            book.barred.remove(peer);
            book.heard.insert(*peer, heard.clone());
            let guest = self.other(*peer, &book, true, now);
            let mut all = known.clone();
            all.retain(|device| device.place != guest.place);
            all.push(guest.clone());
            let is_ready = guest.standing == Standing::Ready;
            is_ready.then(|| household.gain_of(&guest, &all))?
        });
        of_used.chain(guests).take(DEVICES_MAX).collect()
    }
}

/// The usual reply, but for who else is there.
struct Household<'a> {
    model: &'a ModelCosts,
    request: &'a Request,
    here: &'a Device,
}

impl Household<'_> {
    /// What `device` brings among `all`, of whom it is one.
    fn gain_of(&self, device: &Device, all: &[Device]) -> Option<Gain> {
        let Place::Peer(peer) = device.place else { return None };
        let rest: Vec<Device> =
            all.iter().filter(|other| other.place != device.place).cloned().collect();
        let with_it = self.using(device, all)?;
        let without_it = self.best(&rest);
        let is_measured = [Some(with_it), without_it]
            .into_iter()
            .flatten()
            .all(|prediction| prediction.basis == Basis::Measured);
        Some(Gain {
            peer,
            with_it: with_it.tokens_per_second(),
            without_it: without_it.map(|prediction| prediction.tokens_per_second()),
            is_measured,
        })
    }

    /// The best way in which `device` takes part: with the others, or where they do without it, with
    /// this device alone. `None` where it can take part in none.
    fn using(&self, device: &Device, all: &[Device]) -> Option<Prediction> {
        let decision = plan(&self.situation(all)).ok();
        let takes_part = decision.as_ref().and_then(|decision| {
            let best = decision.pooled.as_ref()?;
            let nook_plan::Execution::Route(route) = &best.execution else { return None };
            let has_it = route.segments().iter().any(|segment| segment.place == device.place);
            has_it.then_some(best.prediction)
        });
        takes_part.or_else(|| {
            let only = [device.clone()];
            let decision = plan(&self.situation(&only)).ok()?;
            decision.pooled.map(|pooled| pooled.prediction)
        })
    }

    fn best(&self, others: &[Device]) -> Option<Prediction> {
        plan(&self.situation(others)).ok().map(|decision| decision.plan.prediction)
    }

    fn situation<'b>(&'b self, others: &'b [Device]) -> Situation<'b> {
        Situation { model: self.model, request: self.request, here: self.here, others }
    }
}
