//! What happens when a segment fails or leaves.
//!
//! A failed device is out of this prompt. Its layers go to whoever computes them already (`hedge`),
//! else to other devices that have them in memory, else to other devices that would load them or to
//! this one, whichever is expected to have written the rest sooner, of which no more than the next
//! positions count ([`Pipeline::positions_ahead`]): how long it is nobody knows. Else the prompt
//! ends with a clear code. Where nothing is expected of one of the two, the other devices come
//! first: this one is the one that a person sits at. Whoever takes over starts at position 0 of the
//! log before the span. A log that has forgotten its beginning is rebuilt by running the stages
//! before it again, back to the nearest one that still has everything; the token ids always do.

use std::time::Instant;

use nook_base::limits::HOPS_MAX;
use nook_base::{ActivationDtype, ErrorCode, ModelPart, PeerId};
use nook_plan::{Hop, Offer, Place, Segment, greedy_cover};

use crate::fault::{Exclusion, Fault, FaultKind};
use crate::message::{Action, AttemptId, CloseReason, Report, ShardState};
use crate::pipeline::{Pipeline, State};
use crate::replay_log::ReplayLog;
use crate::settings::FallBack;
use crate::stage::{Asked, Onward, Phase, Role, Slowness, Stage};

/// How often our own worker may fail at one segment before that is final.
pub const LOCAL_RESTARTS_MAX: u32 = 1;

/// Attempts at other devices that may be given up in one prompt. After one more this device takes
/// over; where it may not, the prompt ends. A house has fewer devices.
pub const RECOVERIES_MAX: usize = 32;

impl Pipeline {
    /// The stage's attempt is over.
    pub(crate) fn on_fault(&mut self, index: usize, fault: Fault, now: Instant) {
        if self.stop_due.is_some() {
            return self.cancel();
        }
        if fault.is_overflow(self.replay_logs.dtype()) {
            return self.restart_in_f32(now);
        }
        if self.is_resume_refused(index, &fault) {
            return self.resume_nothing(now);
        }
        if !self.stages[index].is_main() {
            return self.on_side_fault(index, fault, now);
        }
        let Some(index) = self.leave_chain(index, &fault, now) else {
            return;
        };
        if self.is_migration_refused(index, &fault) {
            return self.replay_instead(index, now);
        }
        let fault = self.excused(index, fault);
        if fault.kind != FaultKind::Slow {
            self.first_cause.get_or_insert(fault.code);
        }
        match self.stages[index].place() {
            Place::Local => self.on_local_fault(index, fault, now),
            Place::Peer(peer) => self.leave_peer(index, peer, &fault, now),
        }
    }

    /// Numbers of this model are larger than f16 or q8 holds: everything is computed again in f32.
    /// Tokens that were chosen stay.
    fn restart_in_f32(&mut self, now: Instant) {
        self.measure.f16_overflows += 1;
        self.report(Report::ActivationsWidened);
        self.compute_all_again(ActivationDtype::F32, now);
    }

    /// Every stage that has a host begins at position 0, and numbers are written as `dtype`.
    pub(crate) fn compute_all_again(&mut self, dtype: ActivationDtype, now: Instant) {
        self.measure.resumed = 0;
        // What a host remembered came from other numbers than those that are made now.
        (0..self.stages.len()).for_each(|index| self.drop_migration(index));
        self.replay_logs.restart(dtype);
        // Chains begin anew as well: their calls are fresh again.
        self.stages.iter_mut().for_each(|stage| stage.onward = Onward::Home);
        let attempts: Vec<AttemptId> =
            self.stages.iter().filter(|stage| stage.is_main()).filter_map(Stage::attempt).collect();
        for attempt in attempts {
            self.start_again(attempt, now);
        }
    }

