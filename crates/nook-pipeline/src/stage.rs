//! One segment of the route while the prompt walks: its current attempt, its steps under way.
//!
//! Owned by the pipeline: the main line in layer order, and behind each of its stages those that
//! compute the same layers beside it. A stage outlives its attempts; the log before its first layer
//! is what the next attempt starts from.

mod standing;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nook_base::{Activation, ErrorCode, LayerRange, LogitRows};
use nook_plan::{Place, Segment};

use crate::measure::HopMeasure;
use crate::message::AttemptId;
use crate::pace::Pace;
use crate::prefix_cache::Resume;
use crate::settings::{Deadlines, PipelineSettings};

pub(crate) use standing::{Drawn, Migration, Onward, Slowness};

/// Most often that missed deadlines double the next one, so that no wait overflows.
const BACKOFF_DOUBLINGS_MAX: u32 = 6;

pub(crate) struct Stage {
    pub(crate) segment: Segment,
    pub(crate) role: Role,
    pub(crate) phase: Phase,
    /// Positions that this attempt's host is to hold already.
    pub(crate) from: u32,
    /// Positions at which this attempt's host has ended a step, ascending.
    pub(crate) ends: Vec<u32>,
    /// Positions sent to this attempt.
    pub(crate) sent: u32,
    /// Positions this attempt has answered.
    pub(crate) done: u32,
    pub(crate) under_way: VecDeque<UnderWay>,
    pub(crate) next_step: u64,
    pub(crate) pace: Pace,
    /// How it does against its usual pace.
    pub(crate) slowness: Slowness,
    pub(crate) measure: HopMeasure,
    /// Deadlines missed in a row.
    pub(crate) misses: u32,
    /// When to look at this stage again.
    pub(crate) due: Option<Instant>,
    /// How often what moves may still make the wait begin anew.
    pub(crate) pieces: usize,
    /// Whether the node was asked for offers for these layers.
    pub(crate) asked: Asked,
    /// Whether it was told that the reply waits for who had these layers.
    pub(crate) awaited: bool,
    /// Failures of our own worker at this stage.
    pub(crate) local_failures: u32,
    /// Why the last device that had these layers was left.
    pub(crate) fault: Option<ErrorCode>,
    /// Whether the host has said that it leaves.
    pub(crate) draining: bool,
    /// How long the host, which leaves, would take to give what it remembers, if it would.
    pub(crate) caches_take: Option<Duration>,
    /// Until when to wait for that, once it was asked for.
    pub(crate) caches_due: Option<Instant>,
    /// What the host before this one remembered, on its way here.
    pub(crate) migration: Option<Migration>,
    /// What somebody else computes too, if this stage was drawn for that.
    pub(crate) spot_check: Option<Drawn>,
    /// Positions up to which this attempt's answers were compared.
    pub(crate) verified: u32,
    /// Where this attempt's results go.
    pub(crate) onward: Onward,
}

/// What a stage is to the route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is the route.
    Main,
    /// It computes the layers of a late stage too; whoever answers first stays.
    Hedge,
    /// It recomputes the stage before it up to where that was drawn, to compare.
    Verifier(Drawn),
}

/// Where a stage stands with its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waits for the call to be accepted.
    Opening(AttemptId),
    /// Takes steps.
    Open(AttemptId),
    /// Has no host and waits for offers.
    Seeking,
}

/// Whether this stage waits for offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It needs none.
    No,
    /// It needs some, and the node has not been asked yet.
    Wanted,
    /// The node was asked.
    Waiting,
    /// Nobody can: it is asked again in a while.
    Later,
}

/// A step that was sent and is not answered.
pub(crate) struct UnderWay {
    pub(crate) step: u64,
    pub(crate) position: u32,
    pub(crate) count: u32,
    /// What was sent; `None` for token ids.
    pub(crate) input: Option<Activation>,
    pub(crate) rows: LogitRows,
    /// When the host could begin with it: when it was sent, or when the one before was answered.
    pub(crate) since: Instant,
    /// Whether it was on its way while the host computed the step before.
    pub(crate) overlapped: bool,
    /// Whether it has left the host before; always so where this device sends it.
    pub(crate) at_host: bool,
}

impl Asked {
    /// Whether an answer is wanted now.
    pub(crate) fn is_on(self) -> bool {
        matches!(self, Self::Wanted | Self::Waiting)
    }
}

impl Stage {
    pub(crate) fn new(segment: Segment, role: Role) -> Self {
        Self {
            segment,
            role,
            phase: Phase::Seeking,
            from: 0,
            ends: Vec::new(),
            sent: 0,
            done: 0,
            under_way: VecDeque::new(),
            next_step: 0,
            pace: Pace::default(),
            slowness: Slowness::Usual,
            measure: HopMeasure::new(segment.place, segment.part.layers),
            misses: 0,
            due: None,
            pieces: 0,
            asked: Asked::No,
            awaited: false,
            local_failures: 0,
            fault: None,
            draining: false,
            caches_take: None,
            caches_due: None,
            migration: None,
            spot_check: None,
            verified: 0,
            onward: Onward::Home,
        }
    }

