//! The forward pass on a GPU: rows of one or several sessions through the layers that it holds.
//!
//! Called by [`crate::loaded::pass`], which has checked the batch and made room, and which takes
//! back what a failed step left. Hidden states go to the device and come back once for each group
//! of rows.

use std::sync::{Arc, PoisonError};

use nook_gpu::{Buffer, Each};

use super::GpuExecutor;
use super::recorder::Recorder;
use super::step::{GpuLanes, GpuStep};
use super::workspace::Workspace;
use crate::loaded::LoadedModel;
use crate::loaded::pass::{BatchPiece, groups};
use crate::loaded::session::{Input, Output, StepError};
use crate::parts::LayerState;
use nook_base::LogitRows;

impl GpuExecutor {
    /// Computes the positions of `batch`, of which each piece has so many as `counts` says.
    pub(crate) fn forward(
        &self,
        model: &LoadedModel,
        batch: &mut [BatchPiece<'_>],
        counts: &[u32],
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Output>, StepError> {
        let kept = || self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        let mut workspace = kept().pop().unwrap_or_default();
        let done = self.forward_in(model, batch, counts, cancelled, &mut workspace);
        kept().push(workspace);
        done
    }

    fn forward_in(
        &self,
        model: &LoadedModel,
        batch: &mut [BatchPiece<'_>],
        counts: &[u32],
        cancelled: &(dyn Fn() -> bool + Sync),
        workspace: &mut Workspace,
    ) -> Result<Vec<Output>, StepError> {
        let part = batch.first().map(|piece| piece.session.part()).ok_or(StepError::Empty)?;
        // Without layers there is nothing to turn, and no rope that may be missing.
        let ropes = if part.layers.is_empty() { &[][..] } else { self.inventory.ropes() };
        let widths = Widths::of(model);
        let Widths { row, width, extra } = widths;
        let wanted = wanted(batch, counts);
        let all_groups = groups(batch, counts);
        let (ids, states) = inputs(batch);
        let sessions: Vec<&mut [LayerState]> =
            batch.iter_mut().map(|piece| &mut piece.session.states[..]).collect();
        let mut lanes = GpuLanes { sessions, slot: 0 };
        let mut values = Vec::new();
        let mut from = 0;
        for spans in all_groups {
            let mut step = GpuStep::new(&self.gpu, model.compute(), ropes, spans)?;
            let (n, mut recorder) =
                (step.rows(), Recorder::new(&self.gpu, &mut *workspace, cancelled));
            let x = recorder.buffers.x.sized(&self.gpu, n * width)?;
            let inputs = recorder.buffers.inputs.sized(&self.gpu, n * extra)?;
            if part.embedding {
                self.look_up(model, &ids[from..from + n], [&x, &inputs], &mut recorder)?;
            } else {
                let [own, others] = widths.apart(&states[from * row..(from + n) * row]);
                x.write_words(&self.gpu, 0, &own);
                inputs.write_words(&self.gpu, 0, &others);
            }
            step.inputs = (extra > 0).then(|| (Arc::clone(&inputs), extra));
            for (slot, index) in part.layers.iter().enumerate() {
                let missing = || StepError::NotHeld { what: format!("layer {index}") };
                let layer = self.inventory.layer(index).ok_or_else(missing)?;
                recorder.go_on()?;
                lanes.slot = slot;
                layer.on_gpu(&x, width, &step, &mut lanes, &mut recorder)?;
            }
            if part.head {
                recorder.go_on()?;
                let here = wanted.iter().filter_map(|row| row.checked_sub(from as u32));
                let here: Vec<u32> = here.filter(|row| (*row as usize) < n).collect();
                values.extend(self.scores(model, &here, &x, n, &mut recorder)?);
            } else {
                let own = recorder.commands.read_floats(&x, 0, n * width)?;
                let others = match extra {
                    0 => Vec::new(),
                    _ => recorder.commands.read_floats(&inputs, 0, n * extra)?,
                };
                values.extend(widths.joined(own, &others));
            }
            from += n;
        }
        Ok(outputs(model, batch, counts, part.head, values))
    }

    /// The rows `ids` of the embedding into `x`, and what comes to the layers with them into
    /// `inputs`.
    fn look_up(
        &self,
        model: &LoadedModel,
        ids: &[u32],
        [x, inputs]: [&Buffer; 2],
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let missing = || StepError::NotHeld { what: "the embedding".to_owned() };
        let embedding = self.inventory.embedding().ok_or_else(missing)?;
        let wanted = recorder.buffers.ids.sized(&self.gpu, ids.len())?;
        wanted.write_words(&self.gpu, 0, ids);
        let (n, scale) = (ids.len(), model.file().description().embedding_scale);
        let spread = self.inventory.spread();
        let hidden = n * model.file().shape().hidden as usize;
        let apart = match spread {
            Some(_) => Some(recorder.buffers.result.sized(&self.gpu, hidden)?),
            None => None,
        };
        let embedded = apart.as_deref().unwrap_or(x);
        recorder.commands.lookup(embedding, &wanted, n, scale, embedded)?;
        if let Some(made) = self.inventory.layer_inputs() {
            made.on_gpu(&wanted, embedded, n, inputs, recorder)?;
        }
        match spread {
            Some(spread) => spread.spread_on_gpu(embedded, n, x, recorder),
            None => Ok(()),
        }
    }

    /// The logits of the rows `wanted` of `x` (n, hidden), on the host.
    fn scores(
        &self,
        model: &LoadedModel,
        wanted: &[u32],
        x: &Arc<Buffer>,
        n: usize,
        recorder: &mut Recorder<'_>,
    ) -> Result<Vec<f32>, StepError> {
        let count = wanted.len();
        if count == 0 {
            recorder.commands.finish()?;
            return Ok(Vec::new());
        }
        let missing = || StepError::NotHeld { what: "the head".to_owned() };
        let head = self.inventory.head().ok_or_else(missing)?;
        let spec = &model.file().description().head;
        let shape = model.file().shape();
        let (hidden, vocabulary) = (shape.hidden as usize, shape.vocabulary as usize);
        let mut rows = Arc::clone(x);
        if count < n {
            let width = Widths::of(model).width;
            let numbers = Buffer::of_words(&self.gpu, "rows of logits", wanted)?;
            rows = recorder.buffers.result.sized(&self.gpu, count * width)?;
            recorder.commands.gather(x, width, &numbers, count, &rows)?;
        }
        if let Some(merge) = &head.merge {
            rows = merge.merge_on_gpu(&rows, count, recorder)?;
        }
        let normed = recorder.buffers.normed.sized(&self.gpu, count * hidden)?;
        recorder.norm(&head.norm, &rows, count * hidden, &normed)?;
        let total = count * vocabulary;
        let logits = recorder.buffers.logits.sized(&self.gpu, total)?;
        recorder.products(&normed, count, &[(&head.output, &logits)])?;
        if spec.scale != 1.0 {
            recorder.commands.each(&logits, total, 1, Each::Scale(spec.scale))?;
        }
        if let Some(cap) = spec.soft_cap {
            recorder.commands.each(&logits, total, 1, Each::SoftCap(cap))?;
        }
        Ok(recorder.commands.read_floats(&logits, 0, total)?)
    }
}

/// Numbers of a position between layers.
#[derive(Debug, Clone, Copy)]
struct Widths {
    /// All of them.
    row: usize,
    /// Those of its hidden states.
    width: usize,
    /// What comes to the layers by token, behind them.
    extra: usize,
}

impl Widths {
    fn of(model: &LoadedModel) -> Self {
        let row = model.file().shape().row as usize;
        let width = model.file().description().width();
        Self { row, width, extra: row.saturating_sub(width) }
    }

    /// The hidden states of `rows` and what comes to the layers, as words.
    fn apart(self, rows: &[f32]) -> [Vec<u32>; 2] {
        let mut apart = [Vec::new(), Vec::new()];
        for row in rows.chunks_exact(self.row.max(1)) {
            let (own, others) = row.split_at(self.width);
            apart[0].extend(own.iter().map(|x| x.to_bits()));
            apart[1].extend(others.iter().map(|x| x.to_bits()));
        }
        apart
    }

    /// The rows of hidden states `own` with what comes to the layers behind each.
    fn joined(self, own: Vec<f32>, others: &[f32]) -> Vec<f32> {
        if self.extra == 0 {
            return own;
        }
        let both = own.chunks_exact(self.width.max(1)).zip(others.chunks_exact(self.extra));
        both.flat_map(|(own, others)| [own, others].concat()).collect()
    }
}

/// All token ids, or all hidden states, of a batch. One of them is empty.
fn inputs(batch: &[BatchPiece<'_>]) -> (Vec<u32>, Vec<f32>) {
    let (mut ids, mut states) = (Vec::new(), Vec::new());
    for piece in batch {
        match piece.input {
            Input::Tokens(own) => ids.extend_from_slice(own),
            Input::Hidden(own) => states.extend_from_slice(own),
        }
    }
    (ids, states)
}

/// Rows of a piece that logits are wanted for.
fn rows_of(piece: &BatchPiece<'_>, count: u32) -> u32 {
    match piece.rows {
        LogitRows::None => 0,
        LogitRows::Last => 1,
        LogitRows::All => count,
    }
}

/// Rows of the batch that logits are wanted for, in order.
fn wanted(batch: &[BatchPiece<'_>], counts: &[u32]) -> Vec<u32> {
    let mut wanted = Vec::new();
    let mut end = 0;
    for (piece, count) in batch.iter().zip(counts) {
        end += count;
        wanted.extend(end - rows_of(piece, *count)..end);
    }
    wanted
}

/// `values`, shared out among the pieces.
fn outputs(
    model: &LoadedModel,
    batch: &[BatchPiece<'_>],
    counts: &[u32],
    head: bool,
    values: Vec<f32>,
) -> Vec<Output> {
    let shape = model.file().shape();
    let mut rest = &values[..];
    let mut outputs = Vec::with_capacity(batch.len());
    for (piece, count) in batch.iter().zip(counts) {
        let (rows, width) = match head {
            true => (rows_of(piece, *count), shape.vocabulary),
            false => (*count, shape.row),
        };
        let (own, after) = rest.split_at(rows as usize * width as usize);
        rest = after;
        outputs.push(match head {
            true => Output::Logits { rows, values: own.to_vec() },
            false => Output::Hidden(own.to_vec()),
        });
    }
    outputs
}