    /// Gives the stage of `attempt` a new call at the same place, and ends what ran beside it.
    pub(crate) fn start_again(&mut self, attempt: AttemptId, now: Instant) {
        if let Some(index) = self.stage_of(attempt) {
            if self.is_chained(index) {
                return self.part_chain(index, None, now);
            }
            self.drop_migration(index);
            self.drop_side(index, CloseReason::Superseded);
            self.close(index, CloseReason::Superseded);
            if self.holds_first_words() && !self.stages[index].is_end() {
                self.draw_replay(index);
            }
            self.open(index, now);
        }
    }

    fn on_local_fault(&mut self, index: usize, fault: Fault, now: Instant) {
        self.drop_migration(index);
        self.close(index, CloseReason::Failed(fault.code));
        let stage = &mut self.stages[index];
        stage.local_failures += 1;
        // What the request itself is guilty of, a second try does not mend.
        let is_hopeless = matches!(fault.code, ErrorCode::TooLong | ErrorCode::BadRequest);
        if !is_hopeless && stage.local_failures <= LOCAL_RESTARTS_MAX {
            self.open(index, now);
            self.rewind(index, now);
        } else if stage.is_end() {
            self.abort(fault.code, fault.sentence);
        } else {
            self.local_fault = Some(fault);
            self.seek(index, now);
        }
    }

    /// The main stage at `index` does not go on with `peer`.
    pub(crate) fn leave_peer(&mut self, index: usize, peer: PeerId, fault: &Fault, now: Instant) {
        let stage = &self.stages[index];
        let is_refusal = stage.is_refused_by(fault);
        let since = match (fault.kind, stage.under_way.front()) {
            (FaultKind::Stalled | FaultKind::Slow, Some(late)) => late.since,
            _ => now,
        };
        if !is_refusal {
            self.note_takeover(index, peer, since);
        }
        let is_relieved = self.has_side(index);
        self.note_no_kv_cache(index, peer);
        let reason = match fault.kind {
            FaultKind::Stalled | FaultKind::Slow if is_relieved => CloseReason::Superseded,
            _ => CloseReason::Failed(fault.code),
        };
        self.exclude(index, peer, fault);
        self.close(index, reason);
        self.stages[index].fault = Some(fault.code);
        if is_relieved {
            return self.promote(index);
        }
        if self.given_up > RECOVERIES_MAX && !self.may_stand_in(index) {
            let missing = Some(self.stages[index].segment);
            return self.abort_for(ErrorCode::ShardUnavailable, None, missing);
        }
        self.seek(index, now);
    }

    /// Bars `peer` from this prompt, and tells why.
    pub(crate) fn exclude(&mut self, index: usize, peer: PeerId, fault: &Fault) {
        let is_refusal = self.stages[index].is_refused_by(fault);
        let layers = self.stages[index].layers();
        let exclusion = fault.exclusion(self.excluded.get(&peer).copied());
        self.excluded.insert(peer, exclusion);
        self.given_up += 1;
        let is_no_failure = matches!(fault.kind, FaultKind::Leaving | FaultKind::Slow);
        let state = if is_refusal || is_no_failure {
            ShardState::Degraded
        } else {
            self.failures += 1;
            ShardState::Lost
        };
        self.report(Report::ShardStatus { peer, layers, state });
        if let Some(reason) = fault.corrupt.clone() {
            self.report(Report::ShardSuspect { peer, layers, reason });
        }
    }

    /// Looks for somebody else for a stage without a host.
    pub(crate) fn seek(&mut self, index: usize, now: Instant) {
        let is_enough =
            self.failures > self.settings.failovers_max || self.given_up > RECOVERIES_MAX;
        if is_enough && self.may_stand_in(index) {
            self.take_over_here(index, now);
        } else {
            self.stages[index].asked = Asked::Wanted;
        }
    }

    /// Whether this device may compute the layers of the stage at `index`, has their weights, and has
    /// room for them besides all that it computes already.
    pub(crate) fn may_stand_in(&self, index: usize) -> bool {
        let wanted = self.stages[index].layers();
        let has_weights = self.settings.weights_here.iter().any(|here| here.contains(wanted));
        let here = self.stages.iter().filter(|stage| stage.place() == Place::Local);
        let layers = here.map(|stage| stage.layers().len()).fold(0, u32::saturating_add);
        let then = layers.saturating_add(wanted.len());
        self.settings.fall_back == FallBack::Allow
            && has_weights
            && self.local_fault.is_none()
            && then <= self.layers_here_max
    }

