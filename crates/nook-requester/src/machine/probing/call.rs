//! The steps of one probe over one call, timed.

use std::time::Duration;

use nook_base::{
    Activation, ActivationDtype, ErrorCode, LayerRange, ModelDigest, ModelPart, clock,
};
use nook_mux::Call;
use nook_pipeline::HopVisit;
use nook_plan::Place;
use nook_wire::{
    LocalMessage, LogitRows, Message, Open, PrefixHash, StepHead, TensorAssembly, WorkerMessage,
    chunks_of,
};
use rand::Rng as _;

use crate::reply::segment_call::{CallMessage, Heard};

/// What is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Steps {
    pub(crate) layers: LayerRange,
    pub(crate) hidden: u32,
    pub(crate) dtype: ActivationDtype,
    /// Rows of each step, in order.
    pub(crate) rows: Vec<u32>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    /// From asking for the layers until the call was accepted.
    pub(crate) opened: Duration,
    pub(crate) answered: Vec<Answered>,
}

/// One answered step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answered {
    rows: u32,
    took: Duration,
    compute_us: u32,
    queue_us: u32,
}

/// Why a probe came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failed {
    #[error("it went away")]
    Gone,
    #[error("it refused")]
    Refused,
    #[error("it answered something else than was asked")]
    OutOfTurn,
}

impl Answered {
    /// The host's claim, cut to what really passed.
    fn compute(&self) -> Duration {
        Duration::from_micros(self.compute_us.into()).min(self.took)
    }

    pub(crate) fn visit(&self, place: Place, part: ModelPart) -> HopVisit {
        let compute = self.compute();
        let queue = Duration::from_micros(self.queue_us.into());
        let queue = queue.min(self.took.saturating_sub(compute));
        HopVisit {
            place,
            part,
            rows: self.rows,
            logits: part.head,
            compute,
            queue,
            wire: self.took.saturating_sub(compute).saturating_sub(queue),
            overlapped: false,
            forwarded: false,
        }
    }
}

impl Done {
    /// Rows and computing time of the shortest step of one row, or of at least `rows` where that is
    /// more than one.
    pub(crate) fn least(&self, rows: u32) -> Option<(u32, Duration)> {
        let is_it = |answered: &&Answered| match rows {
            1 => answered.rows == 1,
            rows => answered.rows >= rows,
        };
        let steps = self.answered.iter().filter(is_it);
        let times = steps.map(|step| (step.rows, step.compute()));
        times.min_by_key(|(_, took)| *took)
    }

    /// Steps of so many rows that computed for so many µs.
    #[cfg(test)]
    pub(crate) fn of(times: &[(u32, u32)]) -> Self {
        let answered = times.iter().map(|(rows, compute_us)| Answered {
            rows: *rows,
            took: Duration::from_secs(1),
            compute_us: *compute_us,
            queue_us: 0,
        });
        Self { opened: Duration::ZERO, answered: answered.collect() }
    }
}

impl Steps {
    /// Through a device that offers the layers.
    pub(crate) async fn over_peer(
        self,
        call: Call<Message>,
        model: ModelDigest,
    ) -> Result<Done, Failed> {
        let open = self.opening(model);
        self.over(call, open, Message::Step).await
    }

    /// Through this device's own worker, as a guest's steps go, on a call that was begun for one.
    pub(crate) async fn over_host(
        self,
        call: Call<WorkerMessage>,
        model: ModelDigest,
    ) -> Result<Done, Failed> {
        let open = self.opening(model).into();
        self.over(call, open, |head| Message::Step(head).into()).await
    }

    /// Through this device's own worker, which holds `part`.
    pub(crate) async fn over_worker(
        self,
        call: Call<WorkerMessage>,
        part: ModelPart,
    ) -> Result<Done, Failed> {
        let (dtype, positions_max) = (self.dtype, self.positions());
        let open = LocalMessage::OpenLocal {
            session: rand::random(),
            part,
            dtype,
            positions_max,
            resume: None,
        }
        .into();
        let step = |head| match part.head {
            true => LocalMessage::StepLogits { head, rows: LogitRows::Last }.into(),
            false => Message::Step(head).into(),
        };
        self.over(call, open, step).await
    }

