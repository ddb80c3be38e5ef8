//! Several hidden states of each position side by side, of which each layer computes one (Gemma 3n;
//! AltUp, Baykal et al. 2023).
//!
//! A layer first predicts all streams from all ([`AltUp::predict`]), takes one of them through
//! itself, and corrects all by what that one has become ([`AltUp::correct`]). How much goes where is
//! decided for each position by a small router. Whoever looks up embeddings makes the streams after
//! the first ([`OtherStreams::spread`]), and the head makes one hidden state of all
//! ([`OtherStreams::merge`]). Between layers, and so between hosts, go all of them, one behind the
//! other in one row: nothing is remembered from position to position.

use nook_kernels::elementary::tanh;
use nook_kernels::{Compute, Product, Scratch, multiply, vector};

use super::{Broken, Linear, Norm, Step, sized};
use crate::error::Fault;
use crate::weights::{Held, Named, Part, Source, StackSpec, Weights};

/// Least mean square that a stream is taken to have.
pub(crate) const MEAN_SQUARE_MIN: f32 = 1e-5;

/// The streams after the first, at one end of the model.
#[derive(Debug)]
pub(crate) struct OtherStreams<W: Weights> {
    /// (hidden, hidden) each.
    pub(crate) projections: W::Stack,
    /// Numbers of a stream.
    pub(crate) hidden: usize,
}

/// What one layer does with all streams.
#[derive(Debug)]
pub(crate) struct AltUp<W: Weights> {
    /// Of what the router sees.
    pub(crate) norm: Norm<W>,
    /// (streams, hidden)
    pub(crate) router: Linear<W>,
    /// (streams * streams, streams): how much of each stream goes into each prediction.
    pub(crate) predict: Linear<W>,
    /// (streams, streams): how much of the correction goes into each stream, beside all of it.
    pub(crate) correct: Linear<W>,
    /// (hidden): what the computed stream is multiplied with where the layer's input by token meets
    /// it.
    pub(crate) scale: W::Vector,
    /// How many streams.
    pub(crate) count: usize,
    /// Which of them the layer computes.
    pub(crate) active: usize,
    /// Numbers of a stream.
    pub(crate) hidden: usize,
}

/// Memory for what a layer does with streams.
#[derive(Debug, Default)]
pub(super) struct StreamBuffers {
    /// (n, hidden): the stream that the layer computes.
    active: Vec<f32>,
    /// (n, hidden)
    normed: Vec<f32>,
    /// (n, streams)
    routed: Vec<f32>,
    /// (n, streams * streams) or (n, streams)
    shares: Vec<f32>,
    /// (streams, hidden): of one position, before they change.
    before: Vec<f32>,
}

impl Part for OtherStreams<Named> {
    type With<W: Weights> = OtherStreams<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<OtherStreams<S::Into>, Fault> {
        Ok(OtherStreams { projections: source.stack(&self.projections)?, hidden: self.hidden })
    }
}

impl OtherStreams<Named> {
    /// One matrix for each of `count` streams but the first, in the tensor `name`.
    pub(crate) fn new(name: &str, hidden: u32, count: u32) -> Self {
        let projections = StackSpec::new(name, hidden, hidden, count.saturating_sub(1));
        Self { projections, hidden: hidden as usize }
    }
}

impl Part for AltUp<Named> {
    type With<W: Weights> = AltUp<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<AltUp<S::Into>, Fault> {
        Ok(AltUp {
            norm: self.norm.read(source)?,
            router: self.router.read(source)?,
            predict: self.predict.read(source)?,
            correct: self.correct.read(source)?,
            scale: source.vector(&self.scale)?,
            count: self.count,
            active: self.active,
            hidden: self.hidden,
        })
    }
}

impl OtherStreams<Held> {
    /// Embeddings `x` (n, hidden) into `out` (n, streams, hidden): the first stream is the embedding
    /// itself, each other one a projection of it, made as long as it.
    pub(crate) fn spread(
        &self,
        compute: &Compute,
        scratch: &mut Scratch,
        x: &[f32],
        out: &mut [f32],
    ) -> Result<(), Broken> {
        let (hidden, width) = (self.hidden, self.hidden * (self.projections.len() + 1));
        let mut projected = vec![0.0; x.len()];
        for (row, out) in x.chunks_exact(hidden).zip(out.chunks_exact_mut(width)) {
            out[..hidden].copy_from_slice(row);
        }
        for (index, matrix) in self.projections.iter().enumerate() {
            multiply(compute, scratch, x, &mut [Product { matrix, out: &mut projected }])?;
            let rows = x.chunks_exact(hidden).zip(projected.chunks_exact(hidden));
            for ((row, projected), out) in rows.zip(out.chunks_exact_mut(width)) {
                let factor = as_long_as(row, projected);
                let at = (index + 1) * hidden;
                for (out, number) in out[at..at + hidden].iter_mut().zip(projected) {
                    *out = number * factor;
                }
            }
        }
        Ok(())
    }

