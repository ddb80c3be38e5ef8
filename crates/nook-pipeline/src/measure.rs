//! What one prompt's walk cost: for metrics, the window and the planner.
//!
//! The pipeline fills it as it goes; [`crate::Pipeline::measure`] hands out a copy at any time.

use std::time::Duration;

use nook_base::{LayerRange, PeerId};
use nook_plan::Place;

/// Figures of one prompt so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measure {
    /// From `Begin` until every segment had accepted its call.
    pub construct: Option<Duration>,
    /// From `Begin` until the first token could be sampled.
    pub first_token: Option<Duration>,
    /// Completed takeovers, in the order of their completion.
    pub failovers: Vec<Failover>,
    /// Spans of other devices that this device took over.
    pub fallbacks_to_local: u32,
    /// Results refused as `corrupt_activation`.
    pub corrupt_activations: u32,
    /// Times that activations did not fit f16 and everything was computed again in f32: 0 or 1.
    pub f16_overflows: u32,
    /// Chunks of prefill that were computed a second time elsewhere.
    pub spot_checks: u32,
    /// Those of them that came out differently.
    pub contradictions: u32,
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

impl HopMeasure {
    pub(crate) fn new(place: Place, layers: LayerRange) -> Self {
        Self { place, layers, prefill: StepSums::default(), decode: StepSums::default() }
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

    /// Whether there is anything to tell.
    pub(crate) fn is_used(&self) -> bool {
        self.prefill.steps + self.decode.steps > 0
    }
}
