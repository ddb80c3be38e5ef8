//! A worker with a small random model, and conversations with it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nook_base::tasks::Tasks;
use nook_base::{
    Activation, ActivationDtype, Backend, ErrorCode, LayerRange, ModelDigest, ModelPart, PeerId,
};
use nook_kernels::Format;
use nook_model::synthetic::Recipe;
use nook_model::{Input, LoadOptions, LoadedModel, LogitRows, ModelFile, Output, Precision};
use nook_mux::{Call, CallError};
use nook_shard::{Worker, WorkerCommand, WorkerError, WorkerLimits, WorkerStatus};
use nook_wire::{
    LocalMessage, Message, Open, PrefixHash, ResumePoint, StepHead, WireMessage, WorkerMessage,
};

/// Numbers in a row of the model.
pub(crate) const WIDTH: u32 = 64;

/// Its layers.
pub(crate) const LAYERS: u32 = 4;

/// Positions that a conversation asks for.
pub(crate) const WINDOW: u32 = 600;

/// Longest wait for an answer; only a fault meets it.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// The model; the worker takes the caller's word for it.
pub(crate) const MODEL: ModelDigest = ModelDigest([7; 32]);

/// A running worker, and its model for comparison.
pub(crate) struct Host {
    pub(crate) worker: Worker,
    pub(crate) tasks: Tasks,
    pub(crate) model: LoadedModel,
    pub(crate) file: PathBuf,
    _folder: tempfile::TempDir,
}

/// A conversation.
pub(crate) struct Talk {
    pub(crate) call: Call<WorkerMessage>,
    pub(crate) position: u32,
    dtype: ActivationDtype,
    seed: u32,
    step: u64,
}

/// How a conversation is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening {
    /// Whose it is; `None`: a guest without a name.
    pub(crate) peer: Option<u8>,
    pub(crate) layers: LayerRange,
    pub(crate) dtype: ActivationDtype,
    pub(crate) positions_max: u32,
    pub(crate) resume: Option<ResumePoint>,
}

/// Why nothing more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) ErrorCode);

impl Host {
    pub(crate) async fn start(streams_max: u16, memory_bytes_max: u64) -> Self {
        Self::start_on("cpu", streams_max, memory_bytes_max).await.unwrap()
    }

    /// As [`Self::start`], with a worker that is told to compute on `device`; fails as it does.
    pub(crate) async fn start_on(
        device: &str,
        streams_max: u16,
        memory_bytes_max: u64,
    ) -> Result<Self, WorkerError> {
        Self::start_in(OsStr::new("models"), device, streams_max, memory_bytes_max).await
    }

    /// As [`Self::start`], with a worker that its node tells to compute with `limits`' backend, and
    /// that has these variables in its environment. `write` makes the model's file.
    pub(crate) async fn start_with(
        variables: &[(&str, &str)],
        limits: WorkerLimits,
        write: impl Fn(&Path),
    ) -> Result<Self, (Self, WorkerError)> {
        let host = Self::launch(OsStr::new("models"), variables, limits, write).await;
        match host.load().await {
            Ok(()) => Ok(host),
            Err(error) => Err((host, error)),
        }
    }

    /// As [`Self::start_on`], with the model in a folder that is called `models`.
    pub(crate) async fn start_in(
        models: &OsStr,
        device: &str,
        streams_max: u16,
        memory_bytes_max: u64,
    ) -> Result<Self, WorkerError> {
        let device = [("INGLENOOK_DEVICE", device)];
        let limits = limits(streams_max, memory_bytes_max);
        let host = Self::launch(models, &device, limits, small).await;
        host.load().await?;
        Ok(host)
    }

    /// As [`Self::start_with`], with nothing loaded yet.
    pub(crate) async fn start_empty_with(variables: &[(&str, &str)], limits: WorkerLimits) -> Self {
        Self::launch(OsStr::new("models"), variables, limits, small).await
    }

    /// As [`Self::start`], with nothing loaded yet.
    pub(crate) async fn start_empty() -> Self {
        let device = [("INGLENOOK_DEVICE", "cpu")];
        Self::launch(OsStr::new("models"), &device, limits(1, 1 << 30), small).await
    }

    /// Loads all of the model.
    pub(crate) async fn load(&self) -> Result<(), WorkerError> {
        self.worker.load(&self.file, MODEL, ModelPart::whole(LAYERS)).await?;
        Ok(())
    }

