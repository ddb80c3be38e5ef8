//! The worker processes of this node: one for each model in use.
//!
//! One task owns them. A request for a worker is answered at once when it runs; otherwise it is
//! started and everybody who asks meanwhile waits for the same start. A worker that ends unasked is
//! forgotten, so that the next request starts a new one; after three such ends within a minute its
//! model rests for a while (`crashes`), with the last words of the worker as the reason.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use nook_base::tasks::Tasks;
use nook_base::{Backend, DeviceBytes, ErrorCode, LayerRange, ModelDigest, PeerId, clock};
use nook_shard::{Worker, WorkerCommand, WorkerEnd, WorkerLimits, WorkerStatus};
use nook_wire::KeptHistory;
use tokio::sync::{mpsc, oneshot, watch};

use crate::backends::{Backends, Measurable, Placed};
use crate::crashes::{CRASHES_MAX, Crashes};
use nook_api::NodeError;
use nook_api::views::{Trouble, TroubleView, Wording};

/// Requests that may wait; a caller beyond them waits at the door.
const REQUESTS_MAX: usize = 64;

/// Names of what is not to be kept any more that may wait to be passed on to a worker. One more is
/// not: what it names goes when its time is over.
const DROPS_MAX: usize = 256;

/// Longest wait for a worker to say what it does; one that is loading says nothing.
const STATUS_LIMIT: Duration = Duration::from_millis(300);

/// How often a worker that is to compute elsewhere is asked whether it holds a conversation.
const SETTLE_LOOK: Duration = Duration::from_millis(500);

/// A handle to the workers.
#[derive(Debug, Clone)]
pub struct Workers {
    requests: mpsc::Sender<Request>,
    /// Apart from the requests, so that a flood of them holds nobody up who needs a worker.
    drops: mpsc::Sender<(Option<PeerId>, KeptHistory)>,
    problems: watch::Receiver<Vec<TroubleView>>,
    backends: Backends,
}

type Waiter = oneshot::Sender<Result<Worker, NodeError>>;

#[derive(Debug)]
enum Request {
    Get { model: ModelDigest, name: String, answer: Waiter },
    Started { model: ModelDigest, outcome: Result<Worker, NodeError> },
    Ended { model: ModelDigest, pid: u32, end: WorkerEnd },
    Rested { model: ModelDigest },
    Settle,
    Settled,
    Source { answer: oneshot::Sender<WorkerSource> },
    Limit(WorkerLimits, MemoryShares),
    Free { model: ModelDigest, pid: u32, answer: oneshot::Sender<()> },
    Find { model: ModelDigest, answer: oneshot::Sender<Option<Worker>> },
    Misplaced { answer: oneshot::Sender<Vec<ModelDigest>> },
    All { answer: oneshot::Sender<Vec<(ModelDigest, Worker, Placed)>> },
    Forget { peer: Option<PeerId> },
    StopAll { answer: oneshot::Sender<()> },
}

/// How much each worker may have lent, in bytes: each cap is one for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryShares {
    /// Of those that run.
    pub of: BTreeMap<ModelDigest, DeviceBytes>,
    /// Of one that starts.
    pub rest: DeviceBytes,
}

/// Where workers come from.
#[derive(Debug, Clone)]
pub struct WorkerSource {
    /// How this program is started as a worker.
    pub command: WorkerCommand,
    /// Where their sockets lie.
    pub folder: PathBuf,
    /// Of each, but for the memory, which all have together: their shares say what of it each may
    /// take.
    pub limits: WorkerLimits,
}

enum Slot {
    Starting(Vec<Waiter>, Placed),
    Running(Worker, Placed),
}

struct Stable {
    source: WorkerSource,
    shares: MemoryShares,
    tasks: Tasks,
    requests: mpsc::Sender<Request>,
    slots: HashMap<ModelDigest, Slot>,
    names: HashMap<ModelDigest, String>,
    crashes: Crashes,
    /// Models that rest.
    off: HashMap<ModelDigest, TroubleView>,
    problems: watch::Sender<Vec<TroubleView>>,
    /// A task ends workers that compute elsewhere than new ones would.
    is_settling: bool,
    backends: Backends,
}

