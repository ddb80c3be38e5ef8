//! An archive of a package into a folder that was empty, and into nothing else.
//!
//! The archive was signed for, and is treated as if it were not: whoever steals a key gets no
//! further than a program of their own, not into other files. Only plain files and folders are
//! taken; a link, a device, a name that leaves the folder, or more than the limits ends it, and the
//! caller removes what came. Names are those of the plain header (ustar): extensions, in which two
//! readers may see two names, are refused with everything else that is no file.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use flate2::read::GzDecoder;
use tar::{Archive, Entry, EntryType};

use crate::limits::{DEPTH_MAX, UNPACKED_BYTES_MAX, UNPACKED_FILES_MAX};

/// An archive that is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// A name that leads out of the folder.
    #[error("the archive holds `{name}`, a place outside of its folder. It was thrown away")]
    Outside {
        /// The name, with what cannot be shown escaped.
        name: String,
    },
    /// Something that is neither a file nor a folder.
    #[error("the archive holds `{name}`, which is neither a file nor a folder. It was thrown away")]
    NoFile {
        /// The name, with what cannot be shown escaped.
        name: String,
    },
    /// One name for two things.
    #[error("the archive holds `{name}` twice. It was thrown away")]
    Twice {
        /// The name, with what cannot be shown escaped.
        name: String,
    },
    /// More files than a package has.
    #[error("the archive holds more than {most} files. It was thrown away")]
    TooMany {
        /// The limit.
        most: usize,
    },
    /// More bytes than a package has.
    #[error("the archive unpacks to more than {most} bytes. It was thrown away")]
    TooLarge {
        /// The limit.
        most: u64,
    },
    /// Not an archive, or one that is cut.
    #[error("the archive is damaged ({reason}). It was thrown away; try again")]
    Damaged {
        /// What is wrong.
        reason: String,
    },
    /// The system would not write.
    #[error("{} cannot be written: {reason}. The installed version was not touched{}", path.display(), if *full { "; free some disk space, then try again" } else { "; check that the folder belongs to you" })]
    Disk {
        /// Which file.
        path: PathBuf,
        /// The system's words.
        reason: String,
        /// Whether the disk is full.
        full: bool,
    },
}

/// How much an archive may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub(crate) bytes: u64,
    pub(crate) files: usize,
}

impl Most {
    pub(crate) const USUAL: Self = Self { bytes: UNPACKED_BYTES_MAX, files: UNPACKED_FILES_MAX };
}

/// Ends where more comes than may.
struct Capped<R> {
    inner: R,
    left: u64,
    is_over: Rc<Cell<bool>>,
}

impl<R: Read> Read for Capped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => {
                self.is_over.set(true);
                return Err(io::Error::other("too much"));
            }
        }
        Ok(read)
    }
}

/// Unpacks `archive`, a tar file in gzip, into `into`, which is made and must not be there yet.
/// Returns the one folder that it holds. Waits for the disk.
pub(crate) fn unpack(archive: impl Read, into: &Path, most: Most) -> Result<PathBuf, UnpackError> {
    fs::create_dir_all(into).map_err(|error| disk(into, &error))?;
    let is_over = Rc::new(Cell::new(false));
    let inner = GzDecoder::new(archive);
    let capped = Capped { inner, left: most.bytes, is_over: is_over.clone() };
    let mut archive = Archive::new(capped);
    let read = |error: io::Error| match is_over.get() {
        true => UnpackError::TooLarge { most: most.bytes },
        false => UnpackError::Damaged { reason: error.to_string() },
    };
    for (at, entry) in archive.entries().map_err(read)?.raw(true).enumerate() {
        if at >= most.files {
            return Err(UnpackError::TooMany { most: most.files });
        }
        take(entry.map_err(read)?, into, read)?;
    }
    let found = fs::read_dir(into).map_err(|error| disk(into, &error))?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(|error| disk(into, &error))?;
    match found.as_slice() {
        [one] if one.path().is_dir() => Ok(one.path()),
        many => {
            let reason = format!("{} things lie in it, not one folder", many.len());
            Err(UnpackError::Damaged { reason })
        }
    }
}

fn take<R: Read>(
    mut entry: Entry<'_, R>,
    into: &Path,
    read: impl Fn(io::Error) -> UnpackError,
) -> Result<(), UnpackError> {
    let bytes = entry.path_bytes().into_owned();
    let name: String = String::from_utf8_lossy(&bytes).escape_debug().take(300).collect();
    let Some(inside) = std::str::from_utf8(&bytes).ok().and_then(plain) else {
        return Err(UnpackError::Outside { name });
    };
    let path = into.join(inside);
    match entry.header().entry_type() {
        EntryType::Directory => make_folder(&path),
        EntryType::Regular => {
            make_folder(path.parent().unwrap_or(into))?;
            let is_program = entry.header().mode().is_ok_and(|mode| mode & 0o111 != 0);
            let mut file = create(&path, is_program).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => UnpackError::Twice { name: name.clone() },
                _ => disk(&path, &error),
            })?;
            copy(&mut entry, &mut file, &path, read)
        }
        _ => Err(UnpackError::NoFile { name }),
    }
}

/// Errors of the archive and of the disk are different ones, so they are told apart by hand.
fn copy(
    from: &mut impl Read,
    to: &mut File,
    path: &Path,
    read: impl Fn(io::Error) -> UnpackError,
) -> Result<(), UnpackError> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer).map_err(&read)? {
            0 => break,
            some => {
                let some = buffer.get(..some).unwrap_or_default();
                io::Write::write_all(to, some).map_err(|error| disk(path, &error))?;
            }
        }
    }
    to.sync_all().map_err(|error| disk(path, &error))
}

/// The path, if each of its parts is a plain name.
fn plain(name: &str) -> Option<&Path> {
    let path = Path::new(name);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let depth = path.components().count();
    let odd = name.contains(['\\', ':', '\0']);
    (is_plain && !odd && (1..=DEPTH_MAX).contains(&depth)).then_some(path)
}

fn make_folder(path: &Path) -> Result<(), UnpackError> {
    fs::create_dir_all(path).map_err(|error| disk(path, &error))
}

fn create(path: &Path, is_program: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if is_program { 0o755 } else { 0o644 });
    #[cfg(not(unix))]
    let _ = is_program;
    options.open(path)
}

fn disk(path: &Path, error: &io::Error) -> UnpackError {
    let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    UnpackError::Disk { path: path.to_owned(), reason: error.to_string(), full }
}
