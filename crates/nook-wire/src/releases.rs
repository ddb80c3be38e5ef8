//! New versions of this program, from one device of the house to another.
//!
//! ```text
//! giver     ──RELEASES──────► taker     on the connection, when it changes
//! taker     ──WANT RELEASE──► giver     first on a call, and again once the range before has come
//! taker     ◄──PIECE──CHUNK…─ giver     until the range is whole, behind everything else
//! ```
//!
//! Nothing here is believed: the list is signed, and it names length and digest of each package. So
//! it does not matter who gives them, and a device that gives something else is found out. Who
//! makes releases never sees which devices took them from each other.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::copying::within;

/// Most packages in one [`Releases`]; the sender leaves out the rest, the receiver refuses more.
pub const RELEASE_PACKAGES_MAX: usize = 8;

/// The signed list of versions that the sender has, and the packages of it that lie there; replaces
/// what it said before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Releases {
    /// The list's serial number; 0: there is none any more.
    pub serial: u64,
    /// Length of the list, in bytes.
    pub list_bytes: u32,
    /// Length of its signature, in bytes.
    pub signature_bytes: u32,
    /// SHA-256 of each package.
    #[serde(
        serialize_with = "bounded::write_list::<RELEASE_PACKAGES_MAX, _, _>",
        deserialize_with = "bounded::read_list::<RELEASE_PACKAGES_MAX, _, _>"
    )]
    pub packages: Vec<[u8; 32]>,
}

/// A document of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReleaseDocument {
    /// The list of versions.
    List,
    /// Its signature.
    Signature,
    /// The package with this SHA-256.
    Package([u8; 32]),
}

/// Please send these bytes of a document of a release. First on a call; again once the range before
/// has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantRelease {
    /// Which document.
    pub document: ReleaseDocument,
    /// The first byte.
    pub from: u64,
    /// How many.
    pub bytes: u64,
}

impl WantRelease {
    /// The bytes that are meant in a document of `length` bytes; `None` where there is none, or one of
    /// them stands behind its end.
    #[must_use]
    pub fn range(&self, length: u64) -> Option<Range<u64>> {
        within(self.from, self.bytes, length)
    }
}
