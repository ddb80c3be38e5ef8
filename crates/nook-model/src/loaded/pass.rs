//! The forward pass: rows of one or several sessions, at different positions, through the layers.
//!
//! Matrices are multiplied with the rows of all sessions at once; attention looks at one session at
//! a time. Every row's results depend on nothing but its own session, so a batch gives each the
//! bits that it would get alone. A long prompt goes through each layer in groups of
//! [`ROWS_AT_ONCE`] rows, which bounds the memory of a step without reading weights more often than
//! arithmetic hides.

use nook_base::LogitRows;
use nook_kernels::{Product, multiply, vector};

use crate::loaded::session::{Input, Output, Session, StepError};
use crate::loaded::{Cpu, Executor, LoadedModel};
use crate::parts::{BlockBuffers, Buffers, Lanes, LayerState, Span, Step, sized};

/// Rows that go through a layer together. More gains nothing, and costs memory for each.
pub(crate) const ROWS_AT_ONCE: usize = 512;

/// One session's share of a batch.
#[derive(Debug)]
pub struct BatchPiece<'a> {
    /// The session.
    pub session: &'a mut Session,
    /// Its next positions.
    pub input: Input<'a>,
    /// For which of them logits are wanted.
    pub rows: LogitRows,
}

/// A batch that was not done. All its sessions are as they were.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("piece {piece} of a batch: {error}")]
pub struct BatchError {
    /// The piece at fault; 0 where none is alone.
    pub piece: usize,
    /// What is wrong.
    #[source]
    pub error: StepError,
}

/// Buffers of one step.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    /// Hidden states of all rows.
    x: Vec<f32>,
    /// What comes to the layers by token with each row.
    inputs: Vec<f32>,
    /// Hidden states that logits are wanted for, one of each position, and their norms.
    wanted: Vec<f32>,
    merged: Vec<f32>,
    normed: Vec<f32>,
    blocks: BlockBuffers,
}

