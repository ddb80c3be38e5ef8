//! Vectors for texts, from the hidden states of a language model.
//!
//! A text goes through all layers of this device's own worker, without the head. Each position's
//! hidden state is brought to length 1, so that the few positions with massive activations do not
//! decide alone; their mean is brought to length 1 again. Mean pooling over a model that was
//! trained to continue text is no match for one that was trained to compare texts, but it needs no
//! second model. Always on this device: activations of every position would go to another one
//! otherwise.

use std::time::Duration;

use nook_base::limits::PREFILL_CHUNK_TOKENS;
use nook_base::{
    Activation, ActivationDtype, ErrorCode, LayerRange, ModelDigest, ModelPart, Sensitive,
};
use nook_mux::Call;
use nook_wire::{
    LocalMessage, LogitRows, Message, PrefixHash, ResultHead, TensorAssembly, WireMessage as _,
    WorkerMessage,
};

use crate::machine::{Effect, Requester, Surroundings, Task, Work};
use crate::prompt::{self, Tokens};
use crate::reply::local_call;
use crate::reply::segment_call::{CallMessage as _, Heard};
use nook_api::{Answer, EmbedInput, EmbedRequest, Embedded, NodeError};
use nook_resources::open_models::{Listed, OpenModel, OpenModelCache};
use nook_resources::workers::Workers;

/// Texts of one request; more are refused. OpenAI allows as many.
pub(crate) const EMBED_INPUTS_MAX: usize = 2048;

/// Longest wait for the next word of our own worker: a chunk of a large model on a slow machine
/// takes tens of seconds. Then it counts as lost, and the request ends with that.
const WORKER_LIMIT: Duration = Duration::from_secs(300);

impl Requester {
    /// Vectors are worked out in a task of their own.
    pub(super) fn embed(
        &mut self,
        model: ModelDigest,
        request: EmbedRequest,
        answer: Answer<Embedded>,
        around: &Surroundings<'_>,
    ) -> Vec<Effect> {
        let Some(entry) = around.entry(model) else {
            let _ = answer.send(Err(ErrorCode::NotFound.into()));
            return Vec::new();
        };
        let listed = entry.listed.clone();
        if entry.ends_only {
            let words = format!(
                "Only the ends of {name} are on this computer, and vectors are made here alone. Get \
                 the rest with nook models copy {name}, or choose another model.",
                name = listed.name
            );
            let _ = answer.send(Err(NodeError::new(ErrorCode::BadModel, words)));
            return Vec::new();
        }
        self.probing.stop();
        let mark = self.queue.embed();
        vec![Effect::Start(Task(Work::Embed { listed, request, answer, mark }))]
    }
}

/// Works out vectors for texts with this device's own worker.
pub(crate) async fn embed(
    open_models: &OpenModelCache,
    workers: &Workers,
    listed: Listed,
    inputs: Vec<EmbedInput>,
) -> Result<Embedded, NodeError> {
    let model = open_models.open(listed).await?;
    let texts = {
        let model = model.clone();
        // Encoding long texts takes milliseconds: not on the runtime.
        tokio::task::spawn_blocking(move || encode(&model, inputs))
            .await
            .map_err(|_| NodeError::from(ErrorCode::BadRequest))??
    };
    let mut vectors = Vec::with_capacity(texts.len());
    let mut tokens = 0_u32;
    for ids in texts {
        tokens = tokens.saturating_add(u32::try_from(ids.len()).unwrap_or(u32::MAX));
        vectors.push(vector(workers, &model, ids).await?);
    }
    Ok(Embedded { model: model.listed.name.clone(), vectors: Sensitive(vectors), tokens })
}

fn encode(model: &OpenModel, inputs: Vec<EmbedInput>) -> Result<Vec<Vec<u32>>, NodeError> {
    let bad = |sentence: &str| NodeError::new(ErrorCode::BadRequest, sentence);
    if inputs.is_empty() || inputs.len() > EMBED_INPUTS_MAX {
        return Err(bad(&format!("There must be 1 to {EMBED_INPUTS_MAX} inputs.")));
    }
    let window = model.shape.context_length as usize;
    let one = |input| {
        let ids = match input {
            EmbedInput::Text(text) => prompt::text_ids(model, &text, window)?,
            EmbedInput::Tokens(ids) => {
                prompt::check_ids(model, &ids)?;
                ids.0
            }
        };
        match ids.len() {
            0 => Err(bad("An input is empty.")),
            count if count > window => Err(prompt::too_long(model, Tokens::Exactly(count))),
            _ => Ok(ids),
        }
    };
    inputs.into_iter().map(one).collect()
}