    /// Passes the wishes of this event on to the node.
    pub(crate) fn ask_for_offers(&mut self, now: Instant) {
        let has_failed = |(peer, exclusion): (&PeerId, &Exclusion)| {
            (*exclusion != Exclusion::Suspected).then_some(*peer)
        };
        let failed: Vec<PeerId> = self.excluded.iter().filter_map(has_failed).collect();
        for stage in &mut self.stages {
            if stage.asked == Asked::Wanted {
                stage.asked = Asked::Waiting;
                let (layers, failed) = (stage.layers(), failed.clone());
                self.actions.push(Action::WantOffers { layers, failed });
                self.offers_due.get_or_insert(now + self.settings.deadlines.offers);
            }
        }
    }

    pub(crate) fn on_offers(&mut self, offers: &[Offer], now: Instant) {
        self.offers_due = None;
        let mut offers = offers.to_vec();
        let waiting: Vec<AttemptId> = self
            .stages
            .iter()
            .filter(|stage| stage.is_main() && stage.asked == Asked::Waiting)
            .filter_map(Stage::attempt)
            .collect();
        for attempt in waiting {
            let Some(index) = self.stage_of(attempt) else {
                continue;
            };
            self.stages[index].asked = Asked::No;
            if self.stages[index].misses > 0 {
                self.relieve(index, &mut offers, now);
            } else if self.stages[index].slowness == Slowness::Slow {
                self.chase(index, &mut offers, now);
            } else {
                self.call_verifier(index, &mut offers, now);
            }
        }
        while self.state == State::Walking
            && let Some(index) = self
                .stages
                .iter()
                .position(|stage| stage.phase == Phase::Seeking && stage.asked.is_on())
        {
            self.choose(index, &mut offers, now);
        }
    }

    /// Gives a stage without a host to others, to this device, or ends the prompt.
    fn choose(&mut self, index: usize, offers: &mut [Offer], now: Instant) {
        let untainted = self.untainted(offers);
        if let Some(hops) = self.cover_in_memory(index, &untainted) {
            return self.hand_over(index, &hops, offers, now);
        }
        let elsewhere = self.cover_by(index, &untainted);
        let is_sooner_here = |hops: &Vec<Hop>| self.is_sooner_here(index, hops);
        if self.may_stand_in(index) && elsewhere.as_ref().is_none_or(is_sooner_here) {
            return self.take_over_here(index, now);
        }
        if let Some(hops) = elsewhere {
            return self.hand_over(index, &hops, offers, now);
        }
        let is_barred =
            |peer| self.excluded.get(peer).is_some_and(|it| *it != Exclusion::Suspected);
        let last_resort: Vec<Offer> =
            offers.iter().filter(|offer| !is_barred(&offer.peer)).copied().collect();
        if let Some(hops) = self.cover(index, &last_resort) {
            self.hand_over(index, &hops, offers, now);
        } else if self.may_wait(now) {
            self.await_absent(index, now);
        } else if let Some(fault) = self.local_fault.clone() {
            self.abort(fault.code, fault.sentence);
        } else if self.stages[index].fault == Some(ErrorCode::PipelineStalled) {
            self.abort(ErrorCode::PipelineStalled, None);
        } else {
            let missing = Some(self.stages[index].segment);
            self.abort_for(ErrorCode::ShardUnavailable, None, missing);
        }
    }

    /// Whether a reply for which nobody can compute is held. One that has said nothing yet ends at
    /// once: nothing is lost when it is asked for again. So does one for which this device was not
    /// to stand in: whoever chose that wants to hear of it.
    fn may_wait(&self, now: Instant) -> bool {
        let waited = self.absent_since.map(|since| now.saturating_duration_since(since));
        let is_held = self.sampled > 0 && self.settings.fall_back == FallBack::Allow;
        is_held && waited.unwrap_or_default() < self.settings.deadlines.absence
    }

