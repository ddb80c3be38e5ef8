//! One call of the worker: one conversation over one part of the model, from OPEN to CLOSE.
//!
//! `opening` reads the first message; then each step is collected, handed to the compute thread
//! with the session, and answered. Whatever is not as the protocol says ends the call with a code;
//! the slot and the cache are given back by `Drop`. A requester that closes without a code, between
//! two steps, may go on later: its conversation is kept (`retained`).

use bytes::Bytes;
use nook_base::{Activation, ErrorCode, Sensitive};
use nook_model::{LogitRows, Output};
use nook_mux::{Call, CallError};
use nook_wire::{LocalMessage, Message, PrefixHash, ResultHead, StepHead, WorkerMessage};

use crate::account::Caller;
use crate::caches;
use crate::failure::Failure;
use crate::line::StepInput;
use crate::opening::{Conversation, open};
use crate::over::{Over, out_of_turn};
use crate::worker_state::WorkerState;

/// A step as it came in.
struct Step {
    step: u64,
    position: u32,
    count: u32,
    input: StepInput,
    rows: LogitRows,
    before: PrefixHash,
    after: PrefixHash,
    bulk: bool,
}

/// Serves `call` to its end.
pub(crate) async fn serve(worker: WorkerState, mut call: Call<WorkerMessage>) {
    let mut caller = Caller::Owner;
    let over = match run(&worker, &mut call, &mut caller).await {
        Ok(never) => match never {},
        Err(over) => over,
    };
    if let Over::Failed(failure) = over {
        tracing::debug!(call = ?call.id(), code = %failure.code, "call refused or failed");
        let lost = (failure.code == ErrorCode::GpuLost).then(|| failure.sentence.clone());
        let failure = match caller {
            Caller::Owner => failure,
            Caller::Guest(_) => failure.for_guest(),
        };
        // The other side may have left already; then there is nobody to tell.
        let _ = call.send(Message::Error(failure.into()).into()).await;
        if let Some(sentence) = lost {
            tracing::error!("{sentence}");
            worker.gpu_lost.cancel();
        }
    }
}

async fn run(
    worker: &WorkerState,
    call: &mut Call<WorkerMessage>,
    caller: &mut Caller,
) -> Result<std::convert::Infallible, Over> {
    let mut conversation = open(worker, call, caller).await?;
    loop {
        let message = match call.recv().await {
            Ok(message) => message,
            Err(CallError::Closed { code: None }) => {
                conversation.park();
                return Err(Over::Closed);
            }
            Err(error) => return Err(error.into()),
        };
        match message {
            WorkerMessage::Peer(Message::Truncate { position }) => {
                conversation.session.truncate(position).map_err(Failure::from)?;
                conversation.history.truncate(position);
            }
            // Only of calls between two devices: what is computed from token ids stays here.
            WorkerMessage::Peer(Message::RequestKvCache) if !conversation.part.embedding => {
                conversation = caches::give(conversation, call).await?;
            }
            WorkerMessage::Peer(Message::KvCachePiece(head)) => {
                conversation = caches::take(conversation, head, call).await?;
            }
            message => {
                let step = read_step(&conversation, message, call).await?;
                conversation = answer(worker, conversation, step, call).await?;
            }
        }
    }
}

