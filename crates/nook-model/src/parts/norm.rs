//! Root mean square norm (Zhang and Sennrich 2019).

use candle_core::{Result as TensorResult, Tensor};
use nook_kernels::{Compute, ops};

use crate::error::ModelError;
use crate::weights::Weights;

/// One norm.
#[derive(Debug)]
pub(crate) struct RmsNorm {
    /// (width)
    weight: Vec<f32>,
    epsilon: f32,
}

impl RmsNorm {
    pub(crate) fn load(
        weights: &Weights<'_>,
        name: &str,
        epsilon: f32,
    ) -> Result<Self, ModelError> {
        Ok(Self { weight: weights.vector(name)?, epsilon })
    }

    /// `(n, width)` to `(n, width)`.
    pub(crate) fn forward(&self, x: &Tensor, compute: &Compute) -> TensorResult<Tensor> {
        ops::rms_norm(x, &self.weight, self.epsilon, compute)
    }
}
