//! The gated feed-forward layer, `down(silu(gate(x)) * up(x))` (Shazeer 2020, "SwiGLU").

use candle_core::{Result, Tensor};
use nook_kernels::{Compute, Matrix, ops};

/// Feed-forward part of one layer.
#[derive(Debug)]
pub(crate) struct GatedFeedForward {
    /// (`feed_forward`, hidden)
    pub(crate) gate: Matrix,
    /// (`feed_forward`, hidden)
    pub(crate) up: Matrix,
    /// (hidden, `feed_forward`)
    pub(crate) down: Matrix,
}

impl GatedFeedForward {
    /// `(n, hidden)` to `(n, hidden)`.
    pub(crate) fn forward(&self, x: &Tensor, compute: &Compute) -> Result<Tensor> {
        let gate = ops::multiply(x, &self.gate, compute)?; // (n, feed_forward)
        let up = ops::multiply(x, &self.up, compute)?; // (n, feed_forward)
        let gated = ops::silu_mul(&gate, &up, compute)?;
        ops::multiply(&gated, &self.down, compute)
    }
}
