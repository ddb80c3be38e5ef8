//! New versions of this program: what there is, whether it may be believed, and putting it in place.
//!
//! A server has a signed list of versions, the [`Manifest`]. [`read`] is pure: bytes, signature,
//! keys, the time and the highest serial number that was seen go in, a manifest or a [`Refusal`]
//! comes out. [`Updates`] fetches the list and the package that fits this computer through
//! `nook-fetch`, and remembers in its folder which list was the newest ([`Seen`]), so that an older
//! one is never taken again. [`Portable`] unpacks an archive beside the installed version, lets the
//! new program say its version, and swaps the two file by file; the swap is noted before it begins,
//! so that whatever stops it, the old version comes back. [`Watch`] decides when to look, as a state
//! machine.
//!
//! Which keys and which address a program believes is in one place, `release`. No release has been
//! made yet, so both are empty, and nothing is asked of anybody.

mod install;
mod installed;
mod keys;
mod limits;
mod manifest;
mod program;
mod refusal;
mod release;
mod seen;
mod source;
mod swap;
mod unpack;
mod watch;

pub use install::{InstallError, Portable};
pub use installed::{Installed, PackageKind};
pub use keys::{KeyError, Keys};
pub use limits::{
    CHECK_EVERY_SECONDS, MANIFEST_BYTES_MAX, PACKAGE_BYTES_MAX, QUIET_SECONDS, RETRY_AFTER_SECONDS,
    SIGNATURE_BYTES_MAX, UNPACKED_BYTES_MAX, UNPACKED_FILES_MAX,
};
pub use manifest::{FORMAT, KIND, Manifest, Offer, Package, read};
pub use refusal::Refusal;
pub use seen::{Seen, SeenError};
pub use source::{
    ADDRESS_VARIABLE, KEY_VARIABLE, MANIFEST_FILE, SIGNATURE_END, UpdateError, Updates,
};
pub use swap::SwapError;
pub use unpack::UnpackError;
pub use watch::{Choice, Effect, Event, Watch};
