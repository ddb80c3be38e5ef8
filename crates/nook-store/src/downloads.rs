//! The downloads that are not over: which, and what the owner wants of each.
//!
//! One file, `downloads.json`, so that a restart, a full disk or a crash loses no entry of the
//! list. How far each one is, is the business of who fetches; here is only what was asked for.
//! Sources and keys are kept as text and understood by `nook-fetch`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::durable::FileError;
use crate::home::Home;
use crate::json::{self, DocumentError};

const FILE: &str = "downloads.json";
const VERSION: u64 = 1;

/// Most downloads in the list; a further one is refused until one is over or deleted.
pub const DOWNLOADS_MAX: usize = 32;

/// What the owner wants of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DownloadWish {
    /// It is to go on, also after a restart.
    Run,
    /// It rests until the owner resumes it.
    Pause,
    /// It is not wanted now; what was loaded stays until it is deleted or resumed.
    Cancel,
}

/// A download that is not over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DownloadEntry {
    /// Names its files.
    pub key: String,
    /// Where it comes from, as `nook-fetch` writes it.
    pub source: String,
    /// What the model is to be called here.
    pub name: String,
    /// What the owner wants.
    pub wish: DownloadWish,
    /// When it was asked for, in seconds since 1970.
    pub added: u64,
}

/// The list of one home.
#[derive(Debug)]
pub struct Downloads {
    path: PathBuf,
    entries: Vec<DownloadEntry>,
}

/// The list cannot be read or changed. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownloadsError {
    /// The file cannot be used.
    #[error("the list of downloads cannot be used: {0}")]
    Document(#[from] DocumentError),
    /// The change could not be saved.
    #[error("the list of downloads was not changed: {0}")]
    Save(#[from] FileError),
    /// The list is full.
    #[error("{DOWNLOADS_MAX} downloads are listed already; delete one first")]
    Full,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u64,
    downloads: Vec<DownloadEntry>,
}

impl Downloads {
    /// Reads the list of `home`; a missing file means none.
    pub fn load(home: &Home) -> Result<Self, DownloadsError> {
        let path = home.file(FILE);
        let document: Option<Document> = json::load(&path, VERSION)?;
        let entries = document.map(|document| document.downloads).unwrap_or_default();
        if entries.len() > DOWNLOADS_MAX {
            let reason =
                format!("{} downloads, at most {DOWNLOADS_MAX} are possible", entries.len());
            return Err(json::damaged(&path, reason).into());
        }
        Ok(Self { path, entries })
    }

    /// All of them, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[DownloadEntry] {
        &self.entries
    }

    /// Adds a download, or gives the one with its key a new name and wish.
    pub fn put(&mut self, entry: DownloadEntry) -> Result<(), DownloadsError> {
        let mut entries = self.entries.clone();
        let is_full = entries.len() >= DOWNLOADS_MAX;
        match entries.iter_mut().find(|known| known.key == entry.key) {
            Some(known) => *known = DownloadEntry { added: known.added, ..entry },
            None if is_full => return Err(DownloadsError::Full),
            None => entries.push(entry),
        }
        self.replace(entries)
    }

    /// Takes a download off the list; its files are the caller's matter.
    pub fn remove(&mut self, key: &str) -> Result<(), DownloadsError> {
        let mut entries = self.entries.clone();
        entries.retain(|entry| entry.key != key);
        self.replace(entries)
    }

    fn replace(&mut self, entries: Vec<DownloadEntry>) -> Result<(), DownloadsError> {
        let document = Document { version: VERSION, downloads: entries };
        json::save(&self.path, &document)?;
        self.entries = document.downloads;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::HomeChoice;

    fn entry(key: &str, wish: DownloadWish) -> DownloadEntry {
        let source = format!("hf:o/r/{key}.gguf");
        DownloadEntry { key: key.to_owned(), source, name: key.to_owned(), wish, added: 7 }
    }

    #[test]
    fn the_list_survives_a_restart_and_a_wish_changes_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&HomeChoice::At(folder.path().join("home"))).unwrap();
        let mut list = Downloads::load(&home).unwrap();
        list.put(entry("a", DownloadWish::Run)).unwrap();
        list.put(entry("b", DownloadWish::Run)).unwrap();
        list.put(DownloadEntry { added: 9, ..entry("a", DownloadWish::Pause) }).unwrap();
        let again = Downloads::load(&home).unwrap();
        let expected = [entry("a", DownloadWish::Pause), entry("b", DownloadWish::Run)];
        assert_eq!(again.entries(), expected);
        list.remove("a").unwrap();
        list.remove("never there").unwrap();
        assert_eq!(Downloads::load(&home).unwrap().entries().len(), 1);
    }

    #[test]
    fn a_full_list_refuses_and_a_damaged_one_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&HomeChoice::At(folder.path().join("home"))).unwrap();
        let mut list = Downloads::load(&home).unwrap();
        for number in 0..DOWNLOADS_MAX {
            list.put(entry(&number.to_string(), DownloadWish::Cancel)).unwrap();
        }
        assert_eq!(list.put(entry("more", DownloadWish::Run)), Err(DownloadsError::Full));
        std::fs::write(home.file(FILE), b"{ \"version\": 1, \"downloads\": 7 }").unwrap();
        let error = Downloads::load(&home).unwrap_err();
        assert!(matches!(error, DownloadsError::Document(_)), "{error}");
    }
}
