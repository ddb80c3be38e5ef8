//! One file out of the pieces that a model was published in.
//!
//! Publishers cut files of some 50 GB and more into pieces that each are a GGUF file:
//! `name-00001-of-00003.gguf` and so on, each with the keys `split.no` (from 0), `split.count` and
//! `split.tensors.count` (of all pieces), the first with all other metadata too, each with some of
//! the tensors. Source: llama.cpp, `tools/gguf-split`. [`Joined`] plans the file that they were cut
//! from; nothing is written here. The same pieces always make the same bytes, so that a household
//! has one digest for the model, whoever joined it.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::read::{MAGIC, alignment};
use super::{Header, TENSORS_MAX, TensorInfo};
use crate::error::{Fault, ModelError};

const KEY_PREFIX: &str = "split.";
const NUMBER_KEY: &str = "split.no";
const COUNT_KEY: &str = "split.count";
const TENSORS_KEY: &str = "split.tensors.count";

/// Which piece of a model a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceOf {
    /// Its number, from 1.
    pub number: u32,
    /// How many there are.
    pub count: u32,
}

/// What one piece gives to the whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedData {
    /// Bytes of the piece: the data of its tensors.
    pub from: Range<u64>,
    /// Zeros behind them, so that the next data are aligned.
    pub zeros: u64,
}

/// How the pieces of one model become one file: the header, then the data of each piece in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The header, with the padding behind it.
    pub header: Vec<u8>,
    /// What each piece gives, in order.
    pub data: Vec<JoinedData>,
}

/// One piece, read.
struct Piece {
    header: Header,
    alignment: u64,
    /// Where its keys lie that stay.
    keys: Vec<Range<u64>>,
}

impl Header {
    /// Which piece this is, if it is one of a model in several.
    pub fn piece(&self) -> Result<Option<PieceOf>, Fault> {
        let Some(count) = self.number(COUNT_KEY)?.filter(|count| *count > 1) else {
            return Ok(None);
        };
        let number = self.required_number(NUMBER_KEY)?.saturating_add(1);
        Ok(Some(PieceOf { number, count }))
    }
}

impl Joined {
    /// Plans the file that these pieces, in their order, were cut from. Reads their headers.
    pub fn plan(pieces: &[PathBuf]) -> Result<Self, ModelError> {
        let count = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
        let mut read = Vec::with_capacity(pieces.len());
        for (path, number) in pieces.iter().zip(1..) {
            let piece = Piece::read(path, PieceOf { number, count });
            read.push(piece.map_err(|fault| ModelError::new(path, fault))?);
        }
        let Some(first) = pieces.first() else {
            return Err(ModelError::new(Path::new(""), Fault::NotGguf));
        };
        join(first, &read).map_err(|fault| ModelError::new(first, fault))
    }

    /// Length of the whole file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let long = |data: &JoinedData| (data.from.end - data.from.start) + data.zeros;
        self.header.len() as u64 + self.data.iter().map(long).sum::<u64>()
    }
}

impl Piece {
    fn read(path: &Path, meant: PieceOf) -> Result<Self, Fault> {
        let failed = Fault::read("reading the header of a piece");
        let file = File::open(path).map_err(&failed)?;
        let bytes = file.metadata().map_err(&failed)?.len();
        let mut keys = Vec::new();
        let mut header = Header::read_noting(file, bytes, |key, lies| {
            if !key.starts_with(KEY_PREFIX) {
                keys.push(lies);
            }
        })?;
        if header.piece()? != Some(meant) {
            let problem = match header.piece()? {
                Some(PieceOf { number, count }) => format!("it is piece {number} of {count}"),
                None => "it is a whole file".to_owned(),
            };
            return Err(meant.wrong(problem));
        }
        // Each piece may have a vocabulary, and all of them together more than there is memory for.
        header.drop_lists();
        let alignment = alignment(&header.metadata)?;
        Ok(Self { header, alignment, keys })
    }

    /// Where its data end, counted from where they begin.
    fn data_bytes(&self) -> u64 {
        let start = self.header.data_start();
        let ends = self.header.tensors().iter().map(|tensor| tensor.start + tensor.bytes);
        ends.max().map_or(0, |end| end.saturating_sub(start))
    }
}

impl PieceOf {
    fn wrong(self, problem: String) -> Fault {
        Fault::NotThePiece { number: self.number, count: self.count, problem }
    }
}

fn join(first: &Path, pieces: &[Piece]) -> Result<Joined, Fault> {
    let meant = PieceOf { number: 1, count: u32::try_from(pieces.len()).unwrap_or(u32::MAX) };
    let Some(head) = pieces.first() else { return Err(Fault::NotGguf) };
    let alignment = head.alignment;
    let all: u64 = pieces.iter().map(|piece| piece.header.tensors().len() as u64).sum();
    let told = u64::from(head.header.required_number(TENSORS_KEY)?);
    if all != told || all > TENSORS_MAX {
        let problem = format!("all pieces together have {all} tensors, and {told} are told of");
        return Err(meant.wrong(problem));
    }
    if pieces.iter().any(|piece| !piece.alignment.is_multiple_of(alignment)) {
        return Err(meant.wrong("the pieces are aligned in different ways".to_owned()));
    }
    let mut header = Vec::new();
    header.extend(MAGIC.to_le_bytes());
    header.extend(head.header.version().to_le_bytes());
    header.extend(all.to_le_bytes());
    header.extend((head.keys.len() as u64).to_le_bytes());
    copy(first, &head.keys, &mut header)?;
    let mut data = Vec::with_capacity(pieces.len());
    let mut base = 0u64;
    for piece in pieces {
        let start = piece.header.data_start();
        for tensor in piece.header.tensors() {
            enter(&mut header, tensor, base + (tensor.start - start));
        }
        let bytes = piece.data_bytes();
        let zeros = bytes.next_multiple_of(alignment) - bytes;
        data.push(JoinedData { from: start..start + bytes, zeros });
        base += bytes + zeros;
    }
    header.resize(header.len().next_multiple_of(alignment as usize), 0);
    let joined = Joined { header, data };
    // What one file must keep to, all of them must: each name once, and no longer than a header is.
    Header::read(joined.header.as_slice(), joined.bytes())?;
    Ok(joined)
}

/// Copies the keys and values that lie there, as they are.
fn copy(path: &Path, keys: &[Range<u64>], header: &mut Vec<u8>) -> Result<(), Fault> {
    let mut file = File::open(path).map_err(Fault::read("reading the header of a piece"))?;
    for key in keys {
        let failed = Fault::read("reading the keys of a piece");
        file.seek(SeekFrom::Start(key.start)).map_err(&failed)?;
        let long = key.end - key.start;
        let copied = (&mut file).take(long).read_to_end(header).map_err(&failed)?;
        if copied as u64 != long {
            return Err(Fault::Changed);
        }
    }
    Ok(())
}

/// Writes the entry of a tensor whose data begin at `offset`.
fn enter(header: &mut Vec<u8>, tensor: &TensorInfo, offset: u64) {
    header.extend((tensor.name.len() as u64).to_le_bytes());
    header.extend(tensor.name.as_bytes());
    header.extend((tensor.dimensions.len() as u32).to_le_bytes());
    for dimension in &tensor.dimensions {
        header.extend(dimension.to_le_bytes());
    }
    header.extend(tensor.kind.id().to_le_bytes());
    header.extend(offset.to_le_bytes());
}
