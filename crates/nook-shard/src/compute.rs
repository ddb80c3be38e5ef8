//! The one thread of a worker that computes.
//!
//! It owns the loaded model outright, so nothing here is locked: calls hand their session over with
//! each step and get it back with the result. Steps stand in one [`Line`], which computes them in
//! ticks; loading and questions are done between two ticks, in the order they came.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

use nook_base::{
    Backend, DeviceBytes, ErrorCode, LayerRange, ModelDigest, ModelPart, NotedFile, clock,
};
use nook_model::{LoadedModel, LogitRows, ModelError, ModelFile, Session};
use nook_wire::{GpuHolding, PassCounts};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::account::{Account, Caller, Memory, Refusal};
use crate::failure::{Failure, lending_setting};
use crate::lent::{
    LentParts, bytes_of_ends, bytes_of_layers, held_bytes, layer, missing_ends, missing_layers,
};
use crate::line::{Line, StepDone, StepInput, StepJob};
use crate::place::{ComputePlace, backend_of};

/// Jobs that may wait for the compute thread. Each call has at most one, so this is only met when
/// more calls run than the mux allows; a caller beyond it waits.
const JOBS_MAX: usize = 256;

/// The way to the compute thread.
#[derive(Debug, Clone)]
pub(crate) struct Compute {
    jobs: mpsc::Sender<Job>,
    /// Woken with every job: it may be resting between two passes.
    thread: Thread,
    conversations: Arc<AtomicU64>,
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
    pub(crate) passes: PassCounts,
    /// Where it computes; nothing is loaded where it says [`Backend::Auto`].
    pub(crate) backend: Backend,
    pub(crate) on_gpu: GpuHolding,
}

/// A conversation that was kept, to go on after its first `position` positions.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) session: Session,
    pub(crate) position: u32,
}

/// A conversation that was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) session: Session,
    /// Bytes that it may come to take where its layers lie.
    pub(crate) cache_bytes: DeviceBytes,
}

enum Job {
    Place(ComputePlace),
    Hold {
        caller: Caller,
        file: Option<NotedFile>,
        model: ModelDigest,
        part: ModelPart,
        reply: oneshot::Sender<Result<Held, Failure>>,
    },
    Open {
        caller: Caller,
        model: ModelDigest,
        part: ModelPart,
        positions_max: u32,
        resumed: Option<Resumed>,
        reply: oneshot::Sender<Result<Opened, Failure>>,
    },
    Step(StepJob),
    CacheBytes {
        caller: Caller,
        model: Option<ModelDigest>,
        layers: LayerRange,
        positions: u32,
        reply: oneshot::Sender<Result<(ModelDigest, DeviceBytes), Failure>>,
    },
    Holding {
        reply: oneshot::Sender<Holding>,
    },
    ReleaseLent {
        layers: LayerRange,
        reply: oneshot::Sender<Result<(), Failure>>,
    },
    ReleaseAll,
}

/// Sets its flag when dropped: the caller no longer waits.
struct LeaveMark(Arc<AtomicBool>);

impl Compute {
    /// Starts the thread. It ends when every handle is gone, or by a panic, which cancels `broken`.
    pub(crate) fn start(account: Account, broken: CancellationToken) -> std::io::Result<Self> {
        let (jobs, inbox) = mpsc::channel(JOBS_MAX);
        let handle = std::thread::Builder::new().name("compute".to_owned()).spawn(move || {
            // Nothing of the state is used after a panic: the process ends.
            let compute = AssertUnwindSafe(|| ComputeState::new(account).run(inbox));
            if catch_unwind(compute).is_err() {
                broken.cancel();
            }
        })?;
        let thread = handle.thread().clone();
        Ok(Self { jobs, thread, conversations: Arc::default() })
    }

    /// A number for a conversation.
    pub(crate) fn number_conversation(&self) -> u64 {
        self.conversations.fetch_add(1, Ordering::Relaxed)
    }

    /// Where what is loaded from now on is computed; a model that is there stays where it is.
    pub(crate) async fn place(&self, place: ComputePlace) {
        // As in `release_all`.
        let _ = self.jobs.send(Job::Place(place)).await;
        self.thread.unpark();
    }

    /// Makes sure that `part` of the model is in memory.
    pub(crate) async fn hold(
        &self,
        caller: Caller,
        file: Option<NotedFile>,
        model: ModelDigest,
        part: ModelPart,
    ) -> Result<Held, Failure> {
        self.ask(|reply| Job::Hold { caller, file, model, part, reply }).await?
    }

    /// A conversation over a part, which is loaded where it is not held: a new one, or one that was
    /// kept.
    pub(crate) async fn open(
        &self,
        caller: Caller,
        model: ModelDigest,
        part: ModelPart,
        positions_max: u32,
        resumed: Option<Resumed>,
    ) -> Result<Opened, Failure> {
        self.ask(|reply| Job::Open { caller, model, part, positions_max, resumed, reply }).await?
    }

