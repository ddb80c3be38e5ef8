//! What a reply would gain if the slowest of the ways to other devices were a cable.

use std::time::{Duration, Instant};

use nook_base::PeerId;
use nook_plan::{
    BytesPerSecond, Device, Figure, Link, OffloadPolicy, Place, RoundTrip, Situation, Standing,
    plan,
};
use nook_resources::adverts::AdvertBook;

use super::{Choice, Encoded, Question};

/// A usual cable of a household: a gigabit.
const CABLE: Link = Link {
    round_trip: Figure::Measured(RoundTrip {
        mean: Duration::from_micros(500),
        deviation: Duration::from_micros(100),
    }),
    bandwidth: Figure::Measured(BytesPerSecond(110_000_000)),
};

/// How much faster it must be to be worth moving a computer for.
const GAIN_MIN: f64 = 1.3;

/// Words per second with one device on a cable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CableGain {
    /// The device.
    pub(crate) peer: PeerId,
    /// As things are.
    pub(crate) now: f64,
    /// With the cable.
    pub(crate) then: f64,
}

impl Question {
    /// What the planner would promise if the device with the slowest way were on a cable, where that
    /// is worth a sentence.
    pub(super) fn by_cable(
        &self,
        told: &Encoded,
        book: &AdvertBook,
        now: Instant,
        choice: &Choice,
    ) -> Option<CableGain> {
        let decision = choice.planned.as_ref()?.as_ref().ok().filter(|_| choice.is_planned)?;
        let before = decision.plan.prediction.tokens_per_second();
        self.ask((told, OffloadPolicy::Refused), book, now, |situation, _| {
            let (peer, others) = with_cable(situation.others)?;
            let cabled = plan(&Situation { others: &others, ..*situation }).ok()?;
            let then = cabled.plan.prediction.tokens_per_second();
            (then >= before * GAIN_MIN).then_some(CableGain { peer, now: before, then })
        })
    }
}

/// The devices, with that one on a cable whose way is the slowest of those that were measured.
fn with_cable(others: &[Device]) -> Option<(PeerId, Vec<Device>)> {
    let mut others = others.to_vec();
    let ready = others.iter_mut().filter(|device| device.standing == Standing::Ready);
    let slowest = ready.max_by_key(|device| device.link.round_trip.measured().map(|it| it.mean))?;
    let Place::Peer(peer) = slowest.place else { return None };
    // Of one that was never measured nobody knows whether it is on a cable.
    slowest.link.round_trip.measured()?;
    slowest.link = CABLE;
    Some((peer, others))
}
