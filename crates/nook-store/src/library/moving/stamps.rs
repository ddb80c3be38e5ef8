//! What the files are that move: a move that changes nothing but their place needs no new digest.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nook_base::{Extent, FileStamp};

use crate::library::staging::{rename_noted, stamp_of};
use crate::library::{Library, partial_file_name};

/// Stamps of models' files by the names of the files.
pub type Stamps = BTreeMap<String, FileStamp>;

/// The stamps that the list has, and those of the files where they lie now.
#[derive(Debug, Default)]
pub(super) struct Noted {
    listed: Stamps,
    // Guards a short map; never held across a look at the disk.
    now: Mutex<Stamps>,
}

impl Clone for Noted {
    fn clone(&self) -> Self {
        Self { listed: self.listed.clone(), now: Mutex::new(self.now()) }
    }
}

impl Noted {
    pub(super) fn of(listed: impl Iterator<Item = (String, FileStamp)>) -> Self {
        let listed: Stamps = listed.collect();
        Self { now: Mutex::new(listed.clone()), listed }
    }

    pub(super) fn now(&self) -> Stamps {
        self.locked().clone()
    }

    /// Gives the file `name` another place.
    pub(super) fn rename(&self, name: &str, from: &Path, to: &Path) -> io::Result<()> {
        let noted = self.locked().get(name).copied();
        let stamp = rename_noted(from, to, noted)?;
        self.note(name, stamp);
        Ok(())
    }

    /// The file `name` gets a copy.
    pub(super) fn copy<E>(
        &self,
        name: &str,
        from: &Path,
        to: &Path,
        copying: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let noted = self.locked().get(name).copied();
        copying()?;
        // Changed before that or while it was copied, it would have another stamp by now.
        let is_noted = noted.is_some() && stamp_of(from) == noted;
        self.note(name, stamp_of(to).filter(|_| is_noted));
        Ok(())
    }

    /// The file `name` is where it was, and its copy goes.
    pub(super) fn stays(&self, name: &str) {
        self.note(name, self.listed.get(name).copied());
    }

    fn note(&self, name: &str, stamp: Option<FileStamp>) {
        let mut now = self.locked();
        match stamp {
            Some(stamp) => now.insert(name.to_owned(), stamp),
            None => now.remove(name),
        };
    }

    fn locked(&self) -> MutexGuard<'_, Stamps> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Library {
    /// Everything was moved and the setting is changed: from now on the files are there, with these
    /// stamps (`ModelsMove::stamps`).
    pub fn moved(&mut self, to: Option<&Path>, stamps: &Stamps) {
        self.chosen = to.map(Path::to_owned);
        let folder = self.folder().to_owned();
        let partial = self.partial_folder();
        for model in &mut self.models {
            if model.extent == Extent::Ends {
                model.path = partial.join(partial_file_name(model.digest));
            } else if model.is_moved()
                && let Some(name) = model.path.file_name()
            {
                model.path = folder.join(name);
            }
        }
        self.note_stamps(stamps);
    }

    /// Everything was taken back (`ModelsMove::undo`); it gave the files other stamps.
    pub fn stayed(&mut self, stamps: &Stamps) {
        self.note_stamps(stamps);
    }

    /// The library's own files are these now. One without a stamp here keeps its earlier one, which
    /// is that of another file: so all of it is read again.
    fn note_stamps(&mut self, stamps: &Stamps) {
        for model in self.models.iter_mut().filter(|model| model.is_moved()) {
            let name = model.path.file_name().and_then(|name| name.to_str());
            if let Some(stamp) = name.and_then(|name| stamps.get(name)) {
                model.stamp = Some(*stamp);
            }
        }
        if let Err(error) = self.save(&self.models) {
            tracing::warn!(%error, "the models are read again at the next start");
        }
    }
}
