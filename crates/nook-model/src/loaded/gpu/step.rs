//! What all parts of one pass on a GPU share: whose rows these are, how they turn, what sessions
//! remember.

use std::sync::Arc;

use nook_gpu::{Buffer, Gpu, Turn};
use nook_kernels::{Compute, RopeLayout};

use super::recorder::Recorder;
use super::state::{Fading, GpuState, KeyCache};
use crate::loaded::session::StepError;
use crate::parts::{self, Broken, LayerState, RopeSet, Span};

/// Rows that go through the layers together.
#[derive(Debug)]
pub(super) struct GpuStep<'a> {
    /// For the little that the CPU does.
    pub(super) compute: &'a Compute,
    /// Whose rows, in order, without gaps.
    pub(super) spans: Vec<Span>,
    /// Turns of the rows, for each of the model's ropes.
    turns: Vec<Turns>,
    /// What comes to the layers by token with each row, and how many numbers that are; absent in
    /// models without it.
    pub(super) inputs: Option<(Arc<Buffer>, usize)>,
}

/// Turns of the rows of a step: cosines and sines (n, pairs).
#[derive(Debug)]
struct Turns {
    pairs: usize,
    cosines: Buffer,
    sines: Buffer,
}

/// Heads whose part from number `offset` on turns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turned {
    pub(super) heads: usize,
    pub(super) head_dim: usize,
    pub(super) offset: usize,
}

/// What each session remembers of the layer that is being computed.
#[derive(Debug)]
pub(super) struct GpuLanes<'a> {
    /// For each session, its states of all layers of the part.
    pub(super) sessions: Vec<&'a mut [LayerState]>,
    /// Which of them belongs to the layer.
    pub(super) slot: usize,
}

impl<'a> GpuStep<'a> {
    /// A step over `spans`, which follow each other.
    pub(super) fn new(
        gpu: &Gpu,
        compute: &'a Compute,
        ropes: &[RopeSet],
        spans: Vec<Span>,
    ) -> Result<Self, StepError> {
        let mut turns = Vec::with_capacity(ropes.len());
        for rope in ropes {
            let (cosines, sines, pairs) = rope.tables(&spans).joined();
            turns.push(Turns {
                pairs,
                cosines: Buffer::of_floats(gpu, "cosines", &cosines)?,
                sines: Buffer::of_floats(gpu, "sines", &sines)?,
            });
        }
        Ok(Self { compute, spans, turns, inputs: None })
    }

    /// Rows in all.
    pub(super) fn rows(&self) -> usize {
        self.spans.last().map_or(0, |span| span.rows.end)
    }

    /// Turns a part of each head of `x` (n, heads * `head_dim`), in place.
    pub(super) fn turn(
        &self,
        recorder: &mut Recorder<'_>,
        x: &Buffer,
        turn: parts::Turn,
        turned: Turned,
    ) -> Result<(), StepError> {
        let turns = self.turns.get(turn.rope).ok_or_else(|| Broken::new("no such rope"))?;
        let Turned { heads, head_dim, offset } = turned;
        let turn = Turn {
            cosines: &turns.cosines,
            sines: &turns.sines,
            pairs: turns.pairs,
            offset,
            halves: turn.layout == RopeLayout::Halves,
        };
        Ok(recorder.commands.turn(x, self.rows(), heads, head_dim, turn)?)
    }
}

impl GpuLanes<'_> {
    /// The keys and values that the session `lane` remembers of the layer.
    pub(super) fn keys(&mut self, lane: usize) -> Result<&mut KeyCache, Broken> {
        match self.state(lane)? {
            GpuState::Keys(cache) => Ok(cache),
            GpuState::Recurrent(_) => Err(Broken::new("a session without a cache for a layer")),
        }
    }

    /// The state that the session `lane` remembers of the layer.
    pub(super) fn fading(&mut self, lane: usize) -> Result<&mut Fading, Broken> {
        match self.state(lane)? {
            GpuState::Recurrent(state) => Ok(state),
            GpuState::Keys(_) => Err(Broken::new("a session without a state for a layer")),
        }
    }

    /// Counts the rows of a layer that remembers nothing.
    pub(super) fn pass_by(&mut self, step: &GpuStep<'_>) -> Result<(), Broken> {
        for span in &step.spans {
            let Some(LayerState::Nothing(state)) = self.layer_state(span.lane) else {
                return Err(Broken::new("a state for a layer that remembers nothing"));
            };
            state.advance(span.first, span.rows.len() as u32)?;
        }
        Ok(())
    }

    fn state(&mut self, lane: usize) -> Result<&mut GpuState, Broken> {
        let state = self.layer_state(lane).and_then(LayerState::of_device);
        state.ok_or_else(|| Broken::new("a session without state on the GPU for a layer"))
    }

    fn layer_state(&mut self, lane: usize) -> Option<&mut LayerState> {
        let slot = self.slot;
        self.sessions.get_mut(lane).and_then(|states| states.get_mut(slot))
    }
}