    /// Which model it is, and the bytes that a conversation of `positions` over `layers` takes, as
    /// far as is known before they are all loaded for `caller`.
    pub(crate) async fn cache_bytes(
        &self,
        caller: Caller,
        model: Option<ModelDigest>,
        layers: LayerRange,
        positions: u32,
    ) -> Result<(ModelDigest, DeviceBytes), Failure> {
        self.ask(|reply| Job::CacheBytes { caller, model, layers, positions, reply }).await?
    }

    /// One step. Dropping the future takes it out of the line, or ends the computation at the next
    /// layer where nobody shares it.
    pub(crate) async fn step(
        &self,
        who: u64,
        session: Session,
        input: StepInput,
        rows: LogitRows,
    ) -> Result<StepDone, Failure> {
        let left = Arc::new(AtomicBool::new(false));
        let _mark = LeaveMark(left.clone());
        let asked = clock::now();
        self.ask(|reply| Job::Step(StepJob { who, session, input, rows, asked, left, reply })).await
    }

    pub(crate) async fn holding(&self) -> Holding {
        self.ask(|reply| Job::Holding { reply }).await.unwrap_or_default()
    }

    /// Frees those of `layers` that were loaded for other devices only; refused while conversations
    /// are held, which might be theirs.
    pub(crate) async fn release_lent(&self, layers: LayerRange) -> Result<(), Failure> {
        self.ask(|reply| Job::ReleaseLent { layers, reply }).await?
    }

    /// Frees all weights.
    pub(crate) async fn release_all(&self) {
        // A closed channel means that the thread is gone, and the weights with it.
        let _ = self.jobs.send(Job::ReleaseAll).await;
        self.thread.unpark();
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T, Failure> {
        let (reply, wait) = oneshot::channel();
        let gone = || Failure::new(ErrorCode::WorkerCrashed, "the compute thread has ended");
        self.jobs.send(job(reply)).await.map_err(|_| gone())?;
        self.thread.unpark();
        wait.await.map_err(|_| gone())
    }
}

impl Drop for LeaveMark {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The file that `part` is loaded from: the one that is `open`, unless it lacks something or is not
/// the one that was noted. All of the model may have come meanwhile, and lie where `named` says, or
/// what is open was lost, or moved, and came again there.
fn source(
    open: &ModelFile,
    named: Option<&NotedFile>,
    part: &ModelPart,
) -> Result<ModelFile, Failure> {
    let is_it = |named: &NotedFile| named.stamp.is_none() || named.stamp == open.noted();
    match named.filter(|&named| !open.has_part(part) || !is_it(named)) {
        Some(named) => Ok(ModelFile::open_noted(named)?),
        None => Ok(open.clone()),
    }
}

/// Why `layers` of the model `name` are not loaded.
fn no_room(refusal: Refusal, layers: LayerRange, name: &str) -> Failure {
    let Refusal::NoMemory { memory, wanted, free } = refusal else { return refusal.into() };
    let (wanted, free) = (wanted.div_ceil(1 << 20), free >> 20);
    let of = match memory {
        Memory::Computer => "memory",
        Memory::Gpu => "graphics memory",
    };
    let setting = lending_setting(memory);
    let sentence = format!(
        "layers {layers} of {name} need {wanted} MB of {of} more, {free} MB are allowed and free \
         (`{setting}`)"
    );
    Failure::new(ErrorCode::OutOfMemory, sentence)
}

/// The compute thread's own state.
struct ComputeState {
    account: Account,
    place: ComputePlace,
    model: Option<(ModelDigest, LoadedModel, ModelFile)>,
    lent: LentParts,
    line: Line,
}

impl ComputeState {
    fn new(account: Account) -> Self {
        Self {
            account,
            place: ComputePlace::default(),
            model: None,
            lent: LentParts::default(),
            line: Line::default(),
        }
    }

    fn run(mut self, mut inbox: mpsc::Receiver<Job>) {
        loop {
            if self.line.is_empty() {
                match inbox.blocking_recv() {
                    Some(job) => self.take(job),
                    None => return,
                }
            }
            // All that came while the last tick ran; the next one begins at once.
            for _ in 0..JOBS_MAX {
                match inbox.try_recv() {
                    Ok(job) => self.take(job),
                    Err(_) => break,
                }
            }
            if let Some(end) = self.line.rests_until() {
                // Ended early by every job, by chance too; then it is looked at anew.
                std::thread::park_timeout(end.saturating_duration_since(clock::now()));
            } else if let Some((_, model, _)) = &self.model {
                self.line.tick(model, &self.account);
                #[cfg(all(feature = "test-faults", debug_assertions))]
                crate::test_faults::obey(model, self.line.steps_done());
            }
        }
    }

