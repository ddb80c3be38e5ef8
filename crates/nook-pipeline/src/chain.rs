//! Chains: hosts that hand their results to the next host instead of to this device.
//!
//! Where two neighbours of the route are linked with each other, the first is asked to send each
//! result on to the second as its step ([`Action::Forward`]); the last of such a chain answers
//! here. A decode step then crosses the network once for each host and once back, not twice for
//! each.
//!
//! A chain is made of two fresh calls, before the first step of either, or not at all: so both
//! number their steps alike, and nobody feeds a call from two sides. The pipeline gives steps to
//! the head of a chain alone and notes what the others are about to get.
//! [`Event::Passed`](crate::Event::Passed) says that a step has left a host, and moves the wait,
//! and the suspicion, to the next one.
//!
//! What the middle of a chain answers is not seen here, so it is not kept for replay. That is
//! chosen: copies sent home would take the same radio as the star, and they are needed only when
//! something breaks. When it does (a host or the way between two is gone, late, refuses, or what
//! comes out at the end cannot be right) the chain *parts*: all its stages begin again from
//! position 0, each for itself, from the log before the head, which is kept. Answers for positions
//! that are known are dropped as after any replay (`recover`), so no token changes. For the rest of
//! the prompt it stays with the star, which also finds out who is to blame where the chain could
//! not tell.

use std::ops::RangeInclusive;
use std::time::Instant;

use nook_base::{ErrorCode, LayerRange};
use nook_plan::Place;

use crate::arrival::Corrupt;
use crate::fault::{Fault, FaultKind};
use crate::measure::Joint;
use crate::message::{Action, AttemptId, Report, ShardState};
use crate::pipeline::Pipeline;
use crate::stage::{Onward, Phase, Stage, UnderWay};

/// Deadlines in a row that a host of a chain may miss. There is no hedge for it, because nobody has
/// the steps that it was given; the second miss parts the chain, and a spare is looked for.
pub(crate) const CHAIN_MISSES_MAX: u32 = 1;

/// Whether a stage and the next one can become a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Linkable {
    Never,
    /// Once both calls are open; until then the first waits.
    NotYet,
    /// Now, with the next stage's attempt.
    Now(AttemptId),
}

impl Pipeline {
    /// Asks hosts that could hand their results to the next one to do so.
    pub(crate) fn join_hosts(&mut self, now: Instant) {
        for index in 0..self.stages.len() {
            if let Linkable::Now(next) = self.linkable(index)
                && let Some(attempt) = self.stages[index].attempt()
            {
                self.stages[index].onward = Onward::Asked;
                self.stages[index].due = Some(now + self.settings.deadlines.forward);
                self.actions.push(Action::Forward { attempt, next });
            }
        }
    }

    fn linkable(&self, index: usize) -> Linkable {
        let (Some(stage), Some(next)) = (self.stages.get(index), self.stages.get(index + 1)) else {
            return Linkable::Never;
        };
        let (Place::Peer(from), Place::Peer(to)) = (stage.place(), next.place()) else {
            return Linkable::Never;
        };
        let can = &self.settings.forward;
        let is_known = from != to && can.contains(&from) && can.contains(&to);
        let is_fresh = |stage: &Stage| {
            let is_free = stage.migration.is_none() && stage.spot_check.is_none();
            stage.is_main() && stage.next_step == 0 && !stage.draining && is_free
        };
        let is_free = stage.onward == Onward::Home && stage.from == next.from;
        let has_sides = self.has_side(index) || self.has_side(index + 1);
        if !is_known || !is_fresh(stage) || !is_fresh(next) || !is_free || has_sides {
            return Linkable::Never;
        }
        match (stage.phase, next.phase) {
            (Phase::Seeking, _) | (_, Phase::Seeking) => Linkable::Never,
            (Phase::Open(_), Phase::Open(next)) => Linkable::Now(next),
            _ => Linkable::NotYet,
        }
    }

