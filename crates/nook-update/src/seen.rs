//! What is remembered of lists that were taken, so that an older one is never taken again.
//!
//! A file of its own in the data folder, because a node and `nook update` both write it; whoever
//! does holds its lock. A file that cannot be understood is an error: taken for an empty one, it
//! would let a replay through.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use semver::Version;
use serde::{Deserialize, Serialize};

const VERSION: u64 = 1;
const FILE: &str = "seen.json";
const LOCK: &str = "lock";

/// What was seen so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Seen {
    version: u64,
    /// The highest serial number of a list that was taken; 0 before the first.
    pub serial: u64,
    /// When somebody last looked and got an answer, in seconds since 1970; 0 for never.
    pub checked: u64,
    /// A version that was put in place here and did not come up; the newest of them.
    #[serde(default)]
    pub failed: Option<Version>,
    /// When the newest list of models was written that was taken, in seconds since 1970; 0 before
    /// the first.
    #[serde(default)]
    pub models: u64,
}

/// The file could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeenError {
    /// Another process looks for updates, or installs one.
    #[error("another process looks for an update, or installs one; try again when it is done")]
    Busy,
    /// Not what this program wrote.
    #[error(
        "{} is damaged ({reason}). Remove it if nobody could have tampered with it; it keeps old lists of versions from being taken again", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The system refuses.
    #[error("{}: {reason}. Check that the folder belongs to you and has room", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
}

/// The folder of updates, held alone while this lives.
#[derive(Debug)]
pub(crate) struct Held {
    folder: PathBuf,
    _lock: File,
}

impl SeenError {
    pub(crate) fn file(path: &Path, error: &io::Error) -> Self {
        Self::File { path: path.to_owned(), reason: error.to_string() }
    }
}

impl Held {
    /// Makes `folder` where it is missing, and takes it alone.
    pub(crate) fn claim(folder: &Path) -> Result<Self, SeenError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).map_err(|error| SeenError::file(folder, &error))?;
        let path = folder.join(LOCK);
        let opened = File::options().write(true).create(true).truncate(false).open(&path);
        let lock = opened.map_err(|error| SeenError::file(&path, &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { folder: folder.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(SeenError::Busy),
            Err(TryLockError::Error(error)) => Err(SeenError::file(&path, &error)),
        }
    }

    /// Notes a list that was taken.
    pub(crate) fn note(&self, serial: u64, checked: u64) -> Result<(), SeenError> {
        let before = Seen::read(&self.folder)?;
        let serial = before.serial.max(serial);
        self.keep(Seen { serial, checked, ..before })
    }

    /// Notes a version that did not come up.
    pub(crate) fn note_failed(&self, version: &Version) -> Result<(), SeenError> {
        let failed = Some(version.clone());
        self.keep(Seen { failed, ..Seen::read(&self.folder)? })
    }

    /// Notes when the newest list of models was written that was taken.
    pub(crate) fn note_models(&self, written: u64) -> Result<(), SeenError> {
        let before = Seen::read(&self.folder)?;
        if written <= before.models {
            return Ok(());
        }
        self.keep(Seen { models: written, ..before })
    }

    fn keep(&self, seen: Seen) -> Result<(), SeenError> {
        let path = self.folder.join(FILE);
        let written = write(&path, &Seen { version: VERSION, ..seen });
        written.map_err(|error| SeenError::file(&path, &error))
    }
}

impl Seen {
    /// What was noted in `folder`; nothing where there is no file.
    pub fn read(folder: &Path) -> Result<Self, SeenError> {
        let path = folder.join(FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(SeenError::file(&path, &error)),
        };
        let damaged = |reason: String| SeenError::Damaged { path: path.clone(), reason };
        let seen: Self =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        match seen.version {
            0..=VERSION => Ok(seen),
            found => Err(damaged(format!("format {found} is of a later version"))),
        }
    }
}

/// Writes a small document so that a crash leaves either the old one or the new one.
pub(crate) fn write(path: &Path, document: &impl Serialize) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut draft = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut draft, document)?;
    draft.write_all(b"\n")?;
    draft.as_file().sync_all()?;
    draft.persist(path)?;
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_number_stays_and_a_damaged_file_is_not_an_empty_one() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("updates");
        assert_eq!(Seen::read(&folder).unwrap(), Seen::default());
        let held = Held::claim(&folder).unwrap();
        assert!(matches!(Held::claim(&folder), Err(SeenError::Busy)));
        held.note(7, 100).unwrap();
        held.note(3, 200).unwrap();
        let seen = Seen::read(&folder).unwrap();
        assert_eq!((seen.serial, seen.checked, seen.failed), (7, 200, None));
        held.note_failed(&Version::new(2, 0, 0)).unwrap();
        held.note_models(50).unwrap();
        held.note_models(40).unwrap();
        held.note(8, 300).unwrap();
        let seen = Seen::read(&folder).unwrap();
        assert_eq!(seen.models, 50);
        assert_eq!((seen.serial, seen.checked, seen.failed), (8, 300, Some(Version::new(2, 0, 0))));
        for odd in ["", "{}", "{\"version\":2,\"serial\":0,\"checked\":0}"] {
            fs::write(folder.join(FILE), odd).unwrap();
            assert!(matches!(Seen::read(&folder), Err(SeenError::Damaged { .. })), "{odd}");
            assert!(held.note(1, 1).is_err(), "{odd}");
        }
        drop(held);
        Held::claim(&folder).unwrap();
    }
}