    async fn launch(
        models: &OsStr,
        variables: &[(&str, &str)],
        limits: WorkerLimits,
        write: impl Fn(&Path),
    ) -> Self {
        let folder = tempfile::Builder::new().prefix("nook-").tempdir().unwrap();
        let models = folder.path().join(models);
        std::fs::create_dir(&models).unwrap();
        let file = models.join("tiny.gguf");
        write(&file);
        let mut arguments: Vec<OsString> =
            variables.iter().map(|(name, value)| format!("{name}={value}").into()).collect();
        arguments.push(std::env::current_exe().unwrap().into());
        arguments.extend(["the_worker_itself", "--exact", "--nocapture", "--"].map(Into::into));
        let command = WorkerCommand { program: "env".into(), arguments };
        let tasks = Tasks::new();
        let worker = Worker::start(&command, folder.path(), limits, &tasks).await.unwrap();
        let options = LoadOptions { threads: 1, precision: Precision::Auto };
        let mut model = LoadedModel::new(ModelFile::open(&file).unwrap(), options).unwrap();
        model.hold(&ModelPart::whole(LAYERS)).unwrap();
        Self { worker, tasks, model, file, _folder: folder }
    }

    pub(crate) async fn status(&self) -> WorkerStatus {
        self.worker.status().await.unwrap()
    }

