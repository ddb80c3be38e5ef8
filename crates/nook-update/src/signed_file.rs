//! A signed list as it lies on the disk. It and its signature are in one file, so that they are always
//! of one another. Nothing is believed here: whoever reads it checks it anew.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::limits::SIGNATURE_BYTES_MAX;
use crate::seen::write;

const VERSION: u64 = 1;

/// A list and its signature, both text.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SignedFile {
    version: u64,
    pub(crate) list: String,
    pub(crate) signature: String,
}

impl SignedFile {
    /// What lies at `path`, whose list is no longer than `list_bytes_max`; none where there is no
    /// file, and in words why it cannot be read. Waits for the disk.
    pub(crate) fn read(path: &Path, list_bytes_max: usize) -> Result<Option<Self>, String> {
        // Each byte may have to be written as several.
        let most = 8 * (list_bytes_max + SIGNATURE_BYTES_MAX) as u64;
        let mut bytes = Vec::new();
        match File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        }
        let held: Self = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        match held.version {
            0..=VERSION => Ok(Some(held)),
            found => Err(format!("format {found} is of a later version")),
        }
    }

    /// Writes both, so that a crash leaves either the old ones or the new ones. Waits for the disk.
    pub(crate) fn write(path: &Path, list: &[u8], signature: &[u8]) -> io::Result<()> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        write(path, &Self { version: VERSION, list: text(list), signature: text(signature) })
    }
}
