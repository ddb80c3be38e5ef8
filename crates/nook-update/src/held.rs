//! What this computer has of a release, for other devices of the house: the signed list that it took
//! last, and packages of it that were downloaded.
//!
//! Everything is read anew and checked as if it had just come from a server, so a file that somebody
//! changed is as if it were not there. Who is given it checks it once more.

use std::path::PathBuf;

use nook_base::clock;

use crate::limits::MANIFEST_BYTES_MAX;
use crate::manifest::{Manifest, Package, read};
use crate::signed_file::SignedFile;
use crate::source::{Claim, UpdateError, Updates};

const FILE: &str = "versions.json";

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
        let (manifest, held) = self.held_list().unwrap_or_else(|reason| {
            tracing::info!(reason, "the list of versions here does not count");
            None
        })?;
        let whole = |package: &Package| Some((package.clone(), self.whole_package(package)?));
        let packages = manifest.packages.iter().filter_map(whole).collect();
        let (list, signature) = (held.list.into_bytes(), held.signature.into_bytes());
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
        let file = self.folder().join(FILE);
        if let Err(error) = SignedFile::write(&file, list, signature) {
            tracing::warn!(file = %file.display(), %error, "the list of versions is not kept");
        }
        Ok(manifest)
    }

    /// The list that lies on the disk; in words why it is not believed.
    fn held_list(&self) -> Result<Option<(Manifest, SignedFile)>, String> {
        let held = SignedFile::read(&self.folder().join(FILE), MANIFEST_BYTES_MAX)?;
        let Some(held) = held else { return Ok(None) };
        let seen = self.seen().map_err(|error| error.to_string())?;
        let (list, signature) = (held.list.as_bytes(), held.signature.as_bytes());
        let manifest = read(list, signature, self.keys(), clock::unix_seconds(), seen.serial);
        Ok(Some((manifest.map_err(|error| error.to_string())?, held)))
    }
}
