//! The manifest of a model: the digests of its header and of each tensor, whose root is the model's
//! digest.
//!
//! Who has a manifest can check any tensor by itself, so a device can take only the tensors that it
//! will use, from several devices, and know at once which bytes are wrong. A manifest comes from
//! another device, so nothing in it counts before its root is the wanted digest:
//! [`Manifest::from_bytes_of`] is the way in. The root covers the leaves and their number. It does
//! not cover the two lengths: [`Manifest::check_header`] confirms that of the header, and
//! [`Manifest::read_header`] bounds that of the file.
//!
//! Layout, all numbers little-endian: magic (8 bytes), version (u32), number of tensors (u32),
//! length of the file (u64), length of the header (u64), leaf of the header (32 bytes), leaf of
//! each tensor in file order (32 bytes each). A file's leaves are computed in `hashing`.

use std::fmt;

use nook_base::ModelDigest;

use crate::digest;
use crate::error::{Fault, ManifestError};
use crate::gguf::{HEADER_BYTES_MAX, Header, TENSORS_MAX};

/// First bytes of a manifest.
const MAGIC: [u8; 8] = *b"nookmani";

/// The version of the layout.
const VERSION: u32 = 1;

/// Bytes before the leaves of the tensors.
const FIXED_BYTES: usize = 64;

/// Bytes of a leaf.
const LEAF_BYTES: usize = 32;

/// Most tensors of a manifest: as many as a header may have.
const COUNT_MAX: u32 = TENSORS_MAX as u32;

/// Most bytes of a file behind its last tensor, for [`Manifest::read_header`]. Writers pad by 4096
/// bytes at most. No digest covers these bytes, so a giver could otherwise claim any length.
pub const TRAILING_BYTES_MAX: u64 = 1 << 20;

/// The digests of the parts of one model file.
#[derive(Clone, PartialEq, Eq)]
pub struct Manifest {
    file_bytes: u64,
    header_bytes: u64,
    header: [u8; LEAF_BYTES],
    tensors: Vec<[u8; LEAF_BYTES]>,
}

/// Checks the bytes of one tensor as they arrive.
#[derive(Debug)]
#[must_use = "a tensor is checked when `finish` has been called"]
pub struct TensorCheck {
    number: u32,
    expected: [u8; LEAF_BYTES],
    hasher: blake3::Hasher,
}

impl Manifest {
    /// First bytes of a manifest from which [`Self::length_of`] tells its length.
    pub const PREFIX_BYTES: usize = 16;

    /// Most bytes of a manifest.
    pub const BYTES_MAX: usize = FIXED_BYTES + COUNT_MAX as usize * LEAF_BYTES;

    /// The manifest of a header of `header_bytes` bytes with the leaf `header`, and of tensors with
    /// these leaves in file order. The header has been read, so its limits hold.
    pub(crate) fn new(
        file_bytes: u64,
        header_bytes: u64,
        header: [u8; LEAF_BYTES],
        tensors: Vec<[u8; LEAF_BYTES]>,
    ) -> Self {
        Self { file_bytes, header_bytes, header, tensors }
    }

    /// Reads the manifest of the model `wanted`. Refuses bytes that are not exactly a manifest, and
    /// the manifest of any other model.
    pub fn from_bytes_of(bytes: &[u8], wanted: ModelDigest) -> Result<Self, ManifestError> {
        let manifest = Self::from_bytes(bytes)?;
        match manifest.digest() {
            got if got == wanted => Ok(manifest),
            got => Err(ManifestError::Digest { got, wanted }),
        }
    }