    /// Does a job, or puts a step into the line.
    fn take(&mut self, job: Job) {
        // A reply nobody waits for any more is dropped, and with it what it holds.
        match job {
            Job::Place(place) => self.told(place),
            Job::Hold { caller, file, model, part, reply } => {
                let _ = reply.send(self.hold(file.as_ref(), model, part, caller));
            }
            Job::Open { caller, model, part, positions_max, resumed, reply } => {
                let _ = reply.send(self.open(caller, model, part, positions_max, resumed));
            }
            Job::CacheBytes { caller, model, layers, positions, reply } => {
                let _ = reply.send(self.cache_bytes(caller, model, (layers, positions)));
            }
            Job::Step(job) => {
                self.line.join(self.model.as_ref().map(|(_, model, _)| model), job);
            }
            Job::Holding { reply } => {
                let _ = reply.send(self.holding());
            }
            Job::ReleaseLent { layers, reply } => {
                let _ = reply.send(self.release_lent(layers));
            }
            Job::ReleaseAll => {
                self.lent = LentParts::default();
                if let Some((_, loaded, _)) = &mut self.model {
                    release_all(loaded);
                    self.account.set_weights(loaded.weight_bytes());
                }
                self.unsettle();
            }
        }
    }

    /// Where it fell back, it stays: the device could not do it.
    fn told(&mut self, place: ComputePlace) {
        if self.place != ComputePlace::FALLEN_BACK {
            self.place = place;
        }
    }

    fn hold(
        &mut self,
        named: Option<&NotedFile>,
        digest: ModelDigest,
        part: ModelPart,
        caller: Caller,
    ) -> Result<Held, Failure> {
        match self.hold_there(named, digest, part, caller) {
            // What conversations remember lies on the device; while there are any, it is refused.
            Err(failure)
                if self.place.falls_back
                    && failure.is_of_gpu()
                    && self.account.balance().sessions == 0 =>
            {
                tracing::warn!("computing on the CPU: {}", failure.sentence);
                self.leave_device();
                self.hold_there(named, digest, part, caller)
            }
            outcome => outcome,
        }
    }

    /// Drops the model, to load it anew on the CPU.
    fn leave_device(&mut self) {
        self.account.free_parked();
        if let Some((_, mut loaded, _)) = self.model.take() {
            self.account.take_back_weights(self.lent.bytes(&loaded));
            release_all(&mut loaded);
        }
        self.lent = LentParts::default();
        self.account.set_weights(0);
        self.place = ComputePlace::FALLEN_BACK;
    }

    fn hold_there(
        &mut self,
        named: Option<&NotedFile>,
        digest: ModelDigest,
        part: ModelPart,
        caller: Caller,
    ) -> Result<Held, Failure> {
        let started = clock::now();
        if self.model.is_none() {
            let named = named.ok_or_else(|| {
                Failure::new(ErrorCode::NotFound, "no model was loaded into this worker yet")
            })?;
            let file = ModelFile::open_noted(named)?;
            let loaded = self.place.open(file.clone())?;
            self.account.count_gpu_as_memory(loaded.gpu_shares_memory());
            self.model = Some((digest, loaded, file));
        }
        let (held, loaded, file) = self.model.as_mut().expect("it was put there just above");
        if *held != digest {
            return Err(ErrorCode::WeightsMismatch.into());
        }
        let from = source(file, named, &part)?;
        let gpu_max = self.lent.gpu_max(caller, &self.account, loaded);
        let new_ends = missing_ends(loaded, part);
        let ends_wanted = bytes_of_ends(loaded, &new_ends, gpu_max);
        let wanted = missing_layers(loaded, part, gpu_max).plus(ends_wanted);
        let new: Vec<u32> = part.layers.iter().filter(|at| !loaded.holds(&layer(*at))).collect();
        let refused = |refusal| no_room(refusal, part.layers, file.name());
        self.account.lend_weights(caller, wanted).map_err(refused)?;
        let outcome = match loaded.hold_within(&from, &part, gpu_max) {
            // What is kept of earlier conversations is the first to go.
            Err(ModelError { fault, .. })
                if fault.is_out_of_memory() && self.account.free_parked() =>
            {
                loaded.hold_within(&from, &part, gpu_max)
            }
            outcome => outcome,
        };
        if let Err(error) = outcome {
            // A part of it is of no use to anybody, and its memory may be what the next one lacks.
            new.iter().for_each(|at| loaded.release(LayerRange::with_len(*at, 1)));
            if new_ends.iter().any(|end| end.embedding) {
                loaded.release_embedding();
            }
            if new_ends.iter().any(|end| end.head) {
                loaded.release_head();
            }
            loaded.rest();
            if matches!(caller, Caller::Guest(_)) {
                self.account.take_back_weights(wanted);
            }
            self.account.set_weights(loaded.weight_bytes());
            return Err(error.into());
        }
        // A conversation that opens names no file: what its part came from is what it is looked for
        // in, also where the worker began with a file that lacks some of it.
        *file = from;
        self.account.set_weights(loaded.weight_bytes());
        match caller {
            Caller::Guest(_) => {
                let ends = bytes_of_ends(loaded, &new_ends, u64::MAX);
                let lies = bytes_of_layers(loaded, new.iter().copied(), u64::MAX).plus(ends);
                self.account.move_weights(wanted, lies);
                self.lent.layers.extend(new);
                self.lent.ends = self.lent.ends.plus(ends);
            }
            Caller::Owner => {
                self.account.take_back_weights(self.lent.become_own(part, loaded));
            }
        }
        let took = clock::now().duration_since(started);
        Ok(Held { weight_bytes: loaded.weight_bytes(), took })
    }

