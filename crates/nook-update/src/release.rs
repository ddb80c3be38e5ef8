//! Whom this program believes, and where it looks. The only place for both.
//!
//! **No release of this project has been made, and no public key of one exists.** Whoever makes
//! releases puts the public key (the second line of `minisign.pub`) and the address of the list of
//! versions here; `cargo xtask release` refuses to call a release complete whose key is not among
//! these. A key that is to follow another one stands here beside it for as long as programs with
//! the old one are about.

/// Public keys of releases, base64 as minisign writes them.
pub(crate) const KEYS: &[&str] = &[];

/// The list of versions.
#[cfg(feature = "client")]
pub(crate) const ADDRESS: Option<&str> = None;