    /// The host of `attempt`'s stage says that the way to the next one stands, or why not.
    pub(crate) fn on_forwarding(&mut self, index: usize, refused: Option<ErrorCode>, now: Instant) {
        if self.stages[index].onward == Onward::Asked {
            self.note_joint(index, refused.is_none());
        }
        match (self.stages[index].onward, refused) {
            (Onward::Asked, None) => {
                let stage = &mut self.stages[index];
                stage.onward = Onward::Linked;
                stage.due = None;
                if let Some(layer) = stage.gives() {
                    self.replay_logs.clear(layer);
                }
            }
            (Onward::Asked, Some(_)) => {
                let is_fed = self.is_fed(index);
                self.stages[index].onward = Onward::Refused;
                self.stages[index].due = None;
                if is_fed && let Some(next) = self.stages.get(index + 1).and_then(Stage::attempt) {
                    // It may speak of the way to it, and hand results on all the same: a fresh call
                    // is fed by nobody else.
                    self.start_again(next, now);
                }
            }
            (_, Some(_)) if self.is_chained(index) => self.part_chain(index, None, now),
            _ => self.measure.late_frames += 1,
        }
    }

    fn note_joint(&mut self, index: usize, stands: bool) {
        let place = |at: usize| self.stages.get(at).map(Stage::place);
        if let (Some(Place::Peer(from)), Some(Place::Peer(to))) = (place(index), place(index + 1)) {
            self.measure.joints.push(Joint { from, to, stands });
        }
    }

    /// A step has left the host of the stage at `index` for the next one.
    pub(crate) fn on_passed(&mut self, index: usize, step: u64, host_us: (u32, u32), now: Instant) {
        let stage = &self.stages[index];
        let is_due = stage.under_way.front().is_some_and(|front| front.step == step);
        if stage.onward != Onward::Linked || !is_due {
            return self.on_fault(index, Fault::corrupt(Corrupt::OtherPositions), now);
        }
        if self.take_answered(index, host_us, now).is_none() {
            return;
        }
        self.measure.forwarded_steps += 1;
        let deadlines = self.settings.deadlines;
        let Some(next) = self.stages.get_mut(index + 1) else {
            return;
        };
        if let Some(at) = next.under_way.iter().position(|waiting| waiting.step == step) {
            next.under_way[at].at_host = true;
            next.under_way[at].since = now;
            if at == 0 {
                next.wind(&deadlines, now);
            }
        }
    }

    /// The end of a chain has answered `step`: the hosts before it are through with it too, whether
    /// or not they have said so yet.
    pub(crate) fn settle_up_the_chain(&mut self, index: usize, step: u64, now: Instant) {
        let deadlines = self.settings.deadlines;
        for at in *self.chain(index).start()..index {
            let stage = &mut self.stages[at];
            while let Some(front) = stage.under_way.front().filter(|front| front.step <= step) {
                self.measure.forwarded_steps += 1;
                stage.done = front.position.saturating_add(front.count);
                stage.ends.push(stage.done);
                stage.under_way.pop_front();
                stage.misses = 0;
                if let Some(next) = stage.under_way.front_mut() {
                    next.since = now;
                }
                stage.wind(&deadlines, now);
            }
        }
    }

    /// Whether the stage at `index` gets its steps from the host before it, or is to.
    pub(crate) fn is_fed(&self, index: usize) -> bool {
        let before = index.checked_sub(1).and_then(|before| self.stages.get(before));
        before.is_some_and(|before| before.onward.is_joined())
    }

    /// Whether it is a part of a chain.
    pub(crate) fn is_chained(&self, index: usize) -> bool {
        let stage = self.stages.get(index);
        stage.is_some_and(|stage| stage.onward.is_joined()) || self.is_fed(index)
    }

    /// The stages of the chain around `index`, in order; itself alone when it is in none.
    fn chain(&self, index: usize) -> RangeInclusive<usize> {
        let mut head = index;
        while self.is_fed(head) {
            head -= 1;
        }
        let mut last = index;
        while self.stages.get(last).is_some_and(|stage| stage.onward.is_joined()) {
            last += 1;
        }
        head..=last
    }

    /// Whether the stage at `index`, and the chain that it heads, may be given a step as far as the
    /// hosts behind it go.
    pub(crate) fn may_begin_chain(&self, index: usize) -> bool {
        if self.is_fed(index) {
            return false;
        }
        let window = self.settings.prefill_window.max(1);
        self.chain(index).enumerate().all(|(behind, at)| {
            let stage = &self.stages[at];
            let is_settled = stage.onward != Onward::Asked && self.linkable(at) == Linkable::Never;
            // What is under way to a host counts from the head on, so each host behind it adds
            // room.
            let has_room = stage.under_way.len() < window.saturating_mul(behind + 1);
            is_settled && has_room && !stage.draining
        })
    }

