//! The bytes of one file on the disk: as far as they are, hashed as they come, noted as they last.
//!
//! Everything here waits for the disk and runs on threads that may; [`crate::fetching`] moves a
//! [`Part`] there and back, so it has one owner at any moment and its lock goes with it. The note
//! is written after the bytes that it speaks of are durable, so what an earlier run left is
//! believed up to there and cut off behind it.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use crate::answer::Version;
use crate::error::FetchError;
use crate::folder::{Slot, remove};
use crate::limits::WRITE_BYTES;

const VERSION: u64 = 1;

/// A longer note is not one of ours.
const NOTE_BYTES_MAX: u64 = 1 << 16;

/// What is known of a file that is on its way. Its text is believed as far as it fits the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    version: u64,
    source: String,
    file: Version,
    /// Bytes that are durable.
    synced: u64,
    /// Digest of the whole file, once it is whole.
    whole: Option<String>,
}

/// A file on its way.
#[derive(Debug)]
pub(crate) struct Part {
    slot: Slot,
    source: String,
    file: File,
    hasher: Sha256,
    version: Option<Version>,
    written: u64,
    synced: u64,
    sync_every: u64,
}

/// A file that was whole before anything was asked.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) slot: Slot,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    pub(crate) version: Version,
}

/// What an earlier run has left.
#[derive(Debug)]
pub(crate) enum Left {
    /// Nothing, or a part.
    Part(Part),
    /// Everything.
    Whole(Whole),
}

impl Note {
    /// Length and digest of the whole file at `path`, if this is what is known of that.
    fn whole_at(&self, path: &Path) -> Option<(u64, String)> {
        let found = fs::symlink_metadata(path).ok()?;
        let is_it = found.is_file() && Some(found.len()) == self.file.bytes;
        let sha256 = self.whole.clone().filter(|_| is_it)?;
        Some((found.len(), sha256))
    }
}

/// Whether all of `source` is at `whole`, as the note at `note` says.
pub(crate) fn is_whole(note: &Path, whole: &Path, source: &str) -> bool {
    let note = read_note(note).filter(|note| note.source == source);
    note.is_some_and(|note| note.whole_at(whole).is_some())
}

impl Part {
    /// Opens what is there of `source` and reads it for its digest; `told` hears how far that is.
    /// What comes is made durable after every `sync_every` bytes.
    pub(crate) fn open(
        slot: Slot,
        source: &str,
        sync_every: u64,
        stop: &CancellationToken,
        told: impl Fn(u64),
    ) -> Result<Left, FetchError> {
        let note = read_note(&slot.note()).filter(|note| note.source == source);
        if let Some(note) = &note
            && let Some((bytes, sha256)) = note.whole_at(&slot.whole())
        {
            let (path, version) = (slot.whole(), note.file.clone());
            return Ok(Left::Whole(Whole { slot, path, bytes, sha256, version }));
        }
        let path = slot.partial();
        let failed = |error: &io::Error| FetchError::disk(&path, error);
        let file = open_plain(&path).map_err(|error| failed(&error))?;
        let long = file.metadata().map_err(|error| failed(&error))?.len();
        let synced = note.as_ref().map_or(0, |note| note.synced.min(long));
        file.set_len(synced).map_err(|error| failed(&error))?;
        let version = note.filter(|_| synced > 0).map(|note| note.file);
        let source = source.to_owned();
        let hasher = Sha256::new();
        let mut part = Self { slot, source, file, hasher, version, written: 0, synced, sync_every };
        part.read_again(synced, stop, told)?;
        Ok(Left::Part(part))
    }

    /// Bytes that are there.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Bytes that outlast a power cut.
    pub(crate) fn synced(&self) -> u64 {
        self.synced
    }

    /// Which version of the file they belong to.
    pub(crate) fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// The digest of the whole file, if one of `servers` named it.
    pub(crate) fn digest_by(&self, servers: &[String]) -> Option<String> {
        let version = self.version.as_ref()?;
        let is_theirs = version.server.as_ref().is_some_and(|server| servers.contains(server));
        version.sha256.clone().filter(|_| is_theirs)
    }

