//! Decode steps over one call, timed from the requester's side.
//!
//! The same for a call over a link and for one to a worker: a head, one row of hidden state, and
//! the same back. What the host reports as computing and waiting is kept apart from the round trip.

use std::time::Duration;

use anyhow::{Context as _, bail};
use nook_base::{Activation, ActivationDtype, LayerRange, ModelDigest, clock};
use nook_mux::Call;
use nook_wire::{Message, Open, PrefixHash, StepHead, WireMessage};

use crate::figures::Spread;

/// Longest wait for the answer to one message; beyond it the bench is given up.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// What is asked for, step by step.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    /// The model.
    pub model: ModelDigest,
    /// The layers that are computed.
    pub layers: LayerRange,
    /// Numbers in a row.
    pub hidden: u32,
    /// How they are written.
    pub dtype: ActivationDtype,
    /// Steps that are not counted.
    pub warm_up: u32,
    /// Steps that are.
    pub counted: u32,
}

/// One step, in microseconds.
#[derive(Debug, Clone, Copy)]
struct Sample {
    round_trip: f64,
    /// As the host says.
    compute: f64,
    /// As the host says. With nobody else in line it is the time until its thread woke up.
    queue: f64,
}

/// What steps took, in microseconds.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Taken {
    /// Round trip less computing and waiting for the computing thread.
    pub overhead_us: Spread,
    /// Round trip less computing alone.
    pub overhead_and_queue_us: Spread,
    /// As the host says.
    pub compute_us: Spread,
}

/// Opens a conversation on `call` and walks the course.
pub async fn walk<M>(mut call: Call<M>, course: Course) -> anyhow::Result<Taken>
where
    M: WireMessage + Sync,
{
    let open = Open {
        session: 1,
        model: course.model,
        layers: course.layers,
        dtype: course.dtype,
        positions_max: course.warm_up + course.counted,
        resume: None,
    };
    call.send(M::from_peer(Message::Open(open))).await?;
    match answer(&mut call).await? {
        Message::Opened { position: 0 } => {}
        other => bail!("OPEN was answered by {other:?}"),
    }
    let row: Vec<f32> = (0..course.hidden).map(|index| (index as f32 * 0.37).sin()).collect();
    let row = Activation::from_f32(&row, course.hidden, course.dtype)?;
    let mut samples = Vec::new();
    for position in 0..course.warm_up + course.counted {
        let sample = step(&mut call, course, position, &row).await?;
        if position >= course.warm_up {
            samples.push(sample);
        }
    }
    call.close(None);
    let spread = |of: fn(&Sample) -> f64| Spread::of(samples.iter().map(of));
    Ok(Taken {
        overhead_us: spread(|sample| sample.round_trip - sample.compute - sample.queue),
        overhead_and_queue_us: spread(|sample| sample.round_trip - sample.compute),
        compute_us: spread(|sample| sample.compute),
    })
}

async fn step<M>(
    call: &mut Call<M>,
    course: Course,
    position: u32,
    row: &Activation,
) -> anyhow::Result<Sample>
where
    M: WireMessage + Sync,
{
    let Course { hidden, dtype, .. } = course;
    let head = StepHead {
        step: u64::from(position),
        position,
        count: 1,
        hidden,
        dtype,
        history_before: mark(position),
        history_after: mark(position + 1),
        bulk: false,
    };
    let started = clock::now();
    call.send_tensor(M::from_peer(Message::Step(head)), row.bytes().clone()).await?;
    let result = match answer(call).await? {
        Message::Result(result) => result,
        other => bail!("step {position} was answered by {other:?}"),
    };
    let rows = call
        .recv_activation(result.count, result.hidden, result.dtype)
        .await
        .map_err(|error| anyhow::anyhow!("the result of step {position}: {error}"))?;
    let took = clock::now().duration_since(started);
    anyhow::ensure!(
        (result.position, rows.tokens(), rows.hidden()) == (position, 1, hidden),
        "step {position} had the result of another"
    );
    let round_trip = took.as_secs_f64() * 1e6;
    Ok(Sample { round_trip, compute: result.compute_us.into(), queue: result.queue_us.into() })
}

async fn answer<M: WireMessage>(call: &mut Call<M>) -> anyhow::Result<Message> {
    let message = tokio::time::timeout(ANSWER_LIMIT, call.recv()).await.context("no answer")??;
    match message.into_peer() {
        Ok(message) => Ok(message),
        Err(other) => bail!("an answer that only a node's own worker gives: {:?}", other.kind()),
    }
}

/// A mark of its own for each position; the host only compares.
fn mark(position: u32) -> PrefixHash {
    PrefixHash(u128::from(position).to_le_bytes())
}