    fn opening(&self, model: ModelDigest) -> Message {
        Message::Open(Open {
            session: rand::random(),
            model,
            layers: self.layers,
            dtype: self.dtype,
            positions_max: self.positions(),
            resume: None,
        })
    }

    fn positions(&self) -> u32 {
        self.rows.iter().fold(0, |sum, rows| sum.saturating_add(*rows))
    }

    async fn over<M: CallMessage>(
        self,
        mut call: Call<M>,
        open: M,
        step: impl Fn(StepHead) -> M,
    ) -> Result<Done, Failed> {
        let began = clock::now();
        call.send(open).await.map_err(|_| Failed::Gone)?;
        let Heard::Opened { position: 0 } = hear(&mut call).await? else {
            return Err(Failed::OutOfTurn);
        };
        let opened = clock::now() - began;
        let mut answered = Vec::new();
        let (mut position, mut mark) = (0, PrefixHash(rand::random()));
        for (number, rows) in (0..).zip(&self.rows) {
            let next = PrefixHash(rand::random());
            let head = StepHead {
                step: number,
                position,
                count: *rows,
                hidden: self.hidden,
                dtype: self.dtype,
                history_before: mark,
                history_after: next,
                bulk: *rows > 1,
            };
            let activation = noise(*rows, self.hidden, self.dtype).ok_or(Failed::OutOfTurn)?;
            let began = clock::now();
            call.send(step(head)).await.map_err(|_| Failed::Gone)?;
            for chunk in chunks_of(activation.bytes().clone()) {
                let chunk = M::from_peer(Message::Chunk(chunk));
                call.send(chunk).await.map_err(|_| Failed::Gone)?;
            }
            let (compute_us, queue_us) = result(&mut call).await?;
            let took = clock::now() - began;
            answered.push(Answered { rows: *rows, took, compute_us, queue_us });
            position += rows;
            mark = next;
        }
        // With a code, so that nothing of it is kept for a second turn.
        call.close(Some(ErrorCode::Cancelled));
        Ok(Done { opened, answered })
    }
}

/// Numbers about as large as hidden states are, and about nothing.
fn noise(rows: u32, hidden: u32, dtype: ActivationDtype) -> Option<Activation> {
    let mut random = rand::rng();
    let count = (rows as usize).checked_mul(hidden as usize)?;
    let numbers: Vec<f32> = (0..count).map(|_| random.random_range(-1.0..1.0)).collect();
    Activation::from_f32(&numbers, hidden, dtype).ok()
}

/// The next message, unless it is a refusal or a goodbye.
pub(crate) async fn hear<M: CallMessage>(call: &mut Call<M>) -> Result<Heard, Failed> {
    match call.recv().await.map_err(|_| Failed::Gone)?.heard() {
        Heard::Refused { .. } | Heard::Draining => Err(Failed::Refused),
        heard => Ok(heard),
    }
}

/// Takes one result with all that follows it; its times of computing and waiting, as the host says.
async fn result<M: CallMessage>(call: &mut Call<M>) -> Result<(u32, u32), Failed> {
    match hear(call).await? {
        Heard::Result(head) => {
            let mut rows = TensorAssembly::new(head.count, head.hidden, head.dtype)
                .map_err(|_| Failed::OutOfTurn)?;
            loop {
                let message = call.recv().await.map_err(|_| Failed::Gone)?;
                let Ok(Message::Chunk(chunk)) = message.into_peer() else {
                    return Err(Failed::OutOfTurn);
                };
                if rows.take(chunk).map_err(|_| Failed::OutOfTurn)?.is_some() {
                    return Ok((head.compute_us, head.queue_us));
                }
            }
        }
        Heard::Logits { count, vocabulary, compute_us, queue_us, .. } => {
            call.recv_logits(count, vocabulary).await.map_err(|_| Failed::OutOfTurn)?;
            Ok((compute_us, queue_us))
        }
        _ => Err(Failed::OutOfTurn),
    }
}
