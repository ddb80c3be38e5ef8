//! Several conversations that decode through one worker process, against one.
//!
//! As the node of a host passes them on: calls of guests over the worker's socket, each a task that
//! sends its next row when it has the result of the last. The layers between a requester's own
//! first and last are computed; the rows are real results' shape with made-up content, which
//! changes no time.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nook_base::tasks::Tasks;
use nook_base::{
    Activation, ActivationDtype, Backend, LayerRange, ModelDigest, ModelPart, PeerId, clock,
};
use nook_model::ModelFile;
use nook_mux::Call;
use nook_shard::{Worker, WorkerCommand, WorkerLimits};
use nook_tests::figures::Spread;
use nook_tests::models::{self, Files};
use nook_tests::program::Effort;
use nook_tests::report;
use nook_wire::{Message, Open, PrefixHash, StepHead, WorkerMessage};
use tokio::sync::mpsc;

use crate::formats::EMBER;
use crate::rows::Row;

/// Streams of the arms, one after the other in each round.
const STREAMS: [u32; 4] = [1, 2, 4, 8];

/// Models of random weights, by name; of a quick run the tiny one stands for the first.
const SHAPES: [&str; 2] = ["llama-1b-q4_k_m", "llama-1b-q8_0"];

/// What four streams should give of one; see the design.
const FOUR_AGAINST_ONE: f64 = 2.5;

/// Longest wait for a result; beyond it the bench is given up.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// The worker takes this process' word for what the file is.
const MODEL: ModelDigest = ModelDigest([7; 32]);

/// What the worker may use; more than any of the models takes.
const LIMITS: WorkerLimits = WorkerLimits {
    streams_max: 8,
    memory_bytes_max: 8 << 30,
    gpu_bytes_max: u64::MAX,
    idle: Duration::from_secs(600),
    backend: Backend::Native,
    falls_back: false,
};

/// How much is computed.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    rounds: usize,
    /// Steps of each stream that count, and before them some that do not.
    steps: u32,
    warm_up: u32,
}

/// Measures every model.
pub(crate) async fn measure(
    effort: Effort,
    folder: &Path,
    tasks: &Tasks,
) -> anyhow::Result<Vec<Row>> {
    let files = Files::in_folder(folder.to_owned());
    // Two sizes of the same shape: the more memory a step reads, the more there is to share.
    let (names, sizes) = match effort {
        Effort::Quick => (&SHAPES[..1], Sizes { rounds: 1, steps: 8, warm_up: 2 }),
        Effort::Full => (&SHAPES[..], Sizes { rounds: 5, steps: 24, warm_up: 4 }),
    };
    let mut rows = Vec::new();
    for name in names {
        let shape = models::one(effort, name)?;
        rows.extend(of_model(shape.title, &files.ensure(shape)?, sizes, true, tasks).await?);
    }
    // A step of Ember takes so little that a round of it may have many more.
    let sizes = Sizes { steps: sizes.steps * 20, ..sizes };
    rows.extend(of_model("Ember", Path::new(EMBER), sizes, false, tasks).await?);
    Ok(rows)
}

/// Tokens a second of each arm, and what several give of one.
async fn of_model(
    title: &str,
    file: &Path,
    sizes: Sizes,
    has_target: bool,
    tasks: &Tasks,
) -> anyhow::Result<Vec<Row>> {
    let shape = ModelFile::open(file)?.shape().clone();
    let layers = LayerRange::with_len(1, shape.layers - 2);
    let folder = tempfile::Builder::new().prefix("nook-bench-").tempdir()?;
    let command = WorkerCommand {
        program: nook_testkit::nook()?.to_owned(),
        arguments: vec!["worker".into()],
    };
    let worker = Worker::start(&command, folder.path(), LIMITS, tasks).await?;
    worker.load(file, MODEL, ModelPart::inner(layers)).await?;
    let mut speeds = STREAMS.map(|_| Vec::new());
    for round in 0..sizes.rounds {
        for (streams, speeds) in STREAMS.into_iter().zip(&mut speeds) {
            let speed = together(&worker, streams, layers, shape.row, sizes, tasks).await?;
            report::loud(&format!("{title}, round {round}, {streams} streams: {speed:.1}/s"));
            speeds.push(speed);
        }
    }
    let passes = worker.status().await?.passes;
    worker.stop().await;
    let mut rows = Vec::new();
    for (streams, arm) in STREAMS.into_iter().zip(&speeds) {
        let name = format!("{title}, {streams} streams through one host, aggregate");
        rows.push(Row::plain(name, Spread::of(arm.iter().copied()).median, "tokens/s"));
    }
    let [one, two, four, eight] = &speeds;
    // Rounds are compared with themselves, so that a machine that slows down does not show.
    let ratio = |arm: &[f64]| Spread::of(arm.iter().zip(one).map(|(arm, one)| arm / one)).median;
    let against = |streams| format!("{title}, {streams} streams against one");
    rows.push(Row::plain(against("two"), ratio(two), "x"));
    rows.push(if has_target {
        let name = "four streams through one host, aggregate against one stream";
        Row::at_least(format!("{name} ({title})"), ratio(four), "x", FOUR_AGAINST_ONE)
    } else {
        Row::plain(against("four"), ratio(four), "x")
    });
    rows.push(Row::plain(against("eight"), ratio(eight), "x"));
    let mean = passes.served as f64 / passes.shared.max(1) as f64;
    rows.push(Row::plain(format!("{title}, mean batch over all arms"), mean, "steps/pass"));
    Ok(rows)
}

