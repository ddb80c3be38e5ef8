//! What happens when a segment fails, stalls or leaves.
//!
//! A failed device is out of this prompt. Its layers go to other devices that offer them, else to
//! this one, else the prompt ends with a clear code. Whoever takes over starts at position 0 of the
//! stage's log. A log that has forgotten its beginning is rebuilt by running the stages before it
//! again, back to the nearest one that still has everything; the token ids always do.

use std::time::{Duration, Instant};

use nook_base::limits::HOPS_MAX;
use nook_base::{ErrorCode, LayerRange, ModelPart, PeerId};
use nook_plan::{Hop, Offer, Place, Segment, greedy_cover};

use crate::arrival::Corrupt;
use crate::measure::Failover;
use crate::message::{Action, CloseReason, Report, ShardState};
use crate::pipeline::{Pipeline, State};
use crate::retained::Retained;
use crate::settings::FallBack;
use crate::stage::{Asked, Phase, Stage};

/// How often our own worker may fail at one segment before that is final.
pub const LOCAL_RESTARTS_MAX: u32 = 1;

/// Attempts at other devices that may be given up in one prompt. After one more this device takes
/// over; where it may not, the prompt ends. A house has fewer devices.
pub const RECOVERIES_MAX: usize = 32;

/// Deadlines in a row that a device may miss while nobody could take over; each wait is twice the one
/// before. One more and it counts as gone.
pub const STALL_MISSES_MAX: u32 = 2;

/// Deadlines in a row that a device must miss before this device takes over: it has to load the
/// layers first, which a short hiccup is not worth.
const MISSES_BEFORE_LOCAL: u32 = 2;

/// What went wrong at a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    code: ErrorCode,
    sentence: Option<String>,
    kind: FaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultKind {
    /// The other side said so.
    Reported,
    /// Link, worker or result: it cannot go on.
    Broken,
    /// Too late, maybe still alive.
    Stalled,
    /// It said goodbye.
    Leaving,
}

/// Why a device is not asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exclusion {
    /// It was late. It gets one more chance when nobody else is left.
    Suspected,
    /// It failed or refused.
    Failed,
}

/// A takeover that is not complete.
#[derive(Debug)]
pub(crate) struct Recovery {
    from: PeerId,
    layers: LayerRange,
    noticed: Instant,
    /// Positions that the span must have answered for the takeover to be over.
    goal: u32,
}

impl Fault {
    /// The other side of the call reported `code`.
    pub(crate) fn reported(code: ErrorCode, sentence: String) -> Self {
        Self {
            code,
            sentence: Some(sentence).filter(|text| !text.is_empty()),
            kind: FaultKind::Reported,
        }
    }

    /// The way to `place` is gone.
    pub(crate) fn lost(place: Place) -> Self {
        Self::of(match place {
            Place::Local => ErrorCode::WorkerCrashed,
            Place::Peer(_) => ErrorCode::ShardUnavailable,
        })
    }

    /// A result could not be right.
    pub(crate) fn corrupt(why: &Corrupt) -> Self {
        Self { sentence: Some(why.to_string()), ..Self::of(ErrorCode::CorruptActivation) }
    }

    pub(crate) fn of(code: ErrorCode) -> Self {
        Self { code, sentence: None, kind: FaultKind::Broken }
    }

    fn stalled() -> Self {
        Self { kind: FaultKind::Stalled, ..Self::of(ErrorCode::PipelineStalled) }
    }

    fn leaving() -> Self {
        Self { kind: FaultKind::Leaving, ..Self::of(ErrorCode::Draining) }
    }
}

impl Pipeline {
    /// The stage's attempt is over.
    pub(crate) fn on_fault(&mut self, index: usize, fault: Fault, now: Instant) {
        self.first_cause.get_or_insert(fault.code);
        match self.stages[index].place() {
            Place::Local => self.on_local_fault(index, fault, now),
            Place::Peer(peer) => self.leave_peer(index, peer, &fault, now),
        }
    }

    fn on_local_fault(&mut self, index: usize, fault: Fault, now: Instant) {
        self.close(index, CloseReason::Failed(fault.code));
        let stage = &mut self.stages[index];
        stage.local_failures += 1;
        // What the request itself is guilty of, a second try does not mend.
        let is_hopeless = matches!(fault.code, ErrorCode::TooLong | ErrorCode::BadRequest);
        if !is_hopeless && stage.local_failures <= LOCAL_RESTARTS_MAX {
            self.rewind(index, now);
            self.open(index, now);
        } else if stage.is_end() {
            self.abort(fault.code, fault.sentence);
        } else {
            self.local_fault = Some(fault);
            self.seek(index, now);
        }
    }

