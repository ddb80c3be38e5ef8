//! How the pieces of one model are joined, and as far as that is: on the disk. Waits for it.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::FetchError;
use crate::limits::WRITE_BYTES;
use crate::part::Part;

const VERSION: u64 = 1;

/// A longer record is not one of ours.
const RECORD_BYTES_MAX: u64 = 1 << 16;

/// What one piece gives to the whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PieceData {
    /// Bytes of the piece.
    pub from: Range<u64>,
    /// Zeros behind them.
    pub zeros: u64,
}

/// How pieces become one file: what stands first, then the data of each piece in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joining {
    /// What stands first.
    pub header: Vec<u8>,
    /// What each piece gives.
    pub data: Vec<PieceData>,
}

/// Says how files, in their order, become one; or why they do not. Reads what it needs of them.
pub type Join = fn(&[PathBuf]) -> Result<Joining, String>;

/// What is remembered of a joining that was begun, as pieces go on the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seam {
    version: u64,
    /// Digest of the header, hexadecimal: the joined bytes belong to this seam by it.
    pub(crate) mark: String,
    header_bytes: u64,
    pub(crate) data: Vec<PieceData>,
    /// Whether each piece was compared with a digest that the publisher's server names.
    pub(crate) verified: bool,
    /// The commit of the repository that has them, where the server says so.
    pub(crate) commit: Option<String>,
}

impl PieceData {
    fn bytes(&self) -> u64 {
        self.from.end.saturating_sub(self.from.start)
    }

    fn with_zeros(&self) -> u64 {
        self.bytes().saturating_add(self.zeros)
    }
}

impl Seam {
    pub(crate) fn new(joining: &Joining, verified: bool, commit: Option<String>) -> Self {
        let (header_bytes, data) = (joining.header.len() as u64, joining.data.clone());
        let mark = data_encoding::HEXLOWER.encode(&Sha256::digest(&joining.header));
        Self { version: VERSION, mark, header_bytes, data, verified, commit }
    }

    /// Length of the whole file.
    pub(crate) fn bytes(&self) -> u64 {
        self.ends().last().unwrap_or(self.header_bytes)
    }

    /// Where in the whole file the data of each piece end.
    pub(crate) fn ends(&self) -> impl Iterator<Item = u64> {
        self.data.iter().scan(self.header_bytes, |end, data| {
            *end = end.saturating_add(data.with_zeros());
            Some(*end)
        })
    }

    /// What was begun of `part`, if the header is there and the record fits it.
    pub(crate) fn of(part: &Part) -> Option<Self> {
        let seam = Self::read(&part.slot().seam())?;
        let mark = part.version().and_then(|version| version.validator.as_deref());
        let fits = mark == Some(seam.mark.as_str()) && part.written() >= seam.header_bytes;
        fits.then_some(seam)
    }

    pub(crate) fn read(path: &Path) -> Option<Self> {
        let found = fs::symlink_metadata(path).ok()?;
        if !found.is_file() || found.len() > RECORD_BYTES_MAX {
            return None;
        }
        let seam: Self = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        (seam.version == VERSION).then_some(seam)
    }

    /// Replaces the record at `path` in one step.
    pub(crate) fn write(&self, path: &Path) -> Result<(), FetchError> {
        let written = || -> io::Result<()> {
            let folder = path.parent().unwrap_or(Path::new("."));
            let mut draft = tempfile::NamedTempFile::new_in(folder)?;
            draft.write_all(&serde_json::to_vec(self)?)?;
            draft.as_file().sync_data()?;
            draft.persist(path).map_err(|error| error.error)?;
            Ok(())
        };
        written().map_err(|error| FetchError::disk(path, &error))
    }

    /// Appends at most `most` bytes of the piece at `path`, whose data are `data` and end at `end`
    /// of the whole file, from where `part` ends.
    pub(crate) fn append(
        part: &mut Part,
        path: &Path,
        (data, end): (&PieceData, u64),
        most: u64,
    ) -> Result<(), FetchError> {
        let begin = end.saturating_sub(data.with_zeros());
        let mut at = part.written().saturating_sub(begin);
        let until = at.saturating_add(most).min(data.bytes());
        let mut buffer = vec![0; WRITE_BYTES];
        let failed = |error: &io::Error| FetchError::disk(path, error);
        if at < until {
            let mut file = File::open(path).map_err(|error| failed(&error))?;
            let from = data.from.start.saturating_add(at);
            file.seek(SeekFrom::Start(from)).map_err(|error| failed(&error))?;
            while at < until {
                let wanted = usize::try_from(until - at).unwrap_or(WRITE_BYTES).min(WRITE_BYTES);
                let room = buffer.get_mut(..wanted).unwrap_or_default();
                file.read_exact(room).map_err(|error| failed(&error))?;
                part.append(room)?;
                at += wanted as u64;
            }
        }
        if at >= data.bytes() && part.written() < end {
            let zeros = usize::try_from(end - part.written()).unwrap_or(0).min(WRITE_BYTES);
            part.append(&vec![0; zeros])?;
        }
        Ok(())
    }
}
