//! The gated short convolution (Liquid AI 2025): a layer that remembers the last few positions and
//! nothing else.
//!
//! One projection gives three rows: two gates and an input. The input times the first gate goes
//! through a short causal convolution without an activation, the second gate multiplies what comes
//! out, and a projection follows. Reference: `Lfm2ShortConv` of Hugging Face transformers.

use super::convolution::Convolution;
use super::linear::forward_all;
use super::{Broken, Buffers, Lanes, Linear, StateShape, Step, sized};
use crate::error::Fault;
use crate::weights::{Held, Named, Part, Source, Weights};

/// A gated short convolution in place of attention.
#[derive(Debug)]
pub(crate) struct ShortConv<W: Weights> {
    /// (hidden, hidden): what the input is multiplied with.
    pub(crate) entry_gate: Linear<W>,
    /// (hidden, hidden): what the result is multiplied with.
    pub(crate) exit_gate: Linear<W>,
    /// (hidden, hidden)
    pub(crate) input: Linear<W>,
    /// (hidden, kernel)
    pub(crate) convolution: W::Vector,
    /// (hidden, hidden)
    pub(crate) output: Linear<W>,
    pub(crate) hidden: usize,
    /// Positions that the convolution sees.
    pub(crate) kernel: usize,
}

impl<W: Weights> ShortConv<W> {
    /// What a session remembers: the gated inputs of the last positions, (kernel - 1, hidden).
    pub(crate) fn state(&self) -> StateShape {
        StateShape::Recurrent { numbers: self.kernel.saturating_sub(1) * self.hidden }
    }
}

impl Part for ShortConv<Named> {
    type With<W: Weights> = ShortConv<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<ShortConv<S::Into>, Fault> {
        Ok(ShortConv {
            entry_gate: self.entry_gate.read(source)?,
            exit_gate: self.exit_gate.read(source)?,
            input: self.input.read(source)?,
            convolution: source.vector(&self.convolution)?,
            output: self.output.read(source)?,
            hidden: self.hidden,
            kernel: self.kernel,
        })
    }
}

impl ShortConv<Held> {
    /// Rows `x` (n, hidden) into `out` (n, hidden); the states of their sessions advance.
    pub(crate) fn forward(
        &self,
        x: &[f32],
        out: &mut [f32],
        step: &Step<'_>,
        lanes: &mut Lanes<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        let count = step.rows() * self.hidden;
        let Buffers { scratch, query, key, value, mixed, .. } = buffers;
        let entry = sized(key, count);
        let exit = sized(value, count);
        let inputs = sized(query, count);
        let all = [
            (&self.entry_gate, &mut *entry),
            (&self.exit_gate, &mut *exit),
            (&self.input, &mut *inputs),
        ];
        forward_all(step.compute, scratch, x, all)?;
        inputs.iter_mut().zip(entry).for_each(|(input, gate)| *input *= *gate);
        let convolved = sized(mixed, count);
        let convolution =
            Convolution { weights: &self.convolution, bias: None, taps: self.kernel, silu: false };
        for span in &step.spans {
            let (before, past) = lanes.advance(span)?;
            if let Some(before) = before {
                past.copy_from_slice(before);
            }
            let rows = span.rows.start * self.hidden..span.rows.end * self.hidden;
            convolution.forward(past, &inputs[rows.clone()], &mut convolved[rows]);
        }
        convolved.iter_mut().zip(exit).for_each(|(number, gate)| *number *= *gate);
        self.output.forward(step.compute, scratch, convolved, out)
    }
}
