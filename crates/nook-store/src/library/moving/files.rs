//! The single steps of a move: folders that are made, rooms that are looked at, files that are
//! copied.
//!
//! [`super::ModelsMove`] puts them in order. A copy has its name only once all of it is on the
//! disk.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use nook_base::paths::private_folders;

use super::{MARK_FILE, MOVE_RESERVE_BYTES, MoveError};
use crate::durable::{self, Deed, FileError, Readers};

/// Bytes that are copied between two looks at whether to stop.
const COPY_BYTES: usize = 1 << 20;

/// Length of the file at `path`, if it is one and no link.
pub(super) fn file_bytes(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file).map(|found| found.len())
}

/// Makes `folder` for the owner only, in one that is there; it may be there already.
pub(super) fn make_folder(folder: &Path) -> Result<(), MoveError> {
    match private_folders().create(folder) {
        Err(error) if !folder.is_dir() => {
            Err(FileError::new(folder, Deed::CreateFolder, &error).into())
        }
        _ => Ok(()),
    }
}

/// Whether files go from one folder to the other by another name alone: tried with an empty one.
pub(super) fn is_one_disk(from: &Path, to: &Path) -> bool {
    let probe = durable::temporary_beside(&from.join(MARK_FILE));
    let Some(name) = probe.file_name() else { return false };
    let moved = to.join(name);
    let created = durable::create(&probe, Readers::Owner).is_ok();
    let renamed = created && fs::rename(&probe, &moved).is_ok();
    let _ = fs::remove_file(if renamed { &moved } else { &probe });
    renamed
}

pub(super) fn check_room(
    to: &Path,
    needed: u64,
    free: impl Fn(&Path) -> io::Result<u64>,
) -> Result<(), MoveError> {
    let free = free(to).map_err(|error| FileError::new(to, Deed::Read, &error))?;
    if needed.saturating_add(MOVE_RESERVE_BYTES) > free {
        return Err(MoveError::NoRoom { needed, free });
    }
    Ok(())
}

/// Copies a file of `bytes` bytes; it has its name only once all of it is on the disk.
pub(super) fn copy(
    from: &Path,
    to: &Path,
    bytes: u64,
    stop: &dyn Fn() -> bool,
    told: &mut dyn FnMut(u64),
) -> Result<(), MoveError> {
    let temporary = durable::temporary_beside(to);
    let copied = copy_bytes(from, &temporary, bytes, stop, told).and_then(|()| {
        let named = fs::rename(&temporary, to).and_then(|()| durable::flush_folder_of(to));
        named.map_err(|error| FileError::new(to, Deed::Write, &error).into())
    });
    if copied.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    copied
}

fn copy_bytes(
    from: &Path,
    to: &Path,
    bytes: u64,
    stop: &dyn Fn() -> bool,
    told: &mut dyn FnMut(u64),
) -> Result<(), MoveError> {
    let reading = |error: io::Error| FileError::new(from, Deed::Read, &error);
    let writing = |error: io::Error| FileError::new(to, Deed::Write, &error);
    let mut source = File::open(from).map_err(reading)?;
    let mut target = durable::create(to, Readers::Default).map_err(writing)?;
    let mut piece = vec![0; COPY_BYTES];
    let mut done = 0;
    loop {
        if stop() {
            return Err(MoveError::Stopped);
        }
        let read = source.read(&mut piece).map_err(reading)?;
        let Some(read) = piece.get(..read).filter(|read| !read.is_empty()) else { break };
        target.write_all(read).map_err(writing)?;
        done += read.len() as u64;
        told(done.min(bytes));
    }
    target.sync_all().map_err(writing)?;
    let written = target.metadata().map_err(writing)?.len();
    let now = source.metadata().map_err(reading)?.len();
    if written != bytes || now != bytes {
        return Err(MoveError::Changed { file: from.to_owned() });
    }
    Ok(())
}

pub(super) fn succeeded(done: io::Result<()>, path: &Path) -> bool {
    if let Err(error) = &done {
        tracing::warn!(path = %path.display(), %error, "stays as it is");
    }
    done.is_ok()
}
