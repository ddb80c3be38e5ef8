//! What a file system says of a file: enough to notice that somebody wrote to it.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Length, times and number of a file, as they were when all of it was read.
///
/// Whoever writes to a file can set its time of modification back, but not the time at which
/// anything of it changed last (Unix `ctime`). That one also moves when the file is renamed, linked
/// or made readable for others. So another stamp says that the file is to be read again, not that
/// its bytes are others. The system's clock ticks every few milliseconds: two changes within one
/// tick have the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// Length in bytes.
    pub bytes: u64,
    /// When its bytes were written last; absent where the file system does not say.
    pub modified: Option<FileTime>,
    /// When anything of it changed last. On Windows, where the standard library does not say: when
    /// it was made.
    pub changed: Option<FileTime>,
    /// Its number on its disk, on Unix.
    pub inode: Option<u64>,
}

/// A moment, as a file system counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileTime {
    /// Whole seconds since 1970; negative before.
    pub seconds: i64,
    /// Nanoseconds from then on, below 10⁹.
    pub nanos: u32,
}

/// Where a file is, and what it was when all of it was digested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it must be when it is read; absent where that is of no account.
    pub stamp: Option<FileStamp>,
}

impl From<&Path> for NotedFile {
    fn from(path: &Path) -> Self {
        Self { path: path.to_owned(), stamp: None }
    }
}

impl From<&PathBuf> for NotedFile {
    fn from(path: &PathBuf) -> Self {
        path.as_path().into()
    }
}

impl From<&Self> for NotedFile {
    fn from(file: &Self) -> Self {
        file.clone()
    }
}

impl FileStamp {
    /// The stamp of the file that `facts` were asked of.
    #[must_use]
    pub fn of(facts: &Metadata) -> Self {
        let modified = facts.modified().ok().map(FileTime::of);
        let (changed, inode) = changed_and_inode(facts);
        Self { bytes: facts.len(), modified, changed, inode }
    }

    /// Whether this can be the stamp of the file of `earlier` after it got another name or another
    /// link: then only the time of the last change is another one.
    #[must_use]
    pub fn is_renamed(&self, earlier: &Self) -> bool {
        Self { changed: earlier.changed, ..*self } == *earlier
    }
}

impl FileTime {
    fn of(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Self {
                seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                nanos: since.subsec_nanos(),
            },
            Err(before) => {
                let (before, part) = (before.duration(), before.duration().subsec_nanos());
                let seconds = i64::try_from(before.as_secs()).map_or(i64::MIN, |whole| -whole);
                match part {
                    0 => Self { seconds, nanos: 0 },
                    part => {
                        Self { seconds: seconds.saturating_sub(1), nanos: 1_000_000_000 - part }
                    }
                }
            }
        }
    }
}

#[cfg(unix)]
fn changed_and_inode(facts: &Metadata) -> (Option<FileTime>, Option<u64>) {
    use std::os::unix::fs::MetadataExt as _;
    let nanos = u32::try_from(facts.ctime_nsec()).unwrap_or_default();
    (Some(FileTime { seconds: facts.ctime(), nanos }), Some(facts.ino()))
}

#[cfg(not(unix))]
fn changed_and_inode(facts: &Metadata) -> (Option<FileTime>, Option<u64>) {
    (facts.created().ok().map(FileTime::of), None)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_counts_upwards_also_before_1970() {
        let early = UNIX_EPOCH - Duration::new(1, 250_000_000);
        assert_eq!(FileTime::of(early), FileTime { seconds: -2, nanos: 750_000_000 });
        let even = UNIX_EPOCH - Duration::new(3, 0);
        assert_eq!(FileTime::of(even), FileTime { seconds: -3, nanos: 0 });
        let late = UNIX_EPOCH + Duration::new(5, 7);
        assert_eq!(FileTime::of(late), FileTime { seconds: 5, nanos: 7 });
    }

    #[test]
    fn another_time_of_change_alone_may_be_another_name() {
        let time = |seconds| Some(FileTime { seconds, nanos: 0 });
        let noted = FileStamp { bytes: 3, modified: time(1), changed: time(2), inode: Some(4) };
        assert!(FileStamp { changed: time(9), ..noted }.is_renamed(&noted));
        for other in [
            FileStamp { bytes: 4, ..noted },
            FileStamp { modified: time(9), ..noted },
            FileStamp { inode: Some(5), ..noted },
        ] {
            assert!(!other.is_renamed(&noted), "{other:?}");
        }
    }
}
