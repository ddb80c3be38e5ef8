//! Looks at the folder of the models, and reads what is in it.
//!
//! The folder may lie on a disk of the network that does not answer for minutes, so nothing here
//! waits on the node's event loop: it begins a look once a second, unless one is under way. A look
//! reads the headers of all models where the folder came or went, where somebody has touched a
//! file, or where a move asks for it. What it has seen counts only if the list is still what it was
//! when the look began: imports and removals meanwhile are newer. What it has seen of downloads
//! counts for those that no job has in hand.

use super::ModelLibrary;
use crate::events::Job;
use crate::folder::FolderSeen;
use crate::reading::Found;

impl ModelLibrary {
    /// Has all headers read again: what is missing or damaged is said anew.
    pub(super) fn read_models(&mut self) {
        self.moving.looking.is_unread = true;
        self.look_at_folder();
    }

    /// Looks at the folder, unless a look is under way.
    pub(super) fn look_at_folder(&mut self) {
        let looking = &mut self.moving.looking;
        if looking.is_under_way {
            return;
        }
        looking.is_under_way = true;
        let is_away = self.moving.job.is_none().then_some(self.moving.is_away);
        let reads_all = is_away.is_some() && std::mem::take(&mut looking.is_unread);
        let library = self.library.clone();
        let downloads = self.downloads.to_look_for();
        self.run(Job::LookAtFolder { library, downloads, is_away, reads_all });
    }

    /// The folder was looked at; a look that panicked has seen nothing.
    pub(super) fn on_folder_seen(&mut self, seen: Option<FolderSeen>) {
        self.moving.looking.is_under_way = false;
        let Some(seen) = seen else {
            // At the next look, a second from now; the headers may have been asked for.
            self.moving.looking.is_unread = true;
            return;
        };
        let FolderSeen { library, is_there, disk_free, downloads, states, found, parts } = seen;
        let is_now = library.folder() == self.library.folder();
        if is_now {
            self.downloads.note_disk_free(disk_free);
            if self.downloads.note_seen(downloads) {
                self.start_downloads();
            }
        }
        let still = self.moving.job.is_none();
        let is_listed = is_now && still && library.models() == self.library.models();
        match found {
            // What was read before the headers were asked for again may be out of date.
            Some(found) if is_listed && !self.moving.looking.is_unread => {
                self.parts.seen(parts);
                self.on_read(found, !is_there);
            }
            Some(_) => self.moving.looking.is_unread = true,
            // Somebody has touched a file.
            None if is_listed && self.rereading.is_news(&states) => {
                self.moving.looking.is_unread = true;
            }
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
            if let Some(known) = self.entries.iter().find(|known| known.digest() == digest) {
                // Whoever holds a copy of it hears of the next move.
                known.listed.path.lies(&entry.listed.path.now(), entry.listed.path.stamp());
                entry.listed.path = known.listed.path.clone();
            }
        }
        self.entries = found.entries;
        self.moving.missing = found.missing;
        self.rereading.states = found.states;
        self.moving.is_away = is_away;
        if is_away {
            self.downloads.rest();
            self.parts.rest();
        }
        self.note(super::MODELS, found.broken);
        self.note_folder();
        self.library_changed();
        self.start_downloads();
        self.start_parts();
    }
}
