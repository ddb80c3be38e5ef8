//! What one prompt's walk cost: for metrics, the window and the planner.
//!
//! The pipeline fills it as it goes; [`crate::Pipeline::measure`] hands out a copy at any time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nook_base::{LayerRange, LogitRows, ModelPart, PeerId};
use nook_plan::Place;

/// Answered steps that are kept one by one, of prefill and of decode each. Of more, the newest
/// stay: whoever fits a line through them forgets the older ones within some ten visits.
pub const VISITS_KEPT_MAX: usize = 128;

/// Figures of one prompt so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measure {
    /// From `Begin` until every segment had accepted its call.
    pub construct: Option<Duration>,
    /// From `Begin` until the first token could be sampled.
    pub first_token: Option<Duration>,
    /// Completed takeovers, in the order of their completion.
    pub failovers: Vec<Failover>,
    /// Spans that another device went on with from what the one before remembered.
    pub handovers: u32,
    /// Spans of other devices that this device took over.
    pub fallbacks_to_local: u32,
    /// Times that the layers of a late or slow device were begun elsewhere beside it; at most
    /// [`crate::HEDGES_MAX`].
    pub hedges: u32,
    /// Those of them after which the other one stayed.
    pub hedges_won: u32,
    /// Results refused as `corrupt_activation`.
    pub corrupt_activations: u32,
    /// Times that activations did not fit f16 or q8 and everything was computed again in f32: 0 or
    /// 1.
    pub f16_overflows: u32,
    /// Positions that were not computed, because the hosts held them from an earlier reply.
    pub resumed: u32,
    /// Times that a host did not remember what it was asked to go on with: 0 or 1.
    pub resumes_refused: u32,
    /// Chunks of prefill that were computed a second time elsewhere.
    pub spot_checks: u32,
    /// Those of them that came out differently.
    pub contradictions: u32,
    /// Results that went from host to host and did not come here.
    pub forwarded_steps: u32,
    /// What hosts said when they were asked to hand results on, and what came of it; in order.
    pub joints: Vec<Joint>,
    /// Chains of hosts that had to be given up: 0 or 1.
    pub chains_parted: u32,
    /// Frames of closed attempts or of steps already answered: dropped.
    pub late_frames: u32,
    /// One entry per stage that ever had a place; those still in use come last, in layer order.
    pub hops: Vec<HopMeasure>,
}

/// One completed takeover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failover {
    /// Who had the layers.
    pub from: PeerId,
    /// Who has them now, in layer order.
    pub to: Vec<Place>,
    /// The layers.
    pub layers: LayerRange,
    /// From the loss, or from when a late device was given its step, to the next token.
    pub pause: Duration,
}

/// A takeover that is not complete.
#[derive(Debug)]
pub(crate) struct Takeover {
    pub(crate) from: PeerId,
    pub(crate) layers: LayerRange,
    /// When the wait began: at the loss of a device, or when a late one was given its step.
    pub(crate) since: Instant,
}

/// Whether one device hands its results to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joint {
    /// Whose results.
    pub from: PeerId,
    /// Who takes them.
    pub to: PeerId,
    /// Whether it does; not, where it refused or the chain had to be given up.
    pub stands: bool,
}

/// What one place did for one span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopMeasure {
    /// Who.
    pub place: Place,
    /// Which layers.
    pub layers: LayerRange,
    /// Steps of several positions: prefill and replay.
    pub prefill: StepSums,
    /// Steps of one position.
    pub decode: StepSums,
    /// Rows that went to another device, in bytes, heads and framing not counted.
    pub bytes_out: u64,
    /// Rows that came back from it.
    pub bytes_in: u64,
    /// Positions of the history when its first and its last step were answered; absent before.
    /// Tells for which tokens of a reply it computed, whatever was computed again.
    pub history: Option<(u32, u32)>,
}

/// Sums over steps. What the host claims is cut to what really passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepSums {
    /// Steps answered.
    pub steps: u64,
    /// Positions in them.
    pub positions: u64,
    /// Computing, as the host says, in µs.
    pub compute_us: u64,
    /// Waiting at the host, as it says, in µs.
    pub queue_us: u64,
    /// The rest of the time until the result was here, in µs.
    pub wire_us: u64,
}