impl Workers {
    /// Starts the task that owns them. No worker runs until one is asked for.
    pub fn start(source: WorkerSource, tasks: &Tasks) -> Self {
        let (requests, inbox) = mpsc::channel(REQUESTS_MAX);
        let (problems, seen) = watch::channel(Vec::new());
        let backends = Backends::default();
        let WorkerLimits { memory_bytes_max, gpu_bytes_max, .. } = source.limits;
        let rest = DeviceBytes { memory: memory_bytes_max, gpu: gpu_bytes_max };
        let shares = MemoryShares { of: BTreeMap::new(), rest };
        let stable = Stable {
            source,
            shares,
            tasks: tasks.clone(),
            requests: requests.clone(),
            slots: HashMap::new(),
            names: HashMap::new(),
            crashes: Crashes::default(),
            off: HashMap::new(),
            problems,
            is_settling: false,
            backends: backends.clone(),
        };
        tasks.essential().spawn_until_cancelled("workers", stable.run(inbox));
        let (drops, named) = mpsc::channel(DROPS_MAX);
        let workers = Self { requests, drops, problems: seen, backends };
        tasks.spawn_until_cancelled("drop-kept", workers.clone().pass_drops(named));
        workers
    }

    /// The worker of `model`, started if need be.
    pub async fn get(&self, model: ModelDigest, name: &str) -> Result<Worker, NodeError> {
        let (answer, wait) = oneshot::channel();
        let request = Request::Get { model, name: name.to_owned(), answer };
        self.requests.send(request).await.map_err(|_| NodeError::gone())?;
        wait.await.map_err(|_| NodeError::gone())?
    }

    /// What the workers are allowed from now on. False where too much waits: to be said again.
    pub fn limit(&self, limits: WorkerLimits, shares: MemoryShares) -> bool {
        self.requests.try_send(Request::Limit(limits, shares)).is_ok()
    }

    /// Ends the worker of `model` if no conversation is held there, or, with `force`, whatever it
    /// does; its memory is free when this returns.
    pub async fn free(&self, model: ModelDigest, force: bool) {
        free(&self.requests, model, force).await;
    }

    /// Nothing is kept any more for `peer`, or for every other device than this one.
    pub async fn forget(&self, peer: Option<PeerId>) {
        // As in `limit`.
        let _ = self.requests.send(Request::Forget { peer }).await;
    }

    /// Nothing of this conversation is kept any more for `peer`, or for this device itself: passed
    /// on in the order in which it is said here.
    pub fn drop_kept(&self, peer: Option<PeerId>, kept: KeptHistory) {
        if self.drops.try_send((peer, kept)).is_err() {
            tracing::debug!(?peer, "too busy to drop what is kept; it goes when its time is over");
        }
    }

    /// What computes, and why.
    #[must_use]
    pub fn backends(&self) -> &Backends {
        &self.backends
    }

    /// Looks for GPUs or measures one, where that is worth knowing; to be asked while nothing else
    /// goes on. `known` are the models that lie here.
    pub async fn learn(&self, known: &[Measurable], tasks: &Tasks) {
        let Some(source) = ask(&self.requests, |answer| Request::Source { answer }).await else {
            return;
        };
        let wanted = source.limits.backend;
        if self.backends.learn((&source, tasks), wanted, known).await {
            let _ = self.requests.send(Request::Settle).await;
        }
    }

    /// What computes has changed: workers that compute elsewhere than new ones would are replaced,
    /// each when it holds no conversation.
    pub async fn settle(&self) {
        // As in `limit`.
        let _ = self.requests.send(Request::Settle).await;
    }

    /// Looks for GPUs, if nobody has yet.
    pub async fn look_for_gpus(&self, tasks: &Tasks) {
        if let Some(source) = ask(&self.requests, |answer| Request::Source { answer }).await {
            self.backends.survey(&source, tasks).await;
        }
    }

    /// The worker of `model`, if one runs.
    pub async fn find(&self, model: ModelDigest) -> Option<Worker> {
        ask(&self.requests, |answer| Request::Find { model, answer }).await.flatten()
    }

