//! What can be wrong with the record of the tensors that a partial file has.

use std::io;

/// A record of present tensors that cannot be read, used or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PresenceError {
    /// The system would not read or write the record.
    #[error("the record of its present tensors failed at {doing} ({kind})")]
    File {
        /// What was being done.
        doing: &'static str,
        /// The system's reason.
        kind: io::ErrorKind,
    },
    /// The record does not begin as one does.
    #[error("the record of its present tensors is not such a record")]
    NotRecord,
    /// A version of the record that this program does not know.
    #[error("the record of its present tensors is of version {got}; only {known} can be read")]
    Version {
        /// The version in the record.
        got: u32,
        /// The version that can be read.
        known: u32,
    },
    /// A record that is cut, too long or otherwise not as it was written.
    #[error("the record of its present tensors is damaged")]
    Damaged,
    /// The record of a file with another number of tensors.
    #[error(
        "the record of its present tensors is of a file with {record} tensors instead of {file}"
    )]
    Tensors {
        /// Tensors by the record.
        record: u32,
        /// Tensors of the file.
        file: usize,
    },
    /// The record of a file of another length.
    #[error("the record of its present tensors is of a file of {record} bytes instead of {file}")]
    FileBytes {
        /// Bytes by the record.
        record: u64,
        /// Bytes of the file.
        file: u64,
    },
    /// A tensor that the model does not have.
    #[error("the model has {tensors} tensors, numbered from 0; number {number} was marked")]
    NoSuchTensor {
        /// The number.
        number: u32,
        /// Tensors of the model.
        tensors: u32,
    },
}

impl PresenceError {
    pub(crate) fn file(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::File { doing, kind: error.kind() }
    }

    /// What a person can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::File { .. } => "Check that the folder may be read and written.",
            Self::Version { .. } => "Update Inglenook.",
            _ => "Remove the file and the one beside it that ends in .present, and fetch it again.",
        }
    }
}
