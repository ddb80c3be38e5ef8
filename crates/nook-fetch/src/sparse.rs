//! A file of which only some ranges are here, each at its own place.
//!
//! The file has the length of the whole one from the beginning. On Unix the ranges that were never
//! written take no room on the disk, on every file system that knows sparse files; one that does
//! not (FAT, exFAT) writes zeros when the length is set. Windows gives a file of this length all of
//! its clusters at once: marking it as sparse needs a control call that no library of this
//! workspace offers without `unsafe`. [`SparseFile::counts_holes`] says which of the two it is.
//!
//! What a file of zeros looks like says nothing of what is here: the caller keeps a record of the
//! ranges that were checked, and writes it only behind [`SparseFile::sync`].

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::error::FetchError;
use crate::folder::Slot;
use crate::part::open_plain;

/// A file with holes, written by one owner. All of it waits for the disk.
#[derive(Debug)]
pub struct SparseFile {
    slot: Slot,
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl SparseFile {
    /// Opens the file of `slot` as it is, or makes an empty one. A link in its place is replaced,
    /// never followed.
    pub fn open(slot: Slot) -> Result<Self, FetchError> {
        let path = slot.whole();
        let opened = open_plain(&path).and_then(|file| {
            let bytes = file.metadata()?.len();
            Ok((file, bytes))
        });
        let (file, bytes) = opened.map_err(|error| FetchError::disk(&path, &error))?;
        Ok(Self { slot, path, file, bytes })
    }

    /// Makes the file so long. Bytes behind a shorter end are gone, bytes before a longer one are
    /// zeros.
    pub fn set_length(&mut self, bytes: u64) -> Result<(), FetchError> {
        self.file.set_len(bytes).map_err(|error| self.failed(&error))?;
        self.bytes = bytes;
        Ok(())
    }

    /// Its length, holes included.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.bytes
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether holes take room here, so that setting the length has taken all of it.
    #[must_use]
    pub const fn counts_holes() -> bool {
        cfg!(windows)
    }

    /// Writes `bytes` from `at` on. After an error some of them may be written.
    pub fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), FetchError> {
        let written = self.file.seek(SeekFrom::Start(at)).and_then(|_| self.file.write_all(bytes));
        written.map_err(|error| self.failed(&error))?;
        self.bytes = self.bytes.max(at.saturating_add(bytes.len() as u64));
        Ok(())
    }

    /// Makes what was written last over a power cut.
    pub fn sync(&self) -> Result<(), FetchError> {
        // All of it, not only the data: the length and the map of the holes have to last as well.
        self.file.sync_all().map_err(|error| self.failed(&error))
    }

    /// Deletes it, and gives its place back.
    pub fn discard(self) -> Result<(), FetchError> {
        // Windows deletes no file that is open.
        drop(self.file);
        self.slot.discard()
    }

    /// The folder that it is in.
    pub(crate) fn folder(&self) -> &Path {
        self.slot.folder()
    }

    fn failed(&self, error: &io::Error) -> FetchError {
        FetchError::disk(&self.path, error)
    }

    /// The same file, but writes go to `file`.
    #[cfg(test)]
    pub(crate) fn writing_to(self, file: File) -> Self {
        Self { file, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::{FileKey, Folder};
    use std::fs;

    fn open(folder: &Folder) -> SparseFile {
        SparseFile::open(folder.claim(&FileKey::parse("abc").unwrap()).unwrap()).unwrap()
    }

    fn folder() -> (tempfile::TempDir, Folder) {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(home.path().join("partial"));
        (home, folder)
    }

    #[test]
    fn ranges_stand_at_their_places_and_the_rest_is_zeros() {
        let (_home, folder) = folder();
        let mut file = open(&folder);
        file.set_length(12).unwrap();
        file.write_at(8, b"late").unwrap();
        file.write_at(2, b"ab").unwrap();
        file.sync().unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), b"\0\0ab\0\0\0\0late");
        drop(file);
        let file = open(&folder);
        assert_eq!(file.length(), 12, "as it was left");
        file.discard().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_long_file_of_little_takes_little_room() {
        use std::os::unix::fs::MetadataExt;
        let (_home, folder) = folder();
        let mut file = open(&folder);
        file.set_length(1 << 36).unwrap();
        file.write_at(1 << 35, b"x").unwrap();
        file.sync().unwrap();
        let found = fs::metadata(file.path()).unwrap();
        assert_eq!(found.len(), 1 << 36);
        assert!(found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
    }

    #[cfg(unix)]
    #[test]
    fn m5_a_link_in_its_place_is_replaced() {
        let (home, folder) = folder();
        drop(open(&folder));
        let precious = home.path().join("precious");
        fs::write(&precious, b"kept").unwrap();
        fs::remove_file(folder.path().join("abc.gguf")).unwrap();
        std::os::unix::fs::symlink(&precious, folder.path().join("abc.gguf")).unwrap();
        open(&folder).write_at(0, b"lost").unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"kept");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn m4_a_full_disk_is_said_while_parts_come() {
        let (_home, folder) = folder();
        // The system's own full device: every write fails as on a full disk.
        let full = File::options().write(true).open("/dev/full").unwrap();
        let error = open(&folder).writing_to(full).write_at(0, b"x").unwrap_err();
        assert!(matches!(error, FetchError::Disk { full: true, .. }), "{error}");
    }
}
