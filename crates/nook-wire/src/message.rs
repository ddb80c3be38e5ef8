//! What may cross between two devices.
//!
//! Invariant I-2 lives in these types: positions, counts, digests, marks, timings and activation
//! bytes cross, and bytes of model files; token ids, prompt or reply text and logits have no field to stand in. (What crosses to
//! a device of the same person that runs a whole request is `whole`'s; its heads hold no ids either.) The only
//! texts are a device's name, a model's, an app version and a sentence for people. `tests/vocabulary.rs`
//! names every field, so that a new one has to be argued for.

use std::fmt;

use bytes::{Bytes, BytesMut};
use nook_base::{ActivationDtype, ErrorCode, LayerRange, ModelDigest};
use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::caches::{CachesHead, KeptHistory};
use crate::copying::{Have, Piece, Want};
use crate::forward::{Passed, Ticket};
use crate::frame::{DecodeError, WireMessage, read_body, write_body};
use crate::header::{FLAG_LAST_CHUNK, Kind};
use crate::placing::{PlaceWish, Placed};
use crate::version::ProtocolRange;
use crate::whole::{WholeAsk, WholeFinish, WholeKept, WholeOffers, WholeTokens};
use nook_base::limits::CHUNK_BYTES_MAX;

/// Longest app version in HELLO, in bytes; a longer one is cut by the sender, refused by the receiver.
pub const APP_VERSION_BYTES_MAX: usize = 64;

/// Longest device name in HELLO, in bytes: 40 grapheme clusters of generous size. Cut by the
/// sender, refused by the receiver. It is untrusted text; whoever shows it cleans it.
pub const DEVICE_NAME_BYTES_MAX: usize = 512;

/// Longest sentence for people, in bytes; cut by the sender, refused by the receiver.
pub const SENTENCE_BYTES_MAX: usize = 512;

/// Most shards in one advert; the sender leaves out the rest, the receiver refuses more.
pub const ADVERT_SHARDS_MAX: usize = 256;

/// All that may cross between two devices.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Who speaks, and which protocol. First on a connection, from both sides.
    Hello(Hello),
    /// What the sender hosts. Counts for `nook_base::limits::ADVERT_LIFE`.
    Advert(Advert),
    /// Please hold these layers.
    Place(PlaceWish),
    /// What became of a PLACE; told again when that changes.
    Placed(Placed),
    /// First on a call: please compute these layers for a session.
    Open(Open),
    /// The session is open.
    Opened {
        /// Positions that the host's cache already holds.
        position: u32,
    },
    /// The head of a step; its activation follows in chunks.
    Step(StepHead),
    /// A piece of the tensor whose head came before.
    Chunk(Chunk),
    /// The head of a step's result; its activation follows in chunks.
    Result(ResultHead),
    /// Forget everything from this position on.
    Truncate {
        /// First position to forget.
        position: u32,
    },
    /// The receiver has taken this many more chunks of the call.
    Credit {
        /// Chunks that may be sent beyond those allowed so far.
        chunks: u32,
    },
    /// The call (on call 0, the connection) ends; nothing follows on it.
    Close {
        /// Why, unless it ended well.
        code: Option<ErrorCode>,
    },
    /// Something was refused.
    Error(WireError),
    /// The sender is leaving; it accepts nothing new.
    Draining {
        /// Why, for people.
        sentence: String,
    },
    /// To a host that drains: please give what is remembered of this call.
    GiveCaches,
    /// The head of a piece of what is remembered; its bytes follow in chunks.
    Caches(CachesHead),
    /// All pieces were taken.
    TookCaches {
        /// Positions that are remembered from now on.
        position: u32,
    },
    /// Drop what is kept of this conversation.
    DropKept(KeptHistory),
    /// Are you there?
    Ping {
        /// Returned in the answer.
        nonce: u64,
    },
    /// I am.
    Pong {
        /// That of the question.
        nonce: u64,
    },
    /// Hand the results of this call to the ticket's host; see [`crate::forward`].
    Forward(Box<Ticket>),
    /// First on a call between hosts: the steps of that requester's call come here.
    Relay(Box<Ticket>),
    /// The way from host to host stands, or why it does not, or does no longer.
    Onward {
        /// Why it does not stand.
        code: Option<ErrorCode>,
    },
    /// A result has gone on to the next host.
    Passed(Passed),
    /// Models that the sender would run whole; only to a device of the same person, see [`crate::whole`].
    WholeOffers(WholeOffers),
    /// First on a call to a device of the same person: please run this whole request.
    WholeAsk(Box<WholeAsk>),
    /// The head of tokens of its reply, which follow in chunks.
    WholeTokens(WholeTokens),
    /// The reply is whole.
    WholeEnd {
        /// How it ended.
        finish: WholeFinish,
        /// What is kept of it.
        kept: Option<WholeKept>,
    },
    /// Models that the sender gives.
    Have(Have),
    /// First on a call, and later on it: please send these bytes of a model's file.
    Want(Want),
    /// The head of some of them, which follow in chunks.
    Piece(Piece),
}

