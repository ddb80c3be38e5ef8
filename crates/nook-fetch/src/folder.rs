//! The folder of unfinished downloads, and one file's place in it.
//!
//! For a file with the key `k` there are `k.partial` (its bytes so far), `k.json` (what the server
//! said of it), `k.gguf` (whole and checked, until it is taken away) and `k.lock`. The lock is the
//! operating system's on an open file, so a killed process leaves none behind; who holds it owns
//! all files of the key. A model in several files has the same for each piece, under `k.p1` and so
//! on, and `k.seam` while those are joined: they belong to `k`. Names are made here and nowhere
//! else.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use nook_base::ModelDigest;
use nook_base::paths::private_folders;
use sha2::{Digest as _, Sha256};

use crate::error::FetchError;
use crate::house_source::HouseSource;
use crate::part::is_whole;
use crate::piece_names::PIECES_MAX;

/// Readable letters of a key, before the digits that make it one of a kind.
const KEY_NAME_BYTES_MAX: usize = 64;

/// Bytes of the digest in a key.
const KEY_DIGEST_BYTES: usize = 6;

/// Longest mark of a piece behind the key that it belongs to: `.p64`.
const PIECE_BYTES_MAX: usize = 4;

/// Tries to get a lock whose file its last owner just removed.
const CLAIMS_MAX: u32 = 3;

/// A name for the files of one source: lower-case letters, digits, `-`, `_` and `.`, never first a
/// dot. The only thing of a source that becomes part of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(String);

/// Where downloads lie until they are whole.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
}

/// One file's place, held alone while this lives.
#[derive(Debug)]
pub struct Slot {
    folder: PathBuf,
    key: FileKey,
    lock: File,
}

