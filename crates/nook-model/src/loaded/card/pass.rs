//! The forward pass on a card: rows of one or several sessions through the layers that it holds.
//!
//! Called by [`crate::loaded::pass`], which has checked the batch and made room, and which takes
//! back what a failed step left. Hidden states go to the device and come back once for each step.

use candle_core::Tensor;
use nook_base::LogitRows;

use super::Card;
use super::step::{CardLanes, CardStep};
use crate::loaded::LoadedModel;
use crate::loaded::pass::{BatchPiece, groups};
use crate::loaded::session::{Input, Output, StepError};
use crate::parts::{Broken, LayerState};

impl Card {
    /// Computes the positions of `batch`, of which each piece has so many as `counts` says.
    pub(crate) fn forward(
        &self,
        model: &LoadedModel,
        batch: &mut [BatchPiece<'_>],
        counts: &[u32],
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Output>, StepError> {
        let part = batch.first().map(|piece| piece.session.part()).ok_or(StepError::Empty)?;
        let x = self.entered(model, batch)?; // (total, hidden)
        // Without layers there is nothing to turn, and no rope that may be missing.
        let ropes = if part.layers.is_empty() { &[][..] } else { self.inventory.ropes() };
        let mut groups_of_rows = Vec::new();
        let mut from = 0;
        for spans in groups(batch, counts) {
            let step = CardStep::new(&self.device, model.compute(), ropes, spans)?;
            let rows = x.narrow(0, from, step.rows()).map_err(Broken::from)?;
            from += step.rows();
            groups_of_rows.push((step, rows));
        }
        let sessions: Vec<&mut [LayerState]> =
            batch.iter_mut().map(|piece| &mut piece.session.states[..]).collect();
        let mut lanes = CardLanes { sessions, slot: 0 };
        for (slot, index) in part.layers.iter().enumerate() {
            let missing = || StepError::NotHeld { what: format!("layer {index}") };
            let layer = self.inventory.layer(index).ok_or_else(missing)?;
            lanes.slot = slot;
            for (step, rows) in &mut groups_of_rows {
                if cancelled() {
                    return Err(StepError::Cancelled);
                }
                *rows = layer.on_card(rows, step, &mut lanes)?;
            }
        }
        let rows: Vec<Tensor> = groups_of_rows.into_iter().map(|(_, rows)| rows).collect();
        let x = match &rows[..] {
            [only] => only.clone(),
            all => Tensor::cat(all, 0).map_err(Broken::from)?,
        };
        if part.head {
            if cancelled() {
                return Err(StepError::Cancelled);
            }
            return self.logits(model, batch, counts, &x);
        }
        hidden_states(counts, &x)
    }

    /// The first hidden states of all pieces: looked up, or as they came.
    fn entered(&self, model: &LoadedModel, batch: &[BatchPiece<'_>]) -> Result<Tensor, StepError> {
        let hidden = model.file().shape().hidden as usize;
        let scale = model.file().description().embedding_scale;
        let mut pieces = Vec::with_capacity(batch.len());
        for piece in batch {
            pieces.push(match piece.input {
                Input::Hidden(values) => {
                    let rows = (values.len() / hidden, hidden);
                    Tensor::from_slice(values, rows, &self.device).map_err(Broken::from)?
                }
                Input::Tokens(ids) => {
                    let missing = || StepError::NotHeld { what: "the embedding".to_owned() };
                    let embedding = self.inventory.embedding().ok_or_else(missing)?;
                    let ids = Tensor::from_slice(ids, ids.len(), &self.device);
                    let rows = embedding.lookup(&ids.map_err(Broken::from)?)?;
                    (rows * f64::from(scale)).map_err(Broken::from)?
                }
            });
        }
        match &pieces[..] {
            [only] => Ok(only.clone()),
            all => Ok(Tensor::cat(all, 0).map_err(Broken::from)?),
        }
    }

    /// Norm and output matrix, for the wanted rows only.
    fn logits(
        &self,
        model: &LoadedModel,
        batch: &[BatchPiece<'_>],
        counts: &[u32],
        x: &Tensor,
    ) -> Result<Vec<Output>, StepError> {
        let vocabulary = model.file().shape().vocabulary as usize;
        let mut wanted: Vec<u32> = Vec::new();
        let mut shares = Vec::with_capacity(batch.len());
        let mut end = 0;
        for (piece, count) in batch.iter().zip(counts) {
            end += count;
            let rows = match piece.rows {
                LogitRows::None => 0,
                LogitRows::Last => 1,
                LogitRows::All => *count,
            };
            wanted.extend(end - rows..end);
            shares.push(rows);
        }
        let mut all = Vec::new();
        if !wanted.is_empty() {
            all = self.scores(model, wanted, x)?;
        }
        let mut rest = &all[..];
        let outputs = shares.into_iter().map(|rows| {
            let (own, after) = rest.split_at(rows as usize * vocabulary);
            rest = after;
            Output::Logits { rows, values: own.to_vec() }
        });
        Ok(outputs.collect())
    }

    /// The logits of rows `wanted` of `x`, on the host.
    fn scores(
        &self,
        model: &LoadedModel,
        wanted: Vec<u32>,
        x: &Tensor,
    ) -> Result<Vec<f32>, StepError> {
        let missing = || StepError::NotHeld { what: "the head".to_owned() };
        let head = self.inventory.head().ok_or_else(missing)?;
        let spec = &model.file().description().head;
        let computed = || -> Result<Vec<f32>, Broken> {
            let count = wanted.len();
            let rows = match count == x.dim(0)? {
                true => x.clone(),
                false => x.index_select(&Tensor::from_vec(wanted, count, &self.device)?, 0)?,
            };
            let mut logits = head.output.forward(&head.norm.on_card(&rows)?)?;
            if spec.scale != 1.0 {
                logits = (logits * f64::from(spec.scale))?;
            }
            if let Some(cap) = spec.soft_cap {
                logits = ((logits / f64::from(cap))?.tanh()? * f64::from(cap))?;
            }
            Ok(logits.flatten_all()?.to_vec1()?)
        };
        Ok(computed()?)
    }
}

/// The hidden states, one output for each piece.
fn hidden_states(counts: &[u32], x: &Tensor) -> Result<Vec<Output>, StepError> {
    let mut outputs = Vec::with_capacity(counts.len());
    let mut from = 0;
    for count in counts {
        let rows = x.narrow(0, from, *count as usize).and_then(|rows| rows.flatten_all());
        let values = rows.and_then(|rows| rows.to_vec1::<f32>()).map_err(Broken::from)?;
        outputs.push(Output::Hidden(values));
        from += *count as usize;
    }
    Ok(outputs)
}
