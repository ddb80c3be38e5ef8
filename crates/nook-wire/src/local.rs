//! What a node says to its own worker process, on top of what devices say to each other.
//!
//! Token ids and logits cross here and only here: both ends are this machine, and the socket is
//! private to the user. What peers say passes through as [`WorkerMessage::Peer`].

use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use nook_base::limits::STEP_TOKENS_MAX;
use nook_base::{
    ActivationDtype, Backend, FileStamp, LayerRange, LogitRows, ModelDigest, ModelPart, PeerId,
    PrefixHash, Sensitive,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::body::{read_body, write_body};
use crate::bounded;
use crate::error::DecodeError;
use crate::gpus::{GPUS_MAX, GpuHolding, GpuReport};
use crate::kind::Kind;
use crate::kv_migration::KeptHistory;
use crate::message::{Message, WireMessage};
use crate::session::{ResumePoint, StepHead};

/// Longest path of a model file, in bytes: Linux's `PATH_MAX`, and two bytes for each of as many
/// units of Windows. A longer one is cut; no system would have opened it.
pub const PATH_BYTES_MAX: usize = if cfg!(windows) { 8192 } else { 4096 };

/// Most separate layer ranges in a status report; the worker leaves out the rest.
pub const HELD_RANGES_MAX: usize = 256;

/// All that may cross between a node and its own worker.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerMessage {
    /// What might as well come from, or go to, another device.
    Peer(Message),
    /// What never leaves this machine.
    Local(LocalMessage),
}

