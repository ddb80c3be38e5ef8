//! What has become of the file of a listed model, by a look at it.
//!
//! The stamp of a file ([`FileStamp`]) is noted when all of it is digested. Another stamp makes its
//! model unsure: whoever owns the list has all of the file read again, and notes what came of it
//! with [`Library::confirm`] or [`Library::refuse`].

use std::path::Path;
use std::time::Duration;
use std::{fs, io, thread};

use nook_base::{Extent, FileStamp, ModelDigest, clock};

use super::{Library, ModelEntry};
use crate::durable::FileError;

/// Longest time between two ticks of the clock by which a file system notes changes.
const TICK: Duration = Duration::from_millis(20);

/// Whether a model's file is what it was when all of it was digested, as far as a look at it tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// There, with the stamp that was noted.
    Present,
    /// Gone: a disk that is not plugged in, or deleted.
    Missing,
    /// There, and of another length, or found to be another model: changed or cut off.
    Changed,
    /// There and as long as it was, with another stamp: only all of its bytes can tell.
    Unsure,
}

/// Whether a model's file may be replaced by another one, by a look at it and at the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileStanding {
    /// Whole, as far as is known. The built-in one is made so at each start.
    Whole,
    /// Gone or changed: the next file of the same model takes its place.
    Lost,
    /// Gone with the folder, and perhaps whole on a disk that is not plugged in.
    Away,
}

impl ModelEntry {
    /// Whether the file goes along when the library moves to another folder. The built-in one stays
    /// with the home, and ends are taken again.
    #[must_use]
    pub fn is_moved(&self) -> bool {
        self.owned && !self.built_in && self.extent == Extent::Whole
    }

    /// Whether the file is still what it was, by a look at it.
    #[must_use]
    pub fn state(&self) -> FileState {
        // What lies in the library is a file itself, never a link that somebody put there.
        let look =
            if self.owned { fs::symlink_metadata(&self.path) } else { fs::metadata(&self.path) };
        let Ok(found) = look else { return FileState::Missing };
        let stamp = Some(FileStamp::of(&found));
        match self.extent {
            _ if !found.is_file() || found.len() != self.bytes => FileState::Changed,
            Extent::Ends => FileState::Present,
            Extent::Whole if stamp == self.stamp => FileState::Present,
            Extent::Whole if stamp == self.other => FileState::Changed,
            Extent::Whole => FileState::Unsure,
        }
    }
}

impl Library {
    /// What has become of the file of a listed model. Waits for the disk.
    #[must_use]
    pub fn standing(&self, model: &ModelEntry) -> FileStanding {
        let is_whole = matches!(model.state(), FileState::Present | FileState::Unsure);
        if model.built_in || is_whole {
            return FileStanding::Whole;
        }
        // In this order: the disk may go away between the two looks.
        match model.owned && !self.is_there() {
            true => FileStanding::Away,
            false => FileStanding::Lost,
        }
    }

    /// All of the file of `digest` was digested again while it had this stamp, and is what it was.
    /// On an error that is known until the program ends, and found out again after that.
    pub fn confirm(
        &mut self,
        digest: ModelDigest,
        stamp: Option<FileStamp>,
    ) -> Result<(), FileError> {
        let Some(model) = self.models.iter_mut().find(|model| model.digest == digest) else {
            return Ok(());
        };
        (model.stamp, model.other) = (stamp, None);
        self.save(&self.models)
    }

    /// The same, and it is another model now. Not kept over the end of the program.
    pub fn refuse(&mut self, digest: ModelDigest, stamp: FileStamp) {
        if let Some(model) = self.models.iter_mut().find(|model| model.digest == digest) {
            model.other = Some(stamp);
        }
    }
}

/// The stamp of the file at `path`, for whoever digests all of it next and compares the stamp again
/// then. Waits until the file's last change is a tick of the clock ago: a change from now on has
/// another time.
pub fn stamp_before_digest(path: &Path) -> io::Result<FileStamp> {
    let stamp = FileStamp::of(&fs::metadata(path)?);
    let Some(changed) = stamp.changed else { return Ok(stamp) };
    let since = u64::try_from(changed.seconds).map(Duration::from_secs).unwrap_or_default();
    let since = since + Duration::from_nanos(changed.nanos.into());
    let age = clock::wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    // One that lies in the future was made by another clock: it is given a tick too.
    let left = TICK.saturating_sub(age.saturating_sub(since));
    if !left.is_zero() {
        thread::sleep(left);
    }
    Ok(stamp)
}
