//! Every limit of an update, and what happens there.

#![cfg_attr(not(feature = "client"), allow(dead_code, reason = "limits of what is not built"))]

use std::time::Duration;

/// Longest list of versions; a longer one is refused unread.
pub const MANIFEST_BYTES_MAX: usize = 256 << 10;

/// Longest list of models; a longer one is refused unread.
pub const CATALOGUE_BYTES_MAX: usize = 256 << 10;

/// Longest signature; minisign's have some 300 bytes.
pub const SIGNATURE_BYTES_MAX: usize = 4 << 10;

/// Largest package; a list that names a larger one is refused.
pub const PACKAGE_BYTES_MAX: u64 = 512 << 20;

/// Most bytes that an archive may unpack to, its headers included; a larger one is refused while
/// it is unpacked.
pub const UNPACKED_BYTES_MAX: u64 = 1 << 30;

/// Most files and folders in an archive.
pub const UNPACKED_FILES_MAX: usize = 4096;

/// Most folders above a file in an archive.
pub(crate) const DEPTH_MAX: usize = 16;

/// Most packages in a list.
pub(crate) const PACKAGES_MAX: usize = 64;

/// Longest name of a file or a platform, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 128;

/// Longest notes of one language, in bytes.
pub(crate) const NOTES_BYTES_MAX: usize = 4096;

/// Most languages of notes.
pub(crate) const NOTES_MAX: usize = 32;

/// Longest wait for the list or its signature, whole: a server that sends a byte now and then ends
/// here too.
pub(crate) const DOCUMENT_LIMIT: Duration = Duration::from_secs(60);

/// Longest time for a package; what came is kept, and the next look goes on there.
pub(crate) const PACKAGE_LIMIT: Duration = Duration::from_secs(6 * 3600);

/// Longest wait for a new program to say its version.
pub(crate) const VERSION_LIMIT: Duration = Duration::from_secs(60);

/// Longest wait for the script of a package.
pub(crate) const SCRIPT_LIMIT: Duration = Duration::from_secs(120);

/// Most bytes that are read of what such a program says.
pub(crate) const SAID_BYTES_MAX: u64 = 64 << 10;