/// What never leaves this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LocalMessage {
    /// First on a worker's connection: proof that it is ours.
    Auth {
        /// The secret that the node gave the worker when it started it.
        #[serde(serialize_with = "write_sensitive", deserialize_with = "read_token")]
        token: Sensitive<[u8; 32]>,
    },
    /// Limits that the worker keeps from now on.
    Configure {
        /// Sessions at once.
        streams_max: u16,
        /// Weights and caches of other devices in the memory of the computer, in bytes.
        memory_bytes_max: u64,
        /// The same in a GPU's own memory.
        gpu_bytes_max: u64,
        /// After how long without use weights are freed.
        idle_seconds: u32,
        /// Threads that compute.
        threads: u16,
        /// Where it computes. What a model was loaded on first stays.
        backend: Backend,
        /// Whether it computes on the CPU what that device cannot: the device was measured, not
        /// named by the owner.
        falls_back: bool,
    },
    /// Load a part of a model into memory.
    Load {
        /// The file.
        #[serde(
            serialize_with = "bounded::write_path::<PATH_BYTES_MAX, _>",
            deserialize_with = "bounded::read_path::<PATH_BYTES_MAX, _>"
        )]
        path: PathBuf,
        /// What the file must be.
        model: ModelDigest,
        /// Which part of it.
        part: ModelPart,
        /// What the file was when all of it was digested; absent for a partial one.
        stamp: Option<FileStamp>,
    },
    /// The part is in memory.
    Loaded {
        /// Which part.
        part: ModelPart,
        /// What it takes.
        weight_bytes: u64,
        /// How long it took.
        load_ms: u32,
    },
    /// Open a session on a part of the loaded model that may include its ends. Answered by OPENED.
    OpenLocal {
        /// The conversation, as the requester numbers it.
        session: u64,
        /// Which part computes.
        part: ModelPart,
        /// How activations are written, where they come in or go out.
        dtype: ActivationDtype,
        /// Positions that the session will need at most.
        positions_max: u32,
        /// Where to go on, as in [`crate::Open::resume`].
        resume: Option<ResumePoint>,
    },
    /// A step that starts from token ids, for a part with the embedding. Without the head it is
    /// answered by RESULT and chunks, with it by [`LocalMessage::Logits`].
    Tokens {
        /// Number of the step within its call.
        step: u64,
        /// Position of the first token; must be the length of the cache.
        position: u32,
        /// The token ids.
        #[serde(serialize_with = "write_sensitive_list", deserialize_with = "read_ids")]
        ids: Sensitive<Vec<u32>>,
        /// Prefix hash of the history up to `position`.
        history_before: PrefixHash,
        /// Prefix hash of the history after the ids.
        history_after: PrefixHash,
        /// Which logits are wanted, where the part has the head.
        rows: LogitRows,
    },
    /// A step that starts from an activation, for a part with the head. Chunks follow; it is
    /// answered by [`LocalMessage::Logits`].
    StepLogits {
        /// The step.
        head: StepHead,
        /// Which logits are wanted.
        rows: LogitRows,
    },
    /// The head of logits; `count` x `vocabulary` f32, little-endian, follow in chunks. No chunk
    /// follows when `count` is 0.
    Logits {
        /// Number of the step that it answers.
        step: u64,
        /// Position of the first row.
        position: u32,
        /// Rows: 0 for [`LogitRows::None`].
        count: u32,
        /// Numbers in a row.
        vocabulary: u32,
        /// Time spent computing, in µs.
        compute_us: u32,
        /// Time spent waiting for a turn, in µs.
        queue_us: u32,
    },
    /// Free the weights.
    Unload,
    /// They are freed.
    Unloaded,
    /// How are you?
    Status,
    /// The answer.
    StatusReport {
        /// Layers in memory.
        #[serde(
            serialize_with = "bounded::write_list::<HELD_RANGES_MAX, _, _>",
            deserialize_with = "bounded::read_list::<HELD_RANGES_MAX, _, _>"
        )]
        held: Vec<LayerRange>,
        /// Whether the embedding is in memory.
        embedding: bool,
        /// Whether norm and output matrix are in memory.
        head: bool,
        /// Sessions open.
        sessions: u16,
        /// Those of them that serve other devices.
        guest_sessions: u16,
        /// Memory that weights take.
        weight_bytes: u64,
        /// Memory that caches take.
        cache_bytes: u64,
        /// Steps computed since the worker started.
        steps_done: u64,
        /// How steps shared passes.
        passes: PassCounts,
        /// Conversations kept after their call, for the same requester to go on with.
        parked: u16,
        /// Memory that those take; not part of `cache_bytes`.
        parked_bytes: u64,
        /// Memory of the computer that weights and caches of other devices take; part of
        /// `weight_bytes` and `cache_bytes`. What lies in a GPU's own memory is not in it.
        lent_bytes: u64,
        /// Where its model computes; [`Backend::Auto`] while it has none.
        backend: Backend,
        /// What of it a GPU has.
        on_gpu: GpuHolding,
    },
    /// First on a call that a node serves for another device, before that device's own frames,
    /// which could not say it: who asks. Without it nothing is kept after the call.
    OnBehalf {
        /// The device, as the gate let it in.
        peer: PeerId,
    },
    /// Keep no conversation of this device any more, or of any other device.
    Forget {
        /// Whose; `None`: of every device but the own one.
        peer: Option<PeerId>,
    },
    /// Free those of these layers that were loaded for other devices and are not this device's own
    /// since, unless a conversation is held. Answered by [`LocalMessage::Unloaded`] or an error.
    Release {
        /// The layers.
        layers: LayerRange,
    },
    /// Drop what is kept of one conversation.
    DropKeptOf {
        /// Whose; `None`: this device's own.
        peer: Option<PeerId>,
        /// Which.
        kept: KeptHistory,
    },
    /// Which GPUs does this computer have? Their drivers are loaded for it.
    ListGpus,
    /// The answer; a list without one says that there is no driver.
    Gpus {
        /// In the order of `gpu:N`.
        #[serde(
            serialize_with = "bounded::write_list::<GPUS_MAX, _, _>",
            deserialize_with = "bounded::read_list::<GPUS_MAX, _, _>"
        )]
        gpus: Vec<GpuReport>,
    },
}