    /// Holds the reply until somebody offers the layers of the stage at `index`.
    fn await_absent(&mut self, index: usize, now: Instant) {
        let stage = &mut self.stages[index];
        stage.asked = Asked::Later;
        let is_told = std::mem::replace(&mut stage.awaited, true);
        let (place, layers) = (stage.place(), stage.layers());
        self.look_again = Some(now + self.settings.deadlines.absence_look);
        // Whoever comes back is another try.
        self.excluded.retain(|_, exclusion| *exclusion == Exclusion::Barred);
        if !is_told && let Place::Peer(peer) = place {
            self.report(Report::ShardStatus { peer, layers, state: ShardState::Awaited });
        }
        self.absent_since.get_or_insert(now);
    }

    /// Asks again for offers for all that nobody could compute a while ago.
    pub(crate) fn look_for_the_absent(&mut self) {
        self.look_again = None;
        for stage in self.stages.iter_mut().filter(|stage| stage.asked == Asked::Later) {
            stage.asked = Asked::Wanted;
        }
    }

    /// Offers of devices that have done nothing wrong in this prompt.
    pub(crate) fn untainted(&self, offers: &[Offer]) -> Vec<Offer> {
        let free = offers.iter().filter(|offer| !self.excluded.contains_key(&offer.peer));
        free.copied().collect()
    }

    /// Hops for a stage's layers, those that have them in memory before those that would load them.
    pub(crate) fn cover(&self, index: usize, offers: &[Offer]) -> Option<Vec<Hop>> {
        self.cover_in_memory(index, offers).or_else(|| self.cover_by(index, offers))
    }

    pub(crate) fn cover_in_memory(&self, index: usize, offers: &[Offer]) -> Option<Vec<Hop>> {
        let held: Vec<Offer> = offers.iter().filter_map(Offer::in_memory).collect();
        self.cover_by(index, &held)
    }

    /// Whether this device is expected to have written what is ahead of the reply before `hops`
    /// would.
    fn is_sooner_here(&self, index: usize, hops: &[Hop]) -> bool {
        let here = [Segment { part: self.stages[index].segment.part, place: Place::Local }];
        let ahead = self.positions_ahead();
        let took = |segments: &[Segment]| {
            let (step, begin) = self.expected(segments)?;
            Some(step.saturating_mul(ahead).saturating_add(begin))
        };
        took(&here).zip(took(&segments(hops))).is_some_and(|(here, there)| here < there)
    }

    pub(crate) fn cover_by(&self, index: usize, offers: &[Offer]) -> Option<Vec<Hop>> {
        let others = self.stages.iter().enumerate().filter(|(other, stage)| {
            *other != index
                && stage.is_main()
                && stage.phase != Phase::Seeking
                && stage.place() != Place::Local
        });
        let hops_max = HOPS_MAX.saturating_sub(others.count());
        greedy_cover(self.stages[index].layers(), offers, hops_max).ok()
    }

    fn hand_over(&mut self, index: usize, hops: &[Hop], offers: &mut [Offer], now: Instant) {
        take_streams(offers, hops);
        self.replace(index, &segments(hops), now);
    }

    fn take_over_here(&mut self, index: usize, now: Instant) {
        let part = self.stages[index].segment.part;
        self.note_fallback(part);
        let place = Place::Local;
        self.replace(index, &[Segment { part, place }], now);
    }

    pub(crate) fn note_fallback(&mut self, part: ModelPart) {
        self.measure.fallbacks_to_local += 1;
        self.report(Report::FallbackToLocal { layers: part.layers });
    }

    /// Puts `segments`, which cover the same layers, in the place of a stage without a host. The
    /// first takes its log; the boundaries between them are rebuilt by the replay.
    fn replace(&mut self, index: usize, segments: &[Segment], now: Instant) {
        if segments.len() != 1 {
            // What one host remembered is not divided among several.
            self.drop_migration(index);
        }
        let migration = self.stages[index].migration.take();
        self.retire(index);
        self.insert(index, segments, Role::Main, now);
        if migration.is_some() {
            self.stages[index].migration = migration;
            self.stages[index].keep_migration();
        } else {
            self.rewind(index, now);
        }
    }

