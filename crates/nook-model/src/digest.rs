//! The identity of a model: which weights exactly.
//!
//! The digest is a BLAKE3 root over the header bytes (everything before the tensor data) and the
//! BLAKE3 of each tensor, in the order in which they lie in the file. Padding and anything after
//! the last tensor do not count: they cannot change a result. Two devices hold the same model if
//! and only if their digests are equal; names never decide that.

use nook_base::ModelDigest;

use crate::error::Fault;
use crate::gguf::Header;
use crate::reader::Reader;

/// Separates this use of BLAKE3 from every other.
const CONTEXT: &str = "Inglenook model digest, version 1";

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// Reads the whole file once.
pub(crate) fn digest(reader: &Reader, header: &Header) -> Result<ModelDigest, Fault> {
    let mut buffer = vec![0; PIECE];
    let mut root = blake3::Hasher::new_derive_key(CONTEXT);
    let header_end = header.data_start().min(reader.length());
    root.update(hash(reader, 0, header_end, &mut buffer)?.as_bytes());
    for tensor in header.tensors() {
        root.update(hash(reader, tensor.start, tensor.bytes, &mut buffer)?.as_bytes());
    }
    reader.check_unchanged()?;
    Ok(ModelDigest(*root.finalize().as_bytes()))
}

fn hash(reader: &Reader, start: u64, bytes: u64, buffer: &mut [u8]) -> Result<blake3::Hash, Fault> {
    let mut hasher = blake3::Hasher::new();
    let mut done = 0;
    while done < bytes {
        let length = (bytes - done).min(buffer.len() as u64) as usize;
        let piece = &mut buffer[..length];
        reader.read(start + done, piece)?;
        hasher.update(piece);
        done += length as u64;
    }
    Ok(hasher.finalize())
}
