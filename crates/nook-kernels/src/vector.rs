//! The small functions between the matrices: norms, gates, sums.
//!
//! All work on rows in plain slices and are the same to the bit on every instruction set. Sums over
//! a row have 32 accumulators (element `i` goes to accumulator `i % 32`) that are added by halves
//! at the end. Large inputs are shared among the threads, by whole rows or by groups of elements,
//! which changes no result.
//!
//! Shapes that do not fit each other are mistakes of the caller: every function says what it
//! asserts.

pub(crate) mod shared;

use crate::compute::Compute;
use crate::elementary::{
    exp, gelu_erf as gelu_erf_of, gelu_tanh as gelu_tanh_of, sigmoid as sigmoid_of,
};
use crate::elementary::{silu, tanh};
use crate::isa::per_isa;
use shared::share_rows;

/// Accumulators of one sum.
const LANES: usize = 32;

/// Multiplications that an elementary function takes, roughly.
const FUNCTION_COST: usize = 16;

/// Root mean square norm (Zhang and Sennrich 2019): each row of `width` numbers of `x` to `x /
/// sqrt(mean(x^2) + epsilon)`, times `weight` where there is one, into `out`. A norm by heads is
/// one with `width` the head's.
///
/// # Panics
///
/// When `x` and `out` differ in length or are no whole rows, or `weight` is not `width` long.
pub fn rms_norm(
    compute: &Compute,
    x: &[f32],
    weight: Option<&[f32]>,
    width: usize,
    epsilon: f32,
    out: &mut [f32],
) {
    check_rows(x.len(), width, [weight, None]);
    assert_eq!(x.len(), out.len(), "a norm has as many numbers as its input");
    share_rows(compute, out, width, 2, |first, out| {
        out.copy_from_slice(&x[first * width..][..out.len()]);
        rms_norm_rows(compute.isa(), weight, width, epsilon, out);
    });
}

/// As [`rms_norm`], in place.
///
/// # Panics
///
/// As [`rms_norm`].
pub fn rms_norm_in_place(
    compute: &Compute,
    x: &mut [f32],
    weight: Option<&[f32]>,
    width: usize,
    epsilon: f32,
) {
    check_rows(x.len(), width, [weight, None]);
    share_rows(compute, x, width, 2, |_, x| {
        rms_norm_rows(compute.isa(), weight, width, epsilon, x);
    });
}

/// Layer norm (Ba, Kiros and Hinton 2016): each row of `width` numbers of `x` to `(x - mean) /
/// sqrt(variance + epsilon)`, times `weight` and plus `bias` where there are any, into `out`.
///
/// # Panics
///
/// When `x` and `out` differ in length or are no whole rows, or `weight` or `bias` is not `width`
/// long.
pub fn layer_norm(
    compute: &Compute,
    x: &[f32],
    weight: Option<&[f32]>,
    bias: Option<&[f32]>,
    width: usize,
    epsilon: f32,
    out: &mut [f32],
) {
    check_rows(x.len(), width, [weight, bias]);
    assert_eq!(x.len(), out.len(), "a norm has as many numbers as its input");
    share_rows(compute, out, width, 4, |first, out| {
        out.copy_from_slice(&x[first * width..][..out.len()]);
        layer_norm_rows(compute.isa(), weight, bias, width, epsilon, out);
    });
}

/// `x += y`.
///
/// # Panics
///
/// When they differ in length.
pub fn add(compute: &Compute, x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "as many numbers on either side");
    share_rows(compute, x, 1, 1, |first, x| {
        add_all(compute.isa(), x, &y[first..][..x.len()]);
    });
}

/// `x += s * y`.
///
/// # Panics
///
/// When they differ in length.
pub fn add_scaled(compute: &Compute, x: &mut [f32], s: f32, y: &[f32]) {
    assert_eq!(x.len(), y.len(), "as many numbers on either side");
    share_rows(compute, x, 1, 1, |first, x| {
        add_scaled_all(compute.isa(), x, s, &y[first..][..x.len()]);
    });
}

/// Adds `bias` to each row of `bias.len()` numbers of `x`.
///
/// # Panics
///
/// When `x` is no whole rows.
pub fn add_bias(compute: &Compute, x: &mut [f32], bias: &[f32]) {
    check_rows(x.len(), bias.len(), [None, None]);
    share_rows(compute, x, bias.len(), 1, |_, x| {
        for row in x.chunks_exact_mut(bias.len()) {
            add_all(compute.isa(), row, bias);
        }
    });
}

