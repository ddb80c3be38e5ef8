//! Copying a model from a device of the house: what a device gives, and bytes of it.
//!
//! ```text
//! giver     ──HAVE──────────► taker     on the connection, when it changes
//! taker     ──WANT──────────► giver     first on a call, and again for each further range
//! taker     ◄──PIECE──CHUNK…─ giver     until the range is whole, behind everything else
//! taker     ──CLOSE─────────► giver
//! ```
//!
//! A model is asked for by its digest and a range of its file's bytes, never by a name or a path,
//! so a device can ask several others for parts of one file, or for the tensors of some layers. The
//! name in HAVE is for people. Whether the bytes are the model only its digest tells: the taker
//! works it out when it has all of them, or asks for the manifest first, which proves each tensor
//! by itself.

use std::ops::Range;

use bytes::Bytes;
use nook_base::ModelDigest;
use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::chunk::Chunk;
use crate::tensor::{Pieces, TensorError};

/// Most models in one [`Have`]; the sender leaves out the rest, the receiver refuses more. With the
/// longest names they still fit into one frame.
pub const HAVE_MODELS_MAX: usize = 256;

/// Longest name of a model in [`Have`], in bytes; cut by the sender, refused by the receiver.
pub const HAVE_NAME_BYTES_MAX: usize = 128;

/// Most bytes behind one [`Piece`]; more are refused. Four chunks: what is looked at between two of
/// them (trust, other work) is never far away.
pub const PIECE_BYTES_MAX: u32 = 1 << 20;

/// Models that this device gives to the one that it tells; replaces what it said before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Have {
    /// The models, each whole and checked; none: nothing any more.
    #[serde(
        serialize_with = "bounded::write_list::<HAVE_MODELS_MAX, _, _>",
        deserialize_with = "bounded::read_list::<HAVE_MODELS_MAX, _, _>"
    )]
    pub models: Vec<HaveModel>,
}

/// A model that is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HaveModel {
    /// The model: what a copy is checked by.
    pub model: ModelDigest,
    /// Length of its file there, in bytes.
    pub bytes: u64,
    /// Transformer layers, for a guess at the memory that it takes.
    pub layers: u32,
    /// What it is called there. Untrusted text, and never a path.
    #[serde(
        serialize_with = "bounded::write_text::<HAVE_NAME_BYTES_MAX, _>",
        deserialize_with = "bounded::read_text::<HAVE_NAME_BYTES_MAX, _>"
    )]
    pub name: String,
}

/// Which document of a model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Document {
    /// Its GGUF file.
    File,
    /// What its digest is made of: the digest of the file's header and of each tensor. It says its
    /// own length at its beginning.
    Manifest,
}

/// Please send these bytes of a model's document. First on a call; again once the range before has
/// come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// The model.
    pub model: ModelDigest,
    /// Which document of it.
    pub document: Document,
    /// The first byte.
    pub from: u64,
    /// How many.
    pub bytes: u64,
}

/// The head of some of the bytes that were asked for; they follow in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Where they stand in the document: behind the piece before.
    pub from: u64,
    /// How many follow, at most [`PIECE_BYTES_MAX`].
    pub bytes: u32,
}

/// A piece that cannot be right. Always the sender's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PieceError {
    /// It is empty, too long, or not the next of what was asked for.
    #[error("{bytes} bytes at {from} came where at most {left} at {due} were due")]
    OutOfPlace {
        /// Where it says it stands.
        from: u64,
        /// How many bytes it claims.
        bytes: u32,
        /// Where the next one was due.
        due: u64,
        /// Bytes of the range that are still to come.
        left: u64,
    },
    /// A chunk of it.
    #[error(transparent)]
    Chunk(#[from] TensorError),
}

/// Puts the bytes of one piece together.
#[derive(Debug)]
pub struct PieceAssembly {
    pieces: Pieces,
}

impl Want {
    /// The bytes that are meant in a document of `length` bytes; `None` where there is none, or one of
    /// them stands behind its end.
    #[must_use]
    pub fn range(&self, length: u64) -> Option<Range<u64>> {
        within(self.from, self.bytes, length)
    }
}

/// So many bytes from `from` on, in a document of `length` bytes.
pub(crate) fn within(from: u64, bytes: u64, length: u64) -> Option<Range<u64>> {
    let end = from.checked_add(bytes)?;
    (bytes > 0 && end <= length).then_some(from..end)
}