/// How the steps of a worker shared passes over its weights, since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassCounts {
    /// Passes for steps of few rows: decode.
    pub shared: u64,
    /// Steps that they served; divided by `shared` it is the mean batch.
    pub served: u64,
    /// Most steps that one of them served.
    pub most: u16,
    /// Passes for pieces of long steps: prefill.
    pub pieces: u64,
    /// Steps that wait now.
    pub waiting: u16,
}

impl LocalMessage {
    /// The number under which it travels.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Auth { .. } => Kind::Auth,
            Self::Configure { .. } => Kind::Configure,
            Self::Load { .. } => Kind::Load,
            Self::Loaded { .. } => Kind::Loaded,
            Self::OpenLocal { .. } => Kind::OpenLocal,
            Self::Tokens { .. } => Kind::Tokens,
            Self::StepLogits { .. } => Kind::StepLogits,
            Self::Logits { .. } => Kind::Logits,
            Self::Unload => Kind::Unload,
            Self::Unloaded => Kind::Unloaded,
            Self::Status => Kind::Status,
            Self::StatusReport { .. } => Kind::StatusReport,
            Self::OnBehalf { .. } => Kind::OnBehalf,
            Self::Forget { .. } => Kind::Forget,
            Self::Release { .. } => Kind::Release,
            Self::DropKeptOf { .. } => Kind::DropKeptOf,
            Self::ListGpus => Kind::ListGpus,
            Self::Gpus { .. } => Kind::Gpus,
        }
    }
}

impl WireMessage for WorkerMessage {
    fn kind(&self) -> Kind {
        match self {
            Self::Peer(message) => message.kind(),
            Self::Local(message) => message.kind(),
        }
    }

    fn flags(&self) -> u16 {
        match self {
            Self::Peer(message) => message.flags(),
            Self::Local(_) => 0,
        }
    }

    fn encode_body(&self, head: &mut BytesMut) -> Bytes {
        match self {
            Self::Peer(message) => message.encode_body(head),
            Self::Local(message) => {
                write_body(message, head);
                Bytes::new()
            }
        }
    }

    fn decode_body(kind: Kind, flags: u16, body: Bytes) -> Result<Self, DecodeError> {
        if !kind.is_local() {
            return Message::decode_body(kind, flags, body).map(Self::Peer);
        }
        let message: LocalMessage = read_body(kind, &body)?;
        if message.kind() == kind {
            Ok(Self::Local(message))
        } else {
            Err(DecodeError::BadBody { kind })
        }
    }

    fn from_peer(message: Message) -> Self {
        Self::Peer(message)
    }

    fn into_peer(self) -> Result<Message, Self> {
        match self {
            Self::Peer(message) => Ok(message),
            local @ Self::Local(_) => Err(local),
        }
    }

    fn is_bulk(&self) -> bool {
        match self {
            Self::Peer(message) => message.is_bulk(),
            Self::Local(LocalMessage::StepLogits { head, .. }) => head.bulk,
            Self::Local(LocalMessage::Tokens { ids, .. }) => ids.len() > 1,
            Self::Local(_) => false,
        }
    }

    fn is_background(&self) -> bool {
        matches!(self, Self::Peer(message) if message.is_background())
    }
}

impl From<Message> for WorkerMessage {
    fn from(message: Message) -> Self {
        Self::Peer(message)
    }
}

impl From<LocalMessage> for WorkerMessage {
    fn from(message: LocalMessage) -> Self {
        Self::Local(message)
    }
}

fn write_sensitive<T: Serialize, S: Serializer>(
    value: &Sensitive<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.0.serialize(serializer)
}

fn read_token<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sensitive<[u8; 32]>, D::Error> {
    <[u8; 32]>::deserialize(deserializer).map(Sensitive)
}

fn write_sensitive_list<S: Serializer>(
    ids: &Sensitive<Vec<u32>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    ids.0.serialize(serializer)
}

fn read_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sensitive<Vec<u32>>, D::Error> {
    bounded::read_list::<{ STEP_TOKENS_MAX as usize }, u32, D>(deserializer).map(Sensitive)
}
