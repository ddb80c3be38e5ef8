//! Products, norms and feed-forward layers on a card: see their namesakes in [`crate::parts`].

use candle_core::Tensor;
use candle_nn::ops;

use super::block::unknown_part;
use super::weights::OnCard;
use crate::parts::{Activation, Broken, Gated, Linear, Norm, NormKind, Plain};

impl Linear<OnCard> {
    /// Rows `x` (n, in) to (n, out).
    pub(super) fn on_card(&self, x: &Tensor) -> Result<Tensor, Broken> {
        let product = self.matrix.forward(x)?;
        match &self.bias {
            Some(bias) => Ok(product.broadcast_add(bias)?),
            None => Ok(product),
        }
    }
}

impl Norm<OnCard> {
    /// `x`, of which each `width` numbers are normed together.
    pub(super) fn on_card(&self, x: &Tensor) -> Result<Tensor, Broken> {
        let width = (self.width as usize).max(1);
        let rows = x.contiguous()?.reshape((x.elem_count() / width, width))?;
        let normed = match (self.kind, &self.bias) {
            (NormKind::RootMeanSquare, _) => ops::rms_norm(&rows, &self.weight, self.epsilon)?,
            (NormKind::Layer, Some(bias)) => {
                ops::layer_norm(&rows, &self.weight, bias, self.epsilon)?
            }
            (NormKind::Layer, None) => {
                let bias = self.weight.zeros_like()?;
                ops::layer_norm(&rows, &self.weight, &bias, self.epsilon)?
            }
        };
        Ok(normed.reshape(x.shape())?)
    }
}

impl Activation {
    /// The function of `x`.
    pub(super) fn on_card(self, x: &Tensor) -> Result<Tensor, Broken> {
        Ok(match self {
            Self::Silu => ops::silu(x)?,
            // candle's plain GELU is the tanh form.
            Self::GeluTanh => x.gelu()?,
            Self::SquaredRelu | Self::ClampedSwiglu => return Err(unknown_part()),
        })
    }
}

impl Gated<OnCard> {
    /// Rows `x` (n, hidden) to (n, hidden).
    pub(super) fn on_card(&self, x: &Tensor) -> Result<Tensor, Broken> {
        let gate = self.activation.on_card(&self.gate.on_card(x)?)?;
        self.down.on_card(&(gate * self.up.on_card(x)?)?)
    }
}

impl Plain<OnCard> {
    /// Rows `x` (n, hidden) to (n, hidden).
    pub(super) fn on_card(&self, x: &Tensor) -> Result<Tensor, Broken> {
        self.down.on_card(&self.activation.on_card(&self.up.on_card(x)?)?)
    }
}