    /// Its place in the folder.
    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    pub(crate) fn folder(&self) -> &Path {
        self.slot.folder()
    }

    /// What follows belongs to `version`; bytes of another one are dropped. What was known of the
    /// same version stays known.
    pub(crate) fn begin(&mut self, version: Version) -> Result<(), FetchError> {
        let version = match &self.version {
            Some(known) if known.is_same(&version) => version.or(known),
            _ => {
                self.empty()?;
                version
            }
        };
        self.version = Some(version);
        self.keep()
    }

    /// Forgets the bytes: the server has another file, or cannot go on in the middle.
    pub(crate) fn empty(&mut self) -> Result<(), FetchError> {
        // The note first: bytes without one are not believed, a note without its bytes would be.
        self.version = None;
        remove(&self.slot.note()).map_err(|error| self.failed(&error))?;
        self.file.set_len(0).map_err(|error| self.failed(&error))?;
        self.file.seek(SeekFrom::Start(0)).map_err(|error| self.failed(&error))?;
        self.hasher = Sha256::new();
        (self.written, self.synced) = (0, 0);
        Ok(())
    }

    /// Takes the next bytes. What was written before a failure counts as far as it went.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return Err(self.failed(&io::ErrorKind::WriteZero.into())),
                Ok(taken) => {
                    let (done, more) = rest.split_at(taken.min(rest.len()));
                    self.hasher.update(done);
                    self.written = self.written.saturating_add(done.len() as u64);
                    rest = more;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        if self.written.saturating_sub(self.synced) >= self.sync_every {
            self.keep()?;
        }
        Ok(())
    }

    /// Makes what was written last over a power cut.
    pub(crate) fn keep(&mut self) -> Result<(), FetchError> {
        self.file.sync_data().map_err(|error| self.failed(&error))?;
        self.synced = self.written;
        self.write_note(None)
    }

    /// Checks the whole file and gives it its name. A file that is not what `expected` or its
    /// version says is deleted: that is the publisher's own word.
    pub(crate) fn finish(mut self, expected: Option<&str>) -> Result<Whole, FetchError> {
        self.keep()?;
        let digest = std::mem::take(&mut self.hasher).finalize();
        let sha256 = data_encoding::HEXLOWER.encode(&digest);
        let named = self.version.as_ref().and_then(|version| version.sha256.as_deref());
        if let Some(expected) = expected.or(named)
            && expected != sha256
        {
            let expected = expected.to_owned();
            self.slot.discard()?;
            return Err(FetchError::Digest { expected, found: sha256 });
        }
        if let Some(version) = &mut self.version {
            version.bytes = Some(self.written);
        }
        self.write_note(Some(&sha256))?;
        let path = self.slot.whole();
        fs::rename(self.slot.partial(), &path).map_err(|error| self.failed(&error))?;
        flush(self.slot.folder());
        let unknown = Version { bytes: Some(self.written), ..Version::default() };
        let version = self.version.take().unwrap_or(unknown);
        Ok(Whole { slot: self.slot, path, bytes: self.written, sha256, version })
    }

    /// Deletes everything: what came cannot be the file.
    pub(crate) fn discard(self) -> Result<(), FetchError> {
        self.slot.discard()
    }

