//! Two versions of the installed files change places, and back.
//!
//! What is not in use lies beside the installed files, on the same disk, in a folder with the same
//! layout. Before the first file moves, a journal says which files there are and what the new ones
//! look like; each step looks at the file itself, so a swap that was stopped anywhere, by a kill or
//! a power cut, can be gone on with in either direction. On Linux two files change places in one
//! step of the file system, so there is a program under each name at any moment, and one that runs
//! keeps its own file, under its other name.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::installed::LIST;
use crate::limits::UNPACKED_FILES_MAX;
use crate::seen;
use crate::trial::{Event, Trial};

const VERSION: u64 = 1;
const JOURNAL: &str = "journal.json";
const OTHER: &str = "other";
const HOLD_END: &str = ".inglenook-hold";

/// A swap that did not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SwapError {
    /// The journal cannot be understood.
    #[error("{} is damaged ({reason}). Install the package by hand; it puts all files in place", path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The list of a package names what no package has.
    #[error("the package's list of files holds `{name}`, which is no file of a package")]
    List {
        /// The line.
        name: String,
    },
    /// The system refuses.
    #[error("{}: {reason}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
}

/// Which of the two versions is to be in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The newer one.
    Forward,
    /// The one that was there before.
    Back,
}

/// What is known of a swap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Journal {
    version: u64,
    /// Version of the program before.
    pub(crate) from: String,
    /// Version after.
    pub(crate) to: String,
    /// Whether a file may have moved.
    #[serde(default)]
    pub(crate) begun: bool,
    /// Whether everything is in its place.
    pub(crate) done: bool,
    /// Whether it has shown that it comes up.
    #[serde(default)]
    pub(crate) trial: Trial,
    /// Each file of either version, with the digest of the newer one where it has it.
    files: BTreeMap<String, Option<String>>,
}

/// The two versions below one prefix.
#[derive(Debug)]
pub(crate) struct Swap {
    prefix: PathBuf,
    /// Journal and the other version.
    folder: PathBuf,
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SwapError {
    move |error| SwapError::File { path: path.to_owned(), reason: error.to_string() }
}

impl Swap {
    pub(crate) fn at(prefix: &Path, folder: &Path) -> Self {
        Self { prefix: prefix.to_owned(), folder: folder.to_owned() }
    }

    /// Where the version lies that is not in use.
    pub(crate) fn other(&self) -> PathBuf {
        self.folder.join(OTHER)
    }

    /// The last swap, if there was one.
    pub(crate) fn journal(&self) -> Result<Option<Journal>, SwapError> {
        let path = self.folder.join(JOURNAL);
        let damaged = |reason: String| SwapError::Journal { path: path.clone(), reason };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&path)(error)),
        };
        let journal: Journal =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if journal.version > VERSION {
            return Err(damaged(format!("format {} is of a later version", journal.version)));
        }
        journal.files.keys().try_for_each(|name| plain(name))?;
        Ok(Some(journal))
    }

    /// Notes a swap for the version that lies in [`Swap::other`]. Nothing has moved yet.
    pub(crate) fn begin(&self, from: &str, to: &str) -> Result<Journal, SwapError> {
        let (new, old) = (listed(&self.other())?, listed(&self.prefix)?);
        let mut files: BTreeMap<_, _> = old.into_iter().map(|name| (name, None)).collect();
        for name in new {
            let path = self.other().join(&name);
            let digest = digest(&path).map_err(failed(&path))?;
            files.insert(name, Some(digest));
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        let (begun, done, trial) = (false, false, Trial::Passed);
        let journal = Journal { version: VERSION, from, to, begun, done, trial, files };
        self.keep(&journal)?;
        Ok(journal)
    }

    /// Brings one of the two versions into place, from wherever an earlier try ended.
    pub(crate) fn bring(&self, way: Way, mut journal: Journal) -> Result<(), SwapError> {
        (journal.begun, journal.done) = (true, false);
        self.keep(&journal)?;
        // The list of files last: it names what is there.
        let names = journal.files.iter().filter(|(name, _)| *name != LIST);
        for (name, digest) in names.chain(journal.files.get_key_value(LIST)) {
            let (place, other) = (self.prefix.join(name), self.other().join(name));
            one(way, &place, &other, digest.as_deref()).map_err(failed(&place))?;
        }
        self.make_durable(&journal);
        match way {
            Way::Forward => {
                journal.done = true;
                journal.trial = journal.trial.after(Event::InPlace).unwrap_or_default();
                self.keep(&journal)
            }
            // What was tried is in the way of the next one, and nothing else.
            Way::Back => self.forget(),
        }
    }

    /// Removes the journal and the version that is not in use.
    pub(crate) fn forget(&self) -> Result<(), SwapError> {
        let path = self.folder.join(JOURNAL);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed(&path)(error));
            }
            _ => {}
        }
        remove_folder(&self.other()).map_err(failed(&self.other()))
    }

    /// Notes what became of the version on trial.
    pub(crate) fn keep_trial(&self, journal: Journal, trial: Trial) -> Result<(), SwapError> {
        self.keep(&Journal { trial, ..journal })
    }

    fn keep(&self, journal: &Journal) -> Result<(), SwapError> {
        let path = self.folder.join(JOURNAL);
        seen::write(&path, journal).map_err(failed(&path))
    }

    /// Best effort: a disk that cannot say so is none that a power cut is survived on anyway.
    fn make_durable(&self, journal: &Journal) {
        let folders: std::collections::BTreeSet<_> =
            journal.files.keys().filter_map(|name| Path::new(name).parent()).collect();
        for folder in folders {
            let synced = File::open(self.prefix.join(folder)).and_then(|folder| folder.sync_all());
            drop(synced);
        }
    }
}

