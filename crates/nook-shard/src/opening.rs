//! How a call of the worker begins: who asks, for what, and whether a kept conversation goes on.
//!
//! Management questions of the own node are answered here as well; they come on calls of their own.
//! How a conversation is kept when its call ends well ([`Conversation::park`]) stands beside how it
//! is found again.

use nook_base::{
    ActivationDtype, DeviceBytes, ErrorCode, ModelDigest, ModelPart, NotedFile, clock,
};
use nook_model::Session;
use nook_mux::Call;
use nook_wire::{LocalMessage, Message, Open, ResumePoint, WorkerMessage};

use crate::account::{Caller, Slot};
use crate::compute::{Opened, Resumed};
use crate::copies;
use crate::failure::Failure;
use crate::history::History;
use crate::over::{Over, out_of_turn};
use crate::retained::{Kept, Requester, RetainedKey};
use crate::worker_state::WorkerState;

/// A conversation that is open.
pub(crate) struct Conversation {
    /// Its number in this worker.
    pub(crate) who: u64,
    pub(crate) caller: Caller,
    pub(crate) model: ModelDigest,
    pub(crate) part: ModelPart,
    pub(crate) dtype: ActivationDtype,
    pub(crate) session: Session,
    /// Which history is remembered.
    pub(crate) history: History,
    /// Place and memory belong to this conversation and go with it.
    pub(crate) slot: Slot,
}

/// What an opening message asks for.
struct OpenRequest {
    caller: Caller,
    /// The own node need not name it.
    model: Option<ModelDigest>,
    part: ModelPart,
    dtype: ActivationDtype,
    positions_max: u32,
    resume: Option<ResumePoint>,
}

/// Reads the opening message; management calls are answered here and go on waiting for it. `caller`
/// is whoever then hears what comes of it, also where nothing does.
pub(crate) async fn open(
    worker: &WorkerState,
    call: &mut Call<WorkerMessage>,
    caller: &mut Caller,
) -> Result<Conversation, Over> {
    let mut peer = None;
    let wish = loop {
        match call.recv().await? {
            WorkerMessage::Peer(Message::Open(open)) => break of_guest(Caller::Guest(peer), open),
            WorkerMessage::Local(LocalMessage::OnBehalf { peer: named }) => peer = Some(named),
            // The kind is the own node's. Whoever it was asked for by name stays a guest, and is
            // held to what guests may take; nothing of a guest's own call becomes this.
            WorkerMessage::Local(LocalMessage::OpenLocal {
                part,
                dtype,
                positions_max,
                resume,
                ..
            }) => {
                let caller = peer.map_or(Caller::Owner, |peer| Caller::Guest(Some(peer)));
                break OpenRequest { caller, model: None, part, dtype, positions_max, resume };
            }
            WorkerMessage::Local(message) => {
                let caller = peer.map_or(Caller::Owner, |peer| Caller::Guest(Some(peer)));
                manage(worker, call, caller, message).await?;
            }
            WorkerMessage::Peer(_) => {
                return Err(out_of_turn("a call begins with OPEN").into());
            }
        }
    };
    *caller = wish.caller;
    let conversation = slot(worker, wish).await?;
    let position = conversation.session.position();
    call.send(Message::Opened { position }.into()).await?;
    Ok(conversation)
}

fn of_guest(caller: Caller, open: Open) -> OpenRequest {
    OpenRequest {
        caller,
        model: Some(open.model),
        part: ModelPart::inner(open.layers),
        dtype: open.dtype,
        positions_max: open.positions_max,
        resume: open.resume,
    }
}

