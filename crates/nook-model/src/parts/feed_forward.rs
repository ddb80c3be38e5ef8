//! Feed-forward layers: gated, `down(f(gate(x)) * up(x))` (Shazeer 2020), and plain,
//! `down(f(up(x)))`.

use nook_kernels::{Compute, Scratch, vector};

use super::linear::forward_all;
use super::{Broken, Buffers, Linear, sized};
use crate::error::Fault;
use crate::weights::{Held, Named, Part, Source, Weights};

/// The function between the matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// GELU in its tanh form (Hendrycks and Gimpel 2016).
    GeluTanh,
}

/// A gated feed-forward layer.
#[derive(Debug)]
pub(crate) struct Gated<W: Weights> {
    /// (`feed_forward`, hidden)
    pub(crate) gate: Linear<W>,
    /// (`feed_forward`, hidden)
    pub(crate) up: Linear<W>,
    /// (hidden, `feed_forward`)
    pub(crate) down: Linear<W>,
    pub(crate) activation: Activation,
}

/// A feed-forward layer without a gate.
#[derive(Debug)]
pub(crate) struct Plain<W: Weights> {
    /// (`feed_forward`, hidden)
    pub(crate) up: Linear<W>,
    /// (hidden, `feed_forward`)
    pub(crate) down: Linear<W>,
    pub(crate) activation: Activation,
}

impl Activation {
    /// `f(gate) * up` into `out`.
    pub(super) fn times(self, compute: &Compute, gate: &[f32], up: &[f32], out: &mut [f32]) {
        match self {
            Self::Silu => vector::silu_times(compute, gate, up, out),
            Self::GeluTanh => vector::gelu_tanh_times(compute, gate, up, out),
        }
    }

    fn alone(self, compute: &Compute, x: &mut [f32]) {
        match self {
            Self::Silu => {
                x.iter_mut().for_each(|x| *x = nook_kernels::elementary::silu(*x));
            }
            Self::GeluTanh => vector::gelu_tanh(compute, x),
        }
    }
}

impl Part for Gated<Named> {
    type With<W: Weights> = Gated<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<Gated<S::Into>, Fault> {
        Ok(Gated {
            gate: self.gate.read(source)?,
            up: self.up.read(source)?,
            down: self.down.read(source)?,
            activation: self.activation,
        })
    }
}

impl Part for Plain<Named> {
    type With<W: Weights> = Plain<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<Plain<S::Into>, Fault> {
        Ok(Plain {
            up: self.up.read(source)?,
            down: self.down.read(source)?,
            activation: self.activation,
        })
    }
}

impl Gated<Held> {
    /// Rows `x` (n, hidden) into `out` (n, hidden).
    pub(crate) fn forward(
        &self,
        compute: &Compute,
        x: &[f32],
        out: &mut [f32],
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        let Buffers { scratch, gate, up, mixed, .. } = buffers;
        let n = rows(x, self.gate.matrix.columns());
        let gates = sized(gate, n * self.gate.rows());
        let ups = sized(up, n * self.up.rows());
        forward_all(compute, scratch, x, [(&self.gate, &mut *gates), (&self.up, &mut *ups)])?;
        let inner = sized(mixed, gates.len());
        self.activation.times(compute, gates, ups, inner);
        self.down.forward(compute, scratch, inner, out)
    }
}

impl Plain<Held> {
    /// Rows `x` (n, hidden) into `out` (n, hidden).
    pub(crate) fn forward(
        &self,
        compute: &Compute,
        scratch: &mut Scratch,
        up: &mut Vec<f32>,
        x: &[f32],
        out: &mut [f32],
    ) -> Result<(), Broken> {
        let inner = sized(up, rows(x, self.up.matrix.columns()) * self.up.rows());
        self.up.forward(compute, scratch, x, inner)?;
        self.activation.alone(compute, inner);
        self.down.forward(compute, scratch, inner, out)
    }
}

fn rows(x: &[f32], width: usize) -> usize {
    x.len().checked_div(width).unwrap_or(0)
}
