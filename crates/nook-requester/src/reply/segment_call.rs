//! One attempt at one segment: the task that holds its call.
//!
//! Orders come from the generation, what the other side says goes back as events. Sending and
//! receiving run side by side, so that neither waits for the other: a host may send a long result
//! while the next chunk of prefill is still on its way to it. How a call ended is what was received
//! says: a host that refuses says why and closes, and whatever is sent to it then fails.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use nook_base::{Activation, ErrorCode};
use nook_mux::{Call, CallError, CallReceiver, CallSender, TensorRecvError};
use nook_pipeline::{AttemptId, Event};
use nook_wire::{
    KvPieceHead, LocalMessage, Message, Passed, ResultHead, TensorAssembly, WireMessage,
    WorkerMessage, chunks_of,
};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::reply::handover::{Incoming, Piece};

/// Orders that may wait for a call: the pipeline's window of steps, and the close.
const ORDERS_MAX: usize = 8;

/// What the generation hears from its calls.
#[derive(Debug)]
pub(crate) enum CallEvent {
    /// Something for the pipeline.
    Pipeline(Event),
    /// Logits for the sampler, with their event for the pipeline.
    Logits { event: Event, values: Vec<f32> },
    /// All that a host remembers, which it was asked for.
    Caches { attempt: AttemptId, pieces: Vec<Piece> },
}

/// Something for the other side of a call.
#[derive(Debug)]
pub(crate) enum Order<M> {
    /// A head, with the tensor that follows it.
    Send { head: M, tensor: Option<Bytes> },
    /// Ask for what is remembered.
    RequestKvCache,
    /// What another host remembered, piece by piece.
    Give(Vec<Piece>),
    /// The end.
    Close(Option<ErrorCode>),
}

/// The orders of one attempt. What a peer can be sent cannot hold token ids: that is its type.
#[derive(Debug)]
pub(crate) enum SegmentCall {
    /// Our own worker; `head` says whether its steps end in logits.
    Local {
        orders: mpsc::Sender<Order<WorkerMessage>>,
        head: bool,
    },
    Peer(mpsc::Sender<Order<Message>>),
}

/// Makes the two ends of a call's orders.
pub(crate) fn orders<M>() -> (mpsc::Sender<Order<M>>, mpsc::Receiver<Order<M>>) {
    mpsc::channel(ORDERS_MAX)
}

/// Puts an order into the queue of a call; whether there was room. The task of a call that has
/// ended takes none, and its own event follows: it says how the call ended, which nobody else
/// knows.
pub(crate) fn put<M>(orders: &mpsc::Sender<Order<M>>, order: Order<M>) -> bool {
    !matches!(orders.try_send(order), Err(TrySendError::Full(_)))
}

/// How a call ended without having failed.
enum Ended {
    /// The generation closed it.
    ByUs,
    /// Nobody listens to its events any more.
    Unheard,
}

/// Holds `call` from its opening message to its end.
pub(crate) async fn hold<M: CallMessage>(
    attempt: AttemptId,
    call: Call<M>,
    opening: M,
    orders: mpsc::Receiver<Order<M>>,
    events: mpsc::Sender<CallEvent>,
) {
    let (sender, mut receiver) = call.split();
    // Set once the other side may give what it remembers; nobody sends that unasked.
    let asked = AtomicBool::new(false);
    let sending = async {
        match send(attempt, sender, opening, orders, &events, &asked).await {
            Ok(ended) => Ok(ended),
            // A mistake here, after which the call may live on.
            Err(CallError::NotForCalls { .. }) => Err(Failure::Lost),
            // What was received tells why, once all that came before the end is taken.
            Err(CallError::Closed { .. } | CallError::ConnectionLost { .. }) => {
                std::future::pending().await
            }
        }
    };
    let outcome = tokio::select! {
        biased;
        outcome = receive(attempt, &mut receiver, &events, &asked) => outcome,
        outcome = sending => outcome,
    };
    if let Err(event) = outcome {
        let _ = events.send(CallEvent::Pipeline(event.named(attempt))).await;
    }
}

