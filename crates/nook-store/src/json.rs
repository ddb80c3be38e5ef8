//! A small JSON document with a version, read strictly and written durably.
//!
//! For what the program writes and people rarely touch (paired devices, the model list). A document
//! that cannot be understood is an error with its place, never an empty document.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::durable::{self, FileError, Readers};

/// A longer document is refused: none of ours comes near.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// A document that cannot be used. The file is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// Not what this program wrote.
    #[error("{} is damaged at line {line}, column {column}: {reason}. Restore it from a backup, or remove it to start with an empty one", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Line, from 1; 0 where the damage is not in one place.
        line: usize,
        /// Column, from 1; 0 where the damage is not in one place.
        column: usize,
        /// What is wrong.
        reason: String,
    },
    /// A later version of the program wrote it.
    #[error("{} was written by a later version of Inglenook (format {found}, this one reads up to {known}); update this device", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The highest format known here.
        known: u64,
    },
    /// A file that the system refuses.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Reads the document at `path`; `None` when there is no file. `version` is the format known here,
/// and `None` of `T`'s fields may be called `version`.
pub(crate) fn load<T: DeserializeOwned>(
    path: &Path,
    version: u64,
) -> Result<Option<T>, DocumentError> {
    let Some(bytes) = durable::read(path)? else {
        return Ok(None);
    };
    if bytes.len() > DOCUMENT_BYTES_MAX {
        let reason = format!("it has {} bytes, far more than it can have", bytes.len());
        return Err(damaged(path, reason));
    }
    #[derive(serde::Deserialize)]
    struct Version {
        version: u64,
    }
    let Version { version: found } =
        serde_json::from_slice(&bytes).map_err(|error| at(path, &error))?;
    if found > version {
        return Err(DocumentError::Newer { path: path.to_owned(), found, known: version });
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|error| at(path, &error))
}

/// Replaces the document at `path`, durably.
pub(crate) fn save<T: Serialize>(path: &Path, document: &T) -> Result<(), FileError> {
    let mut bytes = serde_json::to_vec_pretty(document)
        .expect("documents are plain structs with text keys, which serialise");
    bytes.push(b'\n');
    durable::write(path, &bytes, Readers::Owner)
}

pub(crate) fn damaged(path: &Path, reason: String) -> DocumentError {
    DocumentError::Damaged { path: path.to_owned(), line: 0, column: 0, reason }
}

fn at(path: &Path, error: &serde_json::Error) -> DocumentError {
    DocumentError::Damaged {
        path: path.to_owned(),
        line: error.line(),
        column: error.column(),
        reason: error.to_string(),
    }
}