/// Who speaks. Its layout is that of every protocol version: a device reads it before it knows which one the
/// other speaks. What a later version has to say more stands in a message of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Protocol versions spoken.
    pub protocol: ProtocolRange,
    /// Version of the app, for people.
    #[serde(
        serialize_with = "bounded::write_text::<APP_VERSION_BYTES_MAX, _>",
        deserialize_with = "bounded::read_text::<APP_VERSION_BYTES_MAX, _>"
    )]
    pub app_version: String,
    /// Name of the device, untrusted text.
    #[serde(
        serialize_with = "bounded::write_text::<DEVICE_NAME_BYTES_MAX, _>",
        deserialize_with = "bounded::read_text::<DEVICE_NAME_BYTES_MAX, _>"
    )]
    pub device_name: String,
    /// Port on which it accepts links; 0 when it accepts none.
    pub listen_port: u16,
}

/// What a host holds and has room for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advert {
    /// Whether it lends anything now.
    pub sharing: bool,
    /// What it can compute.
    #[serde(
        serialize_with = "bounded::write_list::<ADVERT_SHARDS_MAX, _, _>",
        deserialize_with = "bounded::read_list::<ADVERT_SHARDS_MAX, _, _>"
    )]
    pub shards: Vec<ShardAdvert>,
    /// Sessions it would still accept.
    pub streams_free: u16,
    /// Sessions of guests that are open: a further one's steps take turns with theirs. Not the steps that wait at one
    /// moment: those are none between two of them, and a session that goes on comes back with the next.
    pub queue_depth: u16,
    /// Memory it would still spend, in bytes.
    pub memory_free_bytes: u64,
}

/// A part of one model on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardAdvert {
    /// The model.
    pub model: ModelDigest,
    /// Layers it can compute.
    pub layers: LayerRange,
    /// Those of them that are in memory already.
    pub held: LayerRange,
    /// Measured decode time of one layer, in µs; `None`: not measured.
    pub decode_us_per_layer: Option<u32>,
    /// Measured prefill time of one layer and token, in µs; `None`: not measured.
    pub prefill_us_per_layer_token: Option<u32>,
}

/// Please compute these layers for a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The requester's name for this call, drawn at random: what a [`Ticket`] means.
    pub session: u64,
    /// The model.
    pub model: ModelDigest,
    /// The layers.
    pub layers: LayerRange,
    /// How activations are written, both ways.
    pub dtype: ActivationDtype,
    /// Positions that the session will need at most.
    pub positions_max: u32,
    /// Where to go on, if the host still remembers an earlier call of this conversation.
    pub resume: Option<ResumePoint>,
}

/// Where a conversation goes on that a host may remember from an earlier call of the same requester.
///
/// The host truncates what it remembers to `position`, or copies so much of it, and answers OPENED with
/// it, or refuses with `history_mismatch`; then nothing is lost but a round trip, and the requester opens from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumePoint {
    /// Positions to go on after: a place where a step of the earlier call ended.
    pub position: u32,
    /// Mark of the history up to there, as that step said it.
    pub mark: HistoryMark,
    /// Whether the earlier call is to stay as it is, for others to go on with: this one begins with a
    /// copy.
    pub copy: bool,
}

/// The head of a step. Its activation, `count` x `hidden`, follows in chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepHead {
    /// Number of the step within its call; the result repeats it.
    pub step: u64,
    /// Position of the first row; must be the length of the host's cache.
    pub position: u32,
    /// Rows.
    pub count: u32,
    /// Numbers in a row.
    pub hidden: u32,
    /// How a number is written.
    pub dtype: ActivationDtype,
    /// Mark of the history up to `position`.
    pub history_before: HistoryMark,
    /// Mark of the history up to `position + count`.
    pub history_after: HistoryMark,
    /// Prefill: the frames of other calls may overtake this one's.
    pub bulk: bool,
}

/// A keyed hash over the tokens so far that only the requester can compute; the host compares.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HistoryMark(pub [u8; 16]);

/// The head of a step's result. Its activation, `count` x `hidden`, follows in chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultHead {
    /// Number of the step that it answers.
    pub step: u64,
    /// Position of the first row.
    pub position: u32,
    /// Rows.
    pub count: u32,
    /// Numbers in a row.
    pub hidden: u32,
    /// How a number is written.
    pub dtype: ActivationDtype,
    /// Time spent computing, in µs.
    pub compute_us: u32,
    /// Time spent waiting for a turn, in µs.
    pub queue_us: u32,
    /// Prefill: the frames of other calls may overtake this one's.
    pub bulk: bool,
}

