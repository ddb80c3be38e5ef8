//! The record of which tensors a partial file has.
//!
//! A partial file is laid out like the whole one: same length, same header, each tensor at its
//! place. Tensors that have not arrived are holes, which read as zeros, so a record beside the file
//! says what has arrived: `model.gguf` has `model.gguf.present`. [`crate::ModelFile::open`] finds
//! the record and refuses to read what it does not name.
//!
//! One writer owns file and record; any process may read them. The order of its steps keeps readers
//! from taking holes for weights, also after a crash:
//!
//! 1. Store the record, with no tensor marked, *before* there is a file at its path.
//! 2. Make the file, give it its length and write the header.
//! 3. For each tensor: write its bytes, check them, flush them to the disk, mark it, store the
//!    record. A marked tensor is never changed again.
//! 4. To remove both, remove the file first.
//!
//! Each record has a serial number that later versions of it keep. A reader thereby notices that
//! file and record were replaced by others while it had the old file open.
//!
//! Layout, all numbers little-endian: magic (8 bytes), version (u32), number of tensors (u32),
//! model digest (32 bytes), length of the file (u64), serial number (u64), one bit for each tensor
//! (the lowest bit of the first byte is tensor 0; unused bits are 0), BLAKE3 of all before it.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nook_base::ModelDigest;

use crate::error::PresenceError;
use crate::gguf::{Header, TENSORS_MAX};
use crate::manifest::Manifest;

/// First bytes of a record.
const MAGIC: [u8; 8] = *b"nookpres";

/// The version of the layout.
const VERSION: u32 = 1;

/// Bytes before the bits of the tensors.
const FIXED_BYTES: usize = 64;

/// Bytes of the checksum at the end.
const SUM_BYTES: usize = 32;

/// Most bytes of a record; nothing behind them is read.
const RECORD_BYTES_MAX: usize = FIXED_BYTES + (TENSORS_MAX as usize).div_ceil(8) + SUM_BYTES;

/// What a file's name gets to make that of its record.
const ENDING: &str = ".present";

/// Which tensors of a model file have arrived.
#[derive(Clone, PartialEq, Eq)]
pub struct Presence {
    digest: ModelDigest,
    file_bytes: u64,
    serial: u64,
    tensors: u32,
    bits: Vec<u8>,
}

impl Presence {
    /// The record of a new file of this manifest, in which no tensor has arrived.
    #[must_use]
    pub fn new(manifest: &Manifest) -> Self {
        let tensors = manifest.tensors();
        Self {
            digest: manifest.digest(),
            file_bytes: manifest.file_bytes(),
            // The keys of each `RandomState` are random: the standard library's only chance.
            serial: RandomState::new().hash_one(manifest.file_bytes()),
            tensors,
            bits: vec![0; bit_bytes(tensors)],
        }
    }

    /// The record of the model file at `file`; `None` when it has none, as whole files do.
    pub fn load(file: &Path) -> Result<Option<Self>, PresenceError> {
        match read(&Self::path_of(file)) {
            Ok(bytes) => Self::from_bytes(&bytes).map(Some),
            // A name that has no room for the ending has no record.
            Err(error) if is_none(error.kind()) => Ok(None),
            Err(error) => Err(PresenceError::file("reading it")(error)),
        }
    }

    /// Where the record of the model file at `file` lies.
    #[must_use]
    pub fn path_of(file: &Path) -> PathBuf {
        let mut name = OsString::from(file);
        name.push(ENDING);
        PathBuf::from(name)
    }

    /// Replaces the record of the model file at `file`, durably; after a failure the earlier one
    /// stands. The bytes of every marked tensor must be on the disk before.
    pub fn store(&self, file: &Path) -> Result<(), PresenceError> {
        let path = Self::path_of(file);
        let temporary = temporary_beside(&path);
        let written = write(&temporary, &self.to_bytes())
            .and_then(|()| fs::rename(&temporary, &path))
            .and_then(|()| flush_folder_of(&path));
        written.map_err(|error| {
            // Already renamed, or never created: either way there may be nothing to remove.
            let _ = fs::remove_file(&temporary);
            PresenceError::file("writing it")(error)
        })
    }

    /// Marks the tensor `number` as present.
    pub fn mark(&mut self, number: u32) -> Result<(), PresenceError> {
        if number >= self.tensors {
            return Err(PresenceError::NoSuchTensor { number, tensors: self.tensors });
        }
        self.bits[number as usize / 8] |= 1 << (number % 8);
        Ok(())
    }

    /// Whether the tensor `number` is present; false for one that the model does not have.
    #[must_use]
    pub fn has(&self, number: u32) -> bool {
        number < self.tensors && self.bits[number as usize / 8] & (1 << (number % 8)) != 0
    }

