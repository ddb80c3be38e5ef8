//! One step through the layers: where kernels run, whose rows these are, what sessions remember.

use nook_kernels::Compute;

use super::rope::Tables;
use super::{Broken, LayerState, RopeSet, Span};

/// Rows that go through the layers together.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    /// Where kernels run.
    pub(crate) compute: &'a Compute,
    /// Whose rows, in order, without gaps.
    pub(crate) spans: Vec<Span>,
    /// Turns of the rows, for each of the model's ropes.
    pub(crate) turns: Vec<Tables>,
    /// What comes to the layers by token with each row; empty in models without it.
    pub(crate) inputs: &'a [f32],
}

/// What each session remembers of the layer that is being computed.
#[derive(Debug)]
pub(crate) struct Lanes<'a> {
    /// For each session, its states of all layers of the part.
    pub(crate) sessions: Vec<&'a mut [LayerState]>,
    /// Which of them belongs to the layer.
    pub(crate) slot: usize,
}

impl<'a> Step<'a> {
    /// A step over `spans`, which follow each other.
    pub(crate) fn new(compute: &'a Compute, ropes: &[RopeSet], spans: Vec<Span>) -> Self {
        let turns = ropes.iter().map(|rope| rope.tables(&spans)).collect();
        Self { compute, spans, turns, inputs: &[] }
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

    /// The numbers that the session of `span` remembers of a recurrent layer before the span and
    /// those to be written for after it: see [`Recurrent::advance`](super::Recurrent::advance).
    pub(super) fn advance(&mut self, span: &Span) -> Result<(Option<&[f32]>, &mut [f32]), Broken> {
        match self.state(span.lane)? {
            LayerState::Recurrent(state) => state.advance(span.first, span.rows.len() as u32),
            _ => Err(Broken::new("a session without a state for a layer")),
        }
    }
}