/// Tokens a second of `streams` conversations at once.
async fn together(
    worker: &Worker,
    streams: u32,
    layers: LayerRange,
    hidden: u32,
    sizes: Sizes,
    tasks: &Tasks,
) -> anyhow::Result<f64> {
    let mut open = Vec::new();
    for stream in 0..streams {
        open.push(Stream::open(worker, stream, layers, hidden, sizes).await?);
    }
    for stream in &mut open {
        stream.walk(sizes.warm_up).await?;
    }
    let (tell, mut told) = mpsc::channel(STREAMS.len() * 2);
    let started = clock::now();
    for mut stream in open {
        let tell = tell.clone();
        tasks.spawn("stream", async move {
            let outcome = stream.walk(sizes.steps).await;
            // The receiver waits below.
            let _ = tell.send(outcome).await;
        });
    }
    for _ in 0..streams {
        told.recv().await.context("a stream failed")??;
    }
    let took = clock::now().duration_since(started);
    Ok(f64::from(streams * sizes.steps) / took.as_secs_f64())
}

/// One conversation.
struct Stream {
    call: Call<WorkerMessage>,
    row: Activation,
    position: u32,
}

impl Stream {
    async fn open(
        worker: &Worker,
        number: u32,
        layers: LayerRange,
        hidden: u32,
        sizes: Sizes,
    ) -> anyhow::Result<Self> {
        let dtype = ActivationDtype::F16;
        let mut call = worker.open_call_for(PeerId([1; 32])).await?;
        let open = Open {
            session: number.into(),
            model: MODEL,
            layers,
            dtype,
            positions_max: sizes.warm_up + sizes.steps,
            resume: None,
        };
        call.send(Message::Open(open).into()).await?;
        match answer(&mut call).await? {
            Message::Opened { position: 0 } => {}
            other => bail!("OPEN was answered by {other:?}"),
        }
        let number = |index: u32| ((index + number) as f32 * 0.37).sin();
        let row: Vec<f32> = (0..hidden).map(number).collect();
        Ok(Self { call, row: Activation::from_f32(&row, hidden, dtype)?, position: 0 })
    }

    async fn walk(&mut self, steps: u32) -> anyhow::Result<()> {
        for _ in 0..steps {
            let position = self.position;
            let head = StepHead {
                step: position.into(),
                position,
                count: 1,
                hidden: self.row.hidden(),
                dtype: self.row.dtype(),
                history_before: mark(position),
                history_after: mark(position + 1),
                bulk: false,
            };
            self.call.send_tensor(Message::Step(head).into(), self.row.bytes().clone()).await?;
            let result = match answer(&mut self.call).await? {
                Message::Result(result) if result.position == position => result,
                other => bail!("step {position} was answered by {other:?}"),
            };
            let rows = self.call.recv_activation(result.count, result.hidden, result.dtype).await;
            rows.map_err(|error| anyhow::anyhow!("the result of step {position}: {error}"))?;
            self.position += 1;
        }
        Ok(())
    }
}

async fn answer(call: &mut Call<WorkerMessage>) -> anyhow::Result<Message> {
    let message = tokio::time::timeout(ANSWER_LIMIT, call.recv()).await.context("no answer")??;
    match message {
        WorkerMessage::Peer(message) => Ok(message),
        WorkerMessage::Local(_) => bail!("an answer that only the owner's calls get"),
    }
}

/// A mark of its own for each position; the host only compares.
fn mark(position: u32) -> PrefixHash {
    PrefixHash(u128::from(position).to_le_bytes())
}