/// What ends a call early, before it knows its own name.
enum Failure {
    Lost,
    Corrupt { sentence: String },
    Refused { code: ErrorCode, sentence: String },
}

impl Failure {
    fn named(self, attempt: AttemptId) -> Event {
        match self {
            Self::Lost => Event::Lost { attempt },
            Self::Corrupt { sentence } => Event::Corrupt { attempt, sentence },
            Self::Refused { code, sentence } => Event::Failed { attempt, code, sentence },
        }
    }

    fn corrupt(sentence: impl ToString) -> Self {
        Self::Corrupt { sentence: sentence.to_string() }
    }

    /// A call that ended in the middle of a tensor was lost; only a whole one can be wrong.
    fn of_tensor<M: CallMessage>(error: TensorRecvError<M>) -> Self {
        match error {
            TensorRecvError::Call(error) => error.into(),
            wrong => Self::corrupt(wrong),
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Closed { code: Some(code) } => {
                Self::Refused { code, sentence: code.sentence().to_owned() }
            }
            _ => Self::Lost,
        }
    }
}

async fn send<M: CallMessage>(
    attempt: AttemptId,
    mut sender: CallSender<M>,
    opening: M,
    mut orders: mpsc::Receiver<Order<M>>,
    events: &mpsc::Sender<CallEvent>,
    asked: &AtomicBool,
) -> Result<Ended, CallError> {
    sender.send(opening).await?;
    loop {
        match orders.recv().await {
            Some(Order::Send { head, tensor: Some(bytes) }) => {
                sender.send(head).await?;
                for chunk in chunks_of(bytes) {
                    let is_last = chunk.last;
                    let chunk = M::from_peer(Message::Chunk(chunk));
                    sender.send(chunk).await?;
                    progress(attempt, is_last, events);
                }
            }
            Some(Order::Send { head, tensor: None }) => {
                sender.send(head).await?;
            }
            Some(Order::RequestKvCache) => {
                asked.store(true, Ordering::Relaxed);
                let head = M::from_peer(Message::RequestKvCache);
                sender.send(head).await?;
            }
            Some(Order::Give(pieces)) => {
                for (head, bytes) in pieces {
                    let head = M::from_peer(Message::KvCachePiece(head));
                    sender.send_tensor(head, bytes.0).await?;
                }
            }
            Some(Order::Close(code)) => {
                sender.close(code);
                return Ok(Ended::ByUs);
            }
            None => return Ok(Ended::ByUs),
        }
    }
}

async fn receive<M: CallMessage>(
    attempt: AttemptId,
    receiver: &mut CallReceiver<M>,
    events: &mpsc::Sender<CallEvent>,
    asked: &AtomicBool,
) -> Result<Ended, Failure> {
    let mut incoming = Incoming::default();
    loop {
        let message = receiver.recv().await.map_err(Failure::from)?;
        let event = match message.heard() {
            Heard::Opened { position } => CallEvent::Pipeline(Event::Opened { attempt, position }),
            Heard::Result(head) => {
                let activation = activation(attempt, &head, receiver, events).await?;
                CallEvent::Pipeline(output(attempt, &head, activation))
            }
            Heard::Logits { step, position, count, vocabulary, compute_us, queue_us } => {
                let values = match count {
                    0 => Vec::new(),
                    _ => {
                        receiver.recv_logits(count, vocabulary).await.map_err(Failure::of_tensor)?
                    }
                };
                let event = Event::Logits { attempt, step, position, compute_us, queue_us };
                CallEvent::Logits { event, values }
            }
            Heard::Caches(head) if asked.load(Ordering::Relaxed) => {
                incoming.expects(&head).map_err(|sentence| Failure::Refused {
                    code: ErrorCode::BadRequest,
                    sentence: sentence.to_owned(),
                })?;
                let bytes = receiver.recv_kv_piece(&head).await.map_err(Failure::of_tensor)?;
                match incoming.take(head, bytes) {
                    Some(pieces) => CallEvent::Caches { attempt, pieces },
                    None => continue,
                }
            }
            Heard::KvCacheTaken { position } => {
                CallEvent::Pipeline(Event::KvCacheImported { attempt, position })
            }
            Heard::Refused { code, sentence } => return Err(Failure::Refused { code, sentence }),
            Heard::Draining => CallEvent::Pipeline(Event::Draining { attempt }),
            Heard::Onward { code } => {
                CallEvent::Pipeline(Event::Forwarding { attempt, refused: code })
            }
            Heard::Passed(Passed { step, compute_us, queue_us }) => {
                CallEvent::Pipeline(Event::Passed { attempt, step, compute_us, queue_us })
            }
            Heard::OutOfTurn | Heard::Caches(_) => {
                return Err(Failure::Refused {
                    code: ErrorCode::BadRequest,
                    sentence: "it answered out of turn".to_owned(),
                });
            }
        };
        if events.send(event).await.is_err() {
            return Ok(Ended::Unheard);
        }
    }
}

