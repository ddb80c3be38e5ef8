//! Mamba-2 (Dao and Gu 2024): a layer that remembers in one matrix for each head, which every
//! position lets fade and adds to, instead of keys and values of all positions.
//!
//! One projection gives a gate, the inputs of a short causal convolution with bias and SiLU (what
//! is remembered `x`, where it is put `B`, where it is read `C`), and a step for each head. The
//! state fades by `exp(step * decay)`, `step * x` is added at `B`, and `C` reads it; `x` itself is
//! added, scaled. What was read is multiplied by the SiLU of the gate, then normed group by group,
//! and projected. Heads share `B` and `C` in groups. Reference: `Mamba2Mixer` of Hugging Face
//! transformers in its recurrent form.
//!
//! Positions are taken one by one, so chunks cannot show. Heads are shared among the threads.

use nook_kernels::elementary::exp;
use nook_kernels::vector;

use super::convolution::Convolution;
use super::delta::softplus;
use super::heads::{Head, Heads};
use super::linear::forward_all;
use super::{Broken, Buffers, Lanes, Linear, Span, StateShape, Step, sized};
use crate::error::Fault;
use crate::weights::{Held, Named, Part, Source, Weights};

/// A Mamba-2 layer in place of attention.
#[derive(Debug)]
pub(crate) struct Mamba2<W: Weights> {
    /// (inner, hidden)
    pub(crate) gate: Linear<W>,
    /// (channels, hidden): inputs, places to put and places to read.
    pub(crate) mixed: Linear<W>,
    /// (heads, hidden)
    pub(crate) step: Linear<W>,
    /// (channels, kernel)
    pub(crate) convolution: W::Vector,
    /// (channels)
    pub(crate) convolution_bias: Option<W::Vector>,
    /// (heads)
    pub(crate) step_bias: W::Vector,
    /// (heads), negative.
    pub(crate) decay: W::Vector,
    /// (heads): what inputs are multiplied with on their way past the state.
    pub(crate) skip: W::Vector,
    /// (inner)
    pub(crate) norm: W::Vector,
    /// (hidden, inner)
    pub(crate) output: Linear<W>,
    pub(crate) heads: usize,
    /// Numbers of a head.
    pub(crate) dim: usize,
    /// Groups of heads that put and read at the same places, and are normed together.
    pub(crate) groups: usize,
    /// Numbers of a place.
    pub(crate) places: usize,
    /// Positions that the convolution sees.
    pub(crate) kernel: usize,
    pub(crate) epsilon: f32,
}

/// What comes to the heads with each row.
#[derive(Clone, Copy)]
struct Signals<'a> {
    /// (n, channels)
    convolved: &'a [f32],
    /// (n, heads)
    steps: &'a [f32],
}

impl<W: Weights> Mamba2<W> {
    /// What a session remembers: the inputs of the convolution (kernel - 1, channels), then a
    /// matrix (dim, places) for each head.
    pub(crate) fn state(&self) -> StateShape {
        let matrices = self.heads * self.dim * self.places;
        StateShape::Recurrent { numbers: self.history() + matrices }
    }

    /// Numbers of all heads.
    pub(crate) fn inner(&self) -> usize {
        self.heads * self.dim
    }

    /// Numbers of a row of the convolution.
    pub(crate) fn channels(&self) -> usize {
        self.inner() + 2 * self.groups * self.places
    }

    /// Numbers of earlier positions that the convolution needs.
    fn history(&self) -> usize {
        self.kernel.saturating_sub(1) * self.channels()
    }
}

impl Part for Mamba2<Named> {
    type With<W: Weights> = Mamba2<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<Mamba2<S::Into>, Fault> {
        Ok(Mamba2 {
            gate: self.gate.read(source)?,
            mixed: self.mixed.read(source)?,
            step: self.step.read(source)?,
            convolution: source.vector(&self.convolution)?,
            convolution_bias: source.optional_vector(self.convolution_bias.as_ref())?,
            step_bias: source.vector(&self.step_bias)?,
            decay: source.vector(&self.decay)?,
            skip: source.vector(&self.skip)?,
            norm: source.vector(&self.norm)?,
            output: self.output.read(source)?,
            heads: self.heads,
            dim: self.dim,
            groups: self.groups,
            places: self.places,
            kernel: self.kernel,
            epsilon: self.epsilon,
        })
    }
}

