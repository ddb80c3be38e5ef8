//! How downloads end: stopped, failed, deleted, or with a file that joins the library.

use nook_fetch::{FetchError, Fetched, FileKey, Slot};
use nook_store::{DownloadWish, Staged, Take};

use super::{Stage, refused};
use crate::house::HouseError;
use crate::models::{digest_of, sentence};
use crate::state::{Inside, State};

/// A file that was downloaded and checked.
#[derive(Debug)]
pub(crate) struct Stocked {
    key: String,
    /// Still held, so that nobody else writes the file.
    slot: Slot,
    staged: Result<Staged, String>,
    /// Whether a publisher's digest has shown that the bytes are right.
    verified: bool,
}

/// What becomes of a download that failed when the program starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtNextStart {
    /// It goes on by itself.
    GoesOn,
    /// It waits for its owner: nothing will have changed.
    Rests,
}

impl State {
    /// A download's task has ended.
    pub(crate) fn on_downloaded(&mut self, key: &str, outcome: Result<Fetched, FetchError>) {
        let stage = self.downloads.under_way.get(key).map(|it| it.stage);
        if stage == Some(Stage::Deleting) {
            // Lets go of the lock.
            drop(outcome);
            self.downloads.under_way.remove(key);
            self.delete_files(key);
        } else {
            match outcome {
                Ok(fetched) => self.check_download(key, fetched),
                Err(FetchError::Stopped) => {
                    self.downloads.under_way.remove(key);
                }
                Err(error) => {
                    tracing::warn!(download = key, %error, "ended");
                    let again = may_pass(&error);
                    self.fail_download(key, sentence(&error.to_string()), again);
                }
            }
        }
        self.start_downloads();
    }

    /// Everything is here: is it a model? The same eyes as for an import, in a task of their own.
    fn check_download(&mut self, key: &str, fetched: Fetched) {
        if let Some(under_way) = self.downloads.under_way.get_mut(key) {
            under_way.stage = Stage::Checking;
            under_way.shown.have = fetched.bytes;
            under_way.shown.bytes = Some(fetched.bytes);
        }
        tracing::info!(
            download = key,
            bytes = fetched.bytes,
            verified = fetched.verified,
            commit = fetched.commit.as_deref().unwrap_or("-"),
            "is here"
        );
        let (stager, inside, key) = (self.library.stager(), self.inside.clone(), key.to_owned());
        let Fetched { slot, path, verified, .. } = fetched;
        self.tasks.spawn_until_cancelled("check-download", async move {
            let checked = tokio::task::spawn_blocking(move || {
                stager.stage(&path, Take::Move, digest_of).map_err(|error| error.to_string())
            });
            let staged = checked.await.unwrap_or_else(|_| Err("the check was interrupted".into()));
            let stocked = Stocked { key, slot, staged, verified };
            // A closed inbox means that the node is leaving; the next start checks again.
            let _ = inside.send(Inside::Stocked(Box::new(stocked))).await;
        });
    }

    /// A file was checked: into the library with it, or the reason why not.
    pub(crate) fn on_stocked(&mut self, stocked: Stocked) {
        let Stocked { key, slot, staged, verified } = stocked;
        let wants_none =
            self.downloads.under_way.get(&key).map(|it| it.stage) == Some(Stage::Deleting);
        let staged = match staged {
            _ if wants_none => Err(String::new()),
            staged => staged,
        };
        match staged.map(|staged| self.stock(&key, staged)) {
            Ok(Ok(())) => {
                self.downloads.under_way.remove(&key);
                discard(slot);
                self.forget_download(&key);
            }
            Ok(Err(error)) => self.fail_download(&key, error.sentence, AtNextStart::Rests),
            Err(_) if wants_none => {
                self.downloads.under_way.remove(&key);
                discard(slot);
            }
            // These are the publisher's bytes, and a later version may understand them.
            Err(why) if verified => {
                self.fail_download(&key, sentence(&why), AtNextStart::Rests);
            }
            Err(why) => {
                discard(slot);
                let why = format!("{why}. What came was deleted; it was not checked by a digest");
                self.fail_download(&key, sentence(&why), AtNextStart::Rests);
            }
        }
        self.start_downloads();
    }

    fn stock(&mut self, key: &str, staged: Staged) -> Result<(), HouseError> {
        let name = self.downloads.find(key).map(|entry| entry.name.clone());
        // Another model may have taken the name meanwhile; then this one gets a number.
        let free = name
            .as_deref()
            .filter(|name| self.library.name_for(Some(name), std::path::Path::new(name)).is_ok());
        let made = match (free, &name) {
            (Some(free), _) => Some(free.to_owned()),
            (None, Some(taken)) => {
                let file = format!("{taken}.gguf");
                self.library.name_for(None, std::path::Path::new(&file)).ok()
            }
            (None, None) => None,
        };
        self.take_in(staged, made.as_deref()).map(|model| {
            tracing::info!(model = model.name, "joined the library");
        })
    }

    /// Rests with a reason until the owner resumes or deletes it.
    fn fail_download(&mut self, key: &str, why: String, at_next_start: AtNextStart) {
        self.downloads.under_way.remove(key);
        let entry = self.downloads.find(key).cloned();
        if let Some(entry) = entry.filter(|_| at_next_start == AtNextStart::Rests)
            && let Err(error) = self.wish_download(entry, DownloadWish::Pause)
        {
            tracing::warn!(%error, "a download that failed will be tried again at the next start");
        }
        self.downloads.troubles.insert(key.to_owned(), why);
    }

    /// Takes a download off the list at once and deletes its files as soon as nobody writes them.
    pub(super) fn delete_download(&mut self, key: &str) -> Result<(), HouseError> {
        self.downloads.list.remove(key).map_err(|error| refused(&error.to_string()))?;
        self.downloads.troubles.remove(key);
        match self.downloads.under_way.get_mut(key) {
            Some(under_way) => {
                under_way.stage = Stage::Deleting;
                under_way.stop.cancel();
            }
            None => self.delete_files(key),
        }
        self.start_downloads();
        Ok(())
    }

    fn forget_download(&mut self, key: &str) {
        self.downloads.troubles.remove(key);
        if let Err(error) = self.downloads.list.remove(key) {
            // It would be fetched again at the next start, and found to be here already.
            tracing::warn!(%error, "a download that is over stays in the list");
        }
    }

    fn delete_files(&mut self, key: &str) {
        // Asked for again meanwhile: then its bytes are of use.
        if self.downloads.find(key).is_some_and(|entry| entry.wish == DownloadWish::Run) {
            return;
        }
        let Some(key) = FileKey::parse(key) else { return };
        let folder = self.downloads.folder.clone();
        self.tasks.spawn_until_cancelled("delete-download", async move {
            let deleted = tokio::task::spawn_blocking(move || folder.discard(&key)).await;
            if let Ok(Err(error)) = deleted {
                tracing::warn!(%error, "a download could not be deleted");
            }
        });
    }
}

/// Networks come back and disks get room; a file that is not there stays so.
fn may_pass(error: &FetchError) -> AtNextStart {
    match error {
        FetchError::GaveUp { .. }
        | FetchError::NoRoom { .. }
        | FetchError::Disk { .. }
        | FetchError::Busy { .. }
        | FetchError::Lost => AtNextStart::GoesOn,
        _ => AtNextStart::Rests,
    }
}

fn discard(slot: Slot) {
    if let Err(error) = slot.discard() {
        tracing::warn!(%error, "what a download left could not be deleted");
    }
}
