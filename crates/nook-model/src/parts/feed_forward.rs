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
pub(crate) const SWIGLU_LIMIT: f32 = 7.0;

/// How steep the sigmoid in it is.
pub(crate) const SWIGLU_STEEPNESS: f32 = 1.702;

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
    /// Which gates stay shut, if any do.
    pub(crate) cutoff: Option<Cutoff>,
}

/// Gates of a row that are not above the row's mean by so many standard deviations count as 0, and
/// the others by what they are above it (Gemma 3n).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cutoff {
    pub(crate) deviations: f32,
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

impl<W: Weights> Gated<W> {
    /// What of it candle has no code for, in words.
    pub(super) fn needs_processor(&self) -> Option<&'static str> {
        let cutoff = self.cutoff.map(|_| "gates with a cut-off");
        self.activation.needs_processor().or(cutoff)
    }
}

impl Cutoff {
    /// Takes the cut-off of the gates of one position from each of them.
    fn shut(self, gates: &mut [f32]) {
        let count = gates.len() as f64;
        let mean = sum(gates, |gate| gate) / count;
        // Of all gates, not of a sample of them: by their number, not by one less.
        let variance = sum(gates, |gate| (gate - mean) * (gate - mean)) / count;
        let least = (mean + variance.sqrt() * f64::from(self.deviations)) as f32;
        gates.iter_mut().for_each(|gate| *gate = (*gate - least).max(0.0));
    }
}

/// The sum of `of` each number, in an order that the compiler can compute side by side.
fn sum(numbers: &[f32], of: impl Fn(f64) -> f64) -> f64 {
    let (eights, rest) = numbers.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for eight in eights {
        for (sum, number) in sums.iter_mut().zip(eight) {
            *sum += of(f64::from(*number));
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|number| of(f64::from(*number))).sum::<f64>()
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
    /// The function in words, if candle has no code for it.
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
            cutoff: self.cutoff,
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
        if let Some(cutoff) = self.cutoff {
            gates.chunks_exact_mut(self.gate.rows().max(1)).for_each(|row| cutoff.shut(row));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 0, 2, 4 and 6 the mean is 3 and the deviation the root of 5.
    #[test]
    fn gates_below_the_cutoff_are_shut_and_the_others_count_from_it() {
        let shut = |deviations: f32| {
            let mut gates = [0.0, 6.0, 2.0, 4.0];
            Cutoff { deviations }.shut(&mut gates);
            gates
        };
        assert_eq!(shut(0.0), [0.0, 3.0, 0.0, 1.0]);
        let least = 3.0 + 5f32.sqrt();
        for (gate, expected) in shut(1.0).into_iter().zip([0.0, 6.0 - least, 0.0, 0.0]) {
            assert!((gate - expected).abs() < 1e-6, "{gate} {expected}");
        }
        // Many gates, whose sums are made in another order.
        let mut many: Vec<f32> = (0..37).map(|i| ((i * 29) % 37) as f32).collect();
        Cutoff { deviations: -0.5 }.shut(&mut many);
        let least = 18.0 - 0.5 * ((37.0f32 * 37.0 - 1.0) / 12.0).sqrt();
        for (i, gate) in many.iter().enumerate() {
            let expected = (((i * 29) % 37) as f32 - least).max(0.0);
            assert!((gate - expected).abs() < 1e-5, "{i}: {gate} {expected}");
        }
    }
}
