//! The one thread of a worker that computes.
//!
//! It owns the loaded model outright, so nothing here is locked: calls hand their session over with
//! each step and get it back with the result. Jobs run one after another in the order they came;
//! a caller that has left is noticed before its job starts and at every layer of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nook_base::{ErrorCode, LayerRange, ModelDigest, ModelPart, Sensitive, clock};
use nook_model::{
    Input, LoadOptions, LoadedModel, LogitRows, ModelFile, Output, Precision, Session,
};
use tokio::sync::{mpsc, oneshot};

use crate::account::{Account, Caller, Refusal};
use crate::failure::Failure;

/// Jobs that may wait for the compute thread. Each call has at most one, so this is only met when
/// more calls run than the mux allows; a caller beyond it waits.
const JOBS_MAX: usize = 256;

/// The way to the compute thread.
#[derive(Debug, Clone)]
pub(crate) struct Compute {
    jobs: mpsc::Sender<Job>,
}

/// The numbers of one step.
#[derive(Debug)]
pub(crate) enum StepInput {
    /// Token ids, for a part that has the embedding.
    Tokens(Sensitive<Vec<u32>>),
    /// Rows of hidden state.
    Hidden(Sensitive<Vec<f32>>),
}

/// A step that was computed, or was not; the session comes back either way.
#[derive(Debug)]
pub(crate) struct StepDone {
    pub(crate) session: Session,
    pub(crate) result: Result<Output, Failure>,
    pub(crate) compute: Duration,
    pub(crate) queued: Duration,
}

/// What was loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) weight_bytes: u64,
    pub(crate) took: Duration,
}

/// What the model holds now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holding {
    pub(crate) layers: Vec<LayerRange>,
    pub(crate) embedding: bool,
    pub(crate) head: bool,
    pub(crate) steps_done: u64,
}

enum Job {
    Hold {
        path: Option<String>,
        model: ModelDigest,
        part: ModelPart,
        reply: oneshot::Sender<Result<Held, Failure>>,
    },
    Open {
        caller: Caller,
        model: Option<ModelDigest>,
        part: ModelPart,
        positions_max: u32,
        reply: oneshot::Sender<Result<Session, Failure>>,
    },
    Step(StepJob),
    CacheBytes {
        model: Option<ModelDigest>,
        layers: LayerRange,
        positions: u32,
        reply: oneshot::Sender<Result<u64, Failure>>,
    },
    Holding {
        reply: oneshot::Sender<Holding>,
    },
    ReleaseAll,
}

struct StepJob {
    session: Session,
    input: StepInput,
    rows: LogitRows,
    asked: Instant,
    left: Arc<AtomicBool>,
    reply: oneshot::Sender<StepDone>,
}

/// Sets its flag when dropped: the caller no longer waits.
struct LeaveMark(Arc<AtomicBool>);

impl Compute {
    /// Starts the thread. It ends when every handle is gone.
    pub(crate) fn start(account: Account) -> std::io::Result<Self> {
        let (jobs, inbox) = mpsc::channel(JOBS_MAX);
        std::thread::Builder::new()
            .name("compute".to_owned())
            .spawn(move || Bench::new(account).run(inbox))?;
        Ok(Self { jobs })
    }

    /// Makes sure that `part` of the model is in memory.
    pub(crate) async fn hold(
        &self,
        path: Option<String>,
        model: ModelDigest,
        part: ModelPart,
    ) -> Result<Held, Failure> {
        self.ask(|reply| Job::Hold { path, model, part, reply }).await?
    }

    /// A new conversation over a part, which is loaded where it is not held.
    pub(crate) async fn open(
        &self,
        caller: Caller,
        model: Option<ModelDigest>,
        part: ModelPart,
        positions_max: u32,
    ) -> Result<Session, Failure> {
        self.ask(|reply| Job::Open { caller, model, part, positions_max, reply }).await?
    }

    /// Bytes that a conversation of `positions` over `layers` takes.
    pub(crate) async fn cache_bytes(
        &self,
        model: Option<ModelDigest>,
        layers: LayerRange,
        positions: u32,
    ) -> Result<u64, Failure> {
        self.ask(|reply| Job::CacheBytes { model, layers, positions, reply }).await?
    }

    /// One step. Dropping the future ends the computation at the next layer.
    pub(crate) async fn step(
        &self,
        session: Session,
        input: StepInput,
        rows: LogitRows,
    ) -> Result<StepDone, Failure> {
        let left = Arc::new(AtomicBool::new(false));
        let _mark = LeaveMark(left.clone());
        let asked = clock::now();
        self.ask(|reply| Job::Step(StepJob { session, input, rows, asked, left, reply })).await
    }

    pub(crate) async fn holding(&self) -> Holding {
        self.ask(|reply| Job::Holding { reply }).await.unwrap_or_default()
    }

    /// Frees all weights.
    pub(crate) async fn release_all(&self) {
        // A closed channel means that the thread is gone, and the weights with it.
        let _ = self.jobs.send(Job::ReleaseAll).await;
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T, Failure> {
        let (reply, wait) = oneshot::channel();
        let gone = || Failure::new(ErrorCode::WorkerCrashed, "the compute thread has ended");
        self.jobs.send(job(reply)).await.map_err(|_| gone())?;
        wait.await.map_err(|_| gone())
    }
}

impl Drop for LeaveMark {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The compute thread's own state.
struct Bench {
    account: Account,
    model: Option<(ModelDigest, LoadedModel, ModelFile)>,
    steps_done: u64,
}

impl Bench {
    fn new(account: Account) -> Self {
        Self { account, model: None, steps_done: 0 }
    }