/// The rows behind the head of a result.
async fn activation<M: CallMessage>(
    attempt: AttemptId,
    head: &ResultHead,
    receiver: &mut CallReceiver<M>,
    events: &mpsc::Sender<CallEvent>,
) -> Result<Activation, Failure> {
    let mut assembly =
        TensorAssembly::new(head.count, head.hidden, head.dtype).map_err(Failure::corrupt)?;
    loop {
        let Ok(Message::Chunk(chunk)) = receiver.recv().await?.into_peer() else {
            return Err(Failure::corrupt("something else came between the rows of the result"));
        };
        let is_last = chunk.last;
        if let Some(activation) = assembly.take(chunk).map_err(Failure::corrupt)? {
            return Ok(activation);
        }
        progress(attempt, is_last, events);
    }
}

/// A piece of a step has moved: over a slow link a step takes longer than its computing, and who is
/// heard from is not late. The number of pieces bounds how often.
fn progress(attempt: AttemptId, is_last: bool, events: &mpsc::Sender<CallEvent>) {
    if !is_last {
        // A generation that is behind with its events hears of the next piece.
        let _ = events.try_send(CallEvent::Pipeline(Event::Progress { attempt }));
    }
}

fn output(attempt: AttemptId, head: &ResultHead, activation: Activation) -> Event {
    Event::Output {
        attempt,
        step: head.step,
        position: head.position,
        count: head.count,
        activation,
        compute_us: head.compute_us,
        queue_us: head.queue_us,
    }
}

/// A message as a call understands it.
pub(crate) enum Heard {
    Opened { position: u32 },
    Result(ResultHead),
    Logits { step: u64, position: u32, count: u32, vocabulary: u32, compute_us: u32, queue_us: u32 },
    Refused { code: ErrorCode, sentence: String },
    Draining,
    Caches(KvPieceHead),
    KvCacheTaken { position: u32 },
    Onward { code: Option<ErrorCode> },
    Passed(Passed),
    OutOfTurn,
}

/// What both kinds of call have in common.
pub(crate) trait CallMessage: WireMessage {
    fn heard(self) -> Heard;
}

impl CallMessage for Message {
    fn heard(self) -> Heard {
        match self {
            Self::Opened { position } => Heard::Opened { position },
            Self::Result(head) => Heard::Result(head),
            Self::Error(error) => Heard::Refused { code: error.code, sentence: error.sentence },
            Self::Draining { .. } => Heard::Draining,
            Self::KvCachePiece(head) => Heard::Caches(head),
            Self::KvCacheTaken { position } => Heard::KvCacheTaken { position },
            Self::Onward { code } => Heard::Onward { code },
            Self::Passed(passed) => Heard::Passed(passed),
            _ => Heard::OutOfTurn,
        }
    }
}

impl CallMessage for WorkerMessage {
    fn heard(self) -> Heard {
        match self {
            Self::Peer(message) => message.heard(),
            Self::Local(LocalMessage::Logits {
                step,
                position,
                count,
                vocabulary,
                compute_us,
                queue_us,
            }) => Heard::Logits { step, position, count, vocabulary, compute_us, queue_us },
            Self::Local(_) => Heard::OutOfTurn,
        }
    }
}

#[cfg(test)]
mod tests;