    /// The mean of the streams of each row of `x` (n, streams, hidden) into `out` (n, hidden), those
    /// after the first projected and made as long as it.
    pub(crate) fn merge(
        &self,
        compute: &Compute,
        scratch: &mut Scratch,
        x: &[f32],
        out: &mut [f32],
    ) -> Result<(), Broken> {
        let (hidden, width) = (self.hidden, self.hidden * (self.projections.len() + 1));
        let mut stream = vec![0.0; out.len()];
        let mut projected = vec![0.0; out.len()];
        for (row, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(hidden)) {
            out.copy_from_slice(&row[..hidden]);
        }
        for (index, matrix) in self.projections.iter().enumerate() {
            let at = (index + 1) * hidden;
            for (row, stream) in x.chunks_exact(width).zip(stream.chunks_exact_mut(hidden)) {
                stream.copy_from_slice(&row[at..at + hidden]);
            }
            multiply(compute, scratch, &stream, &mut [Product { matrix, out: &mut projected }])?;
            let rows = x.chunks_exact(width).zip(projected.chunks_exact(hidden));
            for ((row, projected), out) in rows.zip(out.chunks_exact_mut(hidden)) {
                let factor = as_long_as(&row[..hidden], projected);
                for (out, number) in out.iter_mut().zip(projected) {
                    *out += number * factor;
                }
            }
        }
        vector::scale(compute, out, 1.0 / (self.projections.len() + 1) as f32);
        Ok(())
    }
}

impl AltUp<Held> {
    /// Replaces the streams `x` (n, streams, hidden) by what the layer expects them to become, and
    /// keeps the one that it computes.
    pub(super) fn predict(
        &self,
        x: &mut [f32],
        step: &Step<'_>,
        held: &mut StreamBuffers,
        scratch: &mut Scratch,
    ) -> Result<(), Broken> {
        let (hidden, count) = (self.hidden, self.count);
        self.copy_active(x, held);
        self.route(step, held, scratch)?;
        let shares = sized(&mut held.shares, step.rows() * count * count);
        self.predict.forward(step.compute, scratch, &held.routed, shares)?;
        let before = sized(&mut held.before, count * hidden);
        for (row, shares) in
            x.chunks_exact_mut(count * hidden).zip(shares.chunks_exact(count * count))
        {
            before.copy_from_slice(row);
            for (stream, shares) in row.chunks_exact_mut(hidden).zip(shares.chunks_exact(count)) {
                for (before, share) in before.chunks_exact(hidden).zip(shares) {
                    stream.iter_mut().zip(before).for_each(|(x, before)| *x += share * before);
                }
            }
        }
        self.copy_active(x, held);
        Ok(())
    }

    /// Corrects the predicted streams `x` (n, streams, hidden) by what the computed one has become.
    pub(super) fn correct(
        &self,
        x: &mut [f32],
        step: &Step<'_>,
        held: &mut StreamBuffers,
        scratch: &mut Scratch,
    ) -> Result<(), Broken> {
        let (hidden, count, own) = (self.hidden, self.count, self.active * self.hidden);
        self.route(step, held, scratch)?;
        let shares = sized(&mut held.shares, step.rows() * count);
        self.correct.forward(step.compute, scratch, &held.routed, shares)?;
        let rows = x.chunks_exact_mut(count * hidden).zip(held.active.chunks_exact_mut(hidden));
        for ((row, change), shares) in rows.zip(shares.chunks_exact(count)) {
            let predicted = &row[own..own + hidden];
            change.iter_mut().zip(predicted).for_each(|(change, before)| *change -= before);
            for (stream, share) in row.chunks_exact_mut(hidden).zip(shares) {
                let share = share + 1.0;
                stream.iter_mut().zip(&*change).for_each(|(x, change)| *x += share * change);
            }
        }
        Ok(())
    }

    /// The computed stream as the layer's input by token meets it.
    pub(super) fn scaled(&self, x: &[f32], held: &mut StreamBuffers) {
        self.copy_active(x, held);
        for row in held.active.chunks_exact_mut(self.hidden) {
            row.iter_mut().zip(&self.scale).for_each(|(x, scale)| *x *= scale);
        }
    }

    /// Adds `made` (n, hidden) to all streams of `x` (n, streams, hidden) but the first.
    pub(super) fn add_to_others(&self, x: &mut [f32], made: &[f32]) {
        let rows = x.chunks_exact_mut(self.count * self.hidden);
        for (row, made) in rows.zip(made.chunks_exact(self.hidden)) {
            for stream in row.chunks_exact_mut(self.hidden).skip(1) {
                stream.iter_mut().zip(made).for_each(|(x, made)| *x += made);
            }
        }
    }

    fn copy_active(&self, x: &[f32], held: &mut StreamBuffers) {
        let own = self.active * self.hidden;
        let rows = x.chunks_exact(self.count * self.hidden);
        held.active.clear();
        rows.for_each(|row| held.active.extend_from_slice(&row[own..own + self.hidden]));
    }

    /// What the router says of each row of the computed stream, between -1 and 1.
    fn route(
        &self,
        step: &Step<'_>,
        held: &mut StreamBuffers,
        scratch: &mut Scratch,
    ) -> Result<(), Broken> {
        let StreamBuffers { active, normed, routed, .. } = held;
        let normed = sized(normed, active.len());
        self.norm.forward(step.compute, active, normed);
        vector::scale(step.compute, normed, 1.0 / self.hidden as f32);
        routed.resize(step.rows() * self.count, 0.0);
        self.router.forward(step.compute, scratch, normed, routed)?;
        routed.iter_mut().for_each(|number| *number = tanh(*number));
        Ok(())
    }
}

impl StreamBuffers {
    /// The stream that the layer computes (n, hidden).
    pub(super) fn active(&mut self) -> &mut [f32] {
        &mut self.active
    }
}

/// What `row` must be multiplied with to have the mean square of `model`.
fn as_long_as(model: &[f32], row: &[f32]) -> f32 {
    mean_square(model).sqrt() / mean_square(row).max(MEAN_SQUARE_MIN).sqrt()
}

fn mean_square(row: &[f32]) -> f32 {
    let squares = row.iter().map(|number| f64::from(*number) * f64::from(*number));
    (squares.sum::<f64>() / row.len().max(1) as f64) as f32
}