    fn run(mut self, mut inbox: mpsc::Receiver<Job>) {
        while let Some(job) = inbox.blocking_recv() {
            // A reply nobody waits for any more is dropped, and with it what it holds.
            match job {
                Job::Hold { path, model, part, reply } => {
                    let _ = reply.send(self.hold(path, model, part, Caller::Owner));
                }
                Job::Open { caller, model, part, positions_max, reply } => {
                    let _ = reply.send(self.open(caller, model, part, positions_max));
                }
                Job::CacheBytes { model, layers, positions, reply } => {
                    let bytes =
                        self.loaded(model).map(|(_, file)| file.cache_bytes(layers, positions));
                    let _ = reply.send(bytes);
                }
                Job::Step(job) => self.step(job),
                Job::Holding { reply } => {
                    let _ = reply.send(self.holding());
                }
                Job::ReleaseAll => {
                    if let Some((_, loaded, _)) = &mut self.model {
                        release_all(loaded);
                        self.account.set_weights(loaded.weight_bytes());
                    }
                }
            }
        }
    }

    fn hold(
        &mut self,
        path: Option<String>,
        digest: ModelDigest,
        part: ModelPart,
        caller: Caller,
    ) -> Result<Held, Failure> {
        let started = clock::now();
        if self.model.is_none() {
            let path = path.ok_or_else(|| {
                Failure::new(ErrorCode::NotFound, "no model was loaded into this worker yet")
            })?;
            let file = ModelFile::open(std::path::Path::new(&path))?;
            let loaded = LoadedModel::new(
                file.clone(),
                LoadOptions { threads: crate::threads(), precision: Precision::Auto },
            )?;
            self.model = Some((digest, loaded, file));
        }
        let (held, loaded, file) = self.model.as_mut().expect("it was put there just above");
        if *held != digest {
            return Err(ErrorCode::WeightsMismatch.into());
        }
        let wanted = missing_bytes(loaded, file, part);
        self.account.lend_weights(caller, wanted).map_err(|refusal| match refusal {
            Refusal::NoMemory { wanted, free } => Failure::new(
                ErrorCode::OutOfMemory,
                format!(
                    "layers {} of {} need {} MB more, {} MB are allowed and free",
                    part.layers,
                    file.name(),
                    wanted >> 20,
                    free >> 20
                ),
            ),
            Refusal::StreamsTaken => ErrorCode::Busy.into(),
        })?;
        loaded.hold(&part)?;
        self.account.set_weights(loaded.weight_bytes());
        let took = clock::now().duration_since(started);
        Ok(Held { weight_bytes: loaded.weight_bytes(), took })
    }

    fn open(
        &mut self,
        caller: Caller,
        digest: Option<ModelDigest>,
        part: ModelPart,
        positions_max: u32,
    ) -> Result<Session, Failure> {
        let digest = self.loaded(digest)?.0;
        // Layers may have been evicted between two conversations.
        self.hold(None, digest, part, caller)?;
        let (_, loaded, _) = self.model.as_ref().expect("hold succeeded, so a model is loaded");
        Ok(loaded.session(part, positions_max)?)
    }

    /// The loaded model, which must be the one meant; the own node need not name it.
    fn loaded(&self, digest: Option<ModelDigest>) -> Result<(ModelDigest, &ModelFile), Failure> {
        match &self.model {
            Some((held, _, file)) if digest.is_none_or(|digest| digest == *held) => {
                Ok((*held, file))
            }
            Some(_) => Err(ErrorCode::WeightsMismatch.into()),
            None => Err(Failure::new(ErrorCode::NotFound, "no model was loaded yet")),
        }
    }

    fn step(&mut self, job: StepJob) {
        let StepJob { mut session, input, rows, asked, left, reply } = job;
        let started = clock::now();
        let result = match &self.model {
            _ if left.load(Ordering::Relaxed) => Err(ErrorCode::Cancelled.into()),
            None => Err(Failure::new(ErrorCode::NotFound, "no model was loaded yet")),
            Some((_, loaded, _)) => {
                let input = match &input {
                    StepInput::Tokens(ids) => Input::Tokens(ids),
                    StepInput::Hidden(rows) => Input::Hidden(rows),
                };
                let cancelled = || left.load(Ordering::Relaxed);
                session.step_unless(loaded, input, rows, &cancelled).map_err(Failure::from)
            }
        };
        self.steps_done += 1;
        let compute = clock::now().duration_since(started);
        let queued = started.duration_since(asked);
        let _ = reply.send(StepDone { session, result, compute, queued });
    }

    fn holding(&self) -> Holding {
        let Some((_, loaded, _)) = &self.model else {
            return Holding::default();
        };
        Holding {
            layers: loaded.held(),
            embedding: loaded.has_embedding(),
            head: loaded.has_head(),
            steps_done: self.steps_done,
        }
    }
}

/// Bytes that holding `part` adds to what is held.
fn missing_bytes(loaded: &LoadedModel, file: &ModelFile, part: ModelPart) -> u64 {
    let none = LayerRange::with_len(part.layers.start(), 0);
    let layer = |layer| ModelPart::inner(LayerRange::with_len(layer, 1));
    let ends = [
        ModelPart { layers: none, embedding: part.embedding, head: false },
        ModelPart { layers: none, embedding: false, head: part.head },
    ];
    let parts = part.layers.iter().map(layer).chain(ends);
    parts.filter(|part| !loaded.holds(part)).map(|part| file.weight_bytes(&part)).sum()
}

fn release_all(loaded: &mut LoadedModel) {
    loaded.release(LayerRange::all(loaded.file().shape().layers));
    loaded.release_embedding();
    loaded.release_head();
}