    fn read_again(
        &mut self,
        until: u64,
        stop: &CancellationToken,
        told: impl Fn(u64),
    ) -> Result<(), FetchError> {
        let mut buffer = vec![0; WRITE_BYTES];
        self.file.seek(SeekFrom::Start(0)).map_err(|error| self.failed(&error))?;
        while self.written < until {
            if stop.is_cancelled() {
                return Err(FetchError::Stopped);
            }
            let read = self.file.read(&mut buffer).map_err(|error| self.failed(&error))?;
            let bytes = buffer.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                return Err(self.failed(&io::ErrorKind::UnexpectedEof.into()));
            }
            self.hasher.update(bytes);
            self.written = self.written.saturating_add(bytes.len() as u64);
            told(self.written);
        }
        Ok(())
    }

    fn write_note(&self, whole: Option<&str>) -> Result<(), FetchError> {
        let Some(version) = &self.version else { return Ok(()) };
        let note = Note {
            version: VERSION,
            source: self.source.clone(),
            file: version.clone(),
            synced: self.synced,
            whole: whole.map(str::to_owned),
        };
        let path = self.slot.note();
        let written = write_whole(&path, &note);
        written.map_err(|error| FetchError::disk(&path, &error))
    }

    fn failed(&self, error: &io::Error) -> FetchError {
        FetchError::disk(&self.slot.partial(), error)
    }
}

/// Opens the file itself, never what a link points to.
pub(crate) fn open_plain(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        fs::remove_file(path)?;
    }
    File::options().read(true).write(true).create(true).truncate(false).open(path)
}

/// A note that cannot be read is no note: its bytes are fetched again.
fn read_note(path: &Path) -> Option<Note> {
    let found = fs::symlink_metadata(path).ok()?;
    if !found.is_file() || found.len() > NOTE_BYTES_MAX {
        return None;
    }
    let note: Note = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (note.version == VERSION).then_some(note)
}

/// Replaces the note in one step, so that a crash leaves the old one or the new one.
fn write_whole(path: &Path, note: &Note) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut draft = tempfile::NamedTempFile::new_in(folder)?;
    draft.write_all(&serde_json::to_vec(note)?)?;
    draft.as_file().sync_data()?;
    draft.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Makes renames in `folder` durable where the system has a call for it. A failure costs a restart