    fn leave_peer(&mut self, index: usize, peer: PeerId, fault: &Fault, now: Instant) {
        let stage = &self.stages[index];
        let layers = stage.layers();
        let is_refusal =
            matches!(stage.phase, Phase::Opening(_)) && fault.kind == FaultKind::Reported;
        if !is_refusal {
            self.note_recovery(index, peer, layers, now);
        }
        self.close(index, CloseReason::Failed(fault.code));
        self.stages[index].fault = Some(fault.code);
        let exclusion = match (self.excluded.get(&peer), fault.kind) {
            (None, FaultKind::Stalled) => Exclusion::Suspected,
            _ => Exclusion::Failed,
        };
        self.excluded.insert(peer, exclusion);
        let state = if is_refusal || fault.kind == FaultKind::Leaving {
            ShardState::Degraded
        } else {
            self.failures += 1;
            ShardState::Lost
        };
        self.report(Report::ShardStatus { peer, layers, state });
        self.given_up += 1;
        if self.given_up > RECOVERIES_MAX && !self.may_stand_in() {
            return self.abort(ErrorCode::ShardUnavailable, None);
        }
        self.seek(index, now);
    }

    fn note_recovery(&mut self, index: usize, from: PeerId, layers: LayerRange, now: Instant) {
        let passed_on = self.input_end(index + 1);
        let goal = self.input_end(index).min(passed_on.saturating_add(1)).max(passed_on);
        self.recoveries.push(Recovery { from, layers, noticed: now, goal });
    }

    /// Looks for somebody else for a stage without a host.
    fn seek(&mut self, index: usize, now: Instant) {
        let is_enough =
            self.failures > self.settings.failovers_max || self.given_up > RECOVERIES_MAX;
        if is_enough && self.may_stand_in() {
            self.take_over_here(index, now);
        } else {
            self.stages[index].asked = Asked::Wanted;
        }
    }

    fn may_stand_in(&self) -> bool {
        self.settings.fall_back == FallBack::Allow && self.local_fault.is_none()
    }

    /// Passes the wishes of this event on to the node.
    pub(crate) fn ask_for_offers(&mut self, now: Instant) {
        for stage in &mut self.stages {
            if stage.asked == Asked::Wanted {
                stage.asked = Asked::Waiting;
                self.actions.push(Action::WantOffers { layers: stage.layers() });
                self.offers_due.get_or_insert(now + self.settings.deadlines.offers);
            }
        }
    }

    pub(crate) fn on_offers(&mut self, offers: &[Offer], now: Instant) {
        self.offers_due = None;
        for index in 0..self.stages.len() {
            let stage = &mut self.stages[index];
            if stage.asked != Asked::Waiting || stage.phase == Phase::Seeking {
                continue;
            }
            // A late device is left only for somebody better.
            stage.asked = Asked::No;
            if self.has_spare(index, offers) {
                self.on_fault(index, Fault::stalled(), now);
            }
        }
        let mut offers = offers.to_vec();
        while self.state == State::Walking
            && let Some(index) = self
                .stages
                .iter()
                .position(|stage| stage.phase == Phase::Seeking && stage.asked != Asked::No)
        {
            self.choose(index, &mut offers, now);
        }
    }

    fn has_spare(&self, index: usize, offers: &[Offer]) -> bool {
        let stage = &self.stages[index];
        let others: Vec<Offer> = offers
            .iter()
            .filter(|offer| Place::Peer(offer.peer) != stage.place())
            .filter(|offer| !self.excluded.contains_key(&offer.peer))
            .copied()
            .collect();
        let is_local_worth_it = stage.misses >= MISSES_BEFORE_LOCAL && self.may_stand_in();
        is_local_worth_it || self.cover(index, &others).is_some()
    }

    /// Gives a stage without a host to others, to this device, or ends the prompt.
    fn choose(&mut self, index: usize, offers: &mut [Offer], now: Instant) {
        let with = |pipeline: &Self, barred: &dyn Fn(&Exclusion) -> bool| -> Vec<Offer> {
            let is_barred = |peer| pipeline.excluded.get(peer).is_some_and(barred);
            let free = offers.iter().filter(|offer| !is_barred(&offer.peer));
            free.copied().collect()
        };
        let untainted = with(self, &|_| true);
        let last_resort = with(self, &|exclusion| *exclusion == Exclusion::Failed);
        if let Some(hops) = self.cover(index, &untainted) {
            self.hand_over(index, &hops, offers, now);
        } else if self.may_stand_in() {
            self.take_over_here(index, now);
        } else if let Some(hops) = self.cover(index, &last_resort) {
            self.hand_over(index, &hops, offers, now);
        } else if let Some(fault) = self.local_fault.clone() {
            self.abort(fault.code, fault.sentence);
        } else if self.stages[index].fault == Some(ErrorCode::PipelineStalled) {
            self.abort(ErrorCode::PipelineStalled, None);
        } else {
            self.abort(ErrorCode::ShardUnavailable, None);
        }
    }

    fn cover(&self, index: usize, offers: &[Offer]) -> Option<Vec<Hop>> {
        let others = self.stages.iter().enumerate().filter(|(other, stage)| {
            *other != index && stage.phase != Phase::Seeking && stage.place() != Place::Local
        });
        let hops_max = HOPS_MAX.saturating_sub(others.count());
        greedy_cover(self.stages[index].layers(), offers, hops_max).ok()
    }

