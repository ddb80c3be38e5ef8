//! Attention over the keys and values of an earlier layer (Gemma 3n, Gemma 4 E2B and E4B): the layer
//! makes queries alone and remembers nothing.
//!
//! The layer that it reads must be of the same part of the model: no cut lies between the two.

use nook_kernels::attention::Heads;

use super::attention::mix;
use super::block::pass_by;
use super::{Broken, Buffers, Lanes, Linear, Norm, Reach, Step, Turn, sized};
use crate::error::Fault;
use crate::weights::{Held, Named, Part, Source, Weights};

/// Attention that makes no keys and values of its own.
#[derive(Debug)]
pub(crate) struct SharedAttention<W: Weights> {
    /// (heads * `head_dim`, hidden)
    pub(crate) query: Linear<W>,
    /// (hidden, heads * `head_dim`)
    pub(crate) output: Linear<W>,
    /// Of each query head, before it turns.
    pub(crate) query_norm: Option<Norm<W>>,
    /// Query heads.
    pub(crate) heads: usize,
    /// Numbers in a head.
    pub(crate) head_dim: usize,
    /// Factor of the scores.
    pub(crate) scale: f32,
    /// Which positions are seen.
    pub(crate) reach: Reach,
    /// How queries turn.
    pub(crate) turn: Option<Turn>,
    /// How many layers before this one the one lies whose keys and values are read.
    pub(crate) distance: u32,
}

impl Part for SharedAttention<Named> {
    type With<W: Weights> = SharedAttention<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<SharedAttention<S::Into>, Fault> {
        Ok(SharedAttention {
            query: self.query.read(source)?,
            output: self.output.read(source)?,
            query_norm: self.query_norm.read(source)?,
            heads: self.heads,
            head_dim: self.head_dim,
            scale: self.scale,
            reach: self.reach,
            turn: self.turn,
            distance: self.distance,
        })
    }
}

impl SharedAttention<Held> {
    /// Rows `x` (n, hidden) into `out` (n, hidden).
    pub(crate) fn forward(
        &self,
        x: &[f32],
        out: &mut [f32],
        step: &Step<'_>,
        lanes: &mut Lanes<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        let Buffers { scratch, query, mixed, spare, .. } = buffers;
        let queries = sized(query, step.rows() * self.query.rows());
        self.query.forward(step.compute, scratch, x, queries)?;
        if let Some(norm) = &self.query_norm {
            norm.forward_in_place(step.compute, queries, spare);
        }
        if let Some(turn) = self.turn {
            let turns = step.turns.get(turn.rope).ok_or_else(|| Broken::new("no such rope"))?;
            turns.turn(step.compute, queries, self.heads, self.head_dim, 0, turn.layout);
        }
        let (heads, scale) = (self.heads, self.scale);
        let heads = Heads { heads, scale, soft_cap: None, window: None, sinks: None };
        let mixed = sized(mixed, queries.len());
        pass_by(step, lanes)?;
        let own = lanes.slot;
        let read = own.checked_sub(self.distance as usize);
        lanes.slot = read.ok_or_else(|| Broken::new("the layer to read is not of this part"))?;
        let done = mix(step, lanes, heads, self.reach, queries, mixed);
        lanes.slot = own;
        done?;
        self.output.forward(step.compute, scratch, mixed, out)
    }
}
