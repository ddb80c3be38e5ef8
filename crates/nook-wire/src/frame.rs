//! The codec: one frame to one message and back, for either vocabulary.

use bytes::{Buf, Bytes, BytesMut};
use nook_base::ErrorCode;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::header::{CallId, HEADER_BYTES, Header, Kind, WIRE_VERSION};
use crate::message::Message;

/// A set of messages that a connection may carry: [`Message`] between devices,
/// [`crate::WorkerMessage`] between a node and its own worker.
pub trait WireMessage: Sized + Send + std::fmt::Debug + 'static {
    /// The number under which it travels.
    fn kind(&self) -> Kind;

    /// The header flags it travels with.
    fn flags(&self) -> u16;

    /// Appends the body to `out`.
    fn encode_body(&self, out: &mut BytesMut);

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

/// One decoded frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame<M> {
    /// The call.
    pub call: CallId,
    /// Number of the frame in its call and direction.
    pub seq: u32,
    /// What it says.
    pub message: M,
}

/// An encoded frame that has no sequence number yet: a writer gives numbers in the order of
/// writing, and frames may be encoded before that order is known.
#[derive(Clone)]
pub struct EncodedFrame {
    bytes: BytesMut,
}

/// Bytes that are not a frame of the expected vocabulary. Always the sender's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than a header.
    #[error("a frame of {present} bytes holds no header")]
    ShortHeader {
        /// Bytes present.
        present: usize,
    },
    /// Another layout of frames.
    #[error("frames of version {got} are not understood, only {WIRE_VERSION}")]
    WrongVersion {
        /// Version in the header.
        got: u8,
    },
    /// A kind that this version, or this vocabulary, does not have.
    #[error("frames of kind {number} are not accepted here")]
    UnknownKind {
        /// Number in the header.
        number: u8,
    },
    /// A flag that means nothing on this kind.
    #[error("{kind:?} carries the unknown flags {flags:#06x}")]
    UnknownFlags {
        /// Kind of the frame.
        kind: Kind,
        /// Flags in the header.
        flags: u16,
    },
    /// A body longer than its kind may have. Nothing was allocated for it.
    #[error("{kind:?} claims a body of {claimed} bytes, {max} are allowed")]
    BodyTooLong {
        /// Kind of the frame.
        kind: Kind,
        /// Bytes claimed.
        claimed: u32,
        /// Bytes allowed.
        max: usize,
    },
    /// The header and the bytes present disagree.
    #[error("{kind:?} claims a body of {claimed} bytes and has {present}")]
    LengthMismatch {
        /// Kind of the frame.
        kind: Kind,
        /// Bytes claimed.
        claimed: u32,
        /// Bytes present.
        present: usize,
    },
    /// A connection's message on a call, or the reverse.
    #[error("{kind:?} does not belong on {call:?}")]
    WrongPlace {
        /// Kind of the frame.
        kind: Kind,
        /// Call in the header.
        call: CallId,
    },
    /// The body is not what its kind says.
    #[error("the body of {kind:?} cannot be read")]
    BadBody {
        /// Kind of the frame.
        kind: Kind,
    },
    /// Bytes are left over after the body.
    #[error("{count} bytes are left over after {kind:?}")]
    TrailingBytes {
        /// Kind of the frame.
        kind: Kind,
        /// How many.
        count: usize,
    },
}

/// Encodes one frame: header and body in one buffer, one copy of a chunk's bytes.
#[must_use]
pub fn encode<M: WireMessage>(call: CallId, seq: u32, message: &M) -> Bytes {
    encode_unsent(call, message).with_seq(seq)
}

/// Encodes all of a frame but its sequence number.
#[must_use]
pub fn encode_unsent<M: WireMessage>(call: CallId, message: &M) -> EncodedFrame {
    let mut bytes = BytesMut::zeroed(HEADER_BYTES);
    message.encode_body(&mut bytes);
    let kind = message.kind();
    let body_len = bytes.len() - HEADER_BYTES;
    debug_assert!(body_len <= kind.body_bytes_max(), "{kind:?}: {body_len}");
    let header = Header {
        version: WIRE_VERSION,
        kind,
        flags: message.flags(),
        call,
        seq: 0,
        body_len: u32::try_from(body_len).unwrap_or(u32::MAX),
    };
    bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    EncodedFrame { bytes }
}

/// Decodes one whole frame. A chunk's bytes are a slice of `bytes`, not a copy.
pub fn decode<M: WireMessage>(mut bytes: Bytes) -> Result<Frame<M>, DecodeError> {
    let header = Header::parse(&bytes)?;
    bytes.advance(HEADER_BYTES);
    if bytes.len() != header.body_len as usize {
        return Err(DecodeError::LengthMismatch {
            kind: header.kind,
            claimed: header.body_len,
            present: bytes.len(),
        });
    }
    let message = M::decode_body(header.kind, header.flags, bytes)?;
    Ok(Frame { call: header.call, seq: header.seq, message })
}

/// Appends a control body.
pub(crate) fn write_body<T: Serialize>(value: &T, out: &mut BytesMut) {
    // The bytes go through a small buffer: an `Extend<u8>` takes its target by value.
    let body = postcard::to_stdvec(value)
        .expect("message types have known lengths, the only thing postcard can refuse");
    out.extend_from_slice(&body);
}

/// Reads a control body to its last byte.
pub(crate) fn read_body<T: DeserializeOwned>(kind: Kind, body: &[u8]) -> Result<T, DecodeError> {
    let (value, rest) =
        postcard::take_from_bytes(body).map_err(|_| DecodeError::BadBody { kind })?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(DecodeError::TrailingBytes { kind, count: rest.len() })
    }
}

impl EncodedFrame {
    /// The finished frame.
    #[must_use]
    pub fn with_seq(mut self, seq: u32) -> Bytes {
        self.bytes[8..12].copy_from_slice(&seq.to_be_bytes());
        self.bytes.freeze()
    }

    /// Bytes of header and body.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a frame is never empty")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl std::fmt::Debug for EncodedFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EncodedFrame({} bytes)", self.bytes.len())
    }
}

impl DecodeError {
    /// The code under which the sender is told.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::WrongVersion { .. } | Self::UnknownKind { .. } => ErrorCode::VersionMismatch,
            _ => ErrorCode::BadRequest,
        }
    }
}