/// One answered step, for whoever measures devices. What the host claims is cut to what really
/// passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopVisit {
    /// Who.
    pub place: Place,
    /// Which part of the model.
    pub part: ModelPart,
    /// Positions.
    pub rows: u32,
    /// Whether logits were computed for the last of them.
    pub logits: bool,
    /// Computing, as the host says.
    pub compute: Duration,
    /// Waiting at the host, as it says.
    pub queue: Duration,
    /// The rest of the time until the result was here.
    pub wire: Duration,
    /// Whether its rows travelled while the host computed the step before; then `wire` says nothing
    /// of the way.
    pub overlapped: bool,
    /// Whether its rows came from, or went to, another host; then `wire` is no way there and back.
    pub forwarded: bool,
}

/// The newest visits, in order. A walk is long in decode and short in prefill, so each has its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Visits {
    prefill: VecDeque<HopVisit>,
    decode: VecDeque<HopVisit>,
}

impl HopVisit {
    pub(crate) fn new(
        (place, part): (Place, ModelPart),
        (rows, logits): (u32, LogitRows),
        took: Duration,
        host_us: (u32, u32),
    ) -> Self {
        let compute = Duration::from_micros(u64::from(host_us.0)).min(took);
        let queue = Duration::from_micros(u64::from(host_us.1)).min(took.saturating_sub(compute));
        let wire = took.saturating_sub(compute).saturating_sub(queue);
        let logits = part.head && logits == LogitRows::Last;
        Self {
            place,
            part,
            rows,
            logits,
            compute,
            queue,
            wire,
            overlapped: false,
            forwarded: false,
        }
    }
}

impl Visits {
    pub(crate) fn push(&mut self, visit: HopVisit) {
        let kept = if visit.rows > 1 { &mut self.prefill } else { &mut self.decode };
        if kept.len() >= VISITS_KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(visit);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &HopVisit> {
        self.prefill.iter().chain(&self.decode)
    }
}

impl HopMeasure {
    pub(crate) fn new(place: Place, layers: LayerRange) -> Self {
        let (prefill, decode) = (StepSums::default(), StepSums::default());
        Self { place, layers, prefill, decode, bytes_out: 0, bytes_in: 0, history: None }
    }

    /// Books a step of `count` positions that took `took` in all.
    pub(crate) fn add(&mut self, count: u32, took: Duration, compute_us: u32, queue_us: u32) {
        let sums = if count > 1 { &mut self.prefill } else { &mut self.decode };
        let total = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let compute = u64::from(compute_us).min(total);
        let queue = u64::from(queue_us).min(total - compute);
        sums.steps += 1;
        sums.positions += u64::from(count);
        sums.compute_us += compute;
        sums.queue_us += queue;
        sums.wire_us += total - compute - queue;
    }

    /// Notes how long the history was when a step was answered.
    pub(crate) fn reach(&mut self, positions: u32) {
        let first = self.history.map_or(positions, |(first, _)| first);
        self.history = Some((first, positions));
    }

    /// Whether there is anything to tell.
    pub(crate) fn is_used(&self) -> bool {
        self.prefill.steps + self.decode.steps > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(rows: u32, took_ms: u64, host_us: (u32, u32)) -> HopVisit {
        let took = Duration::from_millis(took_ms);
        let part = ModelPart { layers: LayerRange::all(4), embedding: true, head: true };
        HopVisit::new((Place::Local, part), (rows, LogitRows::Last), took, host_us)
    }

    #[test]
    fn what_a_host_claims_is_cut_to_what_really_passed() {
        let ms = Duration::from_millis;
        let honest = visit(1, 10, (4_000, 1_000));
        assert_eq!((honest.compute, honest.queue, honest.wire), (ms(4), ms(1), ms(5)));
        let boasting = visit(1, 10, (8_000, 9_000));
        assert_eq!((boasting.compute, boasting.queue, boasting.wire), (ms(8), ms(2), ms(0)));
    }

    #[test]
    fn a_long_reply_keeps_its_newest_visits_and_those_of_its_prompt() {
        let mut visits = Visits::default();
        visits.push(visit(64, 1, (1, 0)));
        (0..2 * VISITS_KEPT_MAX as u64).for_each(|at| visits.push(visit(1, at, (0, 0))));
        let kept: Vec<_> = visits.iter().copied().collect();
        assert_eq!(kept.len(), VISITS_KEPT_MAX + 1);
        assert_eq!(kept[0].rows, 64);
        assert_eq!(kept[1].wire, Duration::from_millis(VISITS_KEPT_MAX as u64));
    }
}
