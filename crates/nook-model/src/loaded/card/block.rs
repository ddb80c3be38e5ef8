//! One transformer layer on a card: see [`crate::parts::Block`].

use candle_core::Tensor;

use super::step::{CardLanes, CardStep};
use super::weights::OnCard;
use crate::parts::{Block, Broken, FeedForward, Mixer, Norm};

impl Block<OnCard> {
    /// Takes rows `x` (n, hidden) through the layer.
    pub(super) fn on_card(
        &self,
        x: &Tensor,
        step: &CardStep<'_>,
        lanes: &mut CardLanes<'_>,
    ) -> Result<Tensor, Broken> {
        let input = normed(self.attention_norm.as_ref(), x)?;
        let result = match &self.mixer {
            Some(Mixer::Attention(part)) => part.on_card(&input, step, lanes)?,
            Some(Mixer::Latent(part)) => part.on_card(&input, step, lanes)?,
            Some(Mixer::Delta(part)) => part.on_card(&input, step, lanes)?,
            Some(Mixer::Mamba(_) | Mixer::Convolution(_) | Mixer::Shared(_)) | None => {
                return Err(unknown_part());
            }
        };
        let x = self.joined(self.post_attention_norm.as_ref(), x, &result)?;
        let input = normed(self.feed_forward_norm.as_ref(), &x)?;
        let result = match &self.feed_forward {
            Some(FeedForward::Gated(part)) => part.on_card(&input)?,
            Some(FeedForward::Plain(part)) => part.on_card(&input)?,
            Some(FeedForward::Mixture(part)) => part.on_card(&input, step)?,
            Some(FeedForward::Beside(_)) | None => return Err(unknown_part()),
        };
        self.joined(self.post_feed_forward_norm.as_ref(), &x, &result)
    }

    /// The hidden states with what a part gave.
    fn joined(
        &self,
        norm: Option<&Norm<OnCard>>,
        x: &Tensor,
        result: &Tensor,
    ) -> Result<Tensor, Broken> {
        let mut result = normed(norm, result)?;
        if self.residual_scale != 1.0 {
            result = (result * f64::from(self.residual_scale))?;
        }
        Ok((x + result)?)
    }
}

/// A part that no layer has that was let onto a card ([`Block::needs_processor`]).
pub(super) fn unknown_part() -> Broken {
    Broken::new("a part that candle has no code for")
}

/// `x`, normed where there is a norm.
fn normed(norm: Option<&Norm<OnCard>>, x: &Tensor) -> Result<Tensor, Broken> {
    match norm {
        Some(norm) => norm.on_card(x),
        None => Ok(x.clone()),
    }
}
