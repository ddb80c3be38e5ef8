//! How much room the disk has, before a download starts.

use std::io;
use std::path::Path;

/// Says how much may still be written. Tests bring their own disk.
pub trait Room: std::fmt::Debug + Send + Sync {
    /// Bytes free for this user on the disk of `folder`.
    fn free(&self, folder: &Path) -> io::Result<u64>;
}

/// The real disks.
#[derive(Debug, Clone, Copy)]
pub struct SystemRoom;

impl Room for SystemRoom {
    fn free(&self, folder: &Path) -> io::Result<u64> {
        fs4::available_space(folder)
    }
}