    /// Layers in the memory of the worker of `model`, if one runs and is not too busy to say so.
    pub async fn held(&self, model: ModelDigest) -> Vec<LayerRange> {
        let Some(worker) = self.find(model).await else {
            return Vec::new();
        };
        match tokio::time::timeout(STATUS_LIMIT, worker.status()).await {
            Ok(Ok(status)) => status.held,
            _ => Vec::new(),
        }
    }

    /// Every worker that runs, with what it says; nothing from one that is too busy to say so.
    pub async fn survey(&self) -> Vec<(ModelDigest, Option<WorkerStatus>)> {
        let all = ask(&self.requests, |answer| Request::All { answer }).await;
        let mut said = Vec::new();
        for (model, worker, placed) in all.unwrap_or_default() {
            let status = tokio::time::timeout(STATUS_LIMIT, worker.status()).await;
            let status = status.ok().and_then(Result::ok);
            if placed.falls_back && status.as_ref().is_some_and(|it| it.backend == Backend::Native)
            {
                self.backends.fell_back(placed, model);
            }
            said.push((model, status));
        }
        said
    }

    /// Ends every worker; their memory is free when this returns.
    pub async fn stop_all(&self) {
        let _ = ask(&self.requests, |answer| Request::StopAll { answer }).await;
    }

    /// Tells the workers what they are to drop. A model without a worker keeps nothing.
    async fn pass_drops(self, mut named: mpsc::Receiver<(Option<PeerId>, KeptHistory)>) {
        while let Some((peer, kept)) = named.recv().await {
            if let Some(worker) = self.find(kept.model).await {
                worker.drop_kept(peer, kept).await;
            }
        }
    }

    /// Models that rest, because their workers ended again and again.
    pub fn problems(&self) -> watch::Receiver<Vec<TroubleView>> {
        self.problems.clone()
    }
}

/// Asks the task that owns the workers; `None` where it has ended.
async fn ask<T>(
    requests: &mpsc::Sender<Request>,
    request: impl FnOnce(oneshot::Sender<T>) -> Request,
) -> Option<T> {
    let (answer, wait) = oneshot::channel();
    requests.send(request(answer)).await.ok()?;
    wait.await.ok()
}

/// See [`Workers::free`].
async fn free(requests: &mpsc::Sender<Request>, model: ModelDigest, force: bool) {
    let found = ask(requests, |answer| Request::Find { model, answer }).await;
    let Some(worker) = found.flatten() else {
        return;
    };
    if !force {
        let status = tokio::time::timeout(STATUS_LIMIT, worker.status()).await;
        if !matches!(status, Ok(Ok(status)) if status.sessions == 0) {
            return;
        }
    }
    let pid = worker.pid();
    let _ = ask(requests, |answer| Request::Free { model, pid, answer }).await;
}

impl Stable {
    async fn run(mut self, mut inbox: mpsc::Receiver<Request>) {
        while let Some(request) = inbox.recv().await {
            match request {
                Request::Get { model, name, answer } => self.get(model, name, answer),
                Request::Started { model, outcome } => self.started(model, outcome),
                Request::Ended { model, pid, end } => self.ended(model, pid, &end),
                Request::Rested { model } => {
                    self.off.remove(&model);
                    self.problems.send_replace(self.off.values().cloned().collect());
                }
                Request::Limit(limits, shares) => {
                    self.backends.want(limits.backend);
                    self.source.limits = limits;
                    self.shares = shares;
                    for (model, slot) in &self.slots {
                        if let Slot::Running(worker, _) = slot {
                            worker.configure(self.limits(*model)).await;
                        }
                    }
                    self.settle();
                }
                Request::Misplaced { answer } => {
                    let _ = answer.send(self.misplaced());
                }
                Request::Settle => self.settle(),
                Request::Source { answer } => drop(answer.send(self.source.clone())),
                Request::Settled => {
                    self.is_settling = false;
                    self.settle();
                }
                Request::Find { model, answer } => {
                    let _ = answer.send(self.running(model));
                }
                Request::All { answer } => {
                    let placed = |slot: &Slot| match slot {
                        Slot::Starting(_, placed) | Slot::Running(_, placed) => *placed,
                    };
                    let all = self.slots.iter();
                    let all = all.filter_map(|(model, slot)| {
                        Some((*model, self.running(*model)?, placed(slot)))
                    });
                    let _ = answer.send(all.collect());
                }
                Request::Free { model, pid, answer } => {
                    // From here on whoever asks gets a new one.
                    if let Some(worker) = self.take(model, pid) {
                        self.tasks.spawn_until_cancelled("worker-stop", async move {
                            worker.stop().await;
                            let _ = answer.send(());
                        });
                    }
                }
                Request::Forget { peer } => {
                    for slot in self.slots.values() {
                        if let Slot::Running(worker, _) = slot {
                            worker.forget(peer).await;
                        }
                    }
                }
                Request::StopAll { answer } => {
                    for (_, slot) in self.slots.drain() {
                        if let Slot::Running(worker, _) = slot {
                            worker.stop().await;
                        }
                    }
                    let _ = answer.send(());
                }
            }
        }
    }

