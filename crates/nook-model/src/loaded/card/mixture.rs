//! Mixtures of experts on a card: see [`crate::parts::Mixture`].
//!
//! The router's numbers come to the processor, which chooses as it does for itself; experts then
//! run on the card, each with the rows that chose it.

use candle_core::Tensor;
use candle_nn::ops::sigmoid;

use super::step::CardStep;
use super::weights::OnCard;
use crate::parts::{Broken, Choice, Dense, Mixture, SharedExpert};

impl Mixture<OnCard> {
    /// Rows `x` (n, hidden) to (n, hidden).
    pub(super) fn on_card(&self, x: &Tensor, step: &CardStep<'_>) -> Result<Tensor, Broken> {
        let router = self.router.on_card(x)?;
        let experts = router.dim(1)?;
        let mut scores = router.flatten_all()?.to_vec1::<f32>()?;
        let numbers = self.numbers();
        let (mut ranking, mut choices) = (Vec::new(), Vec::new());
        let routing = self.routing;
        routing.choose(step.compute, &mut scores, experts, numbers, &mut ranking, &mut choices);
        let mut out = x.zeros_like()?;
        for same in choices.chunk_by(|a, b| a.expert == b.expert) {
            out = self.expert(same, x, &out, step)?;
        }
        match &self.shared {
            Some(shared) => Ok((out + shared.on_card(x)?)?),
            None => Ok(out),
        }
    }

    /// `out` with what one expert makes of the rows that chose it.
    fn expert(
        &self,
        choices: &[Choice],
        x: &Tensor,
        out: &Tensor,
        step: &CardStep<'_>,
    ) -> Result<Tensor, Broken> {
        let Some(expert) = choices.first().map(|choice| choice.expert) else {
            return Ok(out.clone());
        };
        let matrices = (
            self.gate.as_ref().and_then(|gate| gate.get(expert)),
            self.up.get(expert),
            self.down.get(expert),
        );
        let (Some(gate), Some(up), Some(down)) = matrices else {
            return Err(Broken::new("an expert that is not there"));
        };
        let count = choices.len();
        let rows: Vec<u32> = choices.iter().map(|choice| choice.row as u32).collect();
        let rows = Tensor::from_vec(rows, count, step.device)?;
        let weights: Vec<f32> = choices.iter().map(|choice| choice.weight).collect();
        let weights = Tensor::from_vec(weights, (count, 1), step.device)?;
        let mut input = x.index_select(&rows, 0)?;
        if self.routing.weigh_input {
            input = input.broadcast_mul(&weights)?;
        }
        let inner = (self.activation.on_card(&gate.forward(&input)?)? * up.forward(&input)?)?;
        let mut output = down.forward(&inner)?;
        if !self.routing.weigh_input {
            output = output.broadcast_mul(&weights)?;
        }
        Ok(out.index_add(&rows, &output, 0)?)
    }
}

impl SharedExpert<OnCard> {
    /// Rows `x` (n, hidden) to (n, hidden).
    fn on_card(&self, x: &Tensor) -> Result<Tensor, Broken> {
        let output = match &self.expert {
            Dense::Gated(expert) => expert.on_card(x)?,
            Dense::Plain(expert) => expert.on_card(x)?,
        };
        match &self.gate {
            Some(gate) => Ok(output.broadcast_mul(&sigmoid(&gate.on_card(x)?)?)?),
            None => Ok(output),
        }
    }
}
