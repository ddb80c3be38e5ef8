//! The gated delta net (Yang et al. 2024): a layer that remembers in one matrix for each value
//! head, which every position lets fade, corrects and reads, instead of keys and values of all
//! positions.
//!
//! For each position: queries, keys and values go through a short causal convolution and SiLU;
//! queries and keys are brought to length 1; the state fades by `exp(decay * softplus(alpha +
//! bias))`, what it holds for the key is moved towards the value by `sigmoid(beta)`, and the query
//! reads it. What is read is normed, multiplied by the SiLU of a gate and projected. Several value
//! heads share a key head, tiled or in groups, as the files of an architecture have them
//! ([`KeyHeads`]). Reference: `Qwen3_5GatedDeltaNet` and `Qwen3NextGatedDeltaNet` of Hugging Face
//! transformers in their recurrent form, and llama.cpp for the order of heads in files.
//!
//! Positions are taken one by one, so chunks cannot show. Heads are shared among the threads.

use nook_kernels::elementary::{exp, sigmoid};
use nook_kernels::vector;

use super::convolution::Convolution;
use super::heads::{Head, Heads};
use super::linear::forward_all;
use super::{Broken, Buffers, Lanes, Linear, Norm, Span, StateShape, Step, sized};
use crate::error::Fault;
use crate::weights::{Held, Named, Part, Source, Weights};

/// A gated delta net in place of attention.
#[derive(Debug)]
pub(crate) struct GatedDelta<W: Weights> {
    /// (channels, hidden): queries, keys and values.
    pub(crate) mixed: Linear<W>,
    /// (values, hidden)
    pub(crate) gate: Linear<W>,
    /// (`value_heads`, hidden): how far the state is corrected.
    pub(crate) beta: Linear<W>,
    /// (`value_heads`, hidden): how far the state fades.
    pub(crate) alpha: Linear<W>,
    /// (channels, kernel)
    pub(crate) convolution: W::Vector,
    /// (`value_heads`)
    pub(crate) step_bias: W::Vector,
    /// (`value_heads`), negative.
    pub(crate) decay: W::Vector,
    /// Of each value head.
    pub(crate) norm: Norm<W>,
    /// (hidden, values)
    pub(crate) output: Linear<W>,
    pub(crate) key_heads: usize,
    pub(crate) value_heads: usize,
    /// Which key head each value head uses.
    pub(crate) sharing: KeyHeads,
    /// Numbers in a head.
    pub(crate) dim: usize,
    /// Positions that the convolution sees.
    pub(crate) kernel: usize,
    pub(crate) epsilon: f32,
}

/// Which key head a value head uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyHeads {
    /// Value head `h` uses key head `h % key_heads`.
    Tiled,
    /// Value heads that follow each other use the same key head.
    Grouped,
}

impl<W: Weights> GatedDelta<W> {
    /// What a session remembers: the inputs of the convolution (kernel - 1, channels), then a
    /// matrix for each value head.
    pub(crate) fn state(&self) -> StateShape {
        let matrices = self.value_heads * self.dim * self.dim;
        StateShape::Recurrent { numbers: self.history() + matrices }
    }

    pub(crate) fn channels(&self) -> usize {
        (2 * self.key_heads + self.value_heads) * self.dim
    }

    /// Numbers of earlier positions that the convolution needs.
    fn history(&self) -> usize {
        self.kernel.saturating_sub(1) * self.channels()
    }
}

impl Part for GatedDelta<Named> {
    type With<W: Weights> = GatedDelta<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<GatedDelta<S::Into>, Fault> {
        Ok(GatedDelta {
            mixed: self.mixed.read(source)?,
            gate: self.gate.read(source)?,
            beta: self.beta.read(source)?,
            alpha: self.alpha.read(source)?,
            convolution: source.vector(&self.convolution)?,
            step_bias: source.vector(&self.step_bias)?,
            decay: source.vector(&self.decay)?,
            norm: self.norm.read(source)?,
            output: self.output.read(source)?,
            key_heads: self.key_heads,
            value_heads: self.value_heads,
            sharing: self.sharing,
            dim: self.dim,
            kernel: self.kernel,
            epsilon: self.epsilon,
        })
    }
}