    /// Waits until `is_so`; what a process gives back when a call ends it gives back soon after.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&WorkerStatus) -> bool) {
        let reached = async {
            while !is_so(&self.status().await) {
                tokio::task::yield_now().await;
            }
        };
        assert!(tokio::time::timeout(ANSWER_LIMIT, reached).await.is_ok(), "{what} never came");
    }

    pub(crate) async fn open(&self, opening: Opening) -> Result<Talk, Refused> {
        let mut call = match opening.peer {
            Some(peer) => self.worker.open_call_for(PeerId([peer; 32])).await,
            None => self.worker.open_call().await,
        }
        .map_err(|error| match error {
            WorkerError::Refused { code, .. } => Refused(code),
            other => panic!("the worker is gone: {other}"),
        })?;
        let Opening { layers, dtype, positions_max, resume, .. } = opening;
        let open = Open { session: 1, model: MODEL, layers, dtype, positions_max, resume };
        call.send(Message::Open(open).into()).await.map_err(refused)?;
        match answer(&mut call).await? {
            WorkerMessage::Peer(Message::Opened { position }) => {
                let asked = resume.map_or(0, |resume| resume.position);
                assert_eq!(position, asked, "OPENED says where it goes on");
                Ok(Talk { call, position, dtype, seed: 0, step: 0 })
            }
            other => panic!("OPEN was answered by {:?}", other.kind()),
        }
    }

    /// What `rows` rows of the conversation `seed` give over `layers` when nobody else is there.
    pub(crate) fn alone(&self, layers: LayerRange, seed: u32, rows: u32) -> Vec<f32> {
        let mut session = self.model.session(ModelPart::inner(layers), WINDOW).unwrap();
        let input = rows_of(seed, 0, rows);
        match session.step(&self.model, Input::Hidden(&input), LogitRows::None).unwrap() {
            Output::Hidden(rows) => rows,
            Output::Logits { .. } => panic!("this part has no head"),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

impl Opening {
    pub(crate) fn of(peer: impl Into<Option<u8>>, layers: LayerRange) -> Self {
        let dtype = ActivationDtype::F32;
        Self { peer: peer.into(), layers, dtype, positions_max: WINDOW, resume: None }
    }
}

impl Talk {
    /// Rows of this conversation are those of `seed`.
    pub(crate) fn seeded(mut self, seed: u32) -> Self {
        self.seed = seed;
        self
    }

    pub(crate) fn seed(&self) -> u32 {
        self.seed
    }

    /// Sends the next `count` rows.
    pub(crate) async fn send(&mut self, count: u32) -> Result<(), Refused> {
        let rows = rows_of(self.seed, self.position, count);
        self.send_rows(&rows, WIDTH).await
    }

    /// Sends rows of any width as the next step.
    pub(crate) async fn send_rows(&mut self, rows: &[f32], width: u32) -> Result<(), Refused> {
        let count = u32::try_from(rows.len()).unwrap() / width;
        let head = StepHead {
            step: self.step,
            position: self.position,
            count,
            hidden: width,
            dtype: self.dtype,
            history_before: mark(self.seed, self.position),
            history_after: mark(self.seed, self.position + count),
            bulk: count > 8,
        };
        let bytes = match self.dtype {
            // As it is, so that what no sound sender sends can be sent.
            ActivationDtype::F32 => rows.iter().flat_map(|x| x.to_le_bytes()).collect(),
            dtype => Activation::from_f32(rows, width, dtype).unwrap().bytes().clone(),
        };
        self.call.send_tensor(Message::Step(head).into(), bytes).await.map_err(refused)?;
        self.position += count;
        Ok(())
    }

    /// The result of the step that was sent last; and how long it says that it took, in µs.
    pub(crate) async fn receive(&mut self) -> Result<(Vec<f32>, [u32; 2]), Refused> {
        let head = match answer(&mut self.call).await? {
            WorkerMessage::Peer(Message::Result(head)) => head,
            other => panic!("a step was answered by {:?}", other.kind()),
        };
        assert_eq!((head.step, head.position + head.count), (self.step, self.position));
        self.step += 1;
        let rows = self.call.recv_activation(head.count, head.hidden, head.dtype).await.unwrap();
        Ok((rows.to_f32(), [head.compute_us, head.queue_us]))
    }

    /// The next `count` rows, there and back.
    pub(crate) async fn step(&mut self, count: u32) -> Result<Vec<f32>, Refused> {
        self.send(count).await?;
        Ok(self.receive().await?.0)
    }

    /// A whole conversation: `steps` of so many rows.
    pub(crate) async fn walk(&mut self, steps: &[u32]) -> Result<Vec<f32>, Refused> {
        let mut all = Vec::new();
        for count in steps {
            all.extend(self.step(*count).await?);
        }
        Ok(all)
    }

    /// Where it stands, to go on from later.
    pub(crate) fn point(&self) -> ResumePoint {
        point(self.seed, self.position)
    }

    /// Ends it cleanly.
    pub(crate) fn close(self) {
        self.call.close(None);
    }
}

/// The model of most tests.
pub(crate) fn small(file: &Path) {
    let recipe = Recipe { context_length: 1024, ..Recipe::tiny(Format::Q8_0, 3) };
    recipe.write(file).unwrap();
}

pub(crate) fn limits(streams_max: u16, memory_bytes_max: u64) -> WorkerLimits {
    WorkerLimits {
        streams_max,
        memory_bytes_max,
        gpu_bytes_max: u64::MAX,
        idle: Duration::from_secs(600),
        backend: Backend::Auto,
        falls_back: false,
    }
}

/// An own conversation over the whole model, with ids.
pub(crate) fn own(resume: Option<ResumePoint>) -> WorkerMessage {
    let (part, dtype) = (ModelPart::whole(LAYERS), ActivationDtype::F32);
    LocalMessage::OpenLocal { session: 1, part, dtype, positions_max: WINDOW, resume }.into()
}

pub(crate) fn layers(start: u32, len: u32) -> LayerRange {
    LayerRange::with_len(start, len)
}

pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Rows `count` from `position` on, of the conversation `seed`.
pub(crate) fn rows_of(seed: u32, position: u32, count: u32) -> Vec<f32> {
    let number = |index: u32| ((index as f32 + seed as f32 * 0.61) * 0.37).sin();
    (position * WIDTH..(position + count) * WIDTH).map(number).collect()
}

/// The mark of a conversation at a position, as its requester would compute it.
pub(crate) fn mark(seed: u32, position: u32) -> PrefixHash {
    PrefixHash((u128::from(seed) << 64 | u128::from(position)).to_le_bytes())
}

pub(crate) fn point(seed: u32, position: u32) -> ResumePoint {
    ResumePoint { position, mark: mark(seed, position), copy: false }
}

/// The next message; an ERROR and an end are refusals.
pub(crate) async fn answer(call: &mut Call<WorkerMessage>) -> Result<WorkerMessage, Refused> {
    let message = tokio::time::timeout(ANSWER_LIMIT, call.recv()).await.expect("an answer came");
    match message.map_err(refused)? {
        WorkerMessage::Peer(Message::Error(error)) => Err(Refused(error.code)),
        message => Ok(message),
    }
}

fn refused(error: CallError) -> Refused {
    match error {
        CallError::Closed { code } => Refused(code.unwrap_or(ErrorCode::Cancelled)),
        CallError::ConnectionLost { .. } => Refused(ErrorCode::WorkerCrashed),
        other => panic!("the connection broke: {other}"),
    }
}
