//! Tensors in pieces: cut by the sender, put together by the receiver.
//!
//! A head (STEP, RESULT, LOGITS) says the shape; the bytes follow in chunks. The receiver checks
//! the shape before it holds anything, and then holds no more than the bytes that really came. A
//! tensor of one chunk is not copied.

use bytes::{Bytes, BytesMut};
use nook_base::activation::byte_len;
use nook_base::limits::{CHUNK_BYTES, HIDDEN_MAX, STEP_TOKENS_MAX};
use nook_base::{Activation, ActivationDtype};

use crate::chunk::Chunk;

/// Widest row of logits, in numbers; no vocabulary is near it.
pub const VOCABULARY_MAX: u32 = 1 << 20;

/// Puts an activation together.
#[derive(Debug)]
pub struct TensorAssembly {
    tokens: u32,
    hidden: u32,
    dtype: ActivationDtype,
    pieces: Pieces,
}

/// Puts logits together: f32, little-endian.
#[derive(Debug)]
pub struct LogitsAssembly {
    pieces: Pieces,
}

/// A shape or a chunk that cannot be right. Always the sender's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// No rows, or more than a step may have.
    #[error("a step of {count} positions is not between 1 and {STEP_TOKENS_MAX}")]
    CountOutOfRange {
        /// Rows claimed.
        count: u32,
    },
    /// Rows of no numbers, or of more than any model has.
    #[error("rows of {width} numbers are not between 1 and {max}")]
    WidthOutOfRange {
        /// Numbers in a row, claimed.
        width: u32,
        /// The limit.
        max: u32,
    },
    /// A chunk that does not start where the one before ended.
    #[error("a chunk starts at byte {offset} where {expected} was due")]
    NotContiguous {
        /// Where it was due.
        expected: u64,
        /// Where it says it starts.
        offset: u64,
    },
    /// More bytes than the shape has.
    #[error("a tensor of {expected} bytes got {got}")]
    Overrun {
        /// Bytes of the shape.
        expected: usize,
        /// Bytes with this chunk.
        got: u64,
    },
    /// The last chunk came before the last byte, or the last byte without the mark.
    #[error("a tensor of {expected} bytes was marked complete at the wrong byte: {got}")]
    WrongEnd {
        /// Bytes of the shape.
        expected: usize,
        /// Bytes with this chunk.
        got: usize,
    },
}

/// Cuts a tensor into chunks of `nook_base::limits::CHUNK_BYTES`, sharing the bytes; the last one
/// is marked. No bytes give no chunk.
pub fn chunks_of(bytes: Bytes) -> impl Iterator<Item = Chunk> + Send {
    let total = bytes.len();
    (0..total).step_by(CHUNK_BYTES).map(move |start| {
        let end = (start + CHUNK_BYTES).min(total);
        Chunk { offset: start as u64, bytes: bytes.slice(start..end), last: end == total }
    })
}

impl TensorAssembly {
    /// Starts an activation of `tokens` x `hidden`; nothing is allocated yet.
    pub fn new(tokens: u32, hidden: u32, dtype: ActivationDtype) -> Result<Self, TensorError> {
        check_shape(tokens, hidden, HIDDEN_MAX)?;
        let expected = byte_len(tokens, hidden, dtype)
            .ok_or(TensorError::WidthOutOfRange { width: hidden, max: HIDDEN_MAX })?;
        Ok(Self { tokens, hidden, dtype, pieces: Pieces::new(expected) })
    }

    /// Adds the next chunk. Returns the activation with the last one. Whether its numbers are
    /// finite is the consumer's question.
    pub fn take(&mut self, chunk: Chunk) -> Result<Option<Activation>, TensorError> {
        let Some(bytes) = self.pieces.take(chunk)? else {
            return Ok(None);
        };
        let got = bytes.len();
        Activation::new(self.tokens, self.hidden, self.dtype, bytes)
            .map(Some)
            .map_err(|_| TensorError::WrongEnd { expected: self.pieces.expected, got })
    }
}

impl LogitsAssembly {
    /// Starts logits of `count` x `vocabulary`; nothing is allocated yet.
    pub fn new(count: u32, vocabulary: u32) -> Result<Self, TensorError> {
        check_shape(count, vocabulary, VOCABULARY_MAX)?;
        let expected = byte_len(count, vocabulary, ActivationDtype::F32)
            .ok_or(TensorError::WidthOutOfRange { width: vocabulary, max: VOCABULARY_MAX })?;
        Ok(Self { pieces: Pieces::new(expected) })
    }

    /// Adds the next chunk. Returns all rows, row-major, with the last one.
    pub fn take(&mut self, chunk: Chunk) -> Result<Option<Vec<f32>>, TensorError> {
        let bytes = self.pieces.take(chunk)?;
        Ok(bytes.map(|bytes| {
            let numbers = bytes.as_chunks::<4>().0.iter();
            numbers.map(|b| f32::from_le_bytes(*b)).collect()
        }))
    }
}

/// The bytes of one tensor, so far.
pub(crate) struct Pieces {
    /// Bytes of the whole tensor.
    expected: usize,
    /// The bytes before the latest chunk, if there were several.
    got: BytesMut,
    /// Set once the last chunk was taken: nothing more may come.
    done: bool,
}

impl std::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} bytes", self.got.len(), self.expected)
    }
}

impl Pieces {
    pub(crate) fn new(expected: usize) -> Self {
        Self { expected, got: BytesMut::new(), done: false }
    }

    pub(crate) fn take(&mut self, chunk: Chunk) -> Result<Option<Bytes>, TensorError> {
        let before = if self.done { self.expected } else { self.got.len() };
        if chunk.offset != before as u64 {
            return Err(TensorError::NotContiguous {
                expected: before as u64,
                offset: chunk.offset,
            });
        }
        let got = before.saturating_add(chunk.bytes.len());
        if got > self.expected || self.done {
            return Err(TensorError::Overrun { expected: self.expected, got: got as u64 });
        }
        if chunk.last != (got == self.expected) {
            return Err(TensorError::WrongEnd { expected: self.expected, got });
        }
        self.done = chunk.last;
        if chunk.last && before == 0 {
            return Ok(Some(chunk.bytes));
        }
        self.got.extend_from_slice(&chunk.bytes);
        Ok(chunk.last.then(|| self.got.split().freeze()))
    }
}

fn check_shape(count: u32, width: u32, width_max: u32) -> Result<(), TensorError> {
    if !(1..=STEP_TOKENS_MAX).contains(&count) {
        return Err(TensorError::CountOutOfRange { count });
    }
    if !(1..=width_max).contains(&width) {
        return Err(TensorError::WidthOutOfRange { width, max: width_max });
    }
    Ok(())
}
