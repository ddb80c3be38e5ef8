//! A piece of a tensor: a short head and bytes that are shared, never copied, by the codec.

use std::fmt;

use bytes::{Bytes, BytesMut};
use nook_base::limits::CHUNK_BYTES_MAX;

use crate::error::DecodeError;
use crate::kind::{CHUNK_HEAD_BYTES_MAX, FLAG_LAST_CHUNK, Kind};

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

impl Chunk {
    /// The header flags it travels with.
    pub(crate) fn flags(&self) -> u16 {
        if self.last { FLAG_LAST_CHUNK } else { 0 }
    }

    /// Appends the head to `head` and returns the payload that follows it.
    pub(crate) fn encode(&self, head: &mut BytesMut) -> Bytes {
        let mut varint = [0; CHUNK_HEAD_BYTES_MAX];
        let offset = postcard::to_slice(&self.offset, &mut varint)
            .expect("a varint of 64 bits has at most ten bytes");
        head.extend_from_slice(offset);
        self.bytes.clone()
    }

    /// Reads the offset, then the rest of the body without copying it.
    pub(crate) fn decode(flags: u16, body: &Bytes) -> Result<Self, DecodeError> {
        let kind = Kind::Chunk;
        let (offset, rest) =
            postcard::take_from_bytes::<u64>(body).map_err(|_| DecodeError::BadBody { kind })?;
        if rest.is_empty() || rest.len() > CHUNK_BYTES_MAX {
            return Err(DecodeError::BadBody { kind });
        }
        let bytes = body.slice_ref(rest);
        Ok(Self { offset, bytes, last: flags & FLAG_LAST_CHUNK != 0 })
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = if self.last { ", last" } else { "" };
        write!(f, "Chunk({} bytes at {}{last})", self.bytes.len(), self.offset)
    }
}
