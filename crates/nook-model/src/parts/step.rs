//! What all parts of one pass share: where kernels run, whose rows these are, and buffers.

use std::ops::Range;

use nook_kernels::{Compute, MatrixError, Scratch};

use super::rope::Tables;
use super::{LayerState, RopeSet};

/// A kernel refused its input: a mistake in this program, told rather than computed on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Broken {
    pub(crate) reason: String,
}

/// Rows of one session among the rows of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    /// Which of the sessions.
    pub(crate) lane: usize,
    /// Position of the first row.
    pub(crate) first: u32,
    /// Positions that the session may come to have: what some rotary scalings go by.
    pub(crate) window: u32,
    /// Which rows.
    pub(crate) rows: Range<usize>,
}

/// Rows that go through the layers together.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    /// Where kernels run.
    pub(crate) compute: &'a Compute,
    /// Whose rows, in order, without gaps.
    pub(crate) spans: Vec<Span>,
    /// Turns of the rows, for each of the model's ropes.
    pub(crate) turns: Vec<Tables>,
}

/// What each session remembers of the layer that is being computed.
#[derive(Debug)]
pub(crate) struct Lanes<'a> {
    /// For each session, its states of all layers of the part.
    pub(crate) sessions: Vec<&'a mut [LayerState]>,
    /// Which of them belongs to the layer.
    pub(crate) slot: usize,
}

/// Memory that parts use again and again. It grows to the largest step and stays.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub(crate) scratch: Scratch,
    pub(crate) query: Vec<f32>,
    pub(crate) key: Vec<f32>,
    pub(crate) value: Vec<f32>,
    pub(crate) mixed: Vec<f32>,
    pub(crate) gate: Vec<f32>,
    pub(crate) up: Vec<f32>,
    pub(crate) spare: Vec<f32>,
    pub(crate) latent: Vec<f32>,
    pub(crate) experts: super::mixture::Gathered,
}

impl<'a> Step<'a> {
    /// A step over `spans`, which follow each other.
    pub(crate) fn new(compute: &'a Compute, ropes: &[RopeSet], spans: Vec<Span>) -> Self {
        let turns = ropes.iter().map(|rope| rope.tables(&spans)).collect();
        Self { compute, spans, turns }
    }

    /// Rows in all.
    pub(crate) fn rows(&self) -> usize {
        self.spans.last().map_or(0, |span| span.rows.end)
    }
}

impl Lanes<'_> {
    /// What the session `lane` remembers of the layer.
    pub(crate) fn state(&mut self, lane: usize) -> Result<&mut LayerState, Broken> {
        let slot = self.slot;
        let state = self.sessions.get_mut(lane).and_then(|states| states.get_mut(slot));
        state.ok_or_else(|| Broken::new("a session without state for a layer"))
    }
}

impl Broken {
    pub(crate) fn new(reason: &str) -> Self {
        Self { reason: reason.to_owned() }
    }
}

impl From<MatrixError> for Broken {
    fn from(error: MatrixError) -> Self {
        Self { reason: error.to_string() }
    }
}

/// The first `length` numbers of `buffer`, which grows if it must. What they are is left over.
pub(crate) fn sized(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    &mut buffer[..length]
}
