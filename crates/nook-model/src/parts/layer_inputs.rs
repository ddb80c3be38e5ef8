//! Inputs of layers by token (Gemma 3n, Gemma 4 E2B and E4B): beside its embedding, each token has a
//! short row for every layer.
//!
//! Whoever looks up embeddings makes the rows of all layers ([`LayerInputs`]): a projection of the
//! embedding, normed, and a row of a second table, added. They travel with the hidden states, so
//! that no holder of layers needs to know tokens. Each layer gates its own row and adds what it
//! makes of it ([`LayerInput`]).

use nook_kernels::{Compute, Scratch, vector};

use super::linear::forward_all;
use super::{Activation, Broken, Buffers, Linear, Norm, Step, sized};
use crate::error::Fault;
use crate::weights::{Held, Named, Part, Source, Weights};

/// What makes the rows of all layers.
#[derive(Debug)]
pub(crate) struct LayerInputs<W: Weights> {
    /// (vocabulary, layers * width)
    pub(crate) table: W::Matrix,
    /// (layers * width, hidden)
    pub(crate) projection: Linear<W>,
    /// What comes out of the projection is multiplied with.
    pub(crate) scale: f32,
    /// Of each layer's share.
    pub(crate) norm: Norm<W>,
    /// What rows of the table are multiplied with.
    pub(crate) table_scale: f32,
    /// What the sum of both is multiplied with.
    pub(crate) sum_scale: f32,
}

/// What one layer makes of its row.
#[derive(Debug)]
pub(crate) struct LayerInput<W: Weights> {
    /// (width, hidden)
    pub(crate) gate: Linear<W>,
    pub(crate) activation: Activation,
    /// (hidden, width)
    pub(crate) projection: Linear<W>,
    /// Of what comes out, before it is added.
    pub(crate) norm: Norm<W>,
    /// Which of the rows is the layer's.
    pub(crate) index: usize,
    /// Numbers in it.
    pub(crate) width: usize,
}

impl Part for LayerInputs<Named> {
    type With<W: Weights> = LayerInputs<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<LayerInputs<S::Into>, Fault> {
        Ok(LayerInputs {
            table: source.matrix(&self.table)?,
            projection: self.projection.read(source)?,
            scale: self.scale,
            norm: self.norm.read(source)?,
            table_scale: self.table_scale,
            sum_scale: self.sum_scale,
        })
    }
}

impl Part for LayerInput<Named> {
    type With<W: Weights> = LayerInput<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<LayerInput<S::Into>, Fault> {
        Ok(LayerInput {
            gate: self.gate.read(source)?,
            activation: self.activation,
            projection: self.projection.read(source)?,
            norm: self.norm.read(source)?,
            index: self.index,
            width: self.width,
        })
    }
}

impl LayerInputs<Held> {
    /// The rows of the tokens `ids`, whose embeddings are `embedded` (n, hidden), into `out` (n,
    /// layers * width).
    pub(crate) fn forward(
        &self,
        compute: &Compute,
        scratch: &mut Scratch,
        ids: &[u32],
        embedded: &[f32],
        out: &mut [f32],
    ) -> Result<(), Broken> {
        self.projection.forward(compute, scratch, embedded, out)?;
        vector::scale(compute, out, self.scale);
        self.norm.forward_in_place(compute, out, &mut Vec::new());
        let width = self.projection.rows();
        let mut row = vec![0.0; width];
        for (id, out) in ids.iter().zip(out.chunks_exact_mut(width)) {
            self.table.decode(*id as usize, &mut row)?;
            for (out, number) in out.iter_mut().zip(&row) {
                *out = (*out + number * self.table_scale) * self.sum_scale;
            }
        }
        Ok(())
    }
}

impl LayerInput<Held> {
    /// Adds what the layer makes of its row of each position to `x` (n, hidden).
    pub(super) fn forward(
        &self,
        x: &mut [f32],
        result: &mut [f32],
        step: &Step<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        self.make(x, result, step, buffers)?;
        vector::add(step.compute, x, result);
        Ok(())
    }

    /// What the layer makes of its row of each position with hidden states `x` (n, hidden), into
    /// `result` (n, hidden).
    pub(super) fn make(
        &self,
        x: &[f32],
        result: &mut [f32],
        step: &Step<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        let (n, compute, width) = (step.rows(), step.compute, self.width);
        let Buffers { scratch, gate, up, mixed, spare, .. } = buffers;
        let gates = sized(gate, n * width);
        self.gate.forward(compute, scratch, x, gates)?;
        let inputs = sized(up, n * width);
        let all = step.inputs.len() / n.max(1);
        let at = self.index * width;
        for (row, input) in step.inputs.chunks_exact(all.max(1)).zip(inputs.chunks_exact_mut(width))
        {
            let own = row.get(at..at + width);
            input.copy_from_slice(own.ok_or_else(|| Broken::new("no input for a layer"))?);
        }
        let inner = sized(mixed, n * width);
        self.activation.times(compute, gates, inputs, inner);
        forward_all(compute, scratch, inner, [(&self.projection, &mut *result)])?;
        self.norm.forward_in_place(compute, result, spare);
        Ok(())
    }
}
