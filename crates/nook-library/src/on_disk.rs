//! What lies on the disk of the downloads that no job has in hand.
//!
//! The folder may lie on a disk of the network that does not answer for minutes, so the machine
//! never looks itself: it goes by what it remembers ([`Downloads::on_disk`]). That is filled when
//! the library is opened, by each look at the folder ([`DownloadsLook`], in a job) and by the end
//! of each job.

use std::collections::BTreeMap;

use nook_fetch::{FileKey, Folder, HouseSource};
use nook_store::DownloadEntry;

use crate::downloads::{Downloads, Stage, UnderWay};

/// The files of one download.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OnDisk {
    /// Bytes that are here.
    pub(crate) bytes: u64,
    /// Whether all of a copy is here, so that no device has to be asked for it.
    pub(crate) is_whole: bool,
}

/// Downloads that a look at the folder looks for.
#[derive(Debug)]
pub struct DownloadsLook {
    folder: Folder,
    entries: Vec<DownloadEntry>,
}

/// What it has seen, by key.
pub(crate) type Seen = BTreeMap<String, OnDisk>;

impl DownloadsLook {
    pub(crate) fn new(folder: Folder, entries: Vec<DownloadEntry>) -> Self {
        Self { folder, entries }
    }

    /// Looks; waits for the disk.
    pub(crate) fn look(self) -> Seen {
        let Self { folder, entries } = self;
        let look = |entry: DownloadEntry| {
            // Also the key of a copy, which has no source among servers.
            let bytes = FileKey::parse(&entry.key).map_or(0, |key| folder.bytes_of(&key));
            let copied: Option<HouseSource> = entry.source.parse().ok();
            let is_whole = copied.is_some_and(|source| folder.has_whole(&source));
            (entry.key, OnDisk { bytes, is_whole })
        };
        entries.into_iter().map(look).collect()
    }
}

impl Downloads {
    /// What a look now is to look for: what jobs write they tell themselves.
    pub(crate) fn to_look_for(&self) -> DownloadsLook {
        let rests = |entry: &&DownloadEntry| !self.under_way.contains_key(&entry.key);
        let entries = self.list.entries().iter().filter(rests).cloned().collect();
        DownloadsLook::new(self.folder.clone(), entries)
    }

    /// A look has seen this; whether it found a copy that is whole and was not known to be.
    pub(crate) fn note_seen(&mut self, seen: Seen) -> bool {
        let mut finds_whole = false;
        for (key, found) in seen {
            // Begun or deleted since the look began: what is known of it is newer.
            let is_listed = self.list.entries().iter().any(|entry| entry.key == key);
            if is_listed && !self.under_way.contains_key(&key) {
                finds_whole |= found.is_whole && !self.on_disk(&key).is_whole;
                self.on_disk.insert(key, found);
            }
        }
        finds_whole
    }

    /// What is known of the files of a download that is not under way.
    pub(crate) fn on_disk(&self, key: &str) -> OnDisk {
        self.on_disk.get(key).copied().unwrap_or_default()
    }

    /// A download is under way no more; what its job has told of its files is remembered.
    pub(crate) fn rested(&mut self, key: &str) {
        if let Some(under_way) = self.under_way.remove(key) {
            self.on_disk.insert(key.to_owned(), under_way.left());
        }
    }

    /// The files of a download are gone.
    pub(crate) fn gone(&mut self, key: &str) {
        self.on_disk.remove(key);
    }
}

impl UnderWay {
    fn left(&self) -> OnDisk {
        match self.stage {
            // Only what is whole is checked.
            Stage::Checking => OnDisk { bytes: self.shown.have, is_whole: true },
            _ => OnDisk { bytes: self.told.borrow().have, is_whole: false },
        }
    }
}