impl PieceAssembly {
    /// Starts the piece under `head`, where the bytes of `due` are to come next; nothing is
    /// allocated yet.
    pub fn new(head: &Piece, due: &Range<u64>) -> Result<Self, PieceError> {
        let left = due.end.saturating_sub(due.start);
        let fits = (1..=u64::from(PIECE_BYTES_MAX).min(left)).contains(&u64::from(head.bytes));
        if head.from != due.start || !fits {
            let Piece { from, bytes } = *head;
            return Err(PieceError::OutOfPlace { from, bytes, due: due.start, left });
        }
        // At most a megabyte, so this is far below what a machine counts to.
        Ok(Self { pieces: Pieces::new(head.bytes as usize) })
    }

    /// Adds the next chunk. Returns all bytes with the last one.
    pub fn take(&mut self, chunk: Chunk) -> Result<Option<Bytes>, PieceError> {
        Ok(self.pieces.take(chunk)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(from: u64, bytes: u64) -> Want {
        Want { model: ModelDigest([7; 32]), document: Document::File, from, bytes }
    }

    #[test]
    fn only_bytes_that_are_there_are_a_range() {
        assert_eq!(want(0, 10).range(10), Some(0..10));
        assert_eq!(want(9, 1).range(10), Some(9..10));
        let last = u64::MAX;
        assert_eq!(want(0, last).range(last), Some(0..last));
        for (from, bytes) in
            [(0, 0), (9, 0), (10, 0), (0, 11), (10, 1), (11, 1), (last, 1), (1, last), (last, last)]
        {
            assert_eq!(want(from, bytes).range(10), None, "{bytes} at {from}");
        }
        assert_eq!(want(0, 1).range(0), None, "nothing is there");
    }

    #[test]
    fn a_piece_is_the_next_of_what_was_asked_for_or_nothing() {
        let due = 300..300 + u64::from(PIECE_BYTES_MAX) + 5;
        let is_taken = |from, bytes| PieceAssembly::new(&Piece { from, bytes }, &due).is_ok();
        assert!(is_taken(300, 1) && is_taken(300, PIECE_BYTES_MAX));
        assert!(!is_taken(300, 0) && !is_taken(300, PIECE_BYTES_MAX + 1));
        assert!(!is_taken(300, u32::MAX) && !is_taken(299, 1) && !is_taken(301, 1));
        assert!(!is_taken(u64::MAX, 1) && !is_taken(0, 1));
        let short = PieceAssembly::new(&Piece { from: 300, bytes: 6 }, &(300..305));
        let expected = PieceError::OutOfPlace { from: 300, bytes: 6, due: 300, left: 5 };
        assert_eq!(short.unwrap_err(), expected);
        assert!(PieceAssembly::new(&Piece { from: 5, bytes: 1 }, &(5..5)).is_err(), "all came");
    }

    #[test]
    fn a_piece_comes_back_as_it_was_cut_and_not_one_byte_more() {
        let bytes: Bytes = (0..PIECE_BYTES_MAX).map(|place| place as u8).collect();
        let head = Piece { from: 7, bytes: PIECE_BYTES_MAX };
        let mut assembly = PieceAssembly::new(&head, &(7..u64::MAX)).unwrap();
        let mut whole = None;
        for chunk in crate::chunks_of(bytes.clone()) {
            assert_eq!(whole, None, "before the last chunk");
            whole = assembly.take(chunk).unwrap();
        }
        assert_eq!(whole, Some(bytes));
        let more = crate::chunks_of(Bytes::from_static(&[1])).next().unwrap();
        assert!(assembly.take(more).is_err());
    }

    #[test]
    fn the_longest_list_with_the_longest_names_fits_into_a_frame() {
        let model = HaveModel {
            model: ModelDigest([7; 32]),
            bytes: u64::MAX,
            layers: u32::MAX,
            name: "n".repeat(HAVE_NAME_BYTES_MAX + 9),
        };
        let have = crate::Message::Have(Have { models: vec![model; HAVE_MODELS_MAX + 9] });
        let frame = crate::encode(crate::CallId::CONNECTION, 0, &have);
        let back = crate::decode::<crate::Message>(frame).unwrap().message;
        let crate::Message::Have(back) = back else { panic!("{back:?}") };
        assert_eq!(back.models.len(), HAVE_MODELS_MAX);
        assert_eq!(back.models[0].name.len(), HAVE_NAME_BYTES_MAX);
    }
}
