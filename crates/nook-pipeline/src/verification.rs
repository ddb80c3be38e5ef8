//! Redundant verification: a small random share of prefill is computed on a second device, to find
//! errors that no cheap check can.
//!
//! At the start of a prompt, chance (an argument) draws spans and a chunk of each. When the device
//! has answered that chunk, a *verifier* computes the span up to it as well: another device that
//! offers the layers, else this one. Both answers must agree, because all devices compute from the
//! same bytes. A device that this one contradicts was wrong. If two other devices contradict each
//! other, nobody knows which is wrong, so neither computes on. What was built on the answers is
//! computed again.
//!
//! Three more kinds of spans are drawn:
//!
//! - A span that *resumes* from the KV cache of an earlier reply. A verifier has to begin at
//!   position 0, and the input of the span is not kept between two replies. So where such a span is
//!   drawn, the stages before it compute their past again. What comes after the point of resumption
//!   is compared.
//! - A span that another device *replays*, beside or instead of the first. Where it answers
//!   positions that the first had answered, the two answers are compared and no verifier is asked.
//!   Where it answers new positions, a verifier is.
//! - A span whose host *received a KV cache*: the positions right after that.
//!
//! Not checked is what nobody could compute again: a span whose input was dropped because the
//! replay log was full (`replay_log_bytes_max`), and a span whose input went from host to host
//! (`chain`), so what is drawn does not become a part of a chain. A chain that parted begins again
//! with the same devices, which are not drawn anew.
//!
//! Steps of decode are drawn one by one. The verifier of a step has to compute everything before it
//! as well, so all that its host has answered since it was compared last is compared with it.
//!
//! With [`FirstWords::Checked`] chance has no say in the prompt: all of it is checked, and its
//! first token waits until no check of it is left. What was built on a wrong answer is then
//! computed again before anybody has seen a word of it.

use std::ops::Range;
use std::time::Instant;

use nook_base::{Activation, ActivationDtype};
use nook_plan::{Offer, Place, Segment};

use crate::arrival::Corrupt;
use crate::fault::{Exclusion, Fault};
use crate::message::{AttemptId, CloseReason};
use crate::pipeline::Pipeline;
use crate::recover::{segments, take_streams};
use crate::settings::{FirstWords, SpotCheck};
use crate::stage::{Asked, Drawn, Onward, Phase, Role, Stage, UnderWay};

/// How far f16 answers of two honest devices may lie apart, as a part of the row's RMS: sixteen
/// steps of f16 at 1. Different instruction sets or graphics cards round differently before the
/// last rounding to f16, and layers carry that on.
const F16_TOLERANCE: f64 = 16.0 / 1024.0;

/// The same for q8. What is left of such a difference before the rounding turns some number to the
/// next of its block's steps: √32 / 127 of a row's RMS when that happens to every one of them.
const Q8_TOLERANCE: f64 = F16_TOLERANCE + 5.66 / 127.0;

impl Pipeline {
    /// Draws what is checked in this prompt, of the positions from `from` on. Returns the last
    /// stage that was drawn.
    pub(crate) fn draw_spot_checks(&mut self, from: u32) -> Option<usize> {
        let until = self.positions();
        for index in 0..self.stages.len() {
            if !self.stages[index].is_end() {
                self.stages[index].spot_check = self.draw(index, from..until);
            }
        }
        self.stages.iter().rposition(|stage| stage.spot_check.is_some())
    }

    /// Whether and where the stage at `index` is checked in `positions`: each chunk with the same
    /// chance, and of a stage that is drawn more than once, one.
    fn draw(&self, index: usize, positions: Range<u32>) -> Option<Drawn> {
        if self.holds_first_words() {
            // What comes behind the prompt comes only once its first token is chosen.
            let until = positions.end.min(self.positions());
            let all = Drawn { from: positions.start, until, replayed: false };
            return (all.from < all.until).then_some(all);
        }
        let SpotCheck { share_ppm, random, .. } = self.settings.spot_check;
        let chunk = self.settings.prefill_chunk.max(1);
        let chunks = positions.end.saturating_sub(positions.start).div_ceil(chunk);
        // Attempts are counted over the whole prompt, so that every new call is drawn by itself.
        let start = self.stages.get(index).map_or(0, |stage| stage.layers().start());
        let drawn = mixed(random ^ u64::from(start) ^ (self.attempts << 32));
        let chance = u64::from(share_ppm).saturating_mul(u64::from(chunks)).min(1_000_000);
        if drawn % 1_000_000 >= chance {
            return None;
        }
        let which = u32::try_from(mixed(drawn) % u64::from(chunks.max(1))).unwrap_or(0);
        let end = positions.start.saturating_add((which + 1).saturating_mul(chunk));
        Some(Drawn { from: positions.start, until: end.min(positions.end), replayed: false })
    }

