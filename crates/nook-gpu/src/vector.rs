//! What happens to activations between products: norms, rotary positions, functions of each number.
//!
//! Rows are (n, width), one after the other. Results agree with the CPU's within rounding.

use crate::buffer::Buffer;
use crate::commands::{Commands, GROUPS_MAX};
use crate::error::GpuError;
use crate::kernel::Kernel;
use crate::product::{check, spread};
use crate::template::{Values, expand};

/// Lanes of a workgroup of the functions here.
const LANES: usize = 256;

/// Which norm, of rows of `width` numbers.
#[derive(Debug, Clone, Copy)]
pub struct Norm<'a> {
    /// Numbers that are normed together.
    pub width: usize,
    /// What is added to the mean square.
    pub epsilon: f32,
    /// Whether the mean is subtracted first.
    pub layer: bool,
    /// Factor of each number of a row.
    pub weight: Option<&'a Buffer>,
    /// What is added to each number of a row.
    pub bias: Option<&'a Buffer>,
}

/// A function of each number `x`, in place.
#[derive(Debug, Clone, Copy)]
pub enum Each<'a> {
    /// `x + y * factor`.
    Add(&'a Buffer, f32),
    /// `x + y[row * width + i % width]`, by the number of a row.
    AddRow(&'a Buffer, usize),
    /// Zero, whatever it was.
    Clear,
    /// `x * factor`.
    Scale(f32),
    /// `cap * tanh(x / cap)`.
    SoftCap(f32),
    /// `x * sigmoid(x)`.
    Silu,
    /// GELU in its tanh form.
    GeluTanh,
    /// `silu(x) * y`.
    SiluTimes(&'a Buffer),
    /// `gelu(x) * y`.
    GeluTanhTimes(&'a Buffer),
    /// `x * y`.
    Times(&'a Buffer),
    /// `x * y[i % width]`.
    TimesRow(&'a Buffer),
    /// The square of what is above 0.
    SquaredRelu,
    /// The square of what is above 0, times `y`.
    SquaredReluTimes(&'a Buffer),
    /// `x * sigmoid(y)`.
    SigmoidTimes(&'a Buffer),
    /// `x * sigmoid(y[i / width])`.
    SigmoidTimesRow(&'a Buffer),
    /// `x * y[i / width]`.
    ScaleRows(&'a Buffer),
    /// `g * sigmoid(steepness * g) * (u + 1)`, where `g` is `x` but at most `limit`, and `u` is `y`
    /// between `-limit` and `limit`.
    ClampedGateTimes {
        /// What the gates multiply.
        y: &'a Buffer,
        /// Bound of both.
        limit: f32,
        /// How steep the sigmoid is.
        steepness: f32,
    },
}

/// Which part of each head turns, and how.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    /// Cosines and sines (n, pairs).
    pub cosines: &'a Buffer,
    /// See `cosines`.
    pub sines: &'a Buffer,
    /// Pairs of a head that turn.
    pub pairs: usize,
    /// First number of a head that turns.
    pub offset: usize,
    /// Whether number `i` is a pair with number `pairs + i`, instead of neighbours.
    pub halves: bool,
}

impl Each<'_> {
    fn text(&self) -> (&'static str, &'static str) {
        match self {
            Self::Add(..) => ("add", "x[i] += y[i] * p.factor;"),
            Self::AddRow(..) => ("add row", "x[i] += y[p.row * p.width + i % p.width];"),
            Self::Clear => ("clear", "x[i] = 0.0;"),
            Self::Scale(_) => ("scale", "x[i] *= p.factor;"),
            Self::SoftCap(_) => ("soft cap", "x[i] = p.factor * tangent(x[i] / p.factor);"),
            Self::Silu => ("silu", "x[i] = silu(x[i]);"),
            Self::GeluTanh => ("gelu", "x[i] = gelu(x[i]);"),
            Self::SiluTimes(_) => ("silu times", "x[i] = silu(x[i]) * y[i];"),
            Self::GeluTanhTimes(_) => ("gelu times", "x[i] = gelu(x[i]) * y[i];"),
            Self::Times(_) => ("times", "x[i] *= y[i];"),
            Self::TimesRow(_) => ("times row", "x[i] *= y[i % p.width];"),
            Self::SquaredRelu => ("squared relu", "x[i] = squared(x[i]);"),
            Self::SquaredReluTimes(_) => ("squared relu times", "x[i] = squared(x[i]) * y[i];"),
            Self::SigmoidTimes(_) => ("sigmoid times", "x[i] *= sigmoid(y[i]);"),
            Self::SigmoidTimesRow(_) => ("sigmoid row", "x[i] *= sigmoid(y[i / p.width]);"),
            Self::ScaleRows(_) => ("scale rows", "x[i] *= y[i / p.width];"),
            Self::ClampedGateTimes { .. } => ("clamped gate times", "x[i] = clamped(x[i], y[i]);"),
        }
    }

    /// The other buffer, and how many of its numbers are read, of `count` numbers in rows of
    /// `width`.
    fn other(&self, count: usize, width: usize) -> Option<(&Buffer, usize)> {
        match self {
            Self::Clear | Self::Scale(_) | Self::SoftCap(_) => None,
            Self::Silu | Self::GeluTanh | Self::SquaredRelu => None,
            Self::TimesRow(other) => Some((other, width.min(count))),
            Self::AddRow(other, row) => Some((other, row * width + width.min(count))),
            Self::ScaleRows(other) | Self::SigmoidTimesRow(other) => {
                Some((other, count.div_ceil(width.max(1))))
            }
            Self::Add(other, _)
            | Self::SiluTimes(other)
            | Self::GeluTanhTimes(other)
            | Self::Times(other)
            | Self::SquaredReluTimes(other)
            | Self::SigmoidTimes(other)
            | Self::ClampedGateTimes { y: other, .. } => Some((other, count)),
        }
    }

    /// Two factors, and the number of a row.
    fn numbers(&self) -> (f32, f32, usize) {
        match *self {
            Self::Add(_, factor) | Self::Scale(factor) | Self::SoftCap(factor) => (factor, 0.0, 0),
            Self::AddRow(_, row) => (0.0, 0.0, row),
            Self::ClampedGateTimes { limit, steepness, .. } => (limit, steepness, 0),
            _ => (0.0, 0.0, 0),
        }
    }
}

impl Commands {
    /// Norms `rows` rows of `x` into `out`.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where a buffer is too short.
    pub fn norm(
        &mut self,
        x: &Buffer,
        norm: Norm<'_>,
        rows: usize,
        out: &Buffer,
    ) -> Result<(), GpuError> {
        check("numbers of a norm", x.len(), rows.saturating_mul(norm.width))?;
        self.any_norm(Some(x), norm, rows, out)
    }

    /// As [`Self::norm`], in place.
    ///
    /// # Errors
    ///
    /// As [`Self::norm`].
    pub fn norm_in_place(
        &mut self,
        x: &Buffer,
        norm: Norm<'_>,
        rows: usize,
    ) -> Result<(), GpuError> {
        self.any_norm(None, norm, rows, x)
    }

    fn any_norm(
        &mut self,
        x: Option<&Buffer>,
        norm: Norm<'_>,
        rows: usize,
        out: &Buffer,
    ) -> Result<(), GpuError> {
        let Norm { width, epsilon, layer, weight, bias } = norm;
        check("numbers of a norm", out.len(), rows.saturating_mul(width))?;
        for numbers in [weight, bias].into_iter().flatten() {
            check("weights of a norm", numbers.len(), width)?;
        }
        let mut buffers: Vec<&Buffer> = x.into_iter().collect();
        let mut bindings = "w".to_owned();
        if x.is_some() {
            bindings = "rw".to_owned();
        }
        buffers.push(out);
        for numbers in [weight, bias].into_iter().flatten() {
            buffers.push(numbers);
            bindings.push('r');
        }
        let form = (x.is_none(), layer, weight.is_some(), bias.is_some());
        let kernel = self.gpu().clone().kernel(&format!("norm {form:?}"), |gpu| {
            let weight_at = 1 + u32::from(!form.0);
            let values = Values::new(&[
                ("IN_PLACE", u32::from(form.0)),
                ("LAYER", u32::from(form.1)),
                ("WEIGHT", u32::from(form.2)),
                ("BIAS", u32::from(form.3)),
                ("WEIGHT_AT", weight_at),
                ("BIAS_AT", weight_at + u32::from(form.2)),
            ]);
            let source = expand(include_str!("shaders/norm.wgsl"), &values);
            Kernel::build(gpu, "norm", source, &bindings)
        })?;
        let params = [width as u32, rows as u32, epsilon.to_bits()];
        self.dispatch(kernel, &buffers, spread(rows as u32, 1), &params);
        Ok(())
    }

    /// Computes `each` of the first `count` numbers of `x`, which are rows of `width`.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where a buffer is too short.
    pub fn each(
        &mut self,
        x: &Buffer,
        count: usize,
        width: usize,
        each: Each<'_>,
    ) -> Result<(), GpuError> {
        check("numbers", x.len(), count)?;
        let (name, text) = each.text();
        let other = each.other(count, width);
        let mut buffers = vec![x];
        if let Some((other, needed)) = other {
            check("numbers", other.len(), needed)?;
            buffers.push(other);
        }
        let two = other.is_some();
        let kernel = self.gpu().clone().kernel(name, |gpu| {
            let values = Values::new(&[("TWO", u32::from(two))]).with("FUNCTION", text);
            let source = expand(include_str!("shaders/each.wgsl"), &values);
            Kernel::build(gpu, name, source, if two { "wr" } else { "w" })
        })?;
        let (factor, second, row) = each.numbers();
        let (factor, second) = (factor.to_bits(), second.to_bits());
        let params = [count as u32, width.max(1) as u32, factor, second, row as u32];
        self.dispatch(kernel, &buffers, lines(count), &params);
        Ok(())
    }

    /// Turns a part of each head of `x` (rows, heads * `head_dim`), in place.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where a buffer is too short.
    pub fn turn(
        &mut self,
        x: &Buffer,
        rows: usize,
        heads: usize,
        head_dim: usize,
        turn: Turn<'_>,
    ) -> Result<(), GpuError> {
        check("numbers that turn", x.len(), rows * heads * head_dim)?;
        check("numbers of a head", head_dim, turn.offset + 2 * turn.pairs)?;
        check("cosines", turn.cosines.len(), rows * turn.pairs)?;
        check("sines", turn.sines.len(), rows * turn.pairs)?;
        let kernel = self.gpu().clone().kernel("turn", |gpu| {
            let source = include_str!("shaders/rope.wgsl").to_owned();
            Kernel::build(gpu, "turn", source, "wrr")
        })?;
        let params = [rows, heads, head_dim, turn.offset, turn.pairs, usize::from(turn.halves)];
        let groups = lines(rows * heads * turn.pairs);
        self.dispatch(kernel, &[x, turn.cosines, turn.sines], groups, &params.map(|n| n as u32));
        Ok(())
    }
}

/// Workgroups for `count` numbers; each goes on where the last one stops.
pub(crate) fn lines(count: usize) -> [u32; 3] {
    [(count.div_ceil(LANES) as u32).min(GROUPS_MAX), 1, 1]
}