impl FileKey {
    /// The key of the source that is written `text` and whose file is called `name`.
    pub(crate) fn of(name: &str, text: &str) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        let stem = name.strip_suffix(".gguf").unwrap_or(name);
        let readable: String = stem.chars().take(KEY_NAME_BYTES_MAX).map(plain).collect();
        let readable = readable.trim_matches('.').to_ascii_lowercase();
        let digest = Sha256::digest(text.as_bytes());
        let digits = data_encoding::HEXLOWER.encode(digest.get(..KEY_DIGEST_BYTES).unwrap_or(&[]));
        Self(format!("{}-{digits}", if readable.is_empty() { "model" } else { &readable }))
    }

    /// The key of the tensors of `model` that are here: its digest.
    #[must_use]
    pub fn of_model(model: ModelDigest) -> Self {
        Self(model.to_string())
    }

    /// The key that `text` is, if it is one: for lists that were kept in a file.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
        let longest = KEY_NAME_BYTES_MAX + 1 + 2 * KEY_DIGEST_BYTES + PIECE_BYTES_MAX;
        let good = !text.is_empty() && text.len() <= longest && text.bytes().all(plain);
        (good && !text.starts_with('.')).then(|| Self(text.to_owned()))
    }

    /// The key of piece `number` of this one's file.
    pub(crate) fn piece(&self, number: u32) -> Self {
        Self(format!("{}.p{number}", self.0))
    }

    /// The key that this one belongs to: of a piece, that of the whole file.
    fn owner(self) -> Self {
        match piece_of(&self.0) {
            Some((owner, _)) => Self(owner.to_owned()),
            None => self,
        }
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The key of the whole file and the number, where `key` is that of a piece. Other keys end with
/// digits behind a `-`, or are a digest: no dot is in those.
fn piece_of(key: &str) -> Option<(&str, u32)> {
    let (owner, number) = key.rsplit_once(".p")?;
    let number = number.parse().ok().filter(|number| (1..=PIECES_MAX).contains(number))?;
    Some((owner, number))
}

impl Folder {
    /// The downloads at `path`, a folder that only this user can write; it is made when the first
    /// one begins, in a folder that is there: that one's disk may be away, and is not made up for.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the place of `key`, alone; waits for the disk.
    pub fn claim(&self, key: &FileKey) -> Result<Slot, FetchError> {
        make_private(&self.path).map_err(|error| FetchError::disk(&self.path, &error))?;
        let path = file_of(&self.path, key, "lock");
        for _ in 0..CLAIMS_MAX {
            let opened = File::options().write(true).create(true).truncate(false).open(&path);
            let lock = opened.map_err(|error| FetchError::disk(&path, &error))?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => break,
                Err(TryLockError::Error(error)) => return Err(FetchError::disk(&path, &error)),
            }
            if is_still_at(&lock, &path) {
                return Ok(Slot { folder: self.path.clone(), key: key.clone(), lock });
            }
        }
        Err(FetchError::Busy { file: key.as_str().to_owned() })
    }

    /// Deletes everything of `key`; fails while somebody writes it. Waits for the disk.
    pub fn discard(&self, key: &FileKey) -> Result<(), FetchError> {
        self.claim(key)?.discard()
    }

    /// The keys of which something is here, in order. Waits for the disk.
    ///
    /// They are known by their locks, which are made first and removed last: a file that somebody
    /// put here by hand has none, and is nobody's business.
    #[must_use]
    pub fn keys(&self) -> BTreeSet<FileKey> {
        let Ok(entries) = fs::read_dir(&self.path) else { return BTreeSet::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let keys = names.filter_map(|name| FileKey::parse(name.strip_suffix(".lock")?));
        keys.map(FileKey::owner).collect()
    }

    /// Bytes of `key` that are here already.
    #[must_use]
    pub fn bytes_of(&self, key: &FileKey) -> u64 {
        let of = |key: &FileKey| {
            let file = |kind| file_of(&self.path, key, kind);
            let long = |kind| fs::symlink_metadata(file(kind)).map_or(0, |it| it.len());
            long("partial").max(long("gguf"))
        };
        of(key) + self.pieces_of(key).iter().map(of).sum::<u64>()
    }

    /// The pieces of `key` of which something is here.
    pub(crate) fn pieces_of(&self, key: &FileKey) -> BTreeSet<FileKey> {
        let Ok(entries) = fs::read_dir(&self.path) else { return BTreeSet::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let piece = |name: String| {
            let key_of = name.strip_suffix(".lock")?;
            let is_its = piece_of(key_of).is_some_and(|(owner, _)| owner == key.0);
            is_its.then(|| FileKey(key_of.to_owned()))
        };
        names.filter_map(piece).collect()
    }

    /// Where the file of `key` is once it is whole.
    pub(crate) fn whole_of(&self, key: &FileKey) -> PathBuf {
        file_of(&self.path, key, "gguf")
    }

    /// Where the note of `key` is.
    pub(crate) fn note_of(&self, key: &FileKey) -> PathBuf {
        file_of(&self.path, key, "json")
    }

    /// Whether all of a copy is here, so that nobody has to be asked for it. Waits for the disk.
    #[must_use]
    pub fn has_whole(&self, source: &HouseSource) -> bool {
        let file = |kind| file_of(&self.path, &source.key(), kind);
        is_whole(&file("json"), &file("gguf"), &source.file())
    }
}

impl Slot {
    /// Deletes the note, the bytes and the lock, and those of its pieces.
    pub fn discard(self) -> Result<(), FetchError> {
        let folder = Folder::at(self.folder.clone());
        for piece in folder.pieces_of(&self.key) {
            folder.discard(&piece)?;
        }
        for path in [self.partial(), self.whole(), self.note(), self.seam()] {
            remove(&path).map_err(|error| FetchError::disk(&path, &error))?;
        }
        // While the lock is held: whoever opened the file before sees that it is gone.
        let _ = fs::remove_file(file_of(&self.folder, &self.key, "lock"));
        drop(self.lock);
        Ok(())
    }

    pub(crate) fn partial(&self) -> PathBuf {
        file_of(&self.folder, &self.key, "partial")
    }

    pub(crate) fn whole(&self) -> PathBuf {
        file_of(&self.folder, &self.key, "gguf")
    }

    pub(crate) fn note(&self) -> PathBuf {
        file_of(&self.folder, &self.key, "json")
    }

    /// How its pieces are joined.
    pub(crate) fn seam(&self) -> PathBuf {
        file_of(&self.folder, &self.key, "seam")
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(crate) fn file_of(folder: &Path, key: &FileKey, kind: &str) -> PathBuf {
    folder.join(format!("{}.{kind}", key.0))
}

fn make_private(folder: &Path) -> io::Result<()> {
    match private_folders().create(folder) {
        Err(error) if !folder.is_dir() => Err(error),
        _ => Ok(()),
    }
}

/// Whether the locked file is the one that others find under its name.
fn is_still_at(lock: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let same = |one: &fs::Metadata, other: &fs::Metadata| {
            (one.dev(), one.ino()) == (other.dev(), other.ino())
        };
        let found = lock.metadata().ok().zip(fs::symlink_metadata(path).ok());
        found.is_some_and(|(locked, named)| same(&locked, &named))
    }
    #[cfg(not(unix))]
    {
        // Here a file that is open keeps its name until it is closed.
        let _ = lock;
        path.exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> FileKey {
        FileKey::of("Qwen3-4B-Q4_K_M.gguf", "hf:Qwen/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M.gguf")
    }

    #[test]
    fn keys_are_plain_names_whatever_the_server_calls_its_files() {
        assert!(key().as_str().starts_with("qwen3-4b-q4_k_m-"));
        for name in [
            "../../etc/passwd",
            "..",
            ".gguf",
            "",
            "a/b\\c:d|e\0f.gguf",
            "Ünï.gguf",
            &"x".repeat(900),
        ] {
            let key = FileKey::of(name, name);
            assert_eq!(FileKey::parse(key.as_str()).as_ref(), Some(&key), "{name:?} -> {key:?}");
            assert!(!key.as_str().contains(['/', '\\', ':']), "{key:?}");
        }
        assert_ne!(FileKey::of("m.gguf", "one"), FileKey::of("m.gguf", "two"));
        for odd in ["", ".x", "a/b", "A", "..", &"x".repeat(200)] {
            assert_eq!(FileKey::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn one_file_has_one_writer_and_a_dead_one_holds_nothing() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(home.path().join("downloads"));
        let slot = folder.claim(&key()).unwrap();
        let second = folder.claim(&key()).unwrap_err();
        assert!(
            matches!(&second, FetchError::Busy { file } if file.starts_with("qwen3-4b")),
            "{second}"
        );
        assert!(matches!(folder.discard(&key()), Err(FetchError::Busy { .. })));
        folder.claim(&FileKey::of("other.gguf", "other")).unwrap();
        drop(slot);
        folder.claim(&key()).unwrap();
    }

    #[test]
    fn what_is_discarded_is_gone_with_everything_that_was_made_for_it() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(home.path().join("downloads"));
        let slot = folder.claim(&key()).unwrap();
        fs::write(slot.partial(), b"12345").unwrap();
        fs::write(slot.note(), b"{}").unwrap();
        assert_eq!(folder.bytes_of(&key()), 5);
        slot.discard().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(folder.bytes_of(&key()), 0);
        // Nothing is nothing to complain of.
        folder.discard(&key()).unwrap();
    }

    #[test]
    fn pieces_belong_to_the_file_that_they_make() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(home.path().join("downloads"));
        let other = FileKey::of("other.gguf", "other");
        for number in [1, 2, 64] {
            let slot = folder.claim(&key().piece(number)).unwrap();
            fs::write(slot.partial(), b"12345").unwrap();
            assert_eq!(FileKey::parse(slot.key.as_str()).as_ref(), Some(&slot.key));
        }
        drop((folder.claim(&key()).unwrap(), folder.claim(&other).unwrap()));
        assert_eq!(folder.keys(), [other.clone(), key()].into());
        assert_eq!((folder.bytes_of(&key()), folder.bytes_of(&other)), (15, 0));
        folder.discard(&key()).unwrap();
        assert_eq!(folder.keys(), [other].into());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_on_a_disk_that_is_away_is_not_made() {
        let disk = tempfile::tempdir().unwrap();
        let folder = Folder::at(disk.path().join("models/downloads"));
        assert!(matches!(folder.claim(&key()), Err(FetchError::Disk { full: false, .. })));
        assert!(!disk.path().join("models").exists());
    }

    #[test]
    fn what_lies_here_is_known_by_its_lock_and_other_files_are_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(home.path().join("downloads"));
        assert!(folder.keys().is_empty(), "there is no folder yet");
        let other = FileKey::of("other.gguf", "other");
        drop((folder.claim(&key()).unwrap(), folder.claim(&other).unwrap()));
        for name in ["mine.gguf", "mine.partial", ".tmp1.lock", "A.lock", "notes.txt"] {
            fs::write(folder.path().join(name), b"mine").unwrap();
        }
        assert_eq!(folder.keys(), [other, key()].into());
    }
}