impl GatedDelta<Held> {
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
        let (channels, values) = (self.channels(), self.value_heads * self.dim);
        let Buffers { scratch, query, key, value, gate, up, mixed, spare, .. } = buffers;
        let inputs = sized(query, n * channels);
        let gates = sized(gate, n * values);
        let betas = sized(key, n * self.value_heads);
        let alphas = sized(value, n * self.value_heads);
        let all = [
            (&self.mixed, &mut *inputs),
            (&self.gate, &mut *gates),
            (&self.beta, &mut *betas),
            (&self.alpha, &mut *alphas),
        ];
        forward_all(compute, scratch, x, all)?;
        betas.iter_mut().for_each(|beta| *beta = sigmoid(*beta));
        for row in alphas.chunks_exact_mut(self.value_heads) {
            for ((alpha, bias), decay) in row.iter_mut().zip(&self.step_bias).zip(&self.decay) {
                *alpha = exp(decay * softplus(*alpha + bias));
            }
        }
        let convolved = sized(up, n * channels);
        let read = sized(mixed, n * values);
        let convolution =
            Convolution { weights: &self.convolution, bias: None, taps: self.kernel, silu: true };
        let size = self.dim * self.dim;
        let heads = Heads { count: self.value_heads, size, dim: self.dim, operations: 4 };
        for span in &step.spans {
            let (before, after) = lanes.advance(span)?;
            let history = self.history();
            let (past, matrices) = after.split_at_mut(history);
            if let Some(before) = before {
                past.copy_from_slice(&before[..history]);
            }
            let rows = span.rows.start * channels..span.rows.end * channels;
            convolution.forward(past, &inputs[rows.clone()], &mut convolved[rows.clone()]);
            self.unit(&mut convolved[rows]);
            let signals = Signals { convolved, betas, alphas };
            let before = before.map(|before| &before[history..]);
            let apart = sized(spare, n * values);
            heads.share((step, span), (before, matrices), (apart, read), |head| {
                self.head(head, span, &signals);
            });
        }
        let normed = sized(spare, n * values);
        self.norm.forward(compute, read, normed);
        let gated = sized(mixed, n * values);
        vector::silu_times(compute, gates, normed, gated);
        self.output.forward(compute, scratch, gated, out)
    }

    /// Brings the queries and keys of each row to length 1, queries further by `1 / sqrt(dim)`.
    fn unit(&self, rows: &mut [f32]) {
        let keys = self.key_heads * self.dim;
        for row in rows.chunks_exact_mut(self.channels()) {
            for (index, head) in row[..2 * keys].chunks_exact_mut(self.dim).enumerate() {
                let squares = head.iter().fold(0.0f32, |sum, number| sum + number * number);
                let mut scale = 1.0 / (squares + self.epsilon).sqrt();
                if index < self.key_heads {
                    scale /= (self.dim as f32).sqrt();
                }
                head.iter_mut().for_each(|number| *number *= scale);
            }
        }
    }

    /// Takes the rows of `span` through the state of one head.
    fn head(&self, head: &mut Head<'_>, span: &Span, signals: &Signals<'_>) {
        let (dim, channels, keys) = (self.dim, self.channels(), self.key_heads * self.dim);
        let key_head = match self.sharing {
            KeyHeads::Tiled => head.number % self.key_heads,
            KeyHeads::Grouped => head.number / (self.value_heads / self.key_heads),
        };
        let key_at = key_head * dim;
        let value_at = 2 * keys + head.number * dim;
        let mut before = head.before;
        for (row, read) in span.rows.clone().zip(head.read.chunks_exact_mut(dim)) {
            let all = &signals.convolved[row * channels..(row + 1) * channels];
            let query = &all[key_at..key_at + dim];
            let key = &all[keys + key_at..keys + key_at + dim];
            let value = &all[value_at..value_at + dim];
            let at = row * self.value_heads + head.number;
            let (kept, beta) = (signals.alphas[at], signals.betas[at]);
            // Fade, and add up what the state holds for the key.
            read.fill(0.0);
            for (index, (line, key)) in head.state.chunks_exact_mut(dim).zip(key).enumerate() {
                if let Some(before) = before {
                    line.copy_from_slice(&before[index * dim..(index + 1) * dim]);
                }
                for (number, held) in line.iter_mut().zip(read.iter_mut()) {
                    *number *= kept;
                    *held += *number * key;
                }
            }
            before = None;
            for (held, value) in read.iter_mut().zip(value) {
                *held = (value - *held) * beta;
            }
            for (line, key) in head.state.chunks_exact_mut(dim).zip(key) {
                for (number, correction) in line.iter_mut().zip(read.iter()) {
                    *number += key * correction;
                }
            }
            read.fill(0.0);
            for (line, query) in head.state.chunks_exact(dim).zip(query) {
                for (number, read) in line.iter().zip(read.iter_mut()) {
                    *read += number * query;
                }
            }
        }
    }
}

/// What comes to the heads with each row.
#[derive(Clone, Copy)]
struct Signals<'a> {
    /// (n, channels)
    convolved: &'a [f32],
    /// (n, `value_heads`)
    betas: &'a [f32],
    /// (n, `value_heads`): what is kept of the state.
    alphas: &'a [f32],
}

/// `ln(1 + e^x)`.
pub(super) fn softplus(x: f32) -> f32 {
    // Above, the sum is `e^x` to the last bit.
    if x > 20.0 { x } else { libm::log1pf(exp(x)) }
}