/// One text through the worker.
async fn vector(
    workers: &Workers,
    model: &OpenModel,
    ids: Vec<u32>,
) -> Result<Vec<f32>, NodeError> {
    let layers = LayerRange::with_len(0, model.shape.layers);
    let part = ModelPart { layers, embedding: true, head: false };
    let mut call = local_call(workers, model, part)
        .await
        .map_err(|(code, sentence)| NodeError::new(code, sentence))?;
    let positions_max = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    let opening = LocalMessage::OpenLocal {
        session: rand::random(),
        part,
        dtype: ActivationDtype::F32,
        positions_max,
        resume: None,
    };
    send(&mut call, opening).await?;
    let Heard::Opened { position: 0 } = hear(&mut call).await? else { return Err(lost()) };
    let mut mean = Mean::new(model.shape.hidden as usize, model.shape.row as usize);
    let (mut position, mut mark) = (0_u32, PrefixHash(rand::random()));
    for (step, chunk) in (0..).zip(ids.chunks(PREFILL_CHUNK_TOKENS as usize)) {
        let next = PrefixHash(rand::random());
        let tokens = LocalMessage::Tokens {
            step,
            position,
            ids: Sensitive(chunk.to_vec()),
            history_before: mark,
            history_after: next,
            rows: LogitRows::None,
        };
        send(&mut call, tokens).await?;
        let Heard::Result(head) = hear(&mut call).await? else { return Err(lost()) };
        mean.add(&rows(&mut call, &head).await?);
        position = position.saturating_add(u32::try_from(chunk.len()).unwrap_or(u32::MAX));
        mark = next;
    }
    // With a code, so that nothing of it is kept for a second turn.
    call.close(Some(ErrorCode::Cancelled));
    mean.vector().ok_or_else(|| NodeError::from(ErrorCode::CorruptActivation))
}

async fn send(call: &mut Call<WorkerMessage>, message: LocalMessage) -> Result<(), NodeError> {
    call.send(message.into()).await.map_err(|_| lost())
}

async fn next(call: &mut Call<WorkerMessage>) -> Result<WorkerMessage, NodeError> {
    let heard = tokio::time::timeout(WORKER_LIMIT, call.recv()).await;
    heard.map_err(|_| lost())?.map_err(|_| lost())
}

async fn hear(call: &mut Call<WorkerMessage>) -> Result<Heard, NodeError> {
    match next(call).await?.heard() {
        Heard::Refused { code, sentence } => Err(NodeError::new(code, sentence)),
        Heard::Draining => Err(ErrorCode::Draining.into()),
        heard => Ok(heard),
    }
}

async fn rows(call: &mut Call<WorkerMessage>, head: &ResultHead) -> Result<Activation, NodeError> {
    let mut assembly =
        TensorAssembly::new(head.count, head.hidden, head.dtype).map_err(|_| lost())?;
    loop {
        let message = next(call).await?;
        let Ok(Message::Chunk(chunk)) = message.into_peer() else { return Err(lost()) };
        if let Some(activation) = assembly.take(chunk).map_err(|_| lost())? {
            return Ok(activation);
        }
    }
}

fn lost() -> NodeError {
    ErrorCode::WorkerCrashed.into()
}

/// The mean direction of hidden states.
#[derive(Debug)]
struct Mean {
    sum: Sensitive<Vec<f64>>,
    /// Numbers of a row, of which the first are the hidden state.
    row: usize,
}

impl Mean {
    fn new(hidden: usize, row: usize) -> Self {
        Self { sum: vec![0.0; hidden].into(), row }
    }

    fn add(&mut self, rows: &Activation) {
        self.add_rows(&rows.to_f32());
    }

    fn add_rows(&mut self, numbers: &[f32]) {
        for row in numbers.chunks_exact(self.row.max(1)) {
            let row = row.get(..self.sum.len()).unwrap_or_default();
            let length = length(row.iter().map(|&number| f64::from(number)));
            if length > 0.0 && length.is_finite() {
                for (sum, &number) in self.sum.0.iter_mut().zip(row) {
                    *sum += f64::from(number) / length;
                }
            }
        }
    }

    /// The direction, at length 1; `None` when there is none.
    fn vector(&self) -> Option<Vec<f32>> {
        let length = length(self.sum.iter().copied());
        #[expect(clippy::cast_possible_truncation, reason = "a vector is handed out in 32 bits")]
        let vector = || self.sum.iter().map(|sum| (sum / length) as f32).collect();
        (length > 0.0 && length.is_finite()).then(vector)
    }
}

fn length(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.map(|number| number * number).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_position_counts_the_same_however_large_its_numbers_are() {
        for (row, numbers) in
            [(2, &[3000.0, 0.0, 0.0, 0.5][..]), (3, &[3000.0, 0.0, 7.0, 0.0, 0.5, -9.0])]
        {
            let mut mean = Mean::new(2, row);
            mean.add_rows(numbers);
            let vector = mean.vector().unwrap();
            let half = std::f32::consts::FRAC_1_SQRT_2;
            assert!(vector.iter().all(|number| (number - half).abs() < 1e-6), "{vector:?}");
        }
    }

    #[test]
    fn numbers_that_are_none_give_no_vector() {
        let mut mean = Mean::new(2, 2);
        mean.add_rows(&[f32::NAN, 1.0, 0.0, 0.0]);
        assert_eq!(mean.vector(), None);
    }
}