/// Multiplies each row of `weight.len()` numbers of `x` by `weight`, number by number.
///
/// # Panics
///
/// When `x` is no whole rows.
pub fn multiply_rows(compute: &Compute, x: &mut [f32], weight: &[f32]) {
    check_rows(x.len(), weight.len(), [None, None]);
    share_rows(compute, x, weight.len(), 1, |_, x| {
        for row in x.chunks_exact_mut(weight.len()) {
            multiply_all(compute.isa(), row, weight);
        }
    });
}

/// `x *= s`.
pub fn scale(compute: &Compute, x: &mut [f32], s: f32) {
    share_rows(compute, x, 1, 1, |_, x| scale_all(compute.isa(), x, s));
}

/// `out = silu(gate) * up`: the "SwiGLU" gate (Shazeer 2020).
///
/// # Panics
///
/// When the three differ in length.
pub fn silu_times(compute: &Compute, gate: &[f32], up: &[f32], out: &mut [f32]) {
    gated(compute, gate, up, out, |out, gate, up| silu_times_all(compute.isa(), out, gate, up));
}

/// `out = gelu(gate) * up` with [`crate::elementary::gelu_tanh`]: the "GeGLU" gate of Gemma.
///
/// # Panics
///
/// When the three differ in length.
pub fn gelu_tanh_times(compute: &Compute, gate: &[f32], up: &[f32], out: &mut [f32]) {
    gated(compute, gate, up, out, |out, gate, up| {
        gelu_tanh_times_all(compute.isa(), out, gate, up);
    });
}

/// `out = gelu(gate) * up` with [`crate::elementary::gelu_erf`].
///
/// # Panics
///
/// When the three differ in length.
pub fn gelu_erf_times(compute: &Compute, gate: &[f32], up: &[f32], out: &mut [f32]) {
    gated(compute, gate, up, out, |out, gate, up| {
        gelu_erf_times_all(compute.isa(), out, gate, up);
    });
}

/// [`crate::elementary::gelu_tanh`] of each number, in place.
pub fn gelu_tanh(compute: &Compute, x: &mut [f32]) {
    share_rows(compute, x, 1, FUNCTION_COST, |_, x| gelu_tanh_all(compute.isa(), x));
}

/// [`crate::elementary::gelu_erf`] of each number, in place.
pub fn gelu_erf(compute: &Compute, x: &mut [f32]) {
    share_rows(compute, x, 1, FUNCTION_COST, |_, x| gelu_erf_all(compute.isa(), x));
}

/// [`crate::elementary::sigmoid`] of each number, in place.
pub fn sigmoid(compute: &Compute, x: &mut [f32]) {
    share_rows(compute, x, 1, FUNCTION_COST, |_, x| sigmoid_all(compute.isa(), x));
}

/// `cap * tanh(x / cap)` of each number, in place.
pub fn soft_cap(compute: &Compute, x: &mut [f32], cap: f32) {
    share_rows(compute, x, 1, FUNCTION_COST, |_, x| soft_cap_all(compute.isa(), x, cap));
}

/// Softmax of each row of `width` numbers of `x`, in place.
///
/// # Panics
///
/// When `x` is no whole rows.
pub fn softmax(compute: &Compute, x: &mut [f32], width: usize) {
    check_rows(x.len(), width, [None, None]);
    share_rows(compute, x, width, FUNCTION_COST, |_, x| softmax_rows(compute.isa(), x, width));
}

/// Asserts that `length` numbers are whole rows of `width`, and that parameters are as long.
fn check_rows(length: usize, width: usize, parameters: [Option<&[f32]>; 2]) {
    assert!(length == 0 || width > 0 && length.is_multiple_of(width), "whole rows of {width}");
    for parameter in parameters.into_iter().flatten() {
        assert_eq!(parameter.len(), width, "one weight for each number of a row");
    }
}

fn gated(
    compute: &Compute,
    gate: &[f32],
    up: &[f32],
    out: &mut [f32],
    piece: impl Fn(&mut [f32], &[f32], &[f32]) + Sync,
) {
    assert!(gate.len() == up.len() && gate.len() == out.len(), "as many of gate, up and out");
    share_rows(compute, out, 1, FUNCTION_COST, |first, out| {
        let range = first..first + out.len();
        piece(out, &gate[range.clone()], &up[range]);
    });
}

