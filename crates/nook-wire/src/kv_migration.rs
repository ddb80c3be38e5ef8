//! KV-cache migration on the wire: what a host has computed of a conversation goes to another host.
//!
//! A host that has said DRAINING may be asked for its KV cache on the same call (REQUEST KV CACHE).
//! It answers with pieces in the order of their positions, each a head and then its bytes in
//! chunks. The requester passes them on to the host that takes the layers, on a call that was
//! opened from position 0. That host answers when it has taken the last piece. Only the
//! two hosts know the format of the bytes. They are as sensitive as activations, and hold no token
//! ids.
//!
//! What a host keeps after a call it drops when the requester names it ([`KeptHistory`]).

use bytes::Bytes;
use nook_base::{ModelDigest, PrefixHash};
use serde::{Deserialize, Serialize};

use crate::chunk::Chunk;
use crate::tensor::{Pieces, TensorError};

/// Most bytes of one piece. What cannot be divided into such pieces is not handed over.
pub const KV_PIECE_BYTES_MAX: u64 = 64 << 20;

/// The head of a piece; its bytes follow in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvPieceHead {
    /// Position at which the piece begins: where the one before it ended.
    pub first: u32,
    /// Positions of the piece.
    pub count: u32,
    /// Bytes that follow.
    pub bytes: u64,
    /// Positions that are remembered in all; the last piece ends there.
    pub position: u32,
    /// Prefix hash of the history up to `position`.
    pub mark: PrefixHash,
}

/// Names what a host keeps of a conversation after its call, for the same requester to go on with.
///
/// Whoever deletes a conversation says it to the hosts, which free the memory at once. It is not
/// answered, and a host that was not reached keeps what it has no longer than usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptHistory {
    /// The model.
    pub model: ModelDigest,
    /// A place where a step of the conversation ended.
    pub position: u32,
    /// Prefix hash of the history up to there, as that step said it.
    pub mark: PrefixHash,
}

/// Puts the bytes of one piece together.
#[derive(Debug)]
pub struct KvPieceAssembly {
    pieces: Pieces,
}

impl KvPieceHead {
    /// Position at which the piece ends; `None` where that, or its length, cannot be.
    #[must_use]
    pub fn end(&self) -> Option<u32> {
        let end = self.first.checked_add(self.count)?;
        let is_possible = self.count > 0 && end <= self.position;
        (is_possible && (1..=KV_PIECE_BYTES_MAX).contains(&self.bytes)).then_some(end)
    }

    /// Whether it is the last piece.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.end() == Some(self.position)
    }
}

impl KvPieceAssembly {
    /// Starts the piece that `head` announces; nothing is allocated yet.
    pub fn new(head: &KvPieceHead) -> Result<Self, TensorError> {
        let impossible = TensorError::CountOutOfRange { count: head.count };
        let expected = head.end().and_then(|_| usize::try_from(head.bytes).ok());
        expected.map(|expected| Self { pieces: Pieces::new(expected) }).ok_or(impossible)
    }

    /// Adds the next chunk. Returns the bytes with the last one.
    pub fn take(&mut self, chunk: Chunk) -> Result<Option<Bytes>, TensorError> {
        self.pieces.take(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(first: u32, count: u32, bytes: u64, position: u32) -> KvPieceHead {
        KvPieceHead { first, count, bytes, position, mark: PrefixHash([7; 16]) }
    }

    #[test]
    fn a_piece_that_cannot_be_is_refused_before_anything_is_held() {
        let cases = [
            (head(0, 64, 100, 100), Some(64), false),
            (head(64, 36, 100, 100), Some(100), true),
            (head(64, 37, 100, 100), None, false),
            (head(0, 0, 100, 100), None, false),
            (head(0, 1, 0, 1), None, false),
            (head(0, 1, KV_PIECE_BYTES_MAX, 1), Some(1), true),
            (head(0, 1, KV_PIECE_BYTES_MAX + 1, 1), None, false),
            (head(u32::MAX, 2, 1, u32::MAX), None, false),
        ];
        for (head, end, is_last) in cases {
            assert_eq!((head.end(), head.is_last()), (end, is_last), "{head:?}");
            assert_eq!(KvPieceAssembly::new(&head).is_ok(), end.is_some(), "{head:?}");
        }
    }

    #[test]
    fn a_piece_comes_back_as_it_was_cut_and_no_byte_more() {
        let bytes = Bytes::from(vec![9; 700_000]);
        let mut assembly = KvPieceAssembly::new(&head(0, 8, 700_000, 8)).unwrap();
        let mut whole = None;
        for chunk in crate::chunks_of(bytes.clone()) {
            assert!(whole.is_none());
            whole = assembly.take(chunk).unwrap();
        }
        assert_eq!(whole, Some(bytes.clone()));
        let late = Chunk { offset: 700_000, bytes, last: true };
        assert!(assembly.take(late).is_err());
    }
}