    /// Takes a closed stage out.
    pub(crate) fn retire(&mut self, index: usize) {
        self.drop_migration(index);
        let old = self.stages.remove(index);
        if old.measure.is_used() {
            self.measure.hops.push(old.measure);
        }
    }

    /// Puts stages for `segments` at `index` and opens their calls.
    pub(crate) fn insert(&mut self, index: usize, segments: &[Segment], role: Role, now: Instant) {
        for (offset, segment) in segments.iter().enumerate() {
            let boundary = segment.part.layers.start();
            self.replay_logs.ensure(boundary);
            if offset > 0 {
                self.replay_logs.clear(boundary);
            }
            self.stages.insert(index + offset, Stage::new(*segment, role));
            if matches!(role, Role::Main | Role::Hedge) {
                self.draw_replay(index + offset);
            }
            self.open(index + offset, now);
        }
        self.drop_unread_logs();
    }

    /// Makes what `index` takes replayable: where the beginning of its log is forgotten, the log is
    /// emptied, and the stage before it starts again and refills it.
    pub(crate) fn rewind(&mut self, index: usize, now: Instant) {
        let mut index = index;
        while !self.is_replayable(index) {
            let before = (0..index).rev().find(|before| self.stages[*before].is_main());
            let (Some(layer), Some(before)) = (self.stages[index].takes(), before) else {
                return;
            };
            self.replay_logs.clear(layer);
            match self.stages[before].attempt() {
                Some(attempt) => self.start_again(attempt, now),
                // A stage that has no host starts from the beginning anyway, once it gets one.
                None => {
                    self.drop_migration(before);
                    self.drop_side(before, CloseReason::Superseded);
                }
            }
            index = before;
        }
    }

    /// Whether a new attempt at `index` could be filled from position 0.
    pub(crate) fn is_replayable(&self, index: usize) -> bool {
        let log = self.stages[index].takes().and_then(|layer| self.replay_logs.get(layer));
        log.is_none_or(ReplayLog::is_complete)
    }

    pub(crate) fn drop_unread_logs(&mut self) {
        let read = self.stages.iter().filter_map(Stage::takes).collect();
        self.replay_logs.keep(&read);
    }

    pub(crate) fn on_draining(&mut self, index: usize, now: Instant) {
        let stage = &mut self.stages[index];
        stage.draining = stage.place() != Place::Local;
        // A chain parts once its steps under way are through, and then all of it begins again: what
        // one of its hosts remembers is of no use then.
        if !self.is_chained(index) {
            self.request_kv_cache(index, now);
        }
    }

    /// Leaves devices that have said goodbye and have nothing of ours any more.
    pub(crate) fn leave_the_drained(&mut self, now: Instant) {
        while self.state == State::Walking
            && let Some(index) = self.stages.iter().position(|stage| {
                let is_idle = stage.under_way.is_empty() && stage.caches_due.is_none();
                stage.draining && (is_idle || !stage.is_main())
            })
        {
            self.on_fault(index, Fault::leaving(), now);
        }
    }
}

/// Until an advert shows it, a stream that was just taken is taken.
pub(crate) fn take_streams(offers: &mut [Offer], hops: &[Hop]) {
    for offer in offers {
        let taken = hops.iter().filter(|hop| hop.peer == offer.peer).count();
        let taken = u16::try_from(taken).unwrap_or(u16::MAX);
        offer.streams_free = offer.streams_free.saturating_sub(taken);
    }
}

/// What the devices of a cover compute.
pub(crate) fn segments(hops: &[Hop]) -> Vec<Segment> {
    hops.iter()
        .map(|hop| Segment { part: ModelPart::inner(hop.layers), place: Place::Peer(hop.peer) })
        .collect()
}
