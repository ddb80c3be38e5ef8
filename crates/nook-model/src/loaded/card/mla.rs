//! Multi-head latent attention on a card: see [`crate::parts::Mla`].

use candle_core::{D, Tensor};

use super::attention::{Scoring, attend};
use super::step::{CardLanes, CardStep, heads_first, rows_first};
use super::weights::{CardMatrix, OnCard};
use crate::parts::{Broken, LatentForm, Mla, Reach};

impl Mla<OnCard> {
    /// Rows `x` (n, hidden) to (n, hidden); what the caches keep of them goes there.
    pub(super) fn on_card(
        &self,
        x: &Tensor,
        step: &CardStep<'_>,
        lanes: &mut CardLanes<'_>,
    ) -> Result<Tensor, Broken> {
        let queries = match &self.query_down {
            Some((down, norm)) => self.query.on_card(&norm.on_card(&down.on_card(x)?)?)?,
            None => self.query.on_card(x)?,
        };
        let queries = heads_first(&queries, self.heads)?;
        let queries = step.turn(&queries, self.turn, self.still_dim)?; // (heads, n, still + turning)
        let both = self.latent.on_card(x)?; // (n, rank + turning)
        let small = self.latent_norm.on_card(&both.narrow(1, 0, self.rank)?)?; // (n, rank)
        let turning = both.narrow(1, self.rank, self.turning_dim)?.unsqueeze(0)?;
        let turning = step.turn(&turning, self.turn, 0)?; // (1, n, turning)
        let scoring = Scoring { scale: self.scale, soft_cap: None, reach: Reach::All };
        let mixed = match &self.form {
            LatentForm::Absorbed { key, value } => {
                let still = queries.narrow(2, 0, self.still_dim)?;
                let turned = queries.narrow(2, self.still_dim, self.turning_dim)?;
                let absorbed = each_head(key, &still)?; // (heads, n, rank)
                let queries = Tensor::cat(&[&absorbed, &turned], D::Minus1)?;
                let values = small.unsqueeze(0)?; // (1, n, rank)
                let keys = Tensor::cat(&[&values, &turning], D::Minus1)?;
                let mixed = attend(&queries, &keys, &values, scoring, step, lanes)?;
                each_head(value, &mixed)?
            }
            LatentForm::Expanded { key, value } => {
                let still = heads_first(&key.on_card(&small)?, self.heads)?;
                let values = heads_first(&value.on_card(&small)?, self.heads)?;
                let shared = (self.heads, step.rows(), self.turning_dim);
                let turning = turning.broadcast_as(shared)?;
                let keys = Tensor::cat(&[&still, &turning], D::Minus1)?;
                attend(&queries, &keys, &values, scoring, step, lanes)?
            }
        };
        self.output.on_card(&rows_first(&mixed)?)
    }
}

/// `x` (heads, n, from) to (heads, n, to), each head by a matrix (to, from) of its own.
fn each_head(matrices: &[CardMatrix], x: &Tensor) -> Result<Tensor, Broken> {
    let mut heads = Vec::with_capacity(matrices.len());
    for (head, matrix) in matrices.iter().enumerate() {
        heads.push(matrix.forward(&x.get(head)?.contiguous()?)?);
    }
    Ok(Tensor::stack(&heads, 0)?)
}