/// Place first, then memory, then layers: whoever is over the limit is told so at once, whatever is
/// being computed, and costs nothing.
async fn slot(worker: &WorkerState, wish: OpenRequest) -> Result<Conversation, Failure> {
    let OpenRequest { caller, model, part, dtype, positions_max, resume } = wish;
    let mut slot = worker.account.admit(caller)?;
    let (model, cache_bytes) =
        worker.compute.cache_bytes(caller, model, part.layers, positions_max).await?;
    let history_bytes = DeviceBytes::in_memory(History::bytes_max(positions_max));
    let bytes = cache_bytes.plus(history_bytes);
    let kept = match resume {
        None => {
            slot.promise(bytes)?;
            None
        }
        Some(point) => {
            let key = RetainedKey::of(caller, model, part, dtype)
                .ok_or(crate::account::Refusal::NotKept)?;
            Some((point, slot.resume(&key, point, positions_max, bytes)?))
        }
    };
    let (resumed, history) = match kept {
        None => (None, History::default()),
        Some((point @ ResumePoint { copy: true, .. }, kept)) => {
            let key = RetainedKey::of(caller, model, part, dtype);
            let empty = worker.compute.open(caller, model, part, positions_max, None).await?;
            let (session, history) = copies::copied(&slot, key, kept, point, empty.session).await?;
            let position = session.position();
            (Some(Resumed { session, position }), history)
        }
        Some((ResumePoint { position, .. }, Kept { session, mut history })) => {
            history.truncate(position);
            (Some(Resumed { session, position }), history)
        }
    };
    let opened = worker.compute.open(caller, model, part, positions_max, resumed).await?;
    let Opened { session, cache_bytes } = opened;
    slot.promise_instead(cache_bytes.plus(history_bytes))?;
    let who = worker.compute.number_conversation();
    Ok(Conversation { who, caller, model, part, dtype, session, history, slot })
}

/// Load and status: asked only by the own node, on a call of their own. What it loads on behalf of
/// another device counts as lent.
async fn manage(
    worker: &WorkerState,
    call: &mut Call<WorkerMessage>,
    caller: Caller,
    message: LocalMessage,
) -> Result<(), Over> {
    let answer = match message {
        LocalMessage::Load { path, model, part, stamp } => {
            let file = NotedFile { path, stamp };
            let held = worker.compute.hold(caller, Some(file), model, part).await?;
            LocalMessage::Loaded {
                part,
                weight_bytes: held.weight_bytes,
                load_ms: u32::try_from(held.took.as_millis()).unwrap_or(u32::MAX),
            }
        }
        LocalMessage::Unload => {
            worker.release_all().await;
            LocalMessage::Unloaded
        }
        LocalMessage::Release { layers } => {
            worker.compute.release_lent(layers).await?;
            LocalMessage::Unloaded
        }
        LocalMessage::Status => worker.status().await,
        LocalMessage::ListGpus => {
            // Loading a driver may take long; the worker answers others meanwhile.
            let gpus = tokio::task::spawn_blocking(crate::place::gpus).await;
            let gpus = gpus.map_err(|_| Failure::from(ErrorCode::WorkerCrashed))?;
            LocalMessage::Gpus { gpus }
        }
        _ => return Err(out_of_turn("that does not begin a call").into()),
    };
    call.send(answer.into()).await?;
    Ok(())
}

impl Conversation {
    /// Keeps what is remembered for the same requester's next call, as far as there is anything and
    /// a name to keep it under.
    pub(crate) fn park(self) {
        let Self { caller, model, part, dtype, session, history, slot, .. } = self;
        let is_known = history.at(session.position()).is_some();
        if session.position() == 0 || !is_known {
            return;
        }
        if let Some(key) = RetainedKey::of(caller, model, part, dtype) {
            let kept = Kept { session, history };
            let bytes = kept.bytes();
            slot.park(key, kept, bytes, clock::now());
        }
    }
}

impl RetainedKey {
    /// `None` for a guest without a name.
    fn of(
        caller: Caller,
        model: ModelDigest,
        part: ModelPart,
        dtype: ActivationDtype,
    ) -> Option<Self> {
        let requester = match caller {
            Caller::Owner => Requester::Owner,
            Caller::Guest(peer) => Requester::Guest(peer?),
        };
        Some(Self { requester, model, part, dtype })
    }
}
