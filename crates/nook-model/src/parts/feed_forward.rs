//! Feed-forward layers: gated, `down(f(gate(x)) * up(x))` (Shazeer 2020), and plain,
//! `down(f(up(x)))`.

use nook_kernels::elementary::{sigmoid, silu};
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
    /// The square of what is above 0 (So et al. 2021).
    SquaredRelu,
    /// gpt-oss: with both inputs clamped to 7 (the gate from above only), `gate * sigmoid(1.702 *
    /// gate) * (up + 1)`. Gated layers only.
    ClampedSwiglu,
}

/// Bound of what goes into [`Activation::ClampedSwiglu`].
const SWIGLU_LIMIT: f32 = 7.0;

/// How steep the sigmoid in it is.
const SWIGLU_STEEPNESS: f32 = 1.702;

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

/// A feed-forward layer without experts.
#[derive(Debug)]
pub(crate) enum Dense<W: Weights> {
    Gated(Gated<W>),
    Plain(Plain<W>),
}

impl<W: Weights> Dense<W> {
    pub(super) fn activation(&self) -> Activation {
        match self {
            Self::Gated(gated) => gated.activation,
            Self::Plain(plain) => plain.activation,
        }
    }
}

impl Activation {
    /// The function in words, if only the processor computes it.
    pub(super) fn needs_processor(self) -> Option<&'static str> {
        match self {
            Self::Silu | Self::GeluTanh => None,
            Self::SquaredRelu => Some("a squared rectifier"),
            Self::ClampedSwiglu => Some("a clamped gate"),
        }
    }

    /// `f(gate) * up` into `out`.
    pub(super) fn times(self, compute: &Compute, gate: &[f32], up: &[f32], out: &mut [f32]) {
        match self {
            Self::Silu => vector::silu_times(compute, gate, up, out),
            Self::GeluTanh => vector::gelu_tanh_times(compute, gate, up, out),
            Self::SquaredRelu => {
                for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
                    *out = squared_relu(*gate) * up;
                }
            }
            Self::ClampedSwiglu => {
                for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
                    let gate = gate.min(SWIGLU_LIMIT);
                    let up = up.clamp(-SWIGLU_LIMIT, SWIGLU_LIMIT);
                    *out = gate * sigmoid(SWIGLU_STEEPNESS * gate) * (up + 1.0);
                }
            }
        }
    }

    /// `f(x)` in its place. What needs a second input takes `x` for both.
    pub(super) fn alone(self, compute: &Compute, x: &mut [f32]) {
        match self {
            Self::Silu => x.iter_mut().for_each(|x| *x = silu(*x)),
            Self::GeluTanh => vector::gelu_tanh(compute, x),
            Self::SquaredRelu => x.iter_mut().for_each(|x| *x = squared_relu(*x)),
            Self::ClampedSwiglu => {
                let gate = x.to_vec();
                self.times(compute, &gate, &gate, x);
            }
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

impl Part for Dense<Named> {
    type With<W: Weights> = Dense<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<Dense<S::Into>, Fault> {
        Ok(match self {
            Self::Gated(gated) => Dense::Gated(gated.read(source)?),
            Self::Plain(plain) => Dense::Plain(plain.read(source)?),
        })
    }
}

impl Dense<Held> {
    /// Rows `x` (n, hidden) into `out` (n, hidden).
    pub(crate) fn forward(
        &self,
        compute: &Compute,
        x: &[f32],
        out: &mut [f32],
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        match self {
            Self::Gated(gated) => gated.forward(compute, x, out, buffers),
            Self::Plain(plain) => {
                let Buffers { scratch, up, .. } = buffers;
                plain.forward(compute, scratch, up, x, out)
            }
        }
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

fn squared_relu(x: f32) -> f32 {
    let above = x.max(0.0);
    above * above
}

fn rows(x: &[f32], width: usize) -> usize {
    x.len().checked_div(width).unwrap_or(0)
}
