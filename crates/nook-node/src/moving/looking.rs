//! Looks at the folder of the models, and reads what is in it.
//!
//! The folder may lie on a disk of the network that does not answer for minutes, so nothing here waits on
//! the house loop: it begins a look once a second, unless one is under way. A look reads the headers of all
//! models where the folder came or went, or where a move asks for it. What it has seen counts only if the
//! list is still what it was when the look began: imports and removals meanwhile are newer.

use nook_store::Library;

use crate::downloads::disk_free;
use crate::models::{self, Found};
use crate::state::{Inside, State};

/// Whether a look is under way, and what the next one is to do.
#[derive(Debug, Default)]
pub(super) struct Looking {
    is_under_way: bool,
    /// All headers are to be read, also where the folder neither came nor went.
    is_unread: bool,
}

/// What a look has seen.
#[derive(Debug)]
pub(crate) struct FolderSeen {
    /// As it was when the look began.
    library: Library,
    is_there: bool,
    /// Room on its disk, in bytes.
    disk_free: Option<u64>,
    /// The headers, where they were read.
    found: Option<Found>,
}

impl FolderSeen {
    /// Looks. `is_away`: as it was at the last look; absent while models move, when none is read.
    fn look(library: Library, is_away: Option<bool>, is_unread: bool) -> Self {
        let is_there = library.is_there();
        let reads = is_away.is_some_and(|is_away| is_unread || is_away == is_there);
        let found = reads.then(|| models::read(library.models(), !is_there));
        let disk_free = disk_free(library.folder());
        Self { library, is_there, disk_free, found }
    }
}

impl State {
    /// Has all headers read again: what is missing or damaged is said anew.
    pub(crate) fn read_models(&mut self) {
        self.moving.looking.is_unread = true;
        self.look_at_folder();
    }

    /// Looks at the folder, unless a look is under way.
    pub(crate) fn look_at_folder(&mut self) {
        let looking = &mut self.moving.looking;
        if looking.is_under_way {
            return;
        }
        looking.is_under_way = true;
        let is_away = self.moving.job.is_none().then_some(self.moving.is_away);
        let is_unread = is_away.is_some() && std::mem::take(&mut looking.is_unread);
        let (library, inside) = (self.library.clone(), self.inside.clone());
        self.tasks.spawn_until_cancelled("models-folder", async move {
            let look = move || FolderSeen::look(library, is_away, is_unread);
            let seen = tokio::task::spawn_blocking(look).await;
            if let Err(error) = &seen {
                tracing::error!(%error, "a look at the models failed; they are looked at again");
            }
            // A closed inbox means that the node is leaving.
            let _ = inside.send(Inside::FolderSeen(seen.ok().map(Box::new))).await;
        });
    }

    /// The folder was looked at; a look that panicked has seen nothing.
    pub(crate) fn on_folder_seen(&mut self, seen: Option<FolderSeen>) {
        self.moving.looking.is_under_way = false;
        let Some(FolderSeen { library, is_there, disk_free, found }) = seen else {
            // At the next look, a second from now; the headers may have been asked for.
            self.moving.looking.is_unread = true;
            return;
        };
        let is_now = library.folder() == self.library.folder();
        if is_now {
            self.downloads.note_disk_free(disk_free);
        }
        let still = self.moving.job.is_none();
        match found {
            Some(found) if is_now && still && library.models() == self.library.models() => {
                self.on_read(found, !is_there);
            }
            Some(_) => self.moving.looking.is_unread = true,
            None => {}
        }
        if still && self.moving.looking.is_unread {
            self.look_at_folder();
        }
    }

    /// The models were read again.
    fn on_read(&mut self, mut found: Found, is_away: bool) {
        for entry in &mut found.entries {
            let digest = entry.digest();
            if let Some(known) = self.catalogue.iter().find(|known| known.digest() == digest) {
                // Whoever holds a copy of it hears of the next move.
                entry.listed.path = known.listed.path.clone();
            }
        }
        self.catalogue = found.entries;
        self.moving.missing = found.missing;
        self.moving.is_away = is_away;
        if is_away {
            self.downloads.rest();
        }
        self.note("models", found.broken);
        self.note_folder();
        self.library_changed();
        self.start_downloads();
    }
}
