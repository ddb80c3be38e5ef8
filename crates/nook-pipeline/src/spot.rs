//! Recomputing a small random share of prefill elsewhere, to catch what no cheap check can.
//!
//! At the start of a prompt chance, which comes in as an argument, draws spans and a chunk of each.
//! When the device has answered that chunk, a *witness* computes the span up to it as well: another
//! device that offers the layers, else this one. Both answers must agree; they have to, because all
//! devices compute from the same bytes. A device that is contradicted by this one was wrong. Where two
//! other devices contradict each other nobody knows which, so neither computes on. What was built on
//! the answers is computed again.

use std::time::Instant;

use nook_base::{Activation, ActivationDtype};
use nook_plan::{Offer, Place, Segment};

use crate::fault::{Exclusion, Fault};
use crate::message::{AttemptId, CloseReason};
use crate::pipeline::Pipeline;
use crate::recover::{segments, take_streams};
use crate::stage::{Asked, Phase, Role, Stage, UnderWay};

/// How far f16 answers of two honest devices may lie apart, as a part of the row's RMS: sixteen steps
/// of f16 at 1. Different instruction sets or graphics cards round differently before the last
/// rounding to f16, and layers carry that on.
const F16_TOLERANCE: f64 = 16.0 / 1024.0;

/// The same for q8. What is left of such a difference before the rounding turns some number to the
/// next of its block's steps: √32 / 127 of a row's RMS when that happens to every one of them.
const Q8_TOLERANCE: f64 = F16_TOLERANCE + 5.66 / 127.0;

impl Pipeline {
    /// Draws what is checked in this prompt.
    pub(crate) fn draw_spot_checks(&mut self) {
        let share = u64::from(self.settings.spot_check.share_ppm);
        let positions = self.positions();
        let chunk = self.settings.prefill_chunk.max(1);
        let chunks = positions.div_ceil(chunk);
        let random = self.settings.spot_check.random;
        for stage in self.stages.iter_mut().filter(|stage| !stage.is_end()) {
            let drawn = mixed(random ^ u64::from(stage.layers().start()));
            // Each chunk with the same chance; of a span that is drawn more than once, one is checked.
            let chance = share.saturating_mul(u64::from(chunks)).min(1_000_000);
            if drawn % 1_000_000 < chance {
                let which = u32::try_from(mixed(drawn) % u64::from(chunks.max(1))).unwrap_or(0);
                stage.spot_check = Some(positions.min((which + 1).saturating_mul(chunk)));
            }
        }
    }

    /// Looks for witnesses for what was drawn and is answered by now.
    pub(crate) fn want_witnesses(&mut self) {
        for index in 0..self.stages.len() {
            let stage = &self.stages[index];
            let is_answered =
                |until| stage.gives().is_some_and(|gives| self.boundaries.end(gives) >= until);
            let is_idle = stage.asked == Asked::No && stage.misses == 0;
            let is_peer = stage.place() != Place::Local && matches!(stage.phase, Phase::Open(_));
            if stage.is_main() && is_idle && is_peer && stage.spot_check.is_some_and(is_answered) {
                self.stages[index].asked = Asked::Wanted;
            }
        }
    }

    /// Starts the witness for the stage at `index`, if there is one; otherwise it goes unchecked.
    pub(crate) fn call_witness(&mut self, index: usize, offers: &mut [Offer], now: Instant) {
        let Some(until) = self.stages[index].spot_check.take() else {
            return;
        };
        if self.has_side(index) || !self.is_replayable(index) {
            return;
        }
        let in_route: Vec<Place> = self.places().map(|segment| segment.place).collect();
        let mut others = self.untainted(offers);
        others.retain(|offer| !in_route.contains(&Place::Peer(offer.peer)));
        let witnesses = match self.cover(index, &others) {
            Some(hops) => {
                take_streams(offers, &hops);
                segments(&hops)
            }
            None if self.may_stand_in() => {
                vec![Segment { part: self.stages[index].segment.part, place: Place::Local }]
            }
            None => return,
        };
        self.insert(index + 1, &witnesses, Role::Witness { until }, now);
    }