    /// The stage at `index` has just begun with layers that another one had: draws what is checked
    /// of its replay.
    pub(crate) fn draw_replay(&mut self, index: usize) {
        let drawn = self.draw(index, 0..self.positions());
        if self.holds_first_words() {
            self.stages[index].spot_check = drawn;
            return;
        }
        let known = self.stages[index].gives().map_or(0, |layer| self.replay_logs.end(layer));
        self.stages[index].spot_check = drawn.map(|drawn| {
            // What is known already is compared as it comes; a verifier is for what is not.
            let from = if known < drawn.until { known } else { drawn.from };
            Drawn { from, replayed: true, ..drawn }
        });
    }

    /// The stage at `index` goes on with what another host remembered of `position` positions:
    /// draws whether the chunk after them is checked.
    pub(crate) fn draw_after_migration(&mut self, index: usize, position: u32) {
        let until = position.saturating_add(self.settings.prefill_chunk.max(1));
        let drawn = if self.holds_first_words() { 0..until } else { position..until };
        self.stages[index].spot_check = self.draw(index, drawn);
    }

    /// A token was chosen: draws which hosts are checked with the step that computes it.
    pub(crate) fn draw_decode_checks(&mut self) {
        let SpotCheck { decode_ppm, random, .. } = self.settings.spot_check;
        let until = self.positions();
        for index in 0..self.stages.len() {
            let stage = &self.stages[index];
            let is_peer = stage.is_main() && !stage.is_end() && stage.place() != Place::Local;
            let is_open = stage.spot_check.is_none() && stage.onward == Onward::Home;
            let start = u64::from(stage.layers().start());
            let drawn = mixed(!random ^ start ^ (u64::from(until) << 32)) % 1_000_000;
            let may_be = is_peer && is_open && drawn < u64::from(decode_ppm);
            if may_be && !self.has_side(index) && self.is_replayable(index) {
                let from = self.stages[index].verified;
                self.stages[index].spot_check = Some(Drawn { from, until, replayed: false });
            }
        }
    }

    /// Whether the first token waits for the checks of the prompt.
    pub(crate) fn holds_first_words(&self) -> bool {
        self.settings.spot_check.first_words == FirstWords::Checked && self.sampled == 0
    }

    /// Whether something of what other devices have answered is still to be compared.
    pub(crate) fn awaits_checks(&self) -> bool {
        self.stages.iter().any(|stage| match stage.role {
            Role::Main => stage.spot_check.is_some() && stage.place() != Place::Local,
            Role::Verifier(_) => true,
            Role::Hedge => false,
        })
    }

    /// Hands the first token to the sampler, once it waits for no check any more.
    pub(crate) fn release_first_words(&mut self, now: Instant) {
        if !self.awaits_checks()
            && let Some((attempt, end)) = self.held.take()
        {
            self.sample(attempt, end, now);
        }
    }

    /// From where on the log before `layer` will be compared with what a verifier answers, if it
    /// will.
    pub(crate) fn checked_from(&self, layer: u32) -> Option<u32> {
        let answers = self.stages.iter().filter(|stage| stage.gives() == Some(layer));
        let drawn = answers.filter_map(|stage| match stage.role {
            Role::Verifier(drawn) => Some(drawn),
            Role::Main | Role::Hedge => stage.spot_check,
        });
        drawn.map(|drawn| drawn.from).min()
    }

    /// Looks for verifiers for what was drawn and is answered by now.
    pub(crate) fn want_verifiers(&mut self) {
        for index in 0..self.stages.len() {
            let stage = &self.stages[index];
            let is_answered = |drawn: Drawn| {
                let known = stage.gives().map_or(0, |gives| self.replay_logs.end(gives));
                stage.done >= drawn.until && known >= drawn.until
            };
            let is_idle = stage.asked == Asked::No && stage.misses == 0;
            let is_peer = stage.place() != Place::Local && matches!(stage.phase, Phase::Open(_));
            if stage.is_main() && is_idle && is_peer && stage.spot_check.is_some_and(is_answered) {
                self.stages[index].asked = Asked::Wanted;
            }
        }
    }

    /// Starts the verifier for the stage at `index`, if there is one; otherwise it goes unchecked.
    pub(crate) fn call_verifier(&mut self, index: usize, offers: &mut [Offer], now: Instant) {
        let Some(drawn) = self.stages[index].spot_check.take() else {
            return;
        };
        if self.has_side(index) || !self.is_replayable(index) {
            return;
        }
        let in_route: Vec<Place> = self.places().map(|segment| segment.place).collect();
        let mut others = self.untainted(offers);
        others.retain(|offer| !in_route.contains(&Place::Peer(offer.peer)));
        let verifiers = match self.cover(index, &others) {
            Some(hops) => {
                take_streams(offers, &hops);
                segments(&hops)
            }
            None if self.may_stand_in(index) => {
                vec![Segment { part: self.stages[index].segment.part, place: Place::Local }]
            }
            None => return,
        };
        self.insert(index + 1, &verifiers, Role::Verifier(drawn), now);
    }