    /// Reads a manifest, of whichever model. Bytes of another device belong into
    /// [`Self::from_bytes_of`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ManifestError> {
        let expected = Self::length_of(bytes)?;
        let wrong_length = ManifestError::Length { got: bytes.len(), expected };
        if bytes.len() != expected {
            return Err(wrong_length);
        }
        let mut rest = &bytes[Self::PREFIX_BYTES..];
        let (Some(file_bytes), Some(header_bytes), Some(header)) =
            (number(&mut rest), number(&mut rest), take(&mut rest))
        else {
            return Err(wrong_length);
        };
        if header_bytes > file_bytes || header_bytes > HEADER_BYTES_MAX {
            return Err(ManifestError::Sizes { header: header_bytes, file: file_bytes });
        }
        let tensors = rest.as_chunks::<LEAF_BYTES>().0.to_vec();
        Ok(Self { file_bytes, header_bytes, header, tensors })
    }

    /// The length of the whole manifest that begins with `prefix`, which has at least
    /// [`Self::PREFIX_BYTES`] bytes; never above [`Self::BYTES_MAX`].
    pub fn length_of(prefix: &[u8]) -> Result<usize, ManifestError> {
        let mut rest = prefix;
        let too_short = ManifestError::Length { got: prefix.len(), expected: Self::PREFIX_BYTES };
        let (Some(magic), Some(version), Some(count)) =
            (take(&mut rest), take(&mut rest), take(&mut rest))
        else {
            return Err(too_short);
        };
        if magic != MAGIC {
            return Err(ManifestError::NotManifest);
        }
        let version = u32::from_le_bytes(version);
        if version != VERSION {
            return Err(ManifestError::Version { got: version, known: VERSION });
        }
        let count = u32::from_le_bytes(count);
        if count > COUNT_MAX {
            return Err(ManifestError::TooMany { got: count, limit: COUNT_MAX });
        }
        Ok(FIXED_BYTES + count as usize * LEAF_BYTES)
    }

    /// The bytes of the manifest, for another device.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED_BYTES + self.tensors.len() * LEAF_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.tensors().to_le_bytes());
        bytes.extend(self.file_bytes.to_le_bytes());
        bytes.extend(self.header_bytes.to_le_bytes());
        bytes.extend(self.header);
        bytes.extend(self.tensors.as_flattened());
        bytes
    }

    /// The digest of the model: the root over all leaves.
    #[must_use]
    pub fn digest(&self) -> ModelDigest {
        digest::root(&self.header, &self.tensors)
    }

    /// Length of the file in bytes. The digest does not cover it; see [`Self::read_header`].
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Length of the header with its padding: the byte where tensor data begin.
    #[must_use]
    pub fn header_bytes(&self) -> u64 {
        self.header_bytes
    }

    /// Number of tensors.
    #[must_use]
    pub fn tensors(&self) -> u32 {
        u32::try_from(self.tensors.len()).expect("a header has at most TENSORS_MAX tensors")
    }

    /// Checks that `bytes` are the whole header of the model.
    pub fn check_header(&self, bytes: &[u8]) -> Result<(), ManifestError> {
        let is_right = bytes.len() as u64 == self.header_bytes
            && *blake3::hash(bytes).as_bytes() == self.header;
        if is_right { Ok(()) } else { Err(ManifestError::Header) }
    }

    /// The header of the model from its bytes, which are checked as in [`Self::check_header`]. Also
    /// checks that its tensors fit the length of the file, with at most [`TRAILING_BYTES_MAX`]
    /// more. Make a file of that length only after this check.
    pub fn read_header(&self, bytes: &[u8]) -> Result<Header, ManifestError> {
        self.check_header(bytes)?;
        let file = self.file_bytes;
        let fault = |fault| ManifestError::HeaderFault { file, fault: Box::new(fault) };
        let header = Header::read(bytes, file).map_err(fault)?;
        if header.tensors().len() != self.tensors.len() {
            // The root binds the number of leaves to the header, unless who made the model lied.
            return Err(fault(Fault::TooMany {
                what: "tensors".to_owned(),
                got: header.tensors().len() as u64,
                limit: self.tensors.len() as u64,
            }));
        }
        let last = header.tensors().last().map_or(self.header_bytes, |it| it.start + it.bytes);
        match file.saturating_sub(last) {
            got if got > TRAILING_BYTES_MAX => {
                Err(ManifestError::Trailing { got, limit: TRAILING_BYTES_MAX })
            }
            _ => Ok(header),
        }
    }

    /// A check of the tensor `number`, counted from 0 in file order.
    pub fn tensor_check(&self, number: u32) -> Result<TensorCheck, ManifestError> {
        let expected = self.tensors.get(number as usize);
        let none = ManifestError::NoSuchTensor { number, tensors: self.tensors() };
        let expected = *expected.ok_or(none)?;
        Ok(TensorCheck { number, expected, hasher: blake3::Hasher::new() })
    }
}

impl fmt::Debug for Manifest {
    /// Its digest and sizes; the leaves are long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manifest")
            .field("digest", &self.digest())
            .field("file_bytes", &self.file_bytes)
            .field("tensors", &self.tensors.len())
            .finish()
    }
}

impl TensorCheck {
    /// Adds the next bytes of the tensor.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// Whether all bytes together were the tensor.
    pub fn finish(self) -> Result<(), ManifestError> {
        match *self.hasher.finalize().as_bytes() == self.expected {
            true => Ok(()),
            false => Err(ManifestError::Tensor { number: self.number }),
        }
    }
}

/// Takes the next bytes of `rest`; `None` when there are too few.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}
