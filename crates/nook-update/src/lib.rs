//! New versions of this program: what there is, whether it may be believed, and putting it in place.
//!
//! A server has a signed list of versions, the [`Manifest`]. [`read`] is pure: bytes, signature,
//! keys, the time and the highest serial number that was seen go in, a manifest or a [`Refusal`]
//! comes out. [`Updates`] fetches the list and the package that fits this computer through
//! `nook-fetch`, and remembers in its folder which list was the newest ([`Seen`]), so that an older
//! one is never taken again. [`Portable`] unpacks an archive beside the installed version, lets the
//! new program say its version, and swaps the two file by file; the swap is noted before it begins,
//! so that whatever stops it, the old version comes back; [`RunningProgram`] becomes the new one, which
//! is on trial until it has come up.
//! What it took, it keeps for other devices of the house ([`HeldRelease`]).
//! The list of models comes from beside the list of versions, signed with the same keys: see
//! [`Updates::renew_catalogue`].
//! Nothing here looks by itself: a node or a person asks.
//!
//! Which keys and which address a program believes is in one place, `release`. No release has been
//! made yet, so both are empty, and nothing is asked of anybody.

mod catalogue;
#[cfg(feature = "client")]
mod held;
#[cfg(feature = "client")]
mod install;
mod installed;
mod keys;
mod limits;
mod manifest;
#[cfg(feature = "client")]
mod program;
mod refusal;
mod release;
#[cfg(feature = "client")]
mod renewal;
#[cfg(feature = "client")]
mod running;
#[cfg(feature = "client")]
mod seen;
#[cfg(feature = "client")]
mod signed_file;
#[cfg(feature = "client")]
mod source;
#[cfg(feature = "client")]
mod swap;
#[cfg(feature = "client")]
mod trial;
#[cfg(feature = "client")]
mod unpack;

pub use catalogue::{CATALOGUE_FILE, CATALOGUE_KIND, CatalogueRefusal, signed_catalogue};
#[cfg(feature = "client")]
pub use held::HeldRelease;
#[cfg(feature = "client")]
pub use install::{InstallError, Portable, SwapStage};
pub use installed::{Installed, PackageKind};
pub use keys::{KeyError, Keys, SignatureError};
pub use limits::{
    CATALOGUE_BYTES_MAX, MANIFEST_BYTES_MAX, PACKAGE_BYTES_MAX, SIGNATURE_BYTES_MAX,
    UNPACKED_BYTES_MAX, UNPACKED_FILES_MAX,
};
pub use manifest::{FORMAT, KIND, MANIFEST_FILE, Manifest, Offer, Package, SIGNATURE_END, read};
pub use refusal::Refusal;
#[cfg(feature = "client")]
pub use running::RunningProgram;
#[cfg(feature = "client")]
pub use seen::{Seen, SeenError};
#[cfg(feature = "client")]
pub use source::{ADDRESS_VARIABLE, Claim, KEY_VARIABLE, UpdateError, Updates};
#[cfg(feature = "client")]
pub use swap::SwapError;
#[cfg(feature = "client")]
pub use unpack::UnpackError;