    /// A verifier has answered `step`.
    pub(crate) fn on_verification(
        &mut self,
        index: usize,
        step: &UnderWay,
        answer: &Activation,
        now: Instant,
    ) {
        let primary = self.primary(index);
        let gives = self.stages[index].gives();
        if gives != self.stages[primary].gives() {
            // In the middle of a chain of verifiers: for the next of them.
            if let Some(layer) = gives {
                self.replay_logs.append(layer, step.position, answer);
            }
            return;
        }
        let Role::Verifier(drawn) = self.stages[index].role else {
            return;
        };
        let end = step.position + step.count;
        let first = step.position.max(drawn.from);
        if first < end {
            let log = gives.and_then(|layer| self.replay_logs.get(layer));
            let Some(known) = log.and_then(|log| log.rows(first, end - first)) else {
                // It was forgotten meanwhile, so there is nothing to compare with.
                return self.drop_side(primary, CloseReason::Superseded);
            };
            if !agree(&known, &answer.rows(first - step.position, step.count)) {
                return self.on_contradiction(primary, now);
            }
        }
        if end >= drawn.until {
            self.measure.spot_checks += 1;
            self.stages[primary].verified = drawn.until;
            self.drop_side(primary, CloseReason::Finished);
        }
    }

    /// The stage at `index` has answered in `step` what was known before.
    pub(crate) fn on_repetition(
        &mut self,
        index: usize,
        step: &UnderWay,
        answer: &Activation,
        now: Instant,
    ) {
        let stage = &self.stages[index];
        let end = step.position + step.count;
        if !stage.spot_check.is_some_and(|drawn| drawn.replayed && drawn.until <= end) {
            return;
        }
        let log = stage.gives().and_then(|layer| self.replay_logs.get(layer));
        let known = log.and_then(|log| log.rows(step.position, step.count));
        self.stages[index].spot_check = None;
        match known {
            Some(known) if agree(&known, answer) => self.measure.spot_checks += 1,
            Some(_) => self.on_contradiction(self.primary_or_self(index), now),
            // It was forgotten meanwhile.
            None => {}
        }
    }

    fn primary_or_self(&self, index: usize) -> usize {
        if self.stages[index].is_main() { index } else { self.primary(index) }
    }

    /// Two places have answered the same step of the main stage at `index` differently: it and a
    /// verifier or hedge of it, or it and whoever had its layers before.
    fn on_contradiction(&mut self, index: usize, now: Instant) {
        self.measure.spot_checks += 1;
        self.measure.contradictions += 1;
        let verifiers: Vec<Place> = self.side(index).map(Stage::place).collect();
        for place in &verifiers {
            if let Place::Peer(peer) = place {
                self.excluded.entry(*peer).or_insert(Exclusion::Suspected);
            }
        }
        let corrupt = if verifiers.contains(&Place::Local) {
            Corrupt::ContradictedHere
        } else {
            Corrupt::ContradictedElsewhere
        };
        self.drop_side(index, CloseReason::Superseded);
        self.rebuild_behind(index, now);
        match (self.stages[index].place(), self.stages[index].attempt()) {
            (Place::Local, Some(attempt)) => {
                // Whoever was before this device was wrong, and is out of the prompt. What it had
                // answered is forgotten by now, so this device answers it once more, for use.
                self.start_again(attempt, now);
                self.rewind(index, now);
            }
            _ => self.on_fault(index, Fault::corrupt(corrupt), now),
        }
    }

    /// Everything that was computed from answers of the stage at `index` is computed again.
    fn rebuild_behind(&mut self, index: usize, now: Instant) {
        (index + 1..self.stages.len()).for_each(|behind| self.drop_migration(behind));
        let behind: Vec<(Option<u32>, Option<AttemptId>)> = self
            .stages
            .iter()
            .skip(index + 1)
            .filter(|stage| stage.is_main())
            .map(|stage| (stage.takes(), stage.attempt()))
            .collect();
        for (takes, attempt) in behind {
            if let Some(layer) = takes {
                self.replay_logs.clear(layer);
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
    fn answers_in_f32_agree_bit_for_bit_and_rounded_ones_nearly() {
        let rows = |dtype, last| Activation::from_f32(&[1.0, -1.0, 1.0, last], 2, dtype).unwrap();
        let pair = |dtype, last| agree(&rows(dtype, 1.0), &rows(dtype, last));
        assert!(pair(ActivationDtype::F32, 1.0) && !pair(ActivationDtype::F32, 1.000_001));
        assert!(pair(ActivationDtype::F16, 1.01) && !pair(ActivationDtype::F16, 1.1));
        assert!(pair(ActivationDtype::Q8, 1.05) && !pair(ActivationDtype::Q8, 1.2));
    }
}