    /// Starts a new attempt; everything of the last one is forgotten but the log. With `resume` it
    /// goes on where an earlier reply has ended.
    pub(crate) fn open(
        &mut self,
        attempt: AttemptId,
        resume: Option<&Resume>,
        settings: &PipelineSettings,
        now: Instant,
    ) {
        self.reset();
        let (forecast, layers) = (&settings.forecast, self.layers());
        self.pace.expect(
            forecast.step(self.place(), layers),
            forecast.bulk(self.place(), layers, settings.prefill_chunk.max(1)),
            settings.prefill_chunk.max(1),
        );
        self.pace.expect_load(forecast.ready(self.place(), layers));
        if let Some(resume) = resume {
            self.from = resume.position;
            self.ends.clone_from(&resume.ends);
            (self.sent, self.done) = (resume.position, resume.position);
        }
        self.phase = Phase::Opening(attempt);
        self.due = Some(now + self.patience(&settings.deadlines));
    }

    /// Ends the attempt, and hands out its id for the `Close`.
    pub(crate) fn leave(&mut self) -> Option<AttemptId> {
        let attempt = self.attempt();
        self.reset();
        attempt
    }

    fn reset(&mut self) {
        self.phase = Phase::Seeking;
        self.from = 0;
        self.ends.clear();
        self.sent = 0;
        self.done = 0;
        self.verified = 0;
        self.under_way.clear();
        self.next_step = 0;
        self.pace = Pace::default();
        self.slowness = Slowness::Usual;
        self.misses = 0;
        self.due = None;
        self.pieces = 0;
        self.asked = Asked::No;
        self.draining = false;
        self.caches_take = None;
        self.caches_due = None;
        self.onward = Onward::Home;
    }

    /// Sets when to look again: by the wait that is on, doubled for each miss in a row.
    pub(crate) fn wind(&mut self, deadlines: &Deadlines, now: Instant) {
        let waits = match self.phase {
            Phase::Opening(_) => true,
            Phase::Open(_) => self.under_way.front().is_some_and(|front| front.at_host),
            Phase::Seeking => false,
        };
        self.due = waits.then(|| now + self.patience(deadlines));
    }

    /// A step of so many bytes is sent, and answered by as many.
    pub(crate) fn expect_pieces(&mut self, bytes: usize, deadlines: &Deadlines) {
        if self.under_way.is_empty() {
            self.pieces = 0;
        }
        // The last piece of each is the step, or the answer, itself.
        let each_way = bytes.saturating_sub(1) / deadlines.piece_bytes.max(1);
        self.pieces = self.pieces.saturating_add(each_way.saturating_mul(2));
    }

    /// A piece of a step or of an answer has moved.
    pub(crate) fn progressed(&mut self, deadlines: &Deadlines, now: Instant) {
        if let Some(left) = self.pieces.checked_sub(1) {
            self.pieces = left;
            self.wind(deadlines, now);
        }
    }

    fn patience(&self, deadlines: &Deadlines) -> Duration {
        let is_local = self.place() == Place::Local;
        let once = match (self.phase, self.under_way.front()) {
            (Phase::Open(_), Some(front)) => {
                let patience = self.pace.patience(front.count, deadlines);
                if is_local { patience * deadlines.local_patience } else { patience }
            }
            _ if is_local => deadlines.open_local,
            _ => self.pace.patience_to_open(deadlines),
        };
        once * 2_u32.pow(self.misses.min(BACKOFF_DOUBLINGS_MAX))
    }

    pub(crate) fn attempt(&self) -> Option<AttemptId> {
        match self.phase {
            Phase::Opening(attempt) | Phase::Open(attempt) => Some(attempt),
            Phase::Seeking => None,
        }
    }

    pub(crate) fn place(&self) -> Place {
        self.segment.place
    }

    pub(crate) fn layers(&self) -> LayerRange {
        self.segment.part.layers
    }

    /// Whether token ids come in or logits go out: this stage never leaves this device.
    pub(crate) fn is_end(&self) -> bool {
        self.segment.part.embedding || self.segment.part.head
    }

    pub(crate) fn is_main(&self) -> bool {
        self.role == Role::Main
    }

    /// The layer whose log this stage takes rows from; `None` where it takes token ids.
    pub(crate) fn takes(&self) -> Option<u32> {
        (!self.segment.part.embedding).then(|| self.layers().start())
    }

    /// The layer whose log it answers into; `None` where it answers logits.
    pub(crate) fn gives(&self) -> Option<u32> {
        (!self.segment.part.head).then(|| self.layers().end())
    }
}
