//! The 16 bytes before every body: version, kind, flags, call, sequence number, body length.
//!
//! [`Header::parse`] is the first thing that looks at bytes from another process. It needs no more
//! than those 16 bytes, and it refuses a body length above the limit of that kind, so that nobody
//! allocates for a frame that would be refused later.

use std::fmt;

use nook_base::limits::{CHUNK_BYTES_MAX, FRAME_BODY_BYTES_MAX};

use crate::frame::DecodeError;

/// Bytes of a header on the wire.
pub const HEADER_BYTES: usize = 16;

/// The version of the frame layout. What the messages mean is negotiated in HELLO instead.
pub const WIRE_VERSION: u8 = 1;

/// Header flag: the chunk is the last of its tensor. The flag 1 (zstd) is reserved and refused.
pub const FLAG_LAST_CHUNK: u16 = 2;

/// Longest body of a frame that is no chunk, in bytes. A longer one is refused from its header.
pub const CONTROL_BODY_BYTES_MAX: usize = 64 << 10;

/// Most bytes of a chunk's head: one 64-bit varint.
pub const CHUNK_HEAD_BYTES_MAX: usize = 10;

/// Which call of a connection a frame belongs to; 0 is the connection itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u32);

/// What a body holds. The number is the second byte of the frame.
///
/// Kinds from 0x40 are spoken only between a node and its own worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Who speaks, and which protocol.
    Hello = 1,
    /// What a host holds and has room for.
    Advert = 2,
    /// Please hold these layers in memory.
    Place = 3,
    /// What became of that.
    Placed = 4,
    /// Please compute these layers for a session.
    Open = 5,
    /// The session is open.
    Opened = 6,
    /// The head of a step; its activation follows in chunks.
    Step = 7,
    /// A piece of a tensor.
    Chunk = 8,
    /// The head of a step's result; its activation follows in chunks.
    Result = 9,
    /// Forget the positions from here on.
    Truncate = 10,
    /// More chunks may be sent.
    Credit = 11,
    /// The call, or on call 0 the connection, ends.
    Close = 12,
    /// Something was refused.
    Error = 13,
    /// The device is leaving.
    Draining = 14,
    /// Please send these bytes of a model's file.
    Want = 15,
    /// Models that the sender gives.
    Have = 16,
    /// The head of some of those bytes; they follow in chunks.
    Piece = 17,
    /// Are you there?
    Ping = 18,
    /// I am.
    Pong = 19,
    /// Please give what is remembered of this call.
    GiveCaches = 0x30,
    /// The head of a piece of it; its bytes follow in chunks.
    Caches = 0x31,
    /// All pieces were taken.
    TookCaches = 0x32,
    /// Nobody will go on with what is kept of a conversation.
    DropKept = 0x33,
    /// Hand the results of this call to another host.
    Forward = 24,
    /// The steps of a requester's call come here.
    Relay = 25,
    /// The way from host to host stands, or does not.
    Onward = 26,
    /// A result has gone on to the next host.
    Passed = 27,
    /// To a device of the same person: models that it would run whole.
    WholeOffers = 0x38,
    /// To a device of the same person: please run this whole request.
    WholeAsk = 0x39,
    /// The head of tokens of its reply; they follow in chunks.
    WholeTokens = 0x3a,
    /// The reply is whole.
    WholeEnd = 0x3b,
    /// Local: proof that the other end is our own worker.
    Auth = 0x40,
    /// Local: limits that the worker keeps.
    Configure = 0x41,
    /// Local: load a part of a model.
    Load = 0x42,
    /// Local: the part is in memory.
    Loaded = 0x43,
    /// Local: open a session that may include the model's ends.
    OpenLocal = 0x44,
    /// Local: a step that starts from token ids.
    Tokens = 0x45,
    /// Local: a step that starts from an activation and ends in logits.
    StepLogits = 0x46,
    /// Local: the head of logits; they follow in chunks of f32.
    Logits = 0x47,
    /// Local: free the weights.
    Unload = 0x48,
    /// Local: they are freed.
    Unloaded = 0x49,
    /// Local: how are you?
    Status = 0x4a,
    /// Local: the answer.
    StatusReport = 0x4b,
    /// Local: which device the call is served for.
    OnBehalf = 0x4c,
    /// Local: keep nothing of a device's conversations.
    Forget = 0x4d,
    /// Local: free layers that were loaded for other devices.
    Release = 0x58,
    /// Local: drop what is kept of one conversation.
    DropKeptOf = 0x59,
}

/// The parsed header of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// [`WIRE_VERSION`].
    pub version: u8,
    /// What the body holds.
    pub kind: Kind,
    /// [`FLAG_LAST_CHUNK`] or nothing.
    pub flags: u16,
    /// The call.
    pub call: CallId,
    /// Number of this frame in its call and direction, from 0.
    pub seq: u32,
    /// Bytes of the body.
    pub body_len: u32,
}

