//! What can be wrong with a manifest, or with bytes that are checked against one.

use nook_base::ModelDigest;

use super::Fault;

/// A manifest that cannot be used, or bytes that are not what the manifest says.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The bytes do not begin as a manifest does.
    #[error("this is not the manifest of a model; ask another device for it")]
    NotManifest,
    /// A version of the layout that this program does not know.
    #[error(
        "the manifest is of version {got}, and only version {known} can be read; update Inglenook"
    )]
    Version {
        /// The version in the manifest.
        got: u32,
        /// The version that can be read.
        known: u32,
    },
    /// Another number of bytes than the manifest has by its own count of tensors.
    #[error("the manifest has {got} bytes instead of {expected}; ask for it again")]
    Length {
        /// Bytes that are there.
        got: usize,
        /// Bytes that must be there.
        expected: usize,
    },
    /// More tensors than any model has.
    #[error("the manifest names {got} tensors; the most is {limit}")]
    TooMany {
        /// How many it names.
        got: u32,
        /// The limit.
        limit: u32,
    },
    /// A header that no model file could have.
    #[error("the manifest has a header of {header} bytes in a file of {file} bytes")]
    Sizes {
        /// Bytes of the header.
        header: u64,
        /// Bytes of the file.
        file: u64,
    },
    /// The manifest of another model than the wanted one.
    #[error("the manifest belongs to model {got} instead of {wanted}; ask another device for it")]
    Digest {
        /// The root of the manifest.
        got: ModelDigest,
        /// The model that was asked for.
        wanted: ModelDigest,
    },
    /// Bytes that are not the header of the model.
    #[error("the bytes of the header are not those of the model; ask another device for them")]
    Header,
    /// The header is the model's, but describes no file of the length that the manifest says.
    #[error("the header does not fit a file of {file} bytes: it {fault}")]
    HeaderFault {
        /// Bytes of the file.
        file: u64,
        /// What is wrong.
        fault: Box<Fault>,
    },
    /// More bytes behind the last tensor than padding takes. No digest covers them.
    #[error("the file has {got} bytes behind its last tensor; the most is {limit}")]
    Trailing {
        /// How many.
        got: u64,
        /// The limit.
        limit: u64,
    },
    /// A tensor that the model does not have.
    #[error("the model has {tensors} tensors, numbered from 0; number {number} was asked for")]
    NoSuchTensor {
        /// The number asked for.
        number: u32,
        /// Tensors of the model.
        tensors: u32,
    },
    /// Bytes that are not those of the tensor.
    #[error("the bytes of tensor {number} are not those of the model; ask another device for them")]
    Tensor {
        /// The tensor, by its place in the file.
        number: u32,
    },
}
