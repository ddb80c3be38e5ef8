//! What this computer has of a release, for other devices of the house: the signed list that it took
//! last, and packages of it that were downloaded.
//!
//! Everything is read anew and checked as if it had just come from a server, so a file that somebody
//! changed is as if it were not there. Who is given it checks it once more.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use nook_base::clock;

use crate::limits::{MANIFEST_BYTES_MAX, SIGNATURE_BYTES_MAX};
use crate::manifest::{MANIFEST_FILE, Manifest, Package, SIGNATURE_END, read};
use crate::source::{Claim, UpdateError, Updates};

/// A signed list that is believed, with what lies here of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRelease {
    /// What the list says.
    pub manifest: Manifest,
    /// Its very bytes.
    pub list: Vec<u8>,
    /// Its signature.
    pub signature: Vec<u8>,
    /// Packages that were downloaded and found right, each with its file.
    pub packages: Vec<(Package, PathBuf)>,
}

impl Updates {
    /// What is held here; nothing where that would not be believed today. Waits for the disk.
    #[must_use]
    pub fn held_release(&self) -> Option<HeldRelease> {
        let list = bytes_of(&self.list_file(), MANIFEST_BYTES_MAX)?;
        let signature = bytes_of(&self.signature_file(), SIGNATURE_BYTES_MAX)?;
        let seen = self.seen().ok()?;
        let now = clock::unix_seconds();
        let manifest = read(&list, &signature, self.keys(), now, seen.serial);
        let manifest = manifest
            .inspect_err(|error| tracing::info!(%error, "the list of versions here does not count"))
            .ok()?;
        let whole = |package: &Package| Some((package.clone(), self.whole_package(package)?));
        let packages = manifest.packages.iter().filter_map(whole).collect();
        Some(HeldRelease { manifest, list, signature, packages })
    }

    /// Takes a list from wherever it came: checks it, remembers that it was seen, and keeps it for
    /// other devices. Waits for the disk.
    pub fn take(
        &self,
        claim: &Claim,
        list: &[u8],
        signature: &[u8],
    ) -> Result<Manifest, UpdateError> {
        let (seen, now) = (self.seen()?, clock::unix_seconds());
        let manifest = read(list, signature, self.keys(), now, seen.serial)?;
        claim.note(manifest.serial, now)?;
        // Without it others ask the server as well: no reason to refuse what is right.
        for (file, bytes) in [(self.list_file(), list), (self.signature_file(), signature)] {
            if let Err(error) = write(&file, bytes) {
                tracing::warn!(file = %file.display(), %error, "the list of versions is not kept");
            }
        }
        Ok(manifest)
    }

    fn list_file(&self) -> PathBuf {
        self.folder().join(MANIFEST_FILE)
    }

    fn signature_file(&self) -> PathBuf {
        self.folder().join(format!("{MANIFEST_FILE}{SIGNATURE_END}"))
    }
}

/// All of a file that is no longer than `most`.
fn bytes_of(path: &Path, most: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let longest = most as u64;
    fs::File::open(path).ok()?.take(longest.saturating_add(1)).read_to_end(&mut bytes).ok()?;
    (bytes.len() <= most).then_some(bytes)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut draft = tempfile::NamedTempFile::new_in(folder)?;
    draft.write_all(bytes)?;
    draft.persist(path)?;
    Ok(())
}
