//! The small functions between the matrices: RMS norm and the gate of a feed-forward layer.

use crate::dot::dot;
use crate::elementary::silu;
use crate::isa::{Isa, per_isa};

per_isa! {
    /// Root mean square norm (Zhang and Sennrich 2019): each row of `x` (rows of `weight.len()`) to
    /// `x / sqrt(mean(x^2) + epsilon) * weight`, into `out`.
    pub fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) = rms_norm_rows;
}

per_isa! {
    /// `out = silu(out) * up`, element by element (the "SwiGLU" gate, Shazeer 2020).
    pub fn silu_times(out: &mut [f32], up: &[f32]) = silu_times_all;
}

/// As [`rms_norm`], into a new vector.
#[must_use]
pub fn rms_normed(isa: Isa, x: &[f32], weight: &[f32], epsilon: f32) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    rms_norm(isa, x, weight, epsilon, &mut out);
    out
}

#[inline(always)]
fn rms_norm_rows<const WIDE: bool>(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let width = weight.len();
    if width == 0 {
        return;
    }
    for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        let mean = dot(x, x) / width as f32;
        let scale = 1.0 / (mean + epsilon).sqrt();
        for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
            *out = x * scale * weight;
        }
    }
}

#[inline(always)]
fn silu_times_all<const WIDE: bool>(out: &mut [f32], up: &[f32]) {
    for (out, up) in out.iter_mut().zip(up) {
        *out = silu(*out) * up;
    }
}