impl Mamba2<Held> {
    /// Rows `x` (n, hidden) into `out` (n, hidden); the states of their sessions advance.
    pub(crate) fn forward(
        &self,
        x: &[f32],
        out: &mut [f32],
        step: &Step<'_>,
        lanes: &mut Lanes<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        let (n, compute) = (step.rows(), step.compute);
        let (channels, inner) = (self.channels(), self.inner());
        let Buffers { scratch, query, key, gate, up, mixed, spare, .. } = buffers;
        let gates = sized(gate, n * inner);
        let inputs = sized(query, n * channels);
        let steps = sized(key, n * self.heads);
        let all =
            [(&self.gate, &mut *gates), (&self.mixed, &mut *inputs), (&self.step, &mut *steps)];
        forward_all(compute, scratch, x, all)?;
        for row in steps.chunks_exact_mut(self.heads) {
            row.iter_mut().zip(&self.step_bias).for_each(|(step, bias)| {
                *step = softplus(*step + bias);
            });
        }
        let convolved = sized(up, n * channels);
        let read = sized(mixed, n * inner);
        let convolution = Convolution {
            weights: &self.convolution,
            bias: self.convolution_bias.as_deref(),
            taps: self.kernel,
            silu: true,
        };
        let size = self.dim * self.places;
        let heads = Heads { count: self.heads, size, dim: self.dim, operations: 3 };
        for span in &step.spans {
            let (before, after) = lanes.advance(span)?;
            let history = self.history();
            let (past, matrices) = after.split_at_mut(history);
            if let Some(before) = before {
                past.copy_from_slice(&before[..history]);
            }
            let rows = span.rows.start * channels..span.rows.end * channels;
            convolution.forward(past, &inputs[rows.clone()], &mut convolved[rows]);
            let signals = Signals { convolved, steps };
            let before = before.map(|before| &before[history..]);
            let apart = sized(spare, n * inner);
            heads.share((step, span), (before, matrices), (apart, read), |head| {
                self.head(head, span, signals);
            });
        }
        // The gate comes before the norm, whose groups are those of the heads.
        let gated = sized(spare, n * inner);
        vector::silu_times(compute, gates, read, gated);
        vector::rms_norm_in_place(compute, gated, None, inner / self.groups, self.epsilon);
        vector::multiply_rows(compute, gated, &self.norm);
        self.output.forward(compute, scratch, gated, out)
    }

    /// Takes the rows of `span` through the state of one head.
    fn head(&self, head: &mut Head<'_>, span: &Span, signals: Signals<'_>) {
        let (dim, places, channels) = (self.dim, self.places, self.channels());
        let group = head.number / (self.heads / self.groups);
        let put_at = self.inner() + group * places;
        let read_at = put_at + self.groups * places;
        let mut before = head.before;
        for (row, read) in span.rows.clone().zip(head.read.chunks_exact_mut(dim)) {
            let all = &signals.convolved[row * channels..(row + 1) * channels];
            let inputs = &all[head.number * dim..(head.number + 1) * dim];
            let puts = &all[put_at..put_at + places];
            let reads = &all[read_at..read_at + places];
            let step = signals.steps[row * self.heads + head.number];
            let kept = exp(step * self.decay[head.number]);
            let skip = self.skip[head.number];
            let lines = head.state.chunks_exact_mut(places).enumerate();
            for ((index, line), (read, input)) in lines.zip(read.iter_mut().zip(inputs)) {
                if let Some(before) = before {
                    line.copy_from_slice(&before[index * places..(index + 1) * places]);
                }
                let scaled = step * input;
                let mut sum = 0.0;
                for ((held, put), at) in line.iter_mut().zip(puts).zip(reads) {
                    *held = *held * kept + scaled * put;
                    sum += *held * at;
                }
                *read = sum + skip * input;
            }
            before = None;
        }
    }
}
