//! What may cross between two devices.
//!
//! Invariant I-2 lives in these types. Positions, counts, digests, prefix hashes, timings,
//! activation bytes and bytes of model files cross. Token ids, prompt or reply text and logits have
//! no field to stand in. (What crosses to a device of the same person that runs a whole request
//! belongs to [`crate::offload`]; its heads hold no ids either.) The only texts are a device's
//! name and those of its parts, a model's name, an app version and a sentence for people.
//! `tests/it/vocabulary.rs` names every field, so that a new one has to be argued for.

use bytes::{Bytes, BytesMut};
use nook_base::{ErrorCode, Ticket};
use serde::{Deserialize, Serialize};

use crate::body::{read_body, write_body};
use crate::bounded;
use crate::chunk::Chunk;
use crate::copying::{Have, Piece, Want};
use crate::error::DecodeError;
use crate::facts::DeviceFacts;
use crate::forward::Passed;
use crate::greeting::{Advert, Hello};
use crate::help::HelpTerms;
use crate::kind::Kind;
use crate::kv_migration::{KeptHistory, KvPieceHead};
use crate::offload::{OffloadFinish, OffloadKept, OffloadOffers, OffloadRequest, OffloadTokens};
use crate::placing::{Placed, PlacementRequest};
use crate::releases::{Releases, WantRelease};
use crate::session::{Open, ResultHead, StepHead};
use crate::trial::{Move, Trial};

/// Longest sentence for people, in bytes; cut by the sender, refused by the receiver.
pub const SENTENCE_BYTES_MAX: usize = 512;

/// A set of messages that a connection may carry: [`Message`] between devices,
/// [`crate::WorkerMessage`] between a node and its own worker.
pub trait WireMessage: Sized + Send + std::fmt::Debug + 'static {
    /// The number under which it travels.
    fn kind(&self) -> Kind;

    /// The header flags it travels with.
    fn flags(&self) -> u16;

    /// Appends the body to `head`, up to the payload that it returns: shared bytes that follow.
    fn encode_body(&self, head: &mut BytesMut) -> Bytes;

    /// Reads a body. Refuses kinds outside this vocabulary and bytes left over.
    fn decode_body(kind: Kind, flags: u16, body: Bytes) -> Result<Self, DecodeError>;

    /// Any message between devices is also a message of this vocabulary.
    fn from_peer(message: Message) -> Self;

    /// The message between devices that this is, or itself when it must not leave this machine.
    fn into_peer(self) -> Result<Message, Self>;

    /// Whether it, and the chunks after it, may be overtaken by other calls (prefill).
    fn is_bulk(&self) -> bool;

    /// Whether it, and the chunks after it, wait until no other call has anything to say (files).
    fn is_background(&self) -> bool;
}