/// A piece of a tensor. `Debug` shows no bytes (invariant I-3).
#[derive(Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Where the bytes stand in the tensor.
    pub offset: u64,
    /// The bytes, at most `nook_base::limits::CHUNK_BYTES_MAX`.
    pub bytes: Bytes,
    /// Whether the tensor ends with it. Travels as a header flag.
    pub last: bool,
}

/// Something was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireError {
    /// What programs act on.
    pub code: ErrorCode,
    /// What people read. Untrusted text when it comes from a peer.
    #[serde(
        serialize_with = "bounded::write_text::<SENTENCE_BYTES_MAX, _>",
        deserialize_with = "bounded::read_text::<SENTENCE_BYTES_MAX, _>"
    )]
    pub sentence: String,
}

/// The body of DRAINING.
#[derive(Serialize, Deserialize)]
struct Sentence(
    #[serde(
        serialize_with = "bounded::write_text::<SENTENCE_BYTES_MAX, _>",
        deserialize_with = "bounded::read_text::<SENTENCE_BYTES_MAX, _>"
    )]
    String,
);

impl Message {
    /// An error with the usual sentence of its code.
    #[must_use]
    pub fn refusal(code: ErrorCode) -> Self {
        Self::Error(WireError { code, sentence: code.sentence().to_owned() })
    }
}

impl WireMessage for Message {
    fn kind(&self) -> Kind {
        match self {
            Self::Hello(_) => Kind::Hello,
            Self::Advert(_) => Kind::Advert,
            Self::Place(_) => Kind::Place,
            Self::Placed(_) => Kind::Placed,
            Self::Open(_) => Kind::Open,
            Self::Opened { .. } => Kind::Opened,
            Self::Step(_) => Kind::Step,
            Self::Chunk(_) => Kind::Chunk,
            Self::Result(_) => Kind::Result,
            Self::Truncate { .. } => Kind::Truncate,
            Self::Credit { .. } => Kind::Credit,
            Self::Close { .. } => Kind::Close,
            Self::Error(_) => Kind::Error,
            Self::Draining { .. } => Kind::Draining,
            Self::GiveCaches => Kind::GiveCaches,
            Self::Caches(_) => Kind::Caches,
            Self::TookCaches { .. } => Kind::TookCaches,
            Self::DropKept(_) => Kind::DropKept,
            Self::Ping { .. } => Kind::Ping,
            Self::Pong { .. } => Kind::Pong,
            Self::Forward(_) => Kind::Forward,
            Self::Relay(_) => Kind::Relay,
            Self::Onward { .. } => Kind::Onward,
            Self::Passed(_) => Kind::Passed,
            Self::WholeOffers(_) => Kind::WholeOffers,
            Self::WholeAsk(_) => Kind::WholeAsk,
            Self::WholeTokens(_) => Kind::WholeTokens,
            Self::WholeEnd { .. } => Kind::WholeEnd,
            Self::Have(_) => Kind::Have,
            Self::Want(_) => Kind::Want,
            Self::Piece(_) => Kind::Piece,
        }
    }

    fn flags(&self) -> u16 {
        match self {
            Self::Chunk(Chunk { last: true, .. }) => FLAG_LAST_CHUNK,
            _ => 0,
        }
    }

    fn encode_body(&self, out: &mut BytesMut) {
        match self {
            Self::Hello(hello) => write_body(hello, out),
            Self::Advert(advert) => write_body(advert, out),
            Self::Place(wish) => write_body(wish, out),
            Self::Placed(placed) => write_body(placed, out),
            Self::Open(open) => write_body(open, out),
            Self::Opened { position }
            | Self::Truncate { position }
            | Self::TookCaches { position } => write_body(position, out),
            Self::GiveCaches => {}
            Self::Caches(head) => write_body(head, out),
            Self::DropKept(kept) => write_body(kept, out),
            Self::Step(head) => write_body(head, out),
            Self::Chunk(chunk) => {
                out.reserve(crate::header::CHUNK_HEAD_BYTES_MAX + chunk.bytes.len());
                write_body(&chunk.offset, out);
                out.extend_from_slice(&chunk.bytes);
            }
            Self::Result(head) => write_body(head, out),
            Self::Credit { chunks } => write_body(chunks, out),
            Self::Close { code } => write_body(code, out),
            Self::Error(error) => write_body(error, out),
            Self::Draining { sentence } => write_body(&Sentence(sentence.clone()), out),
            Self::Ping { nonce } | Self::Pong { nonce } => write_body(nonce, out),
            Self::Forward(ticket) | Self::Relay(ticket) => write_body(ticket, out),
            Self::Onward { code } => write_body(code, out),
            Self::Passed(passed) => write_body(passed, out),
            Self::WholeOffers(offers) => write_body(offers, out),
            Self::WholeAsk(ask) => write_body(ask, out),
            Self::WholeTokens(head) => write_body(head, out),
            Self::WholeEnd { finish, kept } => write_body(&(finish, kept), out),
            Self::Have(have) => write_body(have, out),
            Self::Want(want) => write_body(want, out),
            Self::Piece(head) => write_body(head, out),
        }
    }

