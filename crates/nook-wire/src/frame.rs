//! The codec: one frame to one message and back, for either vocabulary.
//!
//! A frame is encoded in two parts: header and head in a small buffer of their own, then the
//! payload as shared bytes. So a chunk is never copied here: decoded, its bytes are a slice of the
//! frame that came in; encoded, the same slice is the payload of the frame that goes out.

use std::io::IoSlice;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::error::{DecodeError, WIRE_VERSION};
use crate::header::{HEADER_BYTES, Header};
use crate::kind::CallId;
use crate::message::WireMessage;

/// Room for the header and the head of most messages, in bytes.
const HEAD_BYTES: usize = 128;

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
    head: BytesMut,
    payload: Bytes,
}

/// A frame as it travels, in at most two parts. A [`Buf`] of its bytes.
#[derive(Clone)]
pub struct FrameParts {
    /// The header and all of the body but the payload.
    head: Bytes,
    /// The bytes of a chunk, shared with the message; empty for other kinds.
    payload: Bytes,
}

/// Encodes one frame into one buffer, which copies a chunk's bytes. Connections use
/// [`encode_unsent`], which does not.
#[must_use]
pub fn encode<M: WireMessage>(call: CallId, seq: u32, message: &M) -> Bytes {
    encode_unsent(call, message).with_seq(seq).into_bytes()
}

/// Encodes all of a frame but its sequence number. The payload is shared with `message`.
#[must_use]
pub fn encode_unsent<M: WireMessage>(call: CallId, message: &M) -> EncodedFrame {
    let mut head = BytesMut::with_capacity(HEAD_BYTES);
    head.put_bytes(0, HEADER_BYTES);
    let payload = message.encode_body(&mut head);
    let kind = message.kind();
    let body_len = head.len() - HEADER_BYTES + payload.len();
    debug_assert!(body_len <= kind.body_bytes_max(), "{kind:?}: {body_len}");
    let header = Header {
        version: WIRE_VERSION,
        kind,
        flags: message.flags(),
        call,
        seq: 0,
        body_len: u32::try_from(body_len).unwrap_or(u32::MAX),
    };
    head[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    EncodedFrame { head, payload }
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

impl EncodedFrame {
    /// The finished frame.
    #[must_use]
    pub fn with_seq(mut self, seq: u32) -> FrameParts {
        self.head[8..12].copy_from_slice(&seq.to_be_bytes());
        FrameParts { head: self.head.freeze(), payload: self.payload }
    }
}

impl FrameParts {
    /// All bytes in one buffer, for a transport that takes no parts. Copies only a frame that has
    /// a payload.
    #[must_use]
    pub fn into_bytes(mut self) -> Bytes {
        if self.payload.is_empty() {
            return self.head;
        }
        self.copy_to_bytes(self.remaining())
    }

    /// The bytes of a chunk; empty for other kinds, and for a frame that came as one buffer.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }
}

/// A frame that is one buffer already.
impl From<Bytes> for FrameParts {
    fn from(frame: Bytes) -> Self {
        Self { head: frame, payload: Bytes::new() }
    }
}

impl Buf for FrameParts {
    fn remaining(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    fn chunk(&self) -> &[u8] {
        if self.head.is_empty() { &self.payload } else { &self.head }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let parts = [&self.head, &self.payload].into_iter().filter(|part| !part.is_empty());
        let mut count = 0;
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
            count += 1;
        }
        count
    }

    fn advance(&mut self, count: usize) {
        let of_head = count.min(self.head.len());
        self.head.advance(of_head);
        self.payload.advance(count - of_head);
    }
}

impl std::fmt::Debug for EncodedFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EncodedFrame({} bytes)", self.head.len() + self.payload.len())
    }
}

impl std::fmt::Debug for FrameParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FrameParts({} bytes)", self.remaining())
    }
}
