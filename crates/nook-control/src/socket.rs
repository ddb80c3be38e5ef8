//! Where the control socket of a home lies.

use std::path::Path;

use tokio_util::codec::LinesCodec;

/// Longest line in either direction, in bytes: a prompt as long as a large model's window, with
/// room for JSON's escapes. A longer one is refused, and the connection ends.
pub(crate) const LINE_BYTES_MAX: usize = 8 << 20;

/// The socket's name for a node whose runtime folder is `folder`.
///
/// The folder belongs to one node alone, so on Windows its path is hashed into the pipe's name.
#[must_use]
pub fn socket_name(folder: &Path) -> String {
    if cfg!(windows) {
        // FNV-1a: the name must only differ between homes, nothing depends on it being hard to
        // guess.
        let hash =
            folder.to_string_lossy().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        return format!(r"\\.\pipe\inglenook-control-{hash:016x}");
    }
    folder.join("control.sock").to_string_lossy().into_owned()
}

pub(crate) fn codec() -> LinesCodec {
    LinesCodec::new_with_max_length(LINE_BYTES_MAX)
}