    /// The last stage of the chain that `index` heads: whose results come here.
    pub(crate) fn end_of_chain(&self, index: usize) -> usize {
        *self.chain(index).end()
    }

    /// The head was given `step`: the hosts behind it will get it, as long as what they answer to.
    pub(crate) fn expect_down_the_chain(&mut self, index: usize, bytes: usize, now: Instant) {
        let Some(given) = self.stages[index].under_way.back() else {
            return;
        };
        let (position, count, rows) = (given.position, given.count, given.rows);
        let input = given.input.clone();
        for at in self.chain(index).skip(1) {
            let stage = &mut self.stages[at];
            stage.expect_pieces(bytes, &self.settings.deadlines);
            stage.under_way.push_back(UnderWay {
                step: stage.next_step,
                position,
                count,
                input: input.clone(),
                rows,
                since: now,
                overlapped: false,
                at_host: false,
            });
            stage.next_step += 1;
            stage.sent = position.saturating_add(count);
        }
    }

    /// The layers between what was sent from here and what came back to the stage at `index`.
    pub(crate) fn layers_since_sent(&self, index: usize) -> LayerRange {
        let head = self.stages[*self.chain(index).start()].layers();
        let last = self.stages[index].layers();
        LayerRange::new(head.start(), last.end()).unwrap_or(last)
    }

    /// Something went wrong at a stage: a chain around it parts. Returns where the stage is now,
    /// when the fault is its own; the star finds out whose it is otherwise.
    pub(crate) fn leave_chain(
        &mut self,
        index: usize,
        fault: &Fault,
        now: Instant,
    ) -> Option<usize> {
        if !self.is_chained(index) {
            return Some(index);
        }
        let attempt = self.stages[index].attempt().filter(|_| fault.is_surely_its_own());
        self.part_chain(index, attempt, now);
        attempt.and_then(|attempt| self.stage_of(attempt))
    }

    /// Ends the chain around `index`: every stage of it begins again for itself but `guilty`, of
    /// which the caller disposes. No chain is made any more in this prompt.
    pub(crate) fn part_chain(&mut self, index: usize, guilty: Option<AttemptId>, now: Instant) {
        self.measure.chains_parted += 1;
        self.settings.forward.clear();
        let chain = self.chain(index);
        let head = self.stages[*chain.start()].attempt();
        let mut attempts = Vec::new();
        for at in chain.clone() {
            if self.stages[at].onward.is_joined() {
                self.note_joint(at, false);
            }
            self.stages[at].onward = Onward::Home;
            attempts.extend(self.stages[at].attempt());
            if at != *chain.start()
                && let Some(layer) = self.stages[at].takes()
            {
                self.replay_logs.clear(layer);
            }
        }
        // Where the log before the head has forgotten its beginning, those before it refill it.
        if let Some(head) = head.and_then(|head| self.stage_of(head)) {
            self.rewind(head, now);
        }
        for attempt in attempts {
            if Some(attempt) != guilty {
                self.start_again(attempt, now);
            }
        }
    }

    /// A host of a chain is late; there is nobody who could begin beside it.
    pub(crate) fn on_miss_in_chain(&mut self, index: usize, now: Instant) {
        let stage = &mut self.stages[index];
        if stage.misses > CHAIN_MISSES_MAX {
            return self.on_fault(index, Fault::stalled(), now);
        }
        stage.wind(&self.settings.deadlines, now);
        if let Place::Peer(peer) = stage.place() {
            let (layers, state) = (stage.layers(), ShardState::Degraded);
            self.report(Report::ShardStatus { peer, layers, state });
        }
    }
}

impl Fault {
    /// Whether it can only be that of the host that it was noticed at. What a fed host refuses, or
    /// answers, may be the doing of the one that fed it.
    fn is_surely_its_own(&self) -> bool {
        match self.kind {
            FaultKind::Broken | FaultKind::Stalled | FaultKind::Slow | FaultKind::Leaving => true,
            FaultKind::Wrong => false,
            FaultKind::Reported => !matches!(
                self.code,
                ErrorCode::BadRequest | ErrorCode::HistoryMismatch | ErrorCode::CorruptActivation
            ),
        }
    }
}