/// All that may cross between two devices.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Who speaks, and which protocol. First on a connection, from both sides.
    Hello(Hello),
    /// What the sender hosts. Counts for `nook_base::limits::ADVERT_LIFE`.
    Advert(Advert),
    /// Please hold these layers.
    Place(PlacementRequest),
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
    /// To a host that drains: please send the KV cache of this call.
    RequestKvCache,
    /// The head of a piece of the KV cache; its bytes follow in chunks.
    KvCachePiece(KvPieceHead),
    /// All pieces were taken.
    KvCacheTaken {
        /// Positions that are remembered from now on.
        position: u32,
    },
    /// What the owner of the sender allows between the two devices. For people: it opens nothing.
    HelpTerms(HelpTerms),
    /// What people know the sender by, and how it is. For people: it opens nothing.
    DeviceFacts(Box<DeviceFacts>),
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
    /// Before HELLO, on a connection that is tried; see [`crate::trial`].
    Trial(Trial),
    /// On a connection that is tried: the link may go on here. On the link: what the sender says
    /// next comes there.
    Move(Move),
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
    /// Models that the sender would run whole; only to a device of the same person, see
    /// [`crate::offload`].
    OffloadOffers(OffloadOffers),
    /// First on a call to a device of the same person: please run this whole request.
    OffloadRequest(Box<OffloadRequest>),
    /// The head of tokens of its reply, which follow in chunks.
    OffloadTokens(OffloadTokens),
    /// The reply is whole.
    OffloadEnd {
        /// How it ended.
        finish: OffloadFinish,
        /// What is kept of it.
        kept: Option<OffloadKept>,
    },
    /// Models that the sender gives.
    Have(Have),
    /// First on a call, and later on it: please send these bytes of a model's file.
    Want(Want),
    /// The head of some of them, which follow in chunks.
    Piece(Piece),
    /// A signed list of versions of this program that the sender has; see [`crate::releases`].
    Releases(Releases),
    /// First on a call, and later on it: please send these bytes of that list or of a package.
    WantRelease(WantRelease),
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
            Self::RequestKvCache => Kind::RequestKvCache,
            Self::KvCachePiece(_) => Kind::KvCachePiece,
            Self::KvCacheTaken { .. } => Kind::KvCacheTaken,
            Self::HelpTerms(_) => Kind::HelpTerms,
            Self::DeviceFacts(_) => Kind::DeviceFacts,
            Self::DropKept(_) => Kind::DropKept,
            Self::Ping { .. } => Kind::Ping,
            Self::Pong { .. } => Kind::Pong,
            Self::Trial(_) => Kind::Trial,
            Self::Move(_) => Kind::Move,
            Self::Forward(_) => Kind::Forward,
            Self::Relay(_) => Kind::Relay,
            Self::Onward { .. } => Kind::Onward,
            Self::Passed(_) => Kind::Passed,
            Self::OffloadOffers(_) => Kind::OffloadOffers,
            Self::OffloadRequest(_) => Kind::OffloadRequest,
            Self::OffloadTokens(_) => Kind::OffloadTokens,
            Self::OffloadEnd { .. } => Kind::OffloadEnd,
            Self::Have(_) => Kind::Have,
            Self::Want(_) => Kind::Want,
            Self::Piece(_) => Kind::Piece,
            Self::Releases(_) => Kind::Releases,
            Self::WantRelease(_) => Kind::WantRelease,
        }
    }

    fn flags(&self) -> u16 {
        match self {
            Self::Chunk(chunk) => chunk.flags(),
            _ => 0,
        }
    }

    fn encode_body(&self, head: &mut BytesMut) -> Bytes {
        match self {
            Self::Hello(hello) => write_body(hello, head),
            Self::Advert(advert) => write_body(advert, head),
            Self::Place(wish) => write_body(wish, head),
            Self::Placed(placed) => write_body(placed, head),
            Self::Open(open) => write_body(open, head),
            Self::Opened { position }
            | Self::Truncate { position }
            | Self::KvCacheTaken { position } => write_body(position, head),
            Self::RequestKvCache => {}
            Self::KvCachePiece(it) => write_body(it, head),
            Self::HelpTerms(terms) => write_body(terms, head),
            Self::DeviceFacts(facts) => write_body(facts, head),
            Self::DropKept(kept) => write_body(kept, head),
            Self::Step(it) => write_body(it, head),
            Self::Chunk(chunk) => return chunk.encode(head),
            Self::Result(it) => write_body(it, head),
            Self::Credit { chunks } => write_body(chunks, head),
            Self::Close { code } => write_body(code, head),
            Self::Error(error) => write_body(error, head),
            Self::Draining { sentence } => write_body(&Sentence(sentence.clone()), head),
            Self::Ping { nonce } | Self::Pong { nonce } => write_body(nonce, head),
            Self::Move(it) => write_body(it, head),
            Self::Trial(trial) => return trial.encode(head),
            Self::Forward(ticket) | Self::Relay(ticket) => write_body(ticket, head),
            Self::Onward { code } => write_body(code, head),
            Self::Passed(passed) => write_body(passed, head),
            Self::OffloadOffers(offers) => write_body(offers, head),
            Self::OffloadRequest(ask) => write_body(ask, head),
            Self::OffloadTokens(it) => write_body(it, head),
            Self::OffloadEnd { finish, kept } => write_body(&(finish, kept), head),
            Self::Have(have) => write_body(have, head),
            Self::Want(want) => write_body(want, head),
            Self::Piece(it) => write_body(it, head),
            Self::Releases(releases) => write_body(releases, head),
            Self::WantRelease(want) => write_body(want, head),
        }
        Bytes::new()
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
            Kind::Chunk => Self::Chunk(Chunk::decode(flags, &body)?),
            Kind::Result => Self::Result(read_body(kind, read)?),
            Kind::Truncate => Self::Truncate { position: read_body(kind, read)? },
            Kind::Credit => Self::Credit { chunks: read_body(kind, read)? },
            Kind::Close => Self::Close { code: read_body(kind, read)? },
            Kind::Error => Self::Error(read_body(kind, read)?),
            Kind::Draining => Self::Draining { sentence: read_body::<Sentence>(kind, read)?.0 },
            Kind::RequestKvCache => {
                read_body::<()>(kind, read)?;
                Self::RequestKvCache
            }
            Kind::KvCachePiece => Self::KvCachePiece(read_body(kind, read)?),
            Kind::KvCacheTaken => Self::KvCacheTaken { position: read_body(kind, read)? },
            Kind::HelpTerms => Self::HelpTerms(read_body(kind, read)?),
            Kind::DeviceFacts => Self::DeviceFacts(read_body(kind, read)?),
            Kind::DropKept => Self::DropKept(read_body(kind, read)?),
            Kind::Ping => Self::Ping { nonce: read_body(kind, read)? },
            Kind::Pong => Self::Pong { nonce: read_body(kind, read)? },
            Kind::Trial => Self::Trial(Trial::decode(read)?),
            Kind::Move => Self::Move(read_body(kind, read)?),
            Kind::Forward => Self::Forward(read_body(kind, read)?),
            Kind::Relay => Self::Relay(read_body(kind, read)?),
            Kind::Onward => Self::Onward { code: read_body(kind, read)? },
            Kind::Passed => Self::Passed(read_body(kind, read)?),
            Kind::OffloadOffers => Self::OffloadOffers(read_body(kind, read)?),
            Kind::OffloadRequest => Self::OffloadRequest(read_body(kind, read)?),
            Kind::OffloadTokens => Self::OffloadTokens(read_body(kind, read)?),
            Kind::OffloadEnd => {
                let (finish, kept) = read_body(kind, read)?;
                Self::OffloadEnd { finish, kept }
            }
            Kind::Have => Self::Have(read_body(kind, read)?),
            Kind::Want => Self::Want(read_body(kind, read)?),
            Kind::Piece => Self::Piece(read_body(kind, read)?),
            Kind::Releases => Self::Releases(read_body(kind, read)?),
            Kind::WantRelease => Self::WantRelease(read_body(kind, read)?),
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
            Self::KvCachePiece(_) | Self::OffloadRequest(_) => true,
            _ => false,
        }
    }

    fn is_background(&self) -> bool {
        matches!(self, Self::Piece(_))
    }
}