    /// The number of tensors that are present.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.bits.iter().map(|byte| byte.count_ones()).sum()
    }

    /// The number of tensors of the model.
    #[must_use]
    pub fn tensors(&self) -> u32 {
        self.tensors
    }

    /// Whether every tensor is present.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.count() == self.tensors
    }

    /// Bytes of the tensors that are present, of the model with this header.
    #[must_use]
    pub fn bytes(&self, header: &Header) -> u64 {
        let tensors = (0u32..).zip(header.tensors());
        tensors.filter(|(number, _)| self.has(*number)).map(|(_, tensor)| tensor.bytes).sum()
    }

    /// The model that the file is a part of.
    #[must_use]
    pub fn digest(&self) -> ModelDigest {
        self.digest
    }

    /// Length of the model file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Fails when this is not the record of a file of `file_bytes` bytes with this header.
    pub(crate) fn check_is_of(
        &self,
        file_bytes: u64,
        header: &Header,
    ) -> Result<(), PresenceError> {
        if self.file_bytes != file_bytes {
            return Err(PresenceError::FileBytes { record: self.file_bytes, file: file_bytes });
        }
        match header.tensors().len() {
            file if file == self.tensors as usize => Ok(()),
            file => Err(PresenceError::Tensors { record: self.tensors, file }),
        }
    }

    /// Whether both are versions of one record.
    pub(crate) fn is_same_record(&self, other: &Self) -> bool {
        (self.digest, self.file_bytes, self.serial, self.tensors)
            == (other.digest, other.file_bytes, other.serial, other.tensors)
    }

    /// Adds what a later version of the same record has. Nothing is taken away: present tensors
    /// stay.
    pub(crate) fn add(&mut self, later: &Self) {
        for (bits, more) in self.bits.iter_mut().zip(&later.bits) {
            *bits |= more;
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED_BYTES + self.bits.len() + SUM_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.tensors.to_le_bytes());
        bytes.extend(self.digest.0);
        bytes.extend(self.file_bytes.to_le_bytes());
        bytes.extend(self.serial.to_le_bytes());
        bytes.extend(&self.bits);
        let sum = blake3::hash(&bytes);
        bytes.extend(sum.as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, PresenceError> {
        let mut rest = bytes.strip_prefix(&MAGIC).ok_or(PresenceError::NotRecord)?;
        let version = number(&mut rest)?;
        if version != VERSION {
            return Err(PresenceError::Version { got: version, known: VERSION });
        }
        let tensors = number(&mut rest)?;
        let digest = ModelDigest(take(&mut rest)?);
        let file_bytes = u64::from_le_bytes(take(&mut rest)?);
        let serial = u64::from_le_bytes(take(&mut rest)?);
        let Some((bits, sum)) = rest.split_last_chunk::<SUM_BYTES>() else {
            return Err(PresenceError::Damaged);
        };
        let is_right = bits.len() == bit_bytes(tensors)
            && *sum == *blake3::hash(&bytes[..bytes.len() - SUM_BYTES]).as_bytes();
        let record = Self { digest, file_bytes, serial, tensors, bits: bits.to_vec() };
        // Unused bits would be counted.
        let are_unused_clear = match (tensors % 8, bits.last()) {
            (1.., Some(last)) => last >> (tensors % 8) == 0,
            _ => true,
        };
        match is_right && are_unused_clear && u64::from(tensors) <= TENSORS_MAX {
            true => Ok(record),
            false => Err(PresenceError::Damaged),
        }
    }
}

impl fmt::Debug for Presence {
    /// Model and counts; the bits are long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} tensors of {:?}", self.count(), self.tensors, self.digest)
    }
}

/// Bytes that so many bits take.
fn bit_bytes(tensors: u32) -> usize {
    (tensors as usize).div_ceil(8)
}

fn is_none(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(kind, NotFound | NotADirectory | InvalidFilename)
}

/// The bytes of a record, and at most one more than any record has.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Asked before opening: opening a pipe would wait for a writer.
    if !path.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(RECORD_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a new file, never following what stands there.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes a rename in the folder of `path` durable.
fn flush_folder_of(path: &Path) -> io::Result<()> {
    // Windows has no such call: the file system's journal keeps renames in order there.
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        let here = Path::new(".");
        File::open(if folder.as_os_str().is_empty() { here } else { folder })?.sync_all()?;
    }
    let _ = path;
    Ok(())
}

/// A name beside `path` that no other write uses; of the form that `nook-store` sweeps away after
/// an interrupted write.
fn temporary_beside(path: &Path) -> PathBuf {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(".{name}.new-{}-{number}", std::process::id()))
}

/// Takes the next bytes of `rest`.
fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], PresenceError> {
    let (taken, left) = rest.split_first_chunk().ok_or(PresenceError::Damaged)?;
    *rest = left;
    Ok(*taken)
}

fn number(rest: &mut &[u8]) -> Result<u32, PresenceError> {
    take(rest).map(u32::from_le_bytes)
}