per_isa! {
    fn rms_norm_rows(weight: Option<&[f32]>, width: usize, epsilon: f32, x: &mut [f32])
        = rms_norm_rows_of;
}

per_isa! {
    fn layer_norm_rows(
        weight: Option<&[f32]>,
        bias: Option<&[f32]>,
        width: usize,
        epsilon: f32,
        x: &mut [f32],
    ) = layer_norm_rows_of;
}

per_isa! { fn softmax_rows(x: &mut [f32], width: usize) = softmax_rows_of; }

#[inline(always)]
fn rms_norm_rows_of<const WIDE: bool>(
    weight: Option<&[f32]>,
    width: usize,
    epsilon: f32,
    x: &mut [f32],
) {
    for row in x.chunks_exact_mut(width) {
        let mean = sum_of(row, |x| x * x) / width as f32;
        let factor = 1.0 / (mean + epsilon).sqrt();
        match weight {
            Some(weight) => {
                for (x, weight) in row.iter_mut().zip(weight) {
                    *x = *x * factor * weight;
                }
            }
            None => {
                for x in row {
                    *x *= factor;
                }
            }
        }
    }
}

#[inline(always)]
fn layer_norm_rows_of<const WIDE: bool>(
    weight: Option<&[f32]>,
    bias: Option<&[f32]>,
    width: usize,
    epsilon: f32,
    x: &mut [f32],
) {
    for row in x.chunks_exact_mut(width) {
        let mean = sum_of(row, |x| x) / width as f32;
        for x in &mut *row {
            *x -= mean;
        }
        let variance = sum_of(row, |x| x * x) / width as f32;
        let factor = 1.0 / (variance + epsilon).sqrt();
        for x in &mut *row {
            *x *= factor;
        }
        if let Some(weight) = weight {
            for (x, weight) in row.iter_mut().zip(weight) {
                *x *= weight;
            }
        }
        if let Some(bias) = bias {
            for (x, bias) in row.iter_mut().zip(bias) {
                *x += bias;
            }
        }
    }
}

#[inline(always)]
fn softmax_rows_of<const WIDE: bool>(x: &mut [f32], width: usize) {
    for row in x.chunks_exact_mut(width) {
        let greatest = row.iter().fold(f32::NEG_INFINITY, |a, b| if *b > a { *b } else { a });
        for x in &mut *row {
            *x = exp(*x - greatest);
        }
        let total = sum_of(row, |x| x);
        for x in row {
            *x /= total;
        }
    }
}

/// The sum of `f` of each number, in the order that the module states.
#[inline(always)]
fn sum_of(x: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += f(*x);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane += f(*x);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            lanes[l] += lanes[l + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// A function of each number and its neighbours in other slices of the same length, compiled for
/// every instruction set.
macro_rules! each {
    ($name:ident / $inner:ident ($($other:ident),*; $($number:ident),*) $x:ident => $value:expr) => {
        per_isa! { fn $name(x: &mut [f32] $(, $number: f32)* $(, $other: &[f32])*) = $inner; }

        #[inline(always)]
        fn $inner<const WIDE: bool>(x: &mut [f32] $(, $number: f32)* $(, $other: &[f32])*) {
            $(let $other = &$other[..x.len()];)*
            for at in 0..x.len() {
                let $x = x[at];
                $(let $other = $other[at];)*
                x[at] = $value;
            }
        }
    };
}

each! { add_all / add_all_of (y;) x => x + y }
each! { add_scaled_all / add_scaled_all_of (y; s) x => x + s * y }
each! { multiply_all / multiply_all_of (y;) x => x * y }
each! { scale_all / scale_all_of (; s) x => x * s }
each! { silu_times_all / silu_times_all_of (gate, up;) _x => silu(gate) * up }
each! { gelu_tanh_times_all / gelu_tanh_times_all_of (gate, up;) _x => gelu_tanh_of(gate) * up }
each! { gelu_erf_times_all / gelu_erf_times_all_of (gate, up;) _x => gelu_erf_of(gate) * up }
each! { gelu_tanh_all / gelu_tanh_all_of (;) x => gelu_tanh_of(x) }
each! { gelu_erf_all / gelu_erf_all_of (;) x => gelu_erf_of(x) }
each! { sigmoid_all / sigmoid_all_of (;) x => sigmoid_of(x) }
each! { soft_cap_all / soft_cap_all_of (; cap) x => cap * tanh(x / cap) }
