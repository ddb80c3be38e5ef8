//! Texts on their way through the parts of a model, with the activations at one cut at a time.

use std::ops::Range;

use nook_base::{LayerRange, ModelPart};
use nook_model::{BatchPiece, Input, LoadedModel, LogitRows, Output, Session, StepError};

use crate::PrivacyError;

/// Positions whose logits are in memory at once: a row of logits may have a million numbers.
pub(crate) const LOGIT_ROWS: usize = 16;

/// Positions of one text that are computed at once: what a step takes for each of them can be much
/// more than the row itself.
pub(crate) const STEP_ROWS: usize = 64;

/// Texts that go through a model part by part. Only the rows at the end of the last part are kept.
pub(crate) struct Walk<'a> {
    texts: Vec<&'a [u32]>,
    /// Rows of all texts, one behind the other; none before the first part.
    rows: Vec<f32>,
}

impl<'a> Walk<'a> {
    /// Before the first part, each text on its own.
    pub(crate) fn new(texts: Vec<&'a [u32]>) -> Self {
        Self { texts, rows: Vec::new() }
    }

    /// Through `part`, which follows the last one, or is the embedding; the rows at its end,
    /// `(positions, row)` of one text behind those of the other.
    pub(crate) fn through(
        &mut self,
        model: &LoadedModel,
        part: ModelPart,
    ) -> Result<&[f32], PrivacyError> {
        let width = model.file().shape().row as usize;
        let is_first = self.rows.is_empty();
        if is_first {
            let positions: usize = self.texts.iter().map(|text| text.len()).sum();
            self.rows = vec![0.0; positions * width];
        }
        let mut rest = &mut self.rows[..];
        for text in &self.texts {
            let (rows, after) = rest.split_at_mut(text.len() * width);
            rest = after;
            let mut session = model.session(part, count(text.len()))?;
            let steps = text.chunks(STEP_ROWS).zip(rows.chunks_mut(STEP_ROWS * width));
            for (ids, rows) in steps {
                let input = if is_first { Input::Tokens(ids) } else { Input::Hidden(rows) };
                let came = hidden(session.step(model, input, LogitRows::None)?)?;
                if came.len() != rows.len() {
                    return Err(PrivacyError::Size);
                }
                rows.copy_from_slice(&came);
            }
        }
        Ok(&self.rows)
    }

    /// The same through all of `parts`, in order.
    pub(crate) fn through_all(
        &mut self,
        model: &LoadedModel,
        parts: &[ModelPart],
    ) -> Result<&[f32], PrivacyError> {
        for part in parts {
            self.through(model, *part)?;
        }
        Ok(&self.rows)
    }
}

/// Sessions over each part that stand at different positions of one text, each asked for one more
/// token.
pub(crate) struct Tries {
    /// By part, then by position.
    sessions: Vec<Vec<Session>>,
    /// Where each stands.
    positions: Vec<u32>,
}

impl Tries {
    /// For each position `at`, behind those of `ids` before it.
    pub(crate) fn new(
        model: &LoadedModel,
        parts: &[ModelPart],
        ids: &[u32],
        at: Range<usize>,
    ) -> Result<Self, PrivacyError> {
        let positions: Vec<u32> = at.map(count).collect();
        let open = |part: &ModelPart| {
            let sessions = positions.iter().map(|at| model.session(*part, at.saturating_add(1)));
            sessions.collect::<Result<Vec<_>, _>>()
        };
        let mut sessions = parts.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        for (index, at) in positions.iter().enumerate() {
            for ids in ids[..*at as usize].chunks(STEP_ROWS) {
                let mut before: Option<Vec<f32>> = None;
                for of_part in &mut sessions {
                    let input = before.as_deref().map_or(Input::Tokens(ids), Input::Hidden);
                    before = Some(hidden(of_part[index].step(model, input, LogitRows::None)?)?);
                }
            }
        }
        Ok(Self { sessions, positions })
    }

    /// Calls `each` with the number of each part and the activations `(positions, row)` at its end
    /// when every session goes on with `id`. Afterwards they stand where they stood.
    pub(crate) fn with(
        &mut self,
        model: &LoadedModel,
        id: u32,
        each: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<(), PrivacyError> {
        let width = model.file().shape().row as usize;
        let ids = [id];
        let mut before: Option<Vec<f32>> = None;
        for (part, sessions) in self.sessions.iter_mut().enumerate() {
            let pieces = sessions.iter_mut().enumerate().map(|(at, session)| BatchPiece {
                session,
                input: match &before {
                    None => Input::Tokens(&ids),
                    Some(rows) => Input::Hidden(&rows[at * width..][..width]),
                },
                rows: LogitRows::None,
            });
            let mut batch: Vec<BatchPiece<'_>> = pieces.collect();
            let outputs = model.step_batch(&mut batch, &|| false).map_err(|error| error.error)?;
            drop(batch);
            let rows = outputs.into_iter().map(hidden).collect::<Result<Vec<_>, _>>()?.concat();
            each(part, &rows);
            before = Some(rows);
        }
        for sessions in &mut self.sessions {
            for (session, position) in sessions.iter_mut().zip(&self.positions) {
                let kept = session.truncate(*position);
                kept.map_err(|error| StepError::Compute { reason: error.to_string() })?;
            }
        }
        Ok(())
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
    let mut session = model.session(part, count(positions))?;
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

fn count(positions: usize) -> u32 {
    u32::try_from(positions).unwrap_or(u32::MAX)
}