impl LoadedModel {
    /// Computes the next positions of several sessions in one pass and appends them; the outputs
    /// are in the order of the pieces. All sessions must be over the same part of the model. Asks
    /// `cancelled` before each layer. Each session gets the bits that it would get alone.
    pub fn step_batch(
        &self,
        batch: &mut [BatchPiece<'_>],
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Output>, BatchError> {
        run(self, batch, cancelled)
    }
}

/// See [`LoadedModel::step_batch`].
pub(crate) fn run(
    model: &LoadedModel,
    batch: &mut [BatchPiece<'_>],
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Output>, BatchError> {
    let Some(part) = batch.first().map(|piece| piece.session.part()) else {
        return Ok(Vec::new());
    };
    let mut counts = Vec::with_capacity(batch.len());
    for (index, piece) in batch.iter().enumerate() {
        let fault = |error| BatchError { piece: index, error };
        if piece.session.part() != part {
            return Err(fault(StepError::OtherPart));
        }
        counts.push(piece.session.check(model, piece.input).map_err(fault)?);
    }
    let done = reserve(batch, &counts).and_then(|()| {
        let done = match model.executor() {
            Executor::Cpu(cpu) => on_cpu(model, cpu, batch, &counts, cancelled),
            Executor::Gpu(gpu) => gpu.forward(model, batch, &counts, cancelled),
            Executor::Divided(both) => both.forward(model, batch, &counts, cancelled),
            Executor::Card(card) => card.forward(model, batch, &counts, cancelled),
        };
        done.map_err(|error| BatchError { piece: 0, error })
    });
    for (piece, count) in batch.iter_mut().zip(&counts) {
        let session = &mut *piece.session;
        if done.is_ok() {
            session.position += count;
            session.states.iter_mut().for_each(LayerState::commit);
        } else {
            let before = session.position;
            session.states.iter_mut().for_each(|state| state.truncate(before));
        }
    }
    done
}

/// Makes room for the new positions in all caches, before anything is computed.
fn reserve(batch: &mut [BatchPiece<'_>], counts: &[u32]) -> Result<(), BatchError> {
    for (index, (piece, count)) in batch.iter_mut().zip(counts).enumerate() {
        let after = piece.session.position + count;
        let reserved = piece.session.reserve(after);
        reserved.map_err(|error| BatchError { piece: index, error })?;
    }
    Ok(())
}

/// Computes the positions of `batch` with the processor.
pub(crate) fn on_cpu(
    model: &LoadedModel,
    cpu: &Cpu,
    batch: &mut [BatchPiece<'_>],
    counts: &[u32],
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Output>, StepError> {
    let mut workspace = cpu.take_workspace();
    let done = forward(model, cpu, batch, counts, cancelled, &mut workspace);
    cpu.keep_workspace(workspace);
    done
}

fn forward(
    model: &LoadedModel,
    cpu: &Cpu,
    batch: &mut [BatchPiece<'_>],
    counts: &[u32],
    cancelled: &(dyn Fn() -> bool + Sync),
    workspace: &mut Workspace,
) -> Result<Vec<Output>, StepError> {
    let width = model.file().description().width();
    let part = batch.first().map(|piece| piece.session.part()).ok_or(StepError::Empty)?;
    let total = counts.iter().map(|count| *count as usize).sum::<usize>();
    let Workspace { x, inputs, blocks, .. } = workspace;
    let extra = (model.file().shape().row as usize).saturating_sub(width);
    let x = sized(x, total * width); // (total, streams * hidden)
    let inputs = sized(inputs, total * extra); // (total, extra)
    enter(model, cpu, batch, (&mut *x, &mut *inputs), &mut blocks.parts)?;
    let mut inputs_left = &*inputs;
    // Without layers there is nothing to turn, and no rope that may be missing.
    let ropes = if part.layers.is_empty() { &[][..] } else { cpu.inventory.ropes() };
    let steps: Vec<Step<'_>> = groups(batch, counts)
        .into_iter()
        .map(|spans| {
            let step = Step::new(model.compute(), ropes, spans);
            let (inputs, left) = inputs_left.split_at(step.rows() * extra);
            inputs_left = left;
            Step { inputs, ..step }
        })
        .collect();
    let sessions: Vec<&mut [LayerState]> =
        batch.iter_mut().map(|piece| &mut piece.session.states[..]).collect();
    let mut lanes = Lanes { sessions, slot: 0 };
    for (slot, index) in part.layers.iter().enumerate() {
        let missing = || StepError::NotHeld { what: format!("layer {index}") };
        let layer = cpu.inventory.layer(index).ok_or_else(missing)?;
        lanes.slot = slot;
        let mut rest = &mut *x;
        for step in &steps {
            if cancelled() {
                return Err(StepError::Cancelled);
            }
            let (rows, after) = rest.split_at_mut(step.rows() * width);
            layer.forward(rows, step, &mut lanes, blocks)?;
            rest = after;
        }
    }
    if part.head {
        if cancelled() {
            return Err(StepError::Cancelled);
        }
        return logits(model, cpu, batch, counts, workspace);
    }
    Ok(hidden_states(counts, (width, x), (extra, inputs)))
}

/// The hidden states with what comes to further layers by token, one output for each piece. Both
/// are numbers of a row, and those of all rows.
fn hidden_states(
    counts: &[u32],
    (hidden, x): (usize, &[f32]),
    (extra, inputs): (usize, &[f32]),
) -> Vec<Output> {
    let (mut rest, mut inputs_left) = (x, inputs);
    let mut outputs = Vec::with_capacity(counts.len());
    for count in counts {
        let (rows, after) = rest.split_at(*count as usize * hidden);
        let (inputs, inputs_after) = inputs_left.split_at(*count as usize * extra);
        (rest, inputs_left) = (after, inputs_after);
        outputs.push(Output::Hidden(match extra {
            0 => rows.to_vec(),
            _ => {
                let both = rows.chunks_exact(hidden).zip(inputs.chunks_exact(extra));
                both.flat_map(|(row, inputs)| [row, inputs].concat()).collect()
            }
        }));
    }
    outputs
}

/// Cuts the rows of a batch into groups of at most [`ROWS_AT_ONCE`], in order.
pub(crate) fn groups(batch: &[BatchPiece<'_>], counts: &[u32]) -> Vec<Vec<Span>> {
    let mut groups: Vec<Vec<Span>> = Vec::new();
    let mut room = 0;
    for (lane, (piece, count)) in batch.iter().zip(counts).enumerate() {
        let session = &*piece.session;
        let (mut first, mut left) = (session.position(), *count as usize);
        while left > 0 {
            if room == 0 {
                groups.push(Vec::new());
                room = ROWS_AT_ONCE;
            }
            let rows = left.min(room);
            let start = ROWS_AT_ONCE - room;
            let span =
                Span { lane, first, window: session.positions_max(), rows: start..start + rows };
            groups.last_mut().expect("one was pushed when there was no room").push(span);
            first += rows as u32;
            left -= rows;
            room -= rows;
        }
    }
    groups
}

/// The first hidden states, and what comes to the layers by token: looked up, or as they came.
fn enter(
    model: &LoadedModel,
    cpu: &Cpu,
    batch: &[BatchPiece<'_>],
    (x, inputs): (&mut [f32], &mut [f32]),
    buffers: &mut Buffers,
) -> Result<(), StepError> {
    let row = model.file().shape().row as usize;
    let width = model.file().description().width();
    let extra = row - width;
    let (mut rest, mut inputs_left) = (x, inputs);
    for piece in batch {
        let count = match piece.input {
            Input::Hidden(values) => values.len() / row,
            Input::Tokens(ids) => ids.len(),
        };
        let (rows, after) = rest.split_at_mut(count * width);
        let (inputs, inputs_after) = inputs_left.split_at_mut(count * extra);
        (rest, inputs_left) = (after, inputs_after);
        match piece.input {
            Input::Hidden(values) if extra == 0 => rows.copy_from_slice(values),
            Input::Hidden(values) => {
                let to = rows.chunks_exact_mut(width).zip(inputs.chunks_exact_mut(extra));
                for ((row_out, inputs), values) in to.zip(values.chunks_exact(row)) {
                    row_out.copy_from_slice(&values[..width]);
                    inputs.copy_from_slice(&values[width..]);
                }
            }
            Input::Tokens(ids) => match cpu.inventory.spread() {
                None => look_up(model, cpu, ids, (rows, inputs), buffers)?,
                Some(spread) => {
                    let mut embedded = vec![0.0; ids.len() * model.file().shape().hidden as usize];
                    look_up(model, cpu, ids, (&mut embedded, inputs), buffers)?;
                    spread.spread(model.compute(), &mut buffers.scratch, &embedded, rows)?;
                }
            },
        }
    }
    Ok(())
}

/// The embeddings of `ids`, and what comes to the layers with them.
fn look_up(
    model: &LoadedModel,
    cpu: &Cpu,
    ids: &[u32],
    (rows, inputs): (&mut [f32], &mut [f32]),
    buffers: &mut Buffers,
) -> Result<(), StepError> {
    let hidden = model.file().shape().hidden as usize;
    let scale = model.file().description().embedding_scale;
    let missing = || StepError::NotHeld { what: "the embedding".to_owned() };
    let embedding = cpu.inventory.embedding().ok_or_else(missing)?;
    for (id, row) in ids.iter().zip(rows.chunks_exact_mut(hidden)) {
        let decoded = embedding.decode(*id as usize, row);
        decoded.map_err(|e| StepError::Compute { reason: e.to_string() })?;
    }
    if scale != 1.0 {
        vector::scale(model.compute(), rows, scale);
    }
    if let Some(layer_inputs) = cpu.inventory.layer_inputs() {
        layer_inputs.forward(model.compute(), &mut buffers.scratch, ids, rows, inputs)?;
    }
    Ok(())
}

/// Norm and output matrix, for the wanted rows only.
fn logits(
    model: &LoadedModel,
    cpu: &Cpu,
    batch: &[BatchPiece<'_>],
    counts: &[u32],
    workspace: &mut Workspace,
) -> Result<Vec<Output>, StepError> {
    let shape = model.file().shape();
    let (hidden, vocabulary) = (shape.hidden as usize, shape.vocabulary as usize);
    let width = model.file().description().width();
    let Workspace { x, wanted, merged, normed, blocks, .. } = workspace;
    wanted.clear();
    let mut outputs = Vec::with_capacity(batch.len());
    let mut from = 0;
    for (piece, count) in batch.iter().zip(counts) {
        let count = *count as usize;
        let rows = match piece.rows {
            LogitRows::None => 0,
            LogitRows::Last => 1,
            LogitRows::All => count,
        };
        from += count;
        wanted.extend_from_slice(&x[(from - rows) * width..from * width]);
        outputs.push(Output::Logits { rows: rows as u32, values: vec![0.0; rows * vocabulary] });
    }
    let missing = || StepError::NotHeld { what: "the head".to_owned() };
    let head = cpu.inventory.head().ok_or_else(missing)?;
    let spec = &model.file().description().head;
    let wanted = match &head.merge {
        None => &wanted[..],
        Some(merge) => {
            let merged = sized(merged, wanted.len() / width * hidden);
            merge.merge(model.compute(), &mut blocks.parts.scratch, wanted, merged)?;
            merged
        }
    };
    let normed = sized(normed, wanted.len());
    head.norm.forward(model.compute(), wanted, normed);
    // All rows of the batch at once: the output matrix is the largest of all.
    let mut all = match &mut outputs[..] {
        [Output::Logits { values, .. }] => std::mem::take(values),
        _ => vec![0.0; wanted.len() / hidden * vocabulary],
    };
    if !all.is_empty() {
        let mut products = [Product { matrix: &head.output, out: &mut all }];
        multiply(model.compute(), &mut blocks.parts.scratch, normed, &mut products)
            .map_err(|error| StepError::Compute { reason: error.to_string() })?;
        if spec.scale != 1.0 {
            vector::scale(model.compute(), &mut all, spec.scale);
        }
        if let Some(cap) = spec.soft_cap {
            vector::soft_cap(model.compute(), &mut all, cap);
        }
    }
    if let [Output::Logits { values, .. }] = &mut outputs[..] {
        *values = all;
        return Ok(outputs);
    }
    let mut rest = &all[..];
    for output in &mut outputs {
        if let Output::Logits { values, .. } = output {
            let (own, after) = rest.split_at(values.len());
            values.copy_from_slice(own);
            rest = after;
        }
    }
    Ok(outputs)
}
