//! Computes the manifest of a file in one pass over its tensors.
//!
//! Files are large, so a caller may stop the pass between two pieces. A file that lacks tensors has
//! no manifest of its own: the reader refuses what is absent.

use std::path::Path;

use crate::error::{Fault, ModelError};
use crate::gguf::Header;
use crate::manifest::Manifest;
use crate::reader::Reader;

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// Reads the file once, part by part.
struct Pass<'a> {
    reader: &'a Reader,
    stop: &'a dyn Fn() -> bool,
    buffer: Vec<u8>,
}

impl Manifest {
    /// The manifest of the model in the file at `path`, whether or not this version can use it.
    /// Reads the whole file.
    pub fn at(path: &Path) -> Result<Self, ModelError> {
        Self::at_unless(path, &|| false)
    }

    /// As [`Self::at`]. `stop` is asked before each piece of 1 MiB; when it says yes, the result is
    /// [`Fault::Stopped`].
    pub fn at_unless(path: &Path, stop: &dyn Fn() -> bool) -> Result<Self, ModelError> {
        let manifest = || {
            let (reader, header) = Reader::open(path, None)?;
            of(&reader, &header, stop)
        };
        manifest().map_err(|fault| ModelError::new(path, fault))
    }
}

/// The manifest of an open file.
pub(crate) fn of(
    reader: &Reader,
    header: &Header,
    stop: &dyn Fn() -> bool,
) -> Result<Manifest, Fault> {
    let mut pass = Pass { reader, stop, buffer: vec![0; PIECE] };
    // A file without tensors may end before the padding of its header does.
    let header_bytes = header.data_start().min(reader.length());
    let header_leaf = pass.leaf(0, header_bytes)?;
    let leaves = header.tensors().iter().map(|tensor| pass.leaf(tensor.start, tensor.bytes));
    let leaves = leaves.collect::<Result<Vec<_>, Fault>>()?;
    reader.check_unchanged()?;
    Ok(Manifest::new(reader.length(), header_bytes, header_leaf, leaves))
}

impl Pass<'_> {
    /// The BLAKE3 of `bytes` bytes from `start` on.
    fn leaf(&mut self, start: u64, bytes: u64) -> Result<[u8; 32], Fault> {
        let mut hasher = blake3::Hasher::new();
        let mut done = 0;
        while done < bytes {
            if (self.stop)() {
                return Err(Fault::Stopped);
            }
            let length = (bytes - done).min(self.buffer.len() as u64) as usize;
            let piece = &mut self.buffer[..length];
            self.reader.read(start + done, piece)?;
            hasher.update(piece);
            done += length as u64;
        }
        Ok(*hasher.finalize().as_bytes())
    }
}
