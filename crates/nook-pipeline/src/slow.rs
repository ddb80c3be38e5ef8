//! A device that answers every step, and has become much slower than it was.
//!
//! No deadline passes, because a deadline must forgive. So each answered decode step is also
//! compared with what the device usually takes and with what somebody else would take
//! ([`crate::Forecast`]). When the gain is large and pays for the replay within a short while, the
//! layers are begun elsewhere beside it, as for a late device (`hedge`); but the slow one's answers
//! do not end that: whoever takes over has to catch up while the reply goes on.

use std::time::{Duration, Instant};

use nook_plan::{Offer, Place, Segment};

use crate::hedge::HEDGES_MAX;
use crate::message::CloseReason;
use crate::pipeline::Pipeline;
use crate::recover::{segments, take_streams};
use crate::stage::{Asked, Phase, Role, Slowness};

/// Decode steps whose mean is the pace of a device at the moment.
const PACE_STEPS: usize = 12;

/// The longest of them, which does not count: a hiccup is no pace.
const HICCUPS_FORGIVEN: usize = 1;

/// A device is slow when it takes this many times what it usually takes. Twice is what other
/// programs on the same machine do; the planner sees that with the next reply.
const SLOWER_THAN_ITSELF: u32 = 4;

/// Whoever takes over must be this many times faster than the slow device is now.
const FASTER_THAN_IT: u32 = 3;

/// Less than this for each step is hardly seen, and the other programs of a busy machine cause as
/// much.
const SAVES_MIN: Duration = Duration::from_millis(30);

/// Positions within which replay and loading must have paid. How long a reply goes on nobody knows.
const POSITIONS_AHEAD: u32 = 64;

/// Decode steps that the slow device may answer while somebody else catches up; after that it
/// stays, for this reply.
const CATCH_UP_STEPS: u32 = 256;

impl Pipeline {
    /// The main stage at `index` has answered a decode step.
    pub(crate) fn look_at_pace(&mut self, index: usize) {
        match self.stages[index].slowness {
            Slowness::Usual if self.is_slow(index) => {
                self.stages[index].slowness = Slowness::Slow;
                self.stages[index].asked = Asked::Wanted;
            }
            // The step that was answered meanwhile took the wish back.
            Slowness::Slow => self.stages[index].asked = Asked::Wanted,
            Slowness::Chased(steps) if steps >= CATCH_UP_STEPS => {
                self.drop_side(index, CloseReason::Superseded);
                self.stages[index].slowness = Slowness::Settled;
            }
            Slowness::Chased(_) if !self.has_side(index) => {
                self.stages[index].slowness = Slowness::Endured(0);
            }
            Slowness::Chased(steps) => {
                self.stages[index].slowness = Slowness::Chased(steps + 1);
            }
            Slowness::Endured(steps) if steps as usize >= PACE_STEPS => {
                self.stages[index].slowness = Slowness::Usual;
            }
            Slowness::Endured(steps) => {
                self.stages[index].slowness = Slowness::Endured(steps + 1);
            }
            Slowness::Usual | Slowness::Settled => {}
        }
    }

    /// Whether the device of a main stage takes much longer than it usually does.
    fn is_slow(&self, index: usize) -> bool {
        let stage = &self.stages[index];
        let is_busy = !stage.is_main() || stage.draining || stage.asked != Asked::No;
        let is_peer = stage.place() != Place::Local && matches!(stage.phase, Phase::Open(_));
        // What a chain's last host takes is not its own pace, and a hedge could not be fed.
        if is_busy || !is_peer || self.has_side(index) || self.is_chained(index) {
            return false;
        }
        let pace = stage.pace.recent(PACE_STEPS, HICCUPS_FORGIVEN);
        let usual = self.settings.forecast.step(stage.place(), stage.layers());
        pace.zip(usual).is_some_and(|(pace, usual)| {
            pace.saturating_sub(usual) >= SAVES_MIN
                && pace > usual.saturating_mul(SLOWER_THAN_ITSELF)
        })
    }

    /// Begins with the layers of a slow stage elsewhere, where that is predicted to pay.
    pub(crate) fn chase(&mut self, index: usize, offers: &mut [Offer], now: Instant) {
        self.stages[index].slowness = Slowness::Endured(0);
        let is_leaving = self.stages[index].draining;
        let is_enough = self.measure.hedges >= HEDGES_MAX || self.has_side(index) || is_leaving;
        let Some(pace) = self.stages[index].pace.recent(PACE_STEPS, HICCUPS_FORGIVEN) else {
            return;
        };
        if is_enough || !self.is_replayable(index) {
            return;
        }
        let Some(hedges) = self.faster(index, pace, offers) else { return };
        self.measure.hedges += 1;
        self.stages[index].slowness = Slowness::Chased(0);
        self.insert(index + 1, &hedges, Role::Hedge, now);
    }

    /// Other devices, or this one, that would compute the stage's layers so much faster that
    /// beginning with them pays.
    fn faster(&self, index: usize, pace: Duration, offers: &mut [Offer]) -> Option<Vec<Segment>> {
        let stage = &self.stages[index];
        let here = vec![Segment { part: stage.segment.part, place: Place::Local }];
        let mut others = self.untainted(offers);
        others.retain(|offer| {
            let place = Place::Peer(offer.peer);
            place != stage.place() && self.settings.forecast.step(place, offer.layers).is_some()
        });
        // Whoever has the layers in memory may be slow, and whoever loads them fast.
        let covers = [self.cover_in_memory(index, &others), self.cover_by(index, &others)];
        let elsewhere = covers.into_iter().flatten().map(|hops| (segments(&hops), hops));
        let here = Some((here, Vec::new())).filter(|_| self.may_stand_in(index));
        let candidates = elsewhere.chain(here);
        let (best, hops) = candidates
            .filter_map(|(segments, hops)| Some((self.expected(&segments)?, (segments, hops))))
            .filter(|((step, begin), _)| {
                let ahead = self.positions_ahead();
                let saves = pace.saturating_sub(*step);
                let is_large = pace >= step.saturating_mul(FASTER_THAN_IT) && saves >= SAVES_MIN;
                is_large && saves.saturating_mul(ahead) > *begin
            })
            .min_by_key(|((step, begin), _)| (*step, *begin))
            .map(|(_, best)| best)?;
        take_streams(offers, &hops);
        Some(best)
    }

    /// Positions of the rest of the reply that what is begun now has to pay for itself within.
    pub(crate) fn positions_ahead(&self) -> u32 {
        self.positions_left().min(POSITIONS_AHEAD)
    }

    /// A decode step over `segments`, and what it takes until they have caught up.
    pub(crate) fn expected(&self, segments: &[Segment]) -> Option<(Duration, Duration)> {
        let forecast = &self.settings.forecast;
        let (mut step, mut begin) = (Duration::ZERO, Duration::ZERO);
        for segment in segments {
            let (place, layers) = (segment.place, segment.part.layers);
            step = step.saturating_add(forecast.step(place, layers)?);
            begin = begin
                .saturating_add(forecast.ready(place, layers)?)
                .saturating_add(forecast.bulk(place, layers, self.positions())?);
        }
        Some((step, begin))
    }
}