    fn release_lent(&mut self, layers: LayerRange) -> Result<(), Failure> {
        if self.account.balance().sessions > 0 {
            return Err(ErrorCode::Busy.into());
        }
        let Some((_, loaded, _)) = &mut self.model else { return Ok(()) };
        for at in layers.iter().filter(|at| self.lent.layers.remove(at)) {
            self.account.take_back_weights(held_bytes(loaded, at));
            loaded.release(LayerRange::with_len(at, 1));
        }
        if self.lent.layers.is_empty() && self.lent.ends != DeviceBytes::default() {
            self.account.take_back_weights(std::mem::take(&mut self.lent.ends));
            loaded.release_embedding();
            loaded.release_head();
        }
        self.account.set_weights(loaded.weight_bytes());
        self.unsettle();
        Ok(())
    }

    /// Layers that a guest's cap kept off the GPU may go there when this device loads them next; not
    /// while a conversation remembers where they were.
    fn unsettle(&mut self) {
        let balance = self.account.balance();
        if let Some((_, loaded, _)) = &mut self.model
            && balance.sessions == 0
            && balance.parked == 0
        {
            loaded.unsettle();
        }
    }

    fn open(
        &mut self,
        caller: Caller,
        digest: ModelDigest,
        part: ModelPart,
        positions_max: u32,
        resumed: Option<Resumed>,
    ) -> Result<Opened, Failure> {
        // Layers may have been evicted between two conversations.
        self.hold(None, digest, part, caller)?;
        let (_, loaded, _) = self.model.as_ref().expect("hold succeeded, so a model is loaded");
        let cache_bytes = loaded.cache_bytes_by_device(part.layers, positions_max, u64::MAX);
        let session = match resumed {
            None => loaded.session(part, positions_max)?,
            Some(Resumed { mut session, position }) => {
                session.resume(position, positions_max)?;
                session
            }
        };
        Ok(Opened { session, cache_bytes })
    }

    fn cache_bytes(
        &self,
        caller: Caller,
        digest: Option<ModelDigest>,
        (layers, positions): (LayerRange, u32),
    ) -> Result<(ModelDigest, DeviceBytes), Failure> {
        let (held, loaded) = self.loaded(digest)?;
        let gpu_max = self.lent.gpu_max(caller, &self.account, loaded);
        Ok((held, loaded.cache_bytes_by_device(layers, positions, gpu_max)))
    }

    /// The loaded model, which must be the one meant; the own node need not name it.
    fn loaded(&self, digest: Option<ModelDigest>) -> Result<(ModelDigest, &LoadedModel), Failure> {
        match &self.model {
            Some((held, loaded, _)) if digest.is_none_or(|digest| digest == *held) => {
                Ok((*held, loaded))
            }
            Some(_) => Err(ErrorCode::WeightsMismatch.into()),
            None => Err(Failure::new(ErrorCode::NotFound, "no model was loaded yet")),
        }
    }

    fn holding(&self) -> Holding {
        let Some((_, loaded, _)) = &self.model else {
            return Holding::default();
        };
        Holding {
            layers: loaded.held(),
            embedding: loaded.has_embedding(),
            head: loaded.has_head(),
            steps_done: self.line.steps_done(),
            passes: self.line.counts(),
            backend: backend_of(loaded),
            on_gpu: GpuHolding {
                layers: loaded.held_on_gpu().iter().map(|range| range.len()).sum(),
                bytes: loaded.gpu().map_or(0, nook_model::nook_gpu::Gpu::used_bytes),
                shares_memory: loaded.gpu_shares_memory(),
                // The account knows.
                lent_bytes: 0,
                kept_bytes: 0,
            },
        }
    }
}

fn release_all(loaded: &mut LoadedModel) {
    loaded.release(LayerRange::all(loaded.file().shape().layers));
    loaded.release_embedding();
    loaded.release_head();
    loaded.rest();
}
