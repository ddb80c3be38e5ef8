//! The identity of a model: which weights exactly.
//!
//! The digest is a BLAKE3 root over the header bytes (everything before the tensor data) and the
//! BLAKE3 of each tensor, in the order in which they lie in the file. Padding and anything after
//! the last tensor do not count: they cannot change a result. Two devices hold the same model if
//! and only if their digests are equal; names never decide that.
//!
//! The leaves under the root are a [`crate::Manifest`], which lets each tensor be checked alone.

use nook_base::ModelDigest;

/// Separates this use of BLAKE3 from every other.
const CONTEXT: &str = "Inglenook model digest, version 1";

/// The root over the leaf of the header and those of the tensors, in file order. The only place
/// that defines it.
pub(crate) fn root<'a>(
    header: &[u8; 32],
    tensors: impl IntoIterator<Item = &'a [u8; 32]>,
) -> ModelDigest {
    let mut root = blake3::Hasher::new_derive_key(CONTEXT);
    root.update(header);
    for leaf in tensors {
        root.update(leaf);
    }
    ModelDigest(*root.finalize().as_bytes())
}
