//! Getting a model file ready for the library: copied, linked or left in place, then checked.
//!
//! What is checked is what will be used: a copy is digested after it was made, so a file that
//! changes while it is copied cannot slip in under an earlier digest.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nook_base::{FileStamp, ModelDigest};

use super::MODELS_MAX;
use super::standing::stamp_before_digest;
use crate::durable::{self, Deed, FileError, Readers};

/// Files of one name that are tried; beyond, the last import's litter is overwritten.
const FILE_NUMBER_MAX: u32 = 99;

/// What the copy of an import is called until it has its name.
pub(super) const IMPORT: &str = "import";

/// How a file comes into the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// As a copy: it stays when the original goes.
    Copy,
    /// As a second name of the same bytes on the disk, where the file system can; else as a copy.
    Link,
    /// Not at all: it is used where it is, as long as it is there.
    InPlace,
    /// Whole, out of its place: for what this program loaded itself beside the library. It stays
    /// where it is until it is adopted.
    Move,
}

/// A file that did not come into the library, or a name that it cannot have. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// Not a file.
    #[error("{} is no file", path.display())]
    NotAFile {
        /// What was named.
        path: PathBuf,
    },
    /// It changed while it was copied.
    #[error("{} changed while it was copied: wait until it is complete and try again", path.display())]
    SourceChanged {
        /// The file.
        path: PathBuf,
    },
    /// It is no model that can be used.
    #[error("{} is no model that can be used: {reason}", path.display())]
    BadModel {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The name cannot be used.
    #[error("`{name}` is no name for a model: use letters, digits, `-`, `_` and `.`")]
    BadName {
        /// The name.
        name: String,
    },
    /// Another model has the name.
    #[error("another model is called `{name}`")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// It is listed already, and its file would lie in a folder that is not there now.
    #[error("this model is listed already, and {} is not there; plug in its disk", folder.display())]
    Away {
        /// The folder.
        folder: PathBuf,
    },
    /// The list is full.
    #[error("{MODELS_MAX} models are listed already; remove one first")]
    Full,
    /// No such model, or it is the built-in one.
    #[error("this model is not on this device, or cannot be renamed")]
    NoSuchModel,
    /// A file that the system refuses: a full disk, a missing right.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Copies and checks files; needs no access to the list.
#[derive(Debug, Clone)]
pub struct Stager {
    folder: PathBuf,
}

/// A checked file that waits to be adopted. Dropped without that, a copy is deleted again.
#[derive(Debug)]
pub struct Staged {
    source: PathBuf,
    /// The copy; `None` for a file that stays in place, or has not moved yet.
    copy: Option<PathBuf>,
    moves: bool,
    digest: ModelDigest,
    bytes: u64,
    /// What the file was before all of it was digested and after that.
    stamp: Option<FileStamp>,
}

/// A file in its place, which no list names yet.
#[derive(Debug)]
pub(super) struct Settled {
    path: PathBuf,
    came: Came,
    stamp: Option<FileStamp>,
}

/// How a file came to its place, and so what undoes that.
#[derive(Debug)]
enum Came {
    /// It was there before anybody asked, and is the user's.
    Stayed,
    /// It was copied, or got a second name.
    Copied,
    /// It was moved, from here.
    Moved(PathBuf),
}

impl Stager {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Gets `source` ready. `digest_of` validates the file that will be used and says what it is;
    /// it reads all of it, so this takes as long as the disk does.
    pub fn stage(
        &self,
        source: &Path,
        take: Take,
        digest_of: impl FnOnce(&Path) -> Result<ModelDigest, String>,
    ) -> Result<Staged, ImportError> {
        let reading = |error: &io::Error| FileError::new(source, Deed::Read, error);
        // One path from here on: no link, no `..`.
        let real = fs::canonicalize(source).map_err(|error| reading(&error))?;
        let found = fs::metadata(&real).map_err(|error| reading(&error))?;
        if !found.is_file() {
            return Err(ImportError::NotAFile { path: source.to_owned() });
        }
        // From here on `staged` cleans up behind every error.
        let mut staged = Staged {
            source: real,
            copy: None,
            moves: take == Take::Move,
            digest: ModelDigest([0; 32]),
            bytes: found.len(),
            stamp: None,
        };
        if matches!(take, Take::Copy | Take::Link) {
            let temporary = durable::temporary_beside(&self.folder.join(IMPORT));
            staged.copy = Some(temporary.clone());
            let linked = take == Take::Link && fs::hard_link(&staged.source, &temporary).is_ok();
            if !linked {
                copy(&staged.source, &temporary)?;
            }
        }
        let used = staged.copy.as_ref().unwrap_or(&staged.source);
        let now_long = |path: &Path| fs::metadata(path).map(|found| found.len()).unwrap_or(0);
        if now_long(used) != staged.bytes || now_long(&staged.source) != staged.bytes {
            return Err(ImportError::SourceChanged { path: source.to_owned() });
        }
        staged.digested(digest_of)
    }

    /// Gets ready what `make` writes, which is told where that lies. `called` is where such a file
    /// would have been, and gives its name. As [`Self::stage`] otherwise.
    pub fn stage_made(
        &self,
        called: &Path,
        make: impl FnOnce(&Path, &mut File) -> io::Result<()>,
        digest_of: impl FnOnce(&Path) -> Result<ModelDigest, String>,
    ) -> Result<Staged, ImportError> {
        let target = durable::temporary_beside(&self.folder.join(IMPORT));
        // From here on `staged` cleans up behind every error.
        let mut staged = Staged {
            source: called.to_owned(),
            copy: Some(target.clone()),
            moves: false,
            digest: ModelDigest([0; 32]),
            bytes: 0,
            stamp: None,
        };
        let written = durable::create(&target, Readers::Default).and_then(|mut to| {
            make(&target, &mut to)?;
            to.sync_all()?;
            to.metadata().map(|found| found.len())
        });
        staged.bytes = written.map_err(|error| FileError::new(&target, Deed::Write, &error))?;
        staged.digested(digest_of)
    }
}

impl Staged {
    /// Finds out what the file that will be used is; reads all of it.
    fn digested(
        mut self,
        digest_of: impl FnOnce(&Path) -> Result<ModelDigest, String>,
    ) -> Result<Self, ImportError> {
        let source = || self.source.clone();
        let used = self.copy.as_ref().unwrap_or(&self.source);
        let reading = |error: io::Error| FileError::new(used, Deed::Read, &error);
        let stamp = stamp_before_digest(used).map_err(reading)?;
        let digest =
            digest_of(used).map_err(|reason| ImportError::BadModel { path: source(), reason })?;
        if stamp_of(used) != Some(stamp) {
            return Err(ImportError::SourceChanged { path: source() });
        }
        (self.digest, self.stamp) = (digest, Some(stamp));
        Ok(self)
    }

    /// What the model is.
    #[must_use]
    pub fn digest(&self) -> ModelDigest {
        self.digest
    }

    /// Length of the file in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file it came from.
    #[must_use]
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// What the file was when all of it was digested.
    pub(super) fn stamp(&self) -> Option<FileStamp> {
        self.stamp
    }

    /// Gives the file its place in `folder`, named after `name`. On an error it is where it was.
    pub(super) fn settle(mut self, folder: &Path, name: &str) -> Result<Settled, FileError> {
        let (from, came) = match &self.copy {
            Some(copy) => (copy, Came::Copied),
            None if self.moves => (&self.source, Came::Moved(self.source.clone())),
            None => {
                let (path, stamp) = (self.source.clone(), self.stamp);
                return Ok(Settled { path, came: Came::Stayed, stamp });
            }
        };
        // A file without an entry is left by a start that was killed, or the user's: it stays, and
        // this one gets a number.
        let numbered = (2..=FILE_NUMBER_MAX).map(|number| format!("{name}-{number}.gguf"));
        let path = std::iter::once(format!("{name}.gguf"))
            .chain(numbered)
            .map(|file| folder.join(file))
            .find(|path| fs::symlink_metadata(path).is_err())
            .unwrap_or_else(|| folder.join(format!("{name}.gguf")));
        let failed = |error: &io::Error| FileError::new(&path, Deed::Write, error);
        let stamp = rename_noted(from, &path, self.stamp).map_err(|error| failed(&error))?;
        self.copy = None;
        let settled = Settled { path: path.clone(), came, stamp };
        if let Err(error) = durable::flush_folder_of(&path) {
            settled.undo();
            return Err(failed(&error));
        }
        Ok(settled)
    }
}

impl Settled {
    /// Where the file is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What it is there; absent where it was changed since it was digested.
    pub(super) fn stamp(&self) -> Option<FileStamp> {
        self.stamp
    }

    /// Whether it is the library's own.
    pub(super) fn is_owned(&self) -> bool {
        !matches!(self.came, Came::Stayed)
    }

    /// Takes it out of its place again: what was moved goes back whole, a copy is deleted.
    pub(super) fn undo(self) {
        let undone = match &self.came {
            Came::Stayed => Ok(()),
            Came::Copied => fs::remove_file(&self.path),
            Came::Moved(source) => fs::rename(&self.path, source),
        };
        if let Err(error) = undone {
            tracing::warn!(file = %self.path.display(), %error, "a file that no list names stays");
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(copy) = &self.copy {
            let _ = fs::remove_file(copy);
        }
    }
}

/// Gives a file another name, which changes its stamp; the new one, where the file had the `noted`
/// one before. Absent where it had not: then nobody knows what it is.
pub(super) fn rename_noted(
    from: &Path,
    to: &Path,
    noted: Option<FileStamp>,
) -> io::Result<Option<FileStamp>> {
    let before = stamp_of(from);
    fs::rename(from, to)?;
    let noted = noted.filter(|_| before == noted);
    Ok(stamp_of(to).filter(|now| noted.is_some_and(|noted| now.is_renamed(&noted))))
}

/// The stamp of the file at `path`, where there is one.
pub(super) fn stamp_of(path: &Path) -> Option<FileStamp> {
    fs::metadata(path).ok().map(|found| FileStamp::of(&found))
}

fn copy(source: &Path, target: &Path) -> Result<(), FileError> {
    let mut from =
        File::open(source).map_err(|error| FileError::new(source, Deed::Read, &error))?;
    let writing = |error: io::Error| FileError::new(target, Deed::Write, &error);
    let mut to = durable::create(target, Readers::Default).map_err(writing)?;
    io::copy(&mut from, &mut to).map_err(writing)?;
    to.sync_all().map_err(writing)
}