    fn hand_over(&mut self, index: usize, hops: &[Hop], offers: &mut [Offer], now: Instant) {
        // Until an advert shows it, a stream that was just taken is taken.
        for offer in offers {
            let taken = hops.iter().filter(|hop| hop.peer == offer.peer).count();
            let taken = u16::try_from(taken).unwrap_or(u16::MAX);
            offer.streams_free = offer.streams_free.saturating_sub(taken);
        }
        let segments: Vec<Segment> = hops
            .iter()
            .map(|hop| Segment { part: ModelPart::inner(hop.layers), place: Place::Peer(hop.peer) })
            .collect();
        self.replace(index, &segments, now);
    }

    fn take_over_here(&mut self, index: usize, now: Instant) {
        let part = self.stages[index].segment.part;
        self.measure.fallbacks_to_local += 1;
        self.report(Report::FallbackToLocal { layers: part.layers });
        let place = Place::Local;
        self.replace(index, &[Segment { part, place }], now);
    }

    /// Puts `segments`, which cover the same layers, in the place of a stage without a host. The first
    /// inherits the log; the boundaries between them are rebuilt by the replay.
    fn replace(&mut self, index: usize, segments: &[Segment], now: Instant) {
        let old = self.stages.remove(index);
        if old.measure.is_used() {
            self.measure.hops.push(old.measure);
        }
        let mut log = old.input;
        for (offset, segment) in segments.iter().enumerate() {
            let input = log.take().unwrap_or_else(|| self.empty_log());
            self.stages.insert(index + offset, Stage::new(*segment, Some(input)));
        }
        self.rewind(index, now);
        for offset in 0..segments.len() {
            self.open(index + offset, now);
        }
    }

    /// Makes the log of `index` replayable: where its beginning is forgotten, it is emptied, and the
    /// stage before it starts again and refills it.
    fn rewind(&mut self, index: usize, now: Instant) {
        let mut index = index;
        while index > 0 && !self.stages[index].is_replayable() {
            self.stages[index].input = Some(self.empty_log());
            index -= 1;
            // A stage that has no host starts from the beginning anyway, once it gets one.
            if self.stages[index].attempt().is_some() {
                self.close(index, CloseReason::Superseded);
                self.open(index, now);
            }
        }
    }

    fn empty_log(&self) -> Retained {
        Retained::new(self.settings.hidden, self.settings.dtype)
    }

    pub(crate) fn on_tick(&mut self, now: Instant) {
        for index in 0..self.stages.len() {
            let is_late = self.stages[index].due.is_some_and(|due| due <= now);
            if is_late && self.state == State::Walking {
                self.on_miss(index, now);
            }
        }
        if self.offers_due.is_some_and(|due| due <= now) {
            self.on_offers(&[], now);
        }
    }

    fn on_miss(&mut self, index: usize, now: Instant) {
        let stage = &mut self.stages[index];
        stage.misses += 1;
        let Place::Peer(peer) = stage.place() else {
            return self.on_fault(index, Fault::stalled(), now);
        };
        if stage.misses > STALL_MISSES_MAX {
            return self.on_fault(index, Fault::stalled(), now);
        }
        stage.wind(&self.settings.deadlines, now);
        stage.asked = Asked::Wanted;
        let layers = stage.layers();
        self.report(Report::ShardStatus { peer, layers, state: ShardState::Degraded });
    }

    pub(crate) fn on_draining(&mut self, index: usize) {
        let stage = &mut self.stages[index];
        stage.draining = stage.place() != Place::Local;
    }

    /// Leaves devices that have said goodbye and have nothing of ours any more.
    pub(crate) fn leave_the_drained(&mut self, now: Instant) {
        for index in 0..self.stages.len() {
            let stage = &self.stages[index];
            if let Place::Peer(peer) = stage.place()
                && stage.draining
                && stage.under_way.is_empty()
            {
                self.first_cause.get_or_insert(ErrorCode::Draining);
                self.leave_peer(index, peer, &Fault::leaving(), now);
            }
        }
    }

    /// Reports the takeovers that have caught up.
    pub(crate) fn settle_recoveries(&mut self, now: Instant) {
        let recoveries = std::mem::take(&mut self.recoveries);
        for recovery in recoveries {
            let span: Vec<&Stage> = self
                .stages
                .iter()
                .filter(|stage| !stage.is_end() && recovery.layers.contains(stage.layers()))
                .collect();
            let has_hosts = span.iter().all(|stage| matches!(stage.phase, Phase::Open(_)));
            let has_caught_up = span.last().is_some_and(|last| last.done >= recovery.goal);
            if !has_hosts || !has_caught_up {
                self.recoveries.push(recovery);
                continue;
            }
            let failover = Failover {
                from: recovery.from,
                to: span.iter().map(|stage| stage.place()).collect(),
                layers: recovery.layers,
                pause: now.checked_duration_since(recovery.noticed).unwrap_or(Duration::ZERO),
            };
            self.measure.failovers.push(failover.clone());
            self.report(Report::ShardFailover {
                from: failover.from,
                to: failover.to,
                layers: failover.layers,
                pause: failover.pause,
            });
        }
    }
}
