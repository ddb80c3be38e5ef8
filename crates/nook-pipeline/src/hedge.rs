//! Hedged requests: while a late device may still answer, another one begins with its layers.
//!
//! A late stage of the main line gets *hedges*: stages behind it that cover the same layers, start
//! at position 0 of the same log and answer into the same log. Whoever first answers a position
//! stays. The other's call is closed as superseded, and what it still says is ignored. So a short
//! delay costs some work on the spare device and no recovery. A death costs no more than the first
//! deadline and the replay. Without a spare, a late device is only waited for.

use std::time::Instant;

use nook_plan::{Offer, Place, Segment};

use crate::fault::{Fault, FaultKind};
use crate::message::{CloseReason, Report, ShardState};
use crate::pipeline::{Pipeline, State};
use crate::recover::{RECOVERIES_MAX, segments, take_streams};
use crate::stage::{Asked, Onward, Phase, Role, Slowness, Stage};

/// Deadlines in a row that a device may miss while nobody could take over; each wait is twice the
/// one before. One more and it counts as gone. A device that has a hedge is waited for as long as
/// the hedge is alive and has not yet answered all that the device has to.
pub const STALL_MISSES_MAX: u32 = 2;

/// Deadlines in a row that a device must miss before this device begins with its layers: it has to
/// load them first, which a short hiccup is not worth.
const MISSES_BEFORE_LOCAL: u32 = 2;

/// Times in one prompt that a replay is begun beside a late device. After that a late device is
/// left for the spare at once: a link that stutters so often costs every other device more than it
/// gives.
pub const HEDGES_MAX: u32 = 8;

impl Pipeline {
    pub(crate) fn on_tick(&mut self, now: Instant) {
        if self.stop_due.is_some_and(|due| due <= now) {
            return self.cancel();
        }
        self.drop_late_migrations(now);
        let is_late = |stage: &Stage| stage.due.is_some_and(|due| due <= now);
        let late: Vec<_> =
            self.stages.iter().filter(|stage| is_late(stage)).filter_map(Stage::attempt).collect();
        for attempt in late {
            if self.state == State::Walking
                && let Some(index) = self.stage_of(attempt)
            {
                self.on_miss(index, now);
            }
        }
        if self.look_again.is_some_and(|due| due <= now) {
            self.look_for_the_absent();
        }
        if self.offers_due.is_some_and(|due| due <= now) {
            self.on_offers(&[], now);
        }
    }

    fn on_miss(&mut self, index: usize, now: Instant) {
        if self.stages[index].caches_due.is_some() {
            // It leaves, and what crossed its goodbye is not answered: another wait is on.
            self.stages[index].due = None;
            return;
        }
        if self.stages[index].onward == Onward::Asked {
            // Its host may have begun to hand results on, so both calls begin again.
            return self.part_chain(index, None, now);
        }
        self.stages[index].misses += 1;
        if self.is_chained(index) {
            return self.on_miss_in_chain(index, now);
        }
        self.turn_witnesses_into_rivals(index);
        let has_rival = self.has_side(index);
        // Where all that the silent one owes was known before, its hedge can win with no news.
        let may_wait = has_rival && !self.is_made_up_for(index);
        let stage = &mut self.stages[index];
        let Place::Peer(peer) = stage.place() else {
            return self.on_fault(index, Fault::stalled(), now);
        };
        if stage.misses > STALL_MISSES_MAX && !may_wait {
            return self.on_fault(index, Fault::stalled(), now);
        }
        stage.wind(&self.settings.deadlines, now);
        if stage.is_main() && !has_rival {
            stage.asked = Asked::Wanted;
            let layers = stage.layers();
            self.report(Report::ShardStatus { peer, layers, state: ShardState::Late });
        }
    }

    /// Begins with the layers of a late stage elsewhere, if there is a place for them.
    pub(crate) fn relieve(&mut self, index: usize, offers: &mut [Offer], now: Instant) {
        let stage = &self.stages[index];
        let place = stage.place();
        let is_worth_loading = stage.misses >= MISSES_BEFORE_LOCAL && self.may_stand_in(index);
        let mut others = self.untainted(offers);
        others.retain(|offer| Place::Peer(offer.peer) != place);
        let cover = self.cover(index, &others);
        if cover.is_none() && !is_worth_loading {
            return;
        }
        let is_enough = self.measure.hedges >= HEDGES_MAX || self.given_up >= RECOVERIES_MAX;
        if is_enough || !self.is_replayable(index) {
            return self.on_fault(index, Fault::stalled(), now);
        }
        self.measure.hedges += 1;
        let is_preferred_here =
            self.failures >= self.settings.failovers_max && self.may_stand_in(index);
        let hedges = match cover {
            Some(hops) if !is_preferred_here => {
                take_streams(offers, &hops);
                segments(&hops)
            }
            _ => vec![Segment { part: self.stages[index].segment.part, place: Place::Local }],
        };
        self.insert(index + 1, &hedges, Role::Hedge, now);
    }