/// Collects a whole step: its head and every chunk of its rows.
async fn read_step(
    conversation: &Conversation,
    message: WorkerMessage,
    call: &mut Call<WorkerMessage>,
) -> Result<Step, Over> {
    let (head, rows) = match message {
        WorkerMessage::Local(LocalMessage::Tokens {
            step,
            position,
            ids,
            history_before: before,
            history_after: after,
            rows,
        }) if conversation.part.embedding => {
            let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            let input = StepInput::Tokens(ids);
            return Ok(Step { step, position, count, input, rows, before, after, bulk: false });
        }
        WorkerMessage::Local(LocalMessage::StepLogits { head, rows }) if conversation.part.head => {
            (head, rows)
        }
        WorkerMessage::Peer(Message::Step(head)) if !conversation.part.head => {
            (head, LogitRows::None)
        }
        _ => return Err(out_of_turn("that message does not fit this conversation").into()),
    };
    if conversation.part.embedding {
        return Err(out_of_turn("this conversation takes token ids").into());
    }
    check_dtype(conversation, &head)?;
    let activation = call.recv_activation(head.count, head.hidden, head.dtype).await?;
    activation.check_finite().map_err(|error| Failure::new(error.code(), error.to_string()))?;
    let StepHead { step, position, count, history_before, history_after, bulk, .. } = head;
    Ok(Step {
        step,
        position,
        count,
        input: StepInput::Hidden(Sensitive(activation.to_f32())),
        rows,
        before: history_before,
        after: history_after,
        bulk,
    })
}

fn check_dtype(conversation: &Conversation, head: &StepHead) -> Result<(), Failure> {
    if head.dtype == conversation.dtype {
        return Ok(());
    }
    let sentence = format!("opened for {}, the step came as {}", conversation.dtype, head.dtype);
    Err(Failure::new(ErrorCode::BadRequest, sentence))
}

/// Computes a step and sends its result.
async fn answer(
    worker: &WorkerState,
    conversation: Conversation,
    step: Step,
    call: &mut Call<WorkerMessage>,
) -> Result<Conversation, Over> {
    check_history(&conversation, &step)?;
    let Step { step, position, count, input, rows, before, after, bulk } = step;
    let Conversation { who, caller, model, part, dtype, session, mut history, slot } = conversation;
    let work = worker.compute.step(who, session, input, rows);
    // Whoever leaves while the step runs is noticed at once, and the computation ends at the next
    // layer.
    let done = tokio::select! {
        done = work => done?,
        gone = call.ended() => return Err(gone.into()),
    };
    let (compute_us, queue_us) = (micros(done.compute), micros(done.queued));
    let output = done.result?;
    // Rows of twice the model's width would be twice as many positions. Whoever brings them need
    // not be the requester, so what it says of their number is compared with what was computed.
    if done.session.position() != position.saturating_add(count) {
        return Err(out_of_turn("the rows are not as many as the step says").into());
    }
    match output {
        Output::Hidden(rows) => {
            let hidden = u32::try_from(rows.len()).unwrap_or(u32::MAX) / count.max(1);
            let activation = Activation::from_f32(&rows, hidden, dtype)
                .map_err(|error| Failure::new(error.code(), error.to_string()))?;
            let head =
                ResultHead { step, position, count, hidden, dtype, compute_us, queue_us, bulk };
            call.send_tensor(Message::Result(head).into(), activation.bytes().clone()).await?;
        }
        Output::Logits { rows: count, values } => {
            let vocabulary = match count {
                0 => 0,
                _ => u32::try_from(values.len()).unwrap_or(u32::MAX) / count,
            };
            let head =
                LocalMessage::Logits { step, position, count, vocabulary, compute_us, queue_us };
            call.send_tensor(head.into(), bytes_of(&values)).await?;
        }
    }
    history.note(position, before);
    history.note(position.saturating_add(count), after);
    let session = done.session;
    Ok(Conversation { who, caller, model, part, dtype, session, history, slot })
}

/// Refuses a step that does not continue exactly what is remembered here.
fn check_history(conversation: &Conversation, step: &Step) -> Result<(), Failure> {
    let here = conversation.session.position();
    if step.position != here {
        let sentence =
            format!("the step begins at {}, this device remembers {here}", step.position);
        return Err(Failure::new(ErrorCode::HistoryMismatch, sentence));
    }
    // After a cut to where no step ended, the requester says which history it means.
    if conversation.history.at(here).is_some_and(|mark| mark != step.before) {
        return Err(ErrorCode::HistoryMismatch.into());
    }
    Ok(())
}

fn bytes_of(values: &[f32]) -> Bytes {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn micros(duration: std::time::Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}
