//! One run of a text through the parts of a model, with the activations at every cut.

use nook_base::limits::STEP_TOKENS_MAX;
use nook_base::{LayerRange, ModelPart};
use nook_model::{BatchPiece, Input, LoadedModel, LogitRows, Output, Session, StepError};

use crate::PrivacyError;

/// Positions whose logits are in memory at once: a row of logits may have a million numbers.
const LOGIT_ROWS: usize = 16;

/// A session over each part of a model.
pub(crate) struct Walk {
    sessions: Vec<Session>,
}

impl Walk {
    /// Over `parts`, for at most `positions`.
    pub(crate) fn new(
        model: &LoadedModel,
        parts: &[ModelPart],
        positions: u32,
    ) -> Result<Self, PrivacyError> {
        let sessions = parts.iter().map(|part| model.session(*part, positions));
        Ok(Self { sessions: sessions.collect::<Result<_, _>>()? })
    }

    /// The activations `(positions, row)` of `ids` at the end of each part.
    pub(crate) fn read(
        &mut self,
        model: &LoadedModel,
        ids: &[u32],
    ) -> Result<Vec<Vec<f32>>, PrivacyError> {
        let mut all = vec![Vec::new(); self.sessions.len()];
        for ids in ids.chunks(STEP_TOKENS_MAX as usize) {
            let mut before: Option<Vec<f32>> = None;
            for (session, all) in self.sessions.iter_mut().zip(&mut all) {
                let input = before.as_deref().map_or(Input::Tokens(ids), Input::Hidden);
                let rows = hidden(session.step(model, input, LogitRows::None)?)?;
                all.extend_from_slice(&rows);
                before = Some(rows);
            }
        }
        Ok(all)
    }
}

/// Several walks that stand at different positions of one text, each asked for one more token.
pub(crate) struct Walks {
    walks: Vec<Walk>,
    /// Where each stands.
    positions: Vec<u32>,
}

impl Walks {
    /// A walk for each position from `first` on, behind those of `ids` before it.
    pub(crate) fn new(
        model: &LoadedModel,
        parts: &[ModelPart],
        ids: &[u32],
        first: usize,
    ) -> Result<Self, PrivacyError> {
        let mut walks = Vec::new();
        let mut positions = Vec::new();
        for at in first..ids.len() {
            let position = u32::try_from(at).unwrap_or(u32::MAX);
            let mut walk = Walk::new(model, parts, position.saturating_add(1))?;
            if at > 0 {
                walk.read(model, &ids[..at])?;
            }
            walks.push(walk);
            positions.push(position);
        }
        Ok(Self { walks, positions })
    }

    /// The activations `(walks, row)` at the end of each part when every walk goes on with `id`.
    /// Afterwards the walks stand where they stood.
    pub(crate) fn try_with(
        &mut self,
        model: &LoadedModel,
        id: u32,
    ) -> Result<Vec<Vec<f32>>, PrivacyError> {
        let parts = self.walks.first().map_or(0, |walk| walk.sessions.len());
        let mut all: Vec<Vec<f32>> = Vec::with_capacity(parts);
        for part in 0..parts {
            let before = all.last();
            let width = before.map_or(0, |rows| rows.len() / self.walks.len().max(1));
            let ids = [id];
            let pieces = self.walks.iter_mut().enumerate().map(|(at, walk)| BatchPiece {
                session: &mut walk.sessions[part],
                input: match before {
                    None => Input::Tokens(&ids),
                    Some(rows) => Input::Hidden(&rows[at * width..][..width]),
                },
                rows: LogitRows::None,
            });
            let mut batch: Vec<BatchPiece<'_>> = pieces.collect();
            let outputs = model.step_batch(&mut batch, &|| false).map_err(|error| error.error)?;
            let rows = outputs.into_iter().map(hidden).collect::<Result<Vec<_>, _>>()?;
            all.push(rows.concat());
        }
        for (walk, position) in self.walks.iter_mut().zip(&self.positions) {
            for session in &mut walk.sessions {
                let kept = session.truncate(*position);
                kept.map_err(|error| StepError::Compute { reason: error.to_string() })?;
            }
        }
        Ok(all)
    }
}

/// Calls `each` with the logits of each position behind `part`, whose input is `input`, in order.
/// `part` ends with the head.
pub(crate) fn logits(
    model: &LoadedModel,
    part: ModelPart,
    input: Input<'_>,
    each: &mut dyn FnMut(&[f32]),
) -> Result<(), PrivacyError> {
    let shape = model.file().shape();
    let (row, vocabulary) = (shape.row.max(1) as usize, shape.vocabulary.max(1) as usize);
    let positions = match input {
        Input::Tokens(ids) => ids.len(),
        Input::Hidden(rows) => rows.len() / row,
    };
    let mut session = model.session(part, u32::try_from(positions).unwrap_or(u32::MAX))?;
    for from in (0..positions).step_by(LOGIT_ROWS) {
        let to = positions.min(from + LOGIT_ROWS);
        let input = match input {
            Input::Tokens(ids) => Input::Tokens(&ids[from..to]),
            Input::Hidden(rows) => Input::Hidden(&rows[from * row..to * row]),
        };
        let output = session.step(model, input, LogitRows::All)?;
        let Output::Logits { values, .. } = output else { return Err(PrivacyError::Size) };
        values.chunks_exact(vocabulary).for_each(&mut *each);
    }
    Ok(())
}

/// The layers from `layer` on with the head; from the embedding on where that is the first.
pub(crate) fn rest_from(layer: u32, layers: u32) -> ModelPart {
    let layers = LayerRange::with_len(layer, layers.saturating_sub(layer));
    ModelPart { layers, embedding: false, head: true }
}

/// The id of the greatest logit, the lowest of equals.
pub(crate) fn greatest(row: &[f32]) -> Option<u32> {
    let mut best: Option<(u32, f32)> = None;
    for (id, value) in (0..).zip(row) {
        if best.is_none_or(|(_, greatest)| *value > greatest) {
            best = Some((id, *value));
        }
    }
    best.map(|(id, _)| id)
}

fn hidden(output: Output) -> Result<Vec<f32>, PrivacyError> {
    match output {
        Output::Hidden(rows) => Ok(rows),
        Output::Logits { .. } => Err(PrivacyError::Size),
    }
}