    /// The stage at `index` has answered a position that nobody had.
    pub(crate) fn on_progress(&mut self, index: usize, now: Instant) {
        if self.stages[index].is_main() {
            // Whoever is to replace a slow device has to catch up while that one answers.
            let is_chased = matches!(self.stages[index].slowness, Slowness::Chased(_));
            if !is_chased && self.side(index).any(|side| side.role == Role::Hedge) {
                self.drop_side(index, CloseReason::Superseded);
            }
            return;
        }
        let primary = self.primary(index);
        if self.stages[index].gives() == self.stages[primary].gives() {
            let is_slow = matches!(self.stages[primary].slowness, Slowness::Chased(_))
                && self.stages[primary].misses == 0;
            let fault = if is_slow { Fault::slow() } else { Fault::stalled() };
            self.on_fault(primary, fault, now);
        }
    }

    /// A stage beside the main line cannot go on; the one that it was to relieve may still answer.
    pub(crate) fn on_side_fault(&mut self, index: usize, fault: Fault, now: Instant) {
        let primary = self.primary(index);
        let role = self.stages[index].role;
        let code = fault.code;
        match self.stages[index].place() {
            Place::Peer(peer) => self.exclude(index, peer, &fault),
            Place::Local if role == Role::Hedge => self.local_fault = Some(fault),
            // That a check could not be made here says nothing about who could compute.
            Place::Local => {}
        }
        self.close(index, CloseReason::Failed(code));
        self.drop_side(primary, CloseReason::Superseded);
        let stage = &mut self.stages[primary];
        if stage.misses > 0 {
            // It is looked for another spare, or waited for; either way the wait begins anew.
            stage.asked = Asked::Wanted;
            stage.wind(&self.settings.deadlines, now);
        }
    }

    /// The stages beside the one at `index` take its place; its own call is closed.
    pub(crate) fn promote(&mut self, index: usize) {
        // A verifier that was there already took over without having been called for that.
        let was_called = self.side(index).any(|side| side.role == Role::Hedge)
            && self.measure.hedges_won < self.measure.hedges;
        self.measure.hedges_won += u32::from(was_called);
        self.retire(index);
        let (mut here, mut until) = (Vec::new(), index);
        for stage in self.stages.iter_mut().skip(index).take_while(|stage| !stage.is_main()) {
            until += 1;
            stage.role = Role::Main;
            if stage.place() == Place::Local {
                here.push(stage.segment.part);
            }
        }
        if self.holds_first_words() {
            (index..until).for_each(|promoted| self.draw_replay(promoted));
        }
        here.into_iter().for_each(|part| self.note_fallback(part));
        self.drop_unread_logs();
    }

    /// Ends what runs beside the main stage at `index`.
    pub(crate) fn drop_side(&mut self, index: usize, reason: CloseReason) {
        while self.has_side(index) {
            // One of several that follow each other may be in the middle of a further step.
            let is_busy = !self.stages[index + 1].under_way.is_empty();
            let is_cut = is_busy && reason == CloseReason::Finished;
            self.close(index + 1, if is_cut { CloseReason::Superseded } else { reason });
            self.retire(index + 1);
        }
        self.drop_unread_logs();
    }

    pub(crate) fn has_side(&self, index: usize) -> bool {
        self.side(index).next().is_some()
    }

    /// The stages beside the main stage at `index`; none beside another one.
    pub(crate) fn side(&self, index: usize) -> impl Iterator<Item = &Stage> {
        let is_main = self.stages.get(index).is_some_and(Stage::is_main);
        let behind = self.stages.iter().skip(index + 1).take_while(|stage| !stage.is_main());
        behind.filter(move |_| is_main)
    }

    /// Whether those beside the main stage at `index` have answered all that there is for it.
    fn is_made_up_for(&self, index: usize) -> bool {
        let (gives, input) = (self.stages[index].gives(), self.input_end(index));
        self.side(index).any(|side| side.gives() == gives && side.done >= input)
    }

    /// The main stage beside which the stage at `index` runs.
    pub(crate) fn primary(&self, index: usize) -> usize {
        // The first stage is an end of the model and always of the main line.
        (0..index).rev().find(|before| self.stages[*before].is_main()).unwrap_or(0)
    }

    fn turn_witnesses_into_rivals(&mut self, index: usize) {
        if !self.stages[index].is_main() {
            return;
        }
        for stage in self.stages.iter_mut().skip(index + 1).take_while(|stage| !stage.is_main()) {
            stage.role = Role::Hedge;
        }
    }
}

impl Stage {
    /// Whether `fault` says that the host does not want the call, rather than that it failed at it.
    pub(crate) fn is_refused_by(&self, fault: &Fault) -> bool {
        matches!(self.phase, Phase::Opening(_))
            && matches!(fault.kind, FaultKind::Reported | FaultKind::Leaving)
    }
}
