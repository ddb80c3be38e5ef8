//! Giving what this computer has of a release of this program: a signed list of versions, and
//! packages of it. Whoever takes it believes the signature and the digests, and nothing else.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use nook_base::ErrorCode;
use nook_mux::CallSender;
use nook_wire::{Message, RELEASE_PACKAGES_MAX, ReleaseDocument, Releases, WantRelease, WireError};

use super::{Over, Taker, changed, no_range, piece_bytes, send_piece};
use crate::refusal::error;

/// What is given of a release; nothing by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenRelease {
    /// The serial number of the list; 0: there is none.
    pub serial: u64,
    /// The signed list.
    pub list: Bytes,
    /// Its signature.
    pub signature: Bytes,
    /// Packages that it names.
    pub packages: Vec<GivenPackage>,
}

/// A package that lies here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenPackage {
    /// SHA-256 of its file.
    pub sha256: [u8; 32],
    /// Its file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
}

impl GivenRelease {
    /// What other devices are told of it.
    #[must_use]
    pub fn told(&self) -> Releases {
        // Both are bounded far below that where they are taken.
        let length = |bytes: &Bytes| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let packages = self.packages.iter().take(RELEASE_PACKAGES_MAX);
        Releases {
            serial: self.serial,
            list_bytes: length(&self.list),
            signature_bytes: length(&self.signature),
            packages: packages.map(|package| package.sha256).collect(),
        }
    }
}

/// Where the bytes of a document come from.
enum Place {
    Memory(Bytes),
    File(PathBuf, u64),
}

/// Sends bytes of one document.
pub(super) async fn release_range(
    taker: &Taker<'_>,
    want: &WantRelease,
    to_taker: &mut CallSender<Message>,
) -> Result<(), Over> {
    let place = place_of(taker, want.document).map_err(Over::Refused)?;
    let length = match &place {
        Place::Memory(bytes) => bytes.len() as u64,
        Place::File(_, bytes) => *bytes,
    };
    let no_range = || no_range(want.from, want.bytes, length);
    let Range { start: mut at, end } = want.range(length).ok_or_else(no_range)?;
    while at < end {
        let count = piece_bytes(at, end);
        let bytes = match &place {
            // The range lies in what is in memory, so these are far below what a machine counts to.
            Place::Memory(bytes) => bytes.slice(at as usize..at as usize + count as usize),
            Place::File(path, _) => read(path.clone(), at, count).await?,
        };
        send_piece(taker, at, bytes, to_taker).await?;
        at = at.saturating_add(u64::from(count));
    }
    Ok(())
}

fn place_of(taker: &Taker<'_>, document: ReleaseDocument) -> Result<Place, WireError> {
    let given = taker.giving.release.borrow().clone();
    let none = || error(ErrorCode::NotFound, "this device does not have that of a release");
    let place = match document {
        ReleaseDocument::List => Place::Memory(given.list.clone()),
        ReleaseDocument::Signature => Place::Memory(given.signature.clone()),
        ReleaseDocument::Package(sha256) => {
            let found = given.packages.iter().find(|package| package.sha256 == sha256);
            let found = found.ok_or_else(none)?;
            Place::File(found.path.clone(), found.bytes)
        }
    };
    match given.serial {
        0 => Err(none()),
        _ => Ok(place),
    }
}

async fn read(path: PathBuf, at: u64, count: u32) -> Result<Bytes, Over> {
    let read = tokio::task::spawn_blocking(move || -> io::Result<Bytes> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(at))?;
        // At most the size of a piece.
        let mut bytes = vec![0; count as usize];
        file.read_exact(&mut bytes)?;
        Ok(bytes.into())
    });
    match read.await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(wrong)) => {
            tracing::info!(%wrong, "a package cannot be given");
            Err(changed())
        }
        Err(_) => Err(Over::Left),
    }
}
