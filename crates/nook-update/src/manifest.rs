//! The list of versions that a release signs, and everything that makes it believable. Pure.
//!
//! One JSON document for one release, with a package for each platform. The order of the checks is
//! part of the design: length, then signature over the very bytes, and only then is anything read
//! of them. What is read has limits all the same: a key can be stolen.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::keys::Keys;
use crate::limits::{
    MANIFEST_BYTES_MAX, NAME_BYTES_MAX, NOTES_BYTES_MAX, NOTES_MAX, PACKAGE_BYTES_MAX, PACKAGES_MAX,
};
use crate::refusal::Refusal;

/// The highest format that is known here.
pub const FORMAT: u64 = 1;

/// What kind of document it is: the same key signs others.
pub const KIND: &str = "inglenook-update";

/// What the list is called where a release lies.
pub const MANIFEST_FILE: &str = "inglenook-versions.json";

/// What its signature is called: the same with this behind it.
pub const SIGNATURE_END: &str = ".minisig";

/// A release: what it is called, until when this list counts, and its packages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`KIND`].
    pub kind: String,
    /// [`FORMAT`].
    pub format: u64,
    /// Version of the program.
    pub version: Version,
    /// Grows with every list that is signed; a lower one than was seen is refused.
    pub serial: u64,
    /// When it was signed, in seconds since 1970.
    pub released: u64,
    /// From when on it does not count any more, in seconds since 1970.
    pub expires: u64,
    /// What is new, by the code of the language.
    #[serde(default)]
    pub notes: BTreeMap<String, String>,
    /// One for each platform.
    pub packages: Vec<Package>,
}

/// One file of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// System, processor and kind of package: `linux-x86_64-portable`.
    pub platform: String,
    /// Its file, beside the list: a plain name.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Its digest, hexadecimal in small letters.
    pub sha256: String,
}

/// A newer version than the one that runs, and the package for this computer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Its version.
    pub version: Version,
    /// What is new, by the code of the language.
    pub notes: BTreeMap<String, String>,
    /// Its package.
    pub package: Package,
}

/// What only tells the format, whatever else a later version of it has.
#[derive(Deserialize)]
struct Head {
    kind: String,
    format: u64,
}

/// Reads a list that one of `keys` has signed. `now`: seconds since 1970. `highest_seen`: the
/// highest serial number of a list that was taken before; 0 where there was none.
///
/// Whoever takes the result keeps its serial number.
pub fn read(
    bytes: &[u8],
    signature: &[u8],
    keys: &Keys,
    now: u64,
    highest_seen: u64,
) -> Result<Manifest, Refusal> {
    if bytes.len() > MANIFEST_BYTES_MAX {
        return Err(Refusal::TooLarge { most: MANIFEST_BYTES_MAX });
    }
    keys.check(bytes, signature)?;
    let malformed = |error: serde_json::Error| Refusal::Malformed { reason: error.to_string() };
    let head: Head = serde_json::from_slice(bytes).map_err(malformed)?;
    if head.kind != KIND {
        let reason = "it is signed, but no list of versions".to_owned();
        return Err(Refusal::Malformed { reason });
    }
    if head.format > FORMAT {
        return Err(Refusal::NewerFormat { found: head.format, known: FORMAT });
    }
    let manifest: Manifest = serde_json::from_slice(bytes).map_err(malformed)?;
    manifest.is_sound().map_err(|reason| Refusal::Malformed { reason })?;
    if manifest.serial < highest_seen {
        return Err(Refusal::Older { found: manifest.serial, seen: highest_seen });
    }
    if now >= manifest.expires {
        let days = manifest.expires.saturating_sub(manifest.released) / 86_400;
        return Err(Refusal::Expired { days });
    }
    Ok(manifest)
}

impl Manifest {
    /// The newer version that this list has for `platform`, if it is newer than `running`.
    pub fn offer(&self, running: &Version, platform: &str) -> Result<Option<Offer>, Refusal> {
        let (offered, running) = (self.version.clone(), running.clone());
        // What is behind a `+` says how something was built, not what is newer.
        match offered.cmp_precedence(&running) {
            std::cmp::Ordering::Equal => return Ok(None),
            std::cmp::Ordering::Less => return Err(Refusal::Downgrade { offered, running }),
            std::cmp::Ordering::Greater => {}
        }
        let package = self.packages.iter().find(|package| package.platform == platform);
        let Some(package) = package.cloned() else {
            return Err(Refusal::NoPackage { version: offered, platform: platform.to_owned() });
        };
        Ok(Some(Offer { version: offered, notes: self.notes.clone(), package }))
    }

    /// What is wrong with it, if anything is.
    fn is_sound(&self) -> Result<(), String> {
        if self.serial == 0 || self.released >= self.expires {
            return Err("its serial number or its times are impossible".to_owned());
        }
        if self.packages.len() > PACKAGES_MAX || self.notes.len() > NOTES_MAX {
            return Err("it has too many packages or notes".to_owned());
        }
        for (language, note) in &self.notes {
            let is_plain = note.chars().all(|c| c == '\n' || !c.is_control());
            if language.len() > NAME_BYTES_MAX || note.len() > NOTES_BYTES_MAX || !is_plain {
                return Err("its notes are too long or hold control characters".to_owned());
            }
        }
        let mut platforms = BTreeSet::new();
        for Package { platform, file, bytes, sha256 } in &self.packages {
            if !is_plain_name(platform) || !is_plain_name(file) {
                return Err(format!("{file:?} for {platform:?} is no plain name"));
            }
            if !platforms.insert(platform) {
                return Err(format!("it has two packages for {platform}"));
            }
            if *bytes == 0 || *bytes > PACKAGE_BYTES_MAX {
                return Err(format!("{file} cannot have {bytes} bytes"));
            }
            let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            if sha256.len() != 64 || !sha256.bytes().all(is_digit) {
                return Err(format!("{file} has no SHA-256"));
            }
        }
        Ok(())
    }
}

/// Letters, digits, `-`, `_`, `+`, `~` and `.`, the first one a letter or a digit.
fn is_plain_name(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_+~.".contains(&byte);
    first && name.len() <= NAME_BYTES_MAX && name.bytes().all(plain)
}