    fn decode_body(kind: Kind, flags: u16, body: Bytes) -> Result<Self, DecodeError> {
        let read = &body;
        Ok(match kind {
            Kind::Hello => Self::Hello(read_body(kind, read)?),
            Kind::Advert => Self::Advert(read_body(kind, read)?),
            Kind::Place => Self::Place(read_body(kind, read)?),
            Kind::Placed => Self::Placed(read_body(kind, read)?),
            Kind::Open => Self::Open(read_body(kind, read)?),
            Kind::Opened => Self::Opened { position: read_body(kind, read)? },
            Kind::Step => Self::Step(read_body(kind, read)?),
            Kind::Chunk => Self::Chunk(read_chunk(flags, body)?),
            Kind::Result => Self::Result(read_body(kind, read)?),
            Kind::Truncate => Self::Truncate { position: read_body(kind, read)? },
            Kind::Credit => Self::Credit { chunks: read_body(kind, read)? },
            Kind::Close => Self::Close { code: read_body(kind, read)? },
            Kind::Error => Self::Error(read_body(kind, read)?),
            Kind::Draining => Self::Draining { sentence: read_body::<Sentence>(kind, read)?.0 },
            Kind::GiveCaches => {
                read_body::<()>(kind, read)?;
                Self::GiveCaches
            }
            Kind::Caches => Self::Caches(read_body(kind, read)?),
            Kind::TookCaches => Self::TookCaches { position: read_body(kind, read)? },
            Kind::DropKept => Self::DropKept(read_body(kind, read)?),
            Kind::Ping => Self::Ping { nonce: read_body(kind, read)? },
            Kind::Pong => Self::Pong { nonce: read_body(kind, read)? },
            Kind::Forward => Self::Forward(read_body(kind, read)?),
            Kind::Relay => Self::Relay(read_body(kind, read)?),
            Kind::Onward => Self::Onward { code: read_body(kind, read)? },
            Kind::Passed => Self::Passed(read_body(kind, read)?),
            Kind::WholeOffers => Self::WholeOffers(read_body(kind, read)?),
            Kind::WholeAsk => Self::WholeAsk(read_body(kind, read)?),
            Kind::WholeTokens => Self::WholeTokens(read_body(kind, read)?),
            Kind::WholeEnd => {
                let (finish, kept) = read_body(kind, read)?;
                Self::WholeEnd { finish, kept }
            }
            Kind::Have => Self::Have(read_body(kind, read)?),
            Kind::Want => Self::Want(read_body(kind, read)?),
            Kind::Piece => Self::Piece(read_body(kind, read)?),
            local => {
                return Err(DecodeError::UnknownKind { number: local as u8 });
            }
        })
    }

    fn from_peer(message: Message) -> Self {
        message
    }

    fn into_peer(self) -> Result<Message, Self> {
        Ok(self)
    }

    fn is_bulk(&self) -> bool {
        match self {
            Self::Step(head) => head.bulk,
            Self::Result(head) => head.bulk,
            // The ids of a long prompt follow it.
            Self::Caches(_) | Self::WholeAsk(_) => true,
            _ => false,
        }
    }

    fn is_background(&self) -> bool {
        matches!(self, Self::Piece(_))
    }
}

/// Reads a chunk: its offset, then the rest of the body without copying it.
fn read_chunk(flags: u16, body: Bytes) -> Result<Chunk, DecodeError> {
    let kind = Kind::Chunk;
    let (offset, rest) =
        postcard::take_from_bytes::<u64>(&body).map_err(|_| DecodeError::BadBody { kind })?;
    if rest.is_empty() || rest.len() > CHUNK_BYTES_MAX {
        return Err(DecodeError::BadBody { kind });
    }
    let bytes = body.slice_ref(rest);
    Ok(Chunk { offset, bytes, last: flags & FLAG_LAST_CHUNK != 0 })
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = if self.last { ", last" } else { "" };
        write!(f, "Chunk({} bytes at {}{last})", self.bytes.len(), self.offset)
    }
}

impl fmt::Debug for HistoryMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}