impl CallId {
    /// The connection itself.
    pub const CONNECTION: Self = Self(0);
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}", self.0)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Kind {
    /// Every kind that this version understands, peers' kinds first.
    pub const ALL: [Self; 47] = [
        Self::Hello,
        Self::Advert,
        Self::Place,
        Self::Placed,
        Self::Open,
        Self::Opened,
        Self::Step,
        Self::Chunk,
        Self::Result,
        Self::Truncate,
        Self::Credit,
        Self::Close,
        Self::Error,
        Self::Draining,
        Self::Ping,
        Self::Pong,
        Self::GiveCaches,
        Self::Caches,
        Self::TookCaches,
        Self::DropKept,
        Self::Forward,
        Self::Relay,
        Self::Onward,
        Self::Passed,
        Self::WholeOffers,
        Self::WholeAsk,
        Self::WholeTokens,
        Self::WholeEnd,
        Self::Have,
        Self::Want,
        Self::Piece,
        Self::Auth,
        Self::Configure,
        Self::Load,
        Self::Loaded,
        Self::OpenLocal,
        Self::Tokens,
        Self::StepLogits,
        Self::Logits,
        Self::Unload,
        Self::Unloaded,
        Self::Status,
        Self::StatusReport,
        Self::OnBehalf,
        Self::Forget,
        Self::Release,
        Self::DropKeptOf,
    ];

    /// The kind with this number, if this version has one.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether it is spoken only between a node and its own worker.
    #[must_use]
    pub fn is_local(self) -> bool {
        self as u8 >= 0x40
    }

    /// Whether a frame of this kind may stand on `call`: some belong to the connection, some to a
    /// call, the rest (among them all local kinds) to either.
    #[must_use]
    pub fn fits(self, call: CallId) -> bool {
        match self {
            Self::Hello
            | Self::Advert
            | Self::Place
            | Self::Placed
            | Self::DropKept
            | Self::WholeOffers
            | Self::Have
            | Self::Ping
            | Self::Pong => call == CallId::CONNECTION,
            Self::Open
            | Self::Opened
            | Self::Step
            | Self::Chunk
            | Self::Result
            | Self::Truncate
            | Self::GiveCaches
            | Self::Caches
            | Self::TookCaches
            | Self::Credit
            | Self::Forward
            | Self::Relay
            | Self::Onward
            | Self::Passed
            | Self::WholeAsk
            | Self::WholeTokens
            | Self::WholeEnd
            | Self::Want
            | Self::Piece => call != CallId::CONNECTION,
            _ => true,
        }
    }

    /// Longest body of this kind, in bytes.
    #[must_use]
    pub fn body_bytes_max(self) -> usize {
        let max = match self {
            Self::Chunk => CHUNK_BYTES_MAX + CHUNK_HEAD_BYTES_MAX,
            _ => CONTROL_BODY_BYTES_MAX,
        };
        max.min(FRAME_BODY_BYTES_MAX)
    }

    /// Flags that mean something on this kind.
    fn flags_known(self) -> u16 {
        match self {
            Self::Chunk => FLAG_LAST_CHUNK,
            _ => 0,
        }
    }
}

impl Header {
    /// Reads the header at the start of `bytes`; what follows it is not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(DecodeError::ShortHeader { present: bytes.len() });
        };
        let [version, kind, f0, f1, c0, c1, c2, c3, s0, s1, s2, s3, l0, l1, l2, l3] = *head;
        if version != WIRE_VERSION {
            return Err(DecodeError::WrongVersion { got: version });
        }
        let kind = Kind::from_number(kind).ok_or(DecodeError::UnknownKind { number: kind })?;
        let header = Self {
            version,
            kind,
            flags: u16::from_be_bytes([f0, f1]),
            call: CallId(u32::from_be_bytes([c0, c1, c2, c3])),
            seq: u32::from_be_bytes([s0, s1, s2, s3]),
            body_len: u32::from_be_bytes([l0, l1, l2, l3]),
        };
        if header.flags & !kind.flags_known() != 0 {
            return Err(DecodeError::UnknownFlags { kind, flags: header.flags });
        }
        if header.body_len as usize > kind.body_bytes_max() {
            return Err(DecodeError::BodyTooLong {
                kind,
                claimed: header.body_len,
                max: kind.body_bytes_max(),
            });
        }
        if !kind.fits(header.call) {
            return Err(DecodeError::WrongPlace { kind, call: header.call });
        }
        Ok(header)
    }

    /// The header as it travels.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.version;
        bytes[1] = self.kind as u8;
        bytes[2..4].copy_from_slice(&self.flags.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.call.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.seq.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.body_len.to_be_bytes());
        bytes
    }
}