/// of the last step after a power cut, nothing else.
fn flush(folder: &Path) {
    #[cfg(unix)]
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    let _ = folder;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::{FileKey, Folder};

    /// Bytes of these tests never come to so many.
    const SYNC_EVERY: u64 = 1 << 20;

    fn version(bytes: u64) -> Version {
        let mark = Some("\"1\"".to_owned());
        Version { validator: mark, bytes: Some(bytes), ..Version::default() }
    }

    fn claim(folder: &Folder) -> Slot {
        folder.claim(&FileKey::of("m.gguf", "m")).unwrap()
    }

    fn open(folder: &Folder) -> Part {
        match Part::open(claim(folder), "m", SYNC_EVERY, &CancellationToken::new(), |_| {}).unwrap()
        {
            Left::Part(part) => part,
            Left::Whole(whole) => panic!("{whole:?}"),
        }
    }

    fn folder() -> (tempfile::TempDir, Folder) {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(home.path().join("downloads"));
        (home, folder)
    }

    #[test]
    fn a_part_is_believed_as_far_as_it_was_made_durable() {
        let (_home, folder) = folder();
        let mut part = open(&folder);
        part.begin(version(9)).unwrap();
        part.append(b"abc").unwrap();
        part.keep().unwrap();
        part.append(b"lost in a power cut").unwrap();
        drop(part);
        let part = open(&folder);
        assert_eq!((part.written(), part.version()), (3, Some(&version(9))));
        let whole = part.finish(None).unwrap();
        assert_eq!(fs::read(&whole.path).unwrap(), b"abc");
        // SHA-256 of `abc`, FIPS 180-4 example.
        assert!(whole.sha256.starts_with("ba7816bf8f01cfea"), "{}", whole.sha256);
    }

    #[test]
    fn another_version_begins_anew_and_the_same_goes_on() {
        let (_home, folder) = folder();
        let mut part = open(&folder);
        part.begin(version(9)).unwrap();
        part.append(b"abc").unwrap();
        part.begin(version(9)).unwrap();
        assert_eq!(part.written(), 3);
        part.begin(version(8)).unwrap();
        assert_eq!(part.written(), 0);
        part.append(b"xy").unwrap();
        part.keep().unwrap();
        drop(part);
        assert_eq!(open(&folder).written(), 2);
    }

    #[test]
    fn a_server_that_says_less_the_next_time_makes_nothing_forgotten() {
        let (_home, folder) = folder();
        let said =
            Version { sha256: Some("0".repeat(64)), commit: Some("0a".into()), ..version(6) };
        let mut part = open(&folder);
        part.begin(said.clone()).unwrap();
        part.append(b"abc").unwrap();
        part.keep().unwrap();
        drop(part);
        let mut part = open(&folder);
        part.begin(Version { bytes: None, ..version(6) }).unwrap();
        assert_eq!((part.written(), part.version()), (3, Some(&said)));
        part.append(b"def").unwrap();
        let error = part.finish(None).unwrap_err();
        assert!(matches!(error, FetchError::Digest { .. }), "{error}");
    }

    #[test]
    fn notes_of_others_damaged_notes_and_links_are_not_believed() {
        let (home, folder) = folder();
        let leave = |note: &[u8]| {
            let mut part = open(&folder);
            part.begin(version(9)).unwrap();
            part.append(b"abc").unwrap();
            part.keep().unwrap();
            let path = part.slot.note();
            drop(part);
            fs::write(path, note).unwrap();
            open(&folder).written()
        };
        assert_eq!(leave(b"{"), 0);
        assert_eq!(leave(b"{\"version\":2}"), 0);
        let other = r#"{"version":1,"source":"other","file":{"sha256":null,"validator":null,"bytes":9,"commit":null},"synced":3,"whole":null}"#;
        assert_eq!(leave(other.as_bytes()), 0);
        // It promises more than there is.
        let more = other.replace("other", "m").replace("3", "900");
        assert_eq!(leave(more.as_bytes()), 3);
        assert_eq!(leave(&vec![b' '; 1 << 17]), 0);
        #[cfg(unix)]
        {
            let precious = home.path().join("precious");
            fs::write(&precious, b"precious").unwrap();
            let part = open(&folder);
            let path = part.slot.partial();
            drop(part);
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(&precious, &path).unwrap();
            assert_eq!(open(&folder).written(), 0);
            assert_eq!(fs::read(&precious).unwrap(), b"precious");
        }
        let _ = home;
    }

    #[test]
    fn a_whole_file_is_found_again_and_a_wrong_one_is_deleted() {
        let (_home, folder) = folder();
        let mut part = open(&folder);
        part.begin(version(3)).unwrap();
        part.append(b"abc").unwrap();
        let wrong = part.finish(Some(&"0".repeat(64))).unwrap_err();
        assert!(matches!(wrong, FetchError::Digest { .. }), "{wrong}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

        let mut part = open(&folder);
        part.begin(version(3)).unwrap();
        part.append(b"abc").unwrap();
        drop(part.finish(None).unwrap());
        let stop = CancellationToken::new();
        let left = Part::open(claim(&folder), "m", SYNC_EVERY, &stop, |_| {}).unwrap();
        assert!(matches!(&left, Left::Whole(whole) if whole.bytes == 3), "{left:?}");
        drop(left);
        // Cut off behind its back: it is not whole any more.
        let path = claim(&folder).whole();
        fs::write(path, b"ab").unwrap();
        assert_eq!(open(&folder).written(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn m4_a_full_disk_is_said_and_what_was_loaded_is_gone_on_with() {
        let (_home, folder) = folder();
        let mut part = open(&folder);
        part.begin(version(9)).unwrap();
        part.append(b"abc").unwrap();
        part.keep().unwrap();
        // The system's own full device: every write fails as on a full disk.
        part.file = File::options().write(true).open("/dev/full").unwrap();
        let error = part.append(b"def").unwrap_err();
        assert!(matches!(error, FetchError::Disk { full: true, .. }), "{error}");
        assert!(error.to_string().contains("free some disk space"), "{error}");
        assert_eq!(part.written(), 3);
        drop(part);
        assert_eq!(open(&folder).written(), 3, "what was loaded is kept");
    }
}