/// Brings one file into place. Does nothing where it is already there.
fn one(way: Way, place: &Path, other: &Path, new: Option<&str>) -> io::Result<()> {
    recover_hold(place, other)?;
    let (is_here, is_there) = (is_file(place), is_file(other));
    let Some(new) = new else {
        // Only the older version has it.
        return match way {
            Way::Forward if is_here => move_to(place, other),
            Way::Back if is_there && !is_here => move_to(other, place),
            _ => Ok(()),
        };
    };
    let is_new_here = is_here && digest(place)? == new;
    match way {
        Way::Forward if is_new_here => Ok(()),
        Way::Forward if is_there && digest(other)? == new => match is_here {
            true => exchange(place, other),
            false => move_to(other, place),
        },
        Way::Forward => Err(io::Error::other("the file of the new version is not there any more")),
        Way::Back if !is_new_here => Ok(()),
        Way::Back if is_there => exchange(place, other),
        Way::Back => move_to(place, other),
    }
}

/// Two files change places.
#[cfg(target_os = "linux")]
fn exchange(place: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, place, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        // Not every file system can.
        Err(_) => exchange_in_steps(place, other),
    }
}

#[cfg(not(target_os = "linux"))]
fn exchange(place: &Path, other: &Path) -> io::Result<()> {
    exchange_in_steps(place, other)
}

fn exchange_in_steps(place: &Path, other: &Path) -> io::Result<()> {
    let hold = hold_of(other);
    fs::rename(place, &hold)?;
    fs::rename(other, place)?;
    fs::rename(&hold, other)
}

/// Ends an exchange in steps that was stopped.
fn recover_hold(place: &Path, other: &Path) -> io::Result<()> {
    let hold = hold_of(other);
    match (is_file(&hold), is_file(place)) {
        (false, _) => Ok(()),
        (true, false) => fs::rename(&hold, place),
        (true, true) => fs::rename(&hold, other),
    }
}

fn hold_of(other: &Path) -> PathBuf {
    let mut name = other.as_os_str().to_owned();
    name.push(HOLD_END);
    name.into()
}

fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::rename(from, to)
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_dir())
}

/// The files that the list of a version names, and the list itself.
fn listed(root: &Path) -> Result<Vec<String>, SwapError> {
    let path = root.join(LIST);
    let text = fs::read_to_string(&path).map_err(failed(&path))?;
    let mut names: Vec<String> =
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    names.iter().try_for_each(|name| plain(name))?;
    if names.len() > UNPACKED_FILES_MAX {
        return Err(SwapError::List { name: format!("more than {UNPACKED_FILES_MAX} files") });
    }
    if !names.iter().any(|name| name == LIST) {
        names.push(LIST.to_owned());
    }
    Ok(names)
}

/// Lists come from files: none of their names leads out of the prefix.
fn plain(name: &str) -> Result<(), SwapError> {
    let mut parts = Path::new(name).components();
    let begins = matches!(parts.next(), Some(Component::Normal(first)) if first == "bin" || first == "share" || first == "lib");
    let is_plain = begins && parts.all(|part| matches!(part, Component::Normal(_)));
    match is_plain && !name.contains('\0') {
        true => Ok(()),
        false => Err(SwapError::List {
            name: name.chars().take(200).flat_map(char::escape_debug).collect(),
        }),
    }
}

fn digest(path: &Path) -> io::Result<String> {
    let (mut file, mut hasher) = (File::open(path)?, Sha256::new());
    io::copy(&mut file, &mut hasher)?;
    Ok(data_encoding::HEXLOWER.encode(&hasher.finalize()))
}

/// Removes a folder, if it is there.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
