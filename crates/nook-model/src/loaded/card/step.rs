//! What all parts of one pass on a card share: whose rows these are, and how they turn.

use candle_core::{Device, Tensor};
use candle_nn::rotary_emb::{rope, rope_i};
use nook_kernels::{Compute, RopeLayout};

use super::state::{CardState, Fading, KeyCache};
use crate::parts::{Broken, LayerState, RopeSet, Span, Turn};

/// Rows that go through the layers together.
pub(super) struct CardStep<'a> {
    pub(super) device: &'a Device,
    /// For the little that the processor does.
    pub(super) compute: &'a Compute,
    /// Whose rows, in order, without gaps.
    pub(super) spans: Vec<Span>,
    /// Turns of the rows, for each of the model's ropes.
    turns: Vec<Turns>,
}

/// Turns of the rows of a step.
struct Turns {
    pairs: usize,
    /// (n, pairs)
    cosines: Tensor,
    /// (n, pairs)
    sines: Tensor,
}

/// What each session remembers of the layer that is being computed.
pub(super) struct CardLanes<'a> {
    /// For each session, its states of all layers of the part.
    pub(super) sessions: Vec<&'a mut [LayerState]>,
    /// Which of them belongs to the layer.
    pub(super) slot: usize,
}

impl<'a> CardStep<'a> {
    /// A step over `spans`, which follow each other.
    pub(super) fn new(
        device: &'a Device,
        compute: &'a Compute,
        ropes: &[RopeSet],
        spans: Vec<Span>,
    ) -> Result<Self, Broken> {
        let rows = spans.last().map_or(0, |span| span.rows.end);
        let mut turns = Vec::with_capacity(ropes.len());
        for rope in ropes {
            let (cosines, sines, pairs) = rope.tables(&spans).joined();
            let put = |numbers: Vec<f32>| Tensor::from_vec(numbers, (rows, pairs), device);
            turns.push(Turns { pairs, cosines: put(cosines)?, sines: put(sines)? });
        }
        Ok(Self { device, compute, spans, turns })
    }

    /// Rows in all.
    pub(super) fn rows(&self) -> usize {
        self.spans.last().map_or(0, |span| span.rows.end)
    }

    /// `x` (heads, n, `head_dim`) with the part of each head turned that begins at number `offset`.
    pub(super) fn turn(&self, x: &Tensor, turn: Turn, offset: usize) -> Result<Tensor, Broken> {
        let turns = self.turns.get(turn.rope).ok_or_else(|| Broken::new("no such rope"))?;
        let (width, head_dim) = (2 * turns.pairs, x.dim(2)?);
        if width == 0 {
            return Ok(x.clone());
        }
        let part = x.narrow(2, offset, width)?.contiguous()?.unsqueeze(0)?;
        let turned = match turn.layout {
            RopeLayout::Adjacent => rope_i(&part, &turns.cosines, &turns.sines)?,
            RopeLayout::Halves => rope(&part, &turns.cosines, &turns.sines)?,
        };
        let turned = turned.squeeze(0)?;
        let after = offset + width;
        let mut parts = Vec::with_capacity(3);
        if offset > 0 {
            parts.push(x.narrow(2, 0, offset)?);
        }
        parts.push(turned);
        if after < head_dim {
            parts.push(x.narrow(2, after, head_dim - after)?);
        }
        if parts.len() == 1 {
            return Ok(parts.remove(0));
        }
        Ok(Tensor::cat(&parts, 2)?)
    }
}

impl CardLanes<'_> {
    /// The keys and values that the session `lane` remembers of the layer.
    pub(super) fn keys(&mut self, lane: usize) -> Result<&mut KeyCache, Broken> {
        match self.state(lane)? {
            CardState::Keys(cache) => Ok(cache),
            CardState::Recurrent(_) => Err(Broken::new("a session without a cache for a layer")),
        }
    }

    /// The state that the session `lane` remembers of the layer.
    pub(super) fn fading(&mut self, lane: usize) -> Result<&mut Fading, Broken> {
        match self.state(lane)? {
            CardState::Recurrent(state) => Ok(state),
            CardState::Keys(_) => Err(Broken::new("a session without a state for a layer")),
        }
    }

    fn state(&mut self, lane: usize) -> Result<&mut CardState, Broken> {
        let slot = self.slot;
        let state = self.sessions.get_mut(lane).and_then(|states| states.get_mut(slot));
        let state = state.and_then(LayerState::of_device);
        state.ok_or_else(|| Broken::new("a session without state on the card for a layer"))
    }
}

/// Rows (n, heads * dim) as (heads, n, dim).
pub(super) fn heads_first(rows: &Tensor, heads: usize) -> Result<Tensor, Broken> {
    let (n, width) = rows.dims2()?;
    let apart = rows.reshape((n, heads, width / heads.max(1)))?;
    Ok(apart.transpose(0, 1)?.contiguous()?)
}

/// Heads (heads, n, dim) as rows (n, heads * dim).
pub(super) fn rows_first(heads: &Tensor) -> Result<Tensor, Broken> {
    let (count, n, dim) = heads.dims3()?;
    Ok(heads.transpose(0, 1)?.contiguous()?.reshape((n, count * dim))?)
}