    /// A witness has answered `step`.
    pub(crate) fn on_testimony(
        &mut self,
        index: usize,
        step: &UnderWay,
        answer: &Activation,
        now: Instant,
    ) {
        let primary = self.primary(index);
        let gives = self.stages[index].gives();
        if gives != self.stages[primary].gives() {
            // In the middle of a chain of witnesses: for the next of them.
            if let Some(layer) = gives {
                self.boundaries.append(layer, step.position, answer);
            }
            return;
        }
        let log = gives.and_then(|layer| self.boundaries.get(layer));
        let Some(known) = log.and_then(|log| log.rows(step.position, step.count)) else {
            // It was forgotten meanwhile, so there is nothing to compare with.
            return self.drop_side(primary, CloseReason::Superseded);
        };
        if !agree(&known, answer) {
            return self.on_contradiction(primary, now);
        }
        let until = match self.stages[index].role {
            Role::Witness { until } => until,
            Role::Main | Role::Rival => 0,
        };
        if step.position + step.count >= until {
            self.measure.spot_checks += 1;
            self.drop_side(primary, CloseReason::Finished);
        }
    }

    /// A witness and the stage at `index` have answered the same step differently.
    fn on_contradiction(&mut self, index: usize, now: Instant) {
        self.measure.spot_checks += 1;
        self.measure.contradictions += 1;
        let witnesses: Vec<Place> = self.side(index).map(Stage::place).collect();
        for place in &witnesses {
            if let Place::Peer(peer) = place {
                self.excluded.entry(*peer).or_insert(Exclusion::Suspected);
            }
        }
        let sentence = if witnesses.contains(&Place::Local) {
            "this device computed the same layers and came to other numbers"
        } else {
            "another device computed the same layers and came to other numbers; one of the two is wrong"
        };
        self.drop_side(index, CloseReason::Superseded);
        self.rebuild_behind(index, now);
        self.on_fault(index, Fault::wrong(sentence.to_owned()), now);
    }

    /// Everything that was computed from answers of the stage at `index` is computed again.
    fn rebuild_behind(&mut self, index: usize, now: Instant) {
        (index + 1..self.stages.len()).for_each(|behind| self.drop_gift(behind));
        let behind: Vec<(Option<u32>, Option<AttemptId>)> = self
            .stages
            .iter()
            .skip(index + 1)
            .filter(|stage| stage.is_main())
            .map(|stage| (stage.takes(), stage.attempt()))
            .collect();
        for (takes, attempt) in behind {
            if let Some(layer) = takes {
                self.boundaries.clear(layer);
            }
            if let Some(attempt) = attempt {
                self.start_again(attempt, now);
            }
        }
    }
}

/// Whether two devices can both be right.
fn agree(one: &Activation, other: &Activation) -> bool {
    if one.bytes() == other.bytes() {
        return true;
    }
    let tolerance = match one.dtype() {
        ActivationDtype::F32 => return false,
        ActivationDtype::F16 => F16_TOLERANCE,
        ActivationDtype::Q8 => Q8_TOLERANCE,
    };
    let width = (one.hidden() as usize).max(1);
    let (one, other) = (one.to_f32(), other.to_f32());
    one.chunks(width).zip(other.chunks(width)).all(|(one, other)| {
        let square = |x: f64| x * x;
        let energy: f64 = one.iter().map(|x| square(f64::from(*x))).sum();
        let apart: f64 = one.iter().zip(other).map(|(a, b)| square(f64::from(a - b))).sum();
        apart <= energy * square(tolerance)
    })
}

/// Spreads a number over all bits (the finaliser of splitmix64, Steele, Lea and Flood 2014).
fn mixed(number: u64) -> u64 {
    let x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f32_answers_agree_bit_for_bit_and_rounded_ones_nearly() {
        let rows = |dtype, last| Activation::from_f32(&[1.0, -1.0, 1.0, last], 2, dtype).unwrap();
        let pair = |dtype, last| agree(&rows(dtype, 1.0), &rows(dtype, last));
        assert!(pair(ActivationDtype::F32, 1.0) && !pair(ActivationDtype::F32, 1.000_001));
        assert!(pair(ActivationDtype::F16, 1.01) && !pair(ActivationDtype::F16, 1.1));
        assert!(pair(ActivationDtype::Q8, 1.05) && !pair(ActivationDtype::Q8, 1.2));
    }
}