    fn limits(&self, model: ModelDigest) -> WorkerLimits {
        let limits = self.source.limits;
        let share = self.shares.of.get(&model).copied().unwrap_or(self.shares.rest);
        let Placed { backend, falls_back } = self.placed(model);
        let memory_bytes_max = limits.memory_bytes_max.min(share.memory);
        let gpu_bytes_max = limits.gpu_bytes_max.min(share.gpu);
        WorkerLimits { memory_bytes_max, gpu_bytes_max, backend, falls_back, ..limits }
    }

    /// Where a worker that starts now computes.
    fn placed(&self, model: ModelDigest) -> Placed {
        self.backends.placed(self.source.limits.backend, model)
    }

    /// Models whose workers compute elsewhere than new ones would.
    fn misplaced(&self) -> Vec<ModelDigest> {
        let is_it = |(model, slot): &(&ModelDigest, &Slot)| {
            let (Slot::Starting(_, placed) | Slot::Running(_, placed)) = slot;
            *placed != self.placed(**model)
        };
        self.slots.iter().filter(is_it).map(|(model, _)| *model).collect()
    }

    /// Ends workers that compute elsewhere than new ones would, each when it holds no conversation.
    fn settle(&mut self) {
        if self.is_settling || self.misplaced().is_empty() {
            return;
        }
        self.is_settling = true;
        let requests = self.requests.clone();
        self.tasks.spawn_until_cancelled("workers-settle", async move {
            while let Some(models) = ask(&requests, |answer| Request::Misplaced { answer }).await
                && !models.is_empty()
            {
                for model in models {
                    free(&requests, model, false).await;
                }
                tokio::time::sleep(SETTLE_LOOK).await;
            }
            let _ = requests.send(Request::Settled).await;
        });
    }

    fn running(&self, model: ModelDigest) -> Option<Worker> {
        match self.slots.get(&model) {
            // Its connection ends a moment before its process is known to have ended.
            Some(Slot::Running(worker, _))
                if !worker.mux().is_closed() && worker.end().is_none() =>
            {
                Some(worker.clone())
            }
            _ => None,
        }
    }

    /// Takes the worker of `model` out, if it still is the process `pid`.
    fn take(&mut self, model: ModelDigest, pid: u32) -> Option<Worker> {
        let worker = self.running(model).filter(|worker| worker.pid() == pid)?;
        self.slots.remove(&model);
        Some(worker)
    }

    fn get(&mut self, model: ModelDigest, name: String, answer: Waiter) {
        self.backends.disturb();
        if let Some(TroubleView { sentence, trouble }) = self.off.get(&model) {
            let error = NodeError::new(ErrorCode::WorkerCrashed, sentence.clone());
            let wording =
                trouble.clone().map(|trouble| Wording::Trouble { trouble: Box::new(trouble) });
            let _ = answer.send(Err(NodeError { wording, ..error }));
            return;
        }
        if let Some(worker) = self.running(model) {
            let _ = answer.send(Ok(worker));
            return;
        }
        self.forget_old();
        self.names.insert(model, name);
        if let Some(Slot::Starting(waiters, _)) = self.slots.get_mut(&model) {
            waiters.push(answer);
            return;
        }
        let placed = self.backends.begin(self.source.limits.backend, model);
        self.slots.insert(model, Slot::Starting(vec![answer], placed));
        let limits = self.limits(model);
        let (source, tasks, requests) =
            (self.source.clone(), self.tasks.clone(), self.requests.clone());
        self.tasks.spawn_until_cancelled("worker-start", async move {
            let outcome = Worker::start(&source.command, &source.folder, limits, &tasks).await;
            let outcome = outcome.map_err(|error| NodeError::new(error.code(), error.to_string()));
            let _ = requests.send(Request::Started { model, outcome }).await;
        });
    }

    /// Forgets crashes that count no more, and names of models that neither run nor have crashed
    /// lately: models come and go.
    fn forget_old(&mut self) {
        let Self { slots, crashes, off, names, .. } = self;
        crashes.forget_old(clock::now());
        names.retain(|model, _| {
            slots.contains_key(model) || crashes.knows(*model) || off.contains_key(model)
        });
    }

    fn started(&mut self, model: ModelDigest, outcome: Result<Worker, NodeError>) {
        let (waiters, placed) = match self.slots.remove(&model) {
            Some(Slot::Starting(waiters, placed)) => (waiters, placed),
            _ => (Vec::new(), self.placed(model)),
        };
        match &outcome {
            Ok(worker) => {
                self.slots.insert(model, Slot::Running(worker.clone(), placed));
                let (worker, requests) = (worker.clone(), self.requests.clone());
                self.tasks.spawn_until_cancelled("worker-watch", async move {
                    let (pid, end) = (worker.pid(), worker.ended().await);
                    let _ = requests.send(Request::Ended { model, pid, end }).await;
                });
            }
            // What is missing on this computer is no fault of the model.
            Err(error) if error.code == ErrorCode::GpuMissing => {}
            Err(error) => self.count_crash(model, &error.sentence),
        }
        for waiter in waiters {
            let _ = waiter.send(outcome.clone());
        }
    }

    fn ended(&mut self, model: ModelDigest, pid: u32, end: &WorkerEnd) {
        let mut placed = None;
        if let Some(Slot::Running(worker, at)) = self.slots.get(&model)
            && worker.pid() == pid
        {
            placed = Some(*at);
            self.slots.remove(&model);
        }
        if end.asked {
            return;
        }
        let words = end.last_lines.last().map_or("it said nothing", String::as_str);
        let words = format!("{}; {words}", end.status);
        match placed.and_then(|placed| self.backends.crashed(placed, &words)) {
            Some(rest) => self.rest_gpu(rest),
            None => self.count_crash(model, &words),
        }
    }

    /// A measured GPU failed: nothing computes there for a while.
    fn rest_gpu(&mut self, rest: Duration) {
        tracing::warn!(minutes = rest.as_secs() / 60, "a GPU failed and rests");
        self.settle();
        let requests = self.requests.clone();
        self.tasks.spawn_until_cancelled("gpu-rest", async move {
            tokio::time::sleep(rest).await;
            let _ = requests.send(Request::Settle).await;
        });
    }

    fn count_crash(&mut self, model: ModelDigest, reason: &str) {
        let Some(rest) = self.crashes.note(model, clock::now()) else { return };
        let name = self.names.get(&model).cloned().unwrap_or_else(|| model.short());
        let minutes = rest.as_secs().div_ceil(60);
        let words = format!(
            "{name} is tried again in {minutes} min: its worker ended {CRASHES_MAX} times within a \
             minute ({reason})."
        );
        tracing::error!("{words}");
        let (ends, reason) = (CRASHES_MAX as u32, reason.to_owned());
        let trouble = Trouble::ModelSwitchedOff { model: name, ends, minutes, reason };
        self.off.insert(model, TroubleView::new(words, trouble));
        self.problems.send_replace(self.off.values().cloned().collect());
        let requests = self.requests.clone();
        self.tasks.spawn_until_cancelled("worker-rest", async move {
            tokio::time::sleep(rest).await;
            // A node that is leaving tries nothing again.
            let _ = requests.send(Request::Rested { model }).await;
        });
    }
}
