//! How downloads end: stopped, failed, deleted, or with a file that joins the library.

use std::path::Path;

use nook_api::NodeError;
use nook_api::views::Problem;
use nook_base::PeerId;
use nook_fetch::{FetchError, Fetched, FileKey, Progress, Slot};
use nook_store::{DownloadWish, Staged};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ModelLibrary;
use super::ends::ends_of;
use super::fetching::refused;
use crate::downloads::{Stage, UnderWay, copied};
use crate::events::{Job, Surroundings};
use crate::judging::{Checked, Unfit};
use crate::troubles;

/// What becomes of a download that failed when the program starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtNextStart {
    /// It goes on by itself.
    GoesOn,
    /// It waits for its owner: nothing will have changed.
    Rests,
}

impl ModelLibrary {
    /// A download's job has ended; `giver`: the device that alone has brought its bytes, if one
    /// has.
    pub(super) fn on_downloaded(
        &mut self,
        key: &str,
        outcome: Result<Fetched, FetchError>,
        giver: Option<PeerId>,
    ) {
        if let Some(under_way) = self.downloads.under_way.get_mut(key) {
            under_way.giver = giver;
        }
        if self.is_unwanted(key) {
            // Lets go of the lock.
            drop(outcome);
            self.delete_files(key);
        } else {
            match outcome {
                Ok(fetched) => self.check_download(key, fetched),
                Err(FetchError::Stopped | FetchError::Nobody) => self.downloads.rested(key),
                Err(error) => {
                    tracing::warn!(download = key, %error, "ended");
                    let again = may_pass(&error);
                    self.fail_download(key, troubles::of_end(&error), again);
                }
            }
        }
        self.start_downloads();
    }

    /// Everything is here: is it a model? The same eyes as for an import, in a job.
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
        let wanted = self.downloads.find(key).and_then(copied);
        let stager = self.library.stager();
        self.run(Job::Check { key: key.to_owned(), fetched, wanted, stager });
    }

    /// A file was checked: into the library with it, or the reason why not.
    pub(super) fn on_checked(&mut self, checked: Checked, around: &Surroundings<'_>) {
        let Checked { key, slot, staged, vouched } = checked;
        if self.is_unwanted(&key) {
            drop((staged, slot));
            self.delete_files(&key);
            return self.start_downloads();
        }
        match staged.map(|staged| self.stock(&key, staged, around)) {
            Ok(Ok(())) => {
                self.downloads.under_way.remove(&key);
                self.discard(&key, slot);
                self.forget_download(&key);
            }
            Ok(Err(error)) => self.fail_download(&key, error.into(), AtNextStart::Rests),
            Err(Unfit::Other) => {
                self.wrong_copy(&key, around);
                self.discard(&key, slot);
            }
            // It may be read the next time.
            Err(Unfit::Unread(why)) => {
                self.fail_download(&key, troubles::of_model(why, false), AtNextStart::GoesOn);
            }
            // These are the right bytes, and a later version may understand them.
            Err(Unfit::NoModel(why)) if vouched => {
                self.fail_download(&key, troubles::of_model(why, false), AtNextStart::Rests);
            }
            Err(Unfit::NoModel(why)) => {
                self.fail_download(&key, troubles::of_model(why, true), AtNextStart::Rests);
                self.discard(&key, slot);
            }
        }
        self.start_downloads();
    }

    fn stock(
        &mut self,
        key: &str,
        staged: Staged,
        around: &Surroundings<'_>,
    ) -> Result<(), NodeError> {
        let name = self.downloads.find(key).map(|entry| entry.name.clone());
        let made = name.and_then(|name| self.free_name(&name));
        self.take_in(staged, made.as_deref(), around).map(|model| {
            tracing::info!(?model, "joined the library");
        })
    }

    /// `wished`, or the same with a number where another model has taken it meanwhile.
    pub(super) fn free_name(&self, wished: &str) -> Option<String> {
        let wish = self.library.name_for(Some(wished), Path::new(wished));
        let file = format!("{wished}.gguf");
        wish.or_else(|_| self.library.name_for(None, Path::new(&file))).ok()
    }

    /// Rests with a reason until the owner resumes or deletes it.
    pub(super) fn fail_download(&mut self, key: &str, why: Problem, at_next_start: AtNextStart) {
        self.downloads.rested(key);
        let entry = self.downloads.find(key).cloned();
        if let Some(entry) = entry.filter(|_| at_next_start == AtNextStart::Rests)
            && let Err(error) = self.wish_download(entry, DownloadWish::Pause)
        {
            tracing::warn!(%error, "a download that failed will be tried again at the next start");
        }
        self.downloads.troubles.insert(key.to_owned(), why);
    }

    /// Takes a download off the list at once and deletes its files as soon as nobody writes them.
    pub(super) fn delete_download(&mut self, key: &str) -> Result<(), NodeError> {
        let ends = self.downloads.find(key).and_then(ends_of);
        self.downloads.list.remove(key).map_err(|error| refused(&error.to_string()))?;
        self.downloads.troubles.remove(key);
        if let Some(model) = ends {
            let deleted = self.delete_ends(key, model);
            self.start_downloads();
            return deleted;
        }
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

    pub(super) fn forget_download(&mut self, key: &str) {
        self.downloads.troubles.remove(key);
        self.copies.first.remove(key);
        if let Err(error) = self.downloads.list.remove(key) {
            // It would be fetched again at the next start, and found to be here already.
            tracing::warn!(%error, "a download that is over stays in the list");
        }
    }

    /// Whether a download was deleted and not asked for again since: then what came is of no use.
    fn is_unwanted(&self, key: &str) -> bool {
        let stage = self.downloads.under_way.get(key).map(|it| it.stage);
        let is_listed = self.downloads.list.entries().iter().any(|entry| entry.key == key);
        stage == Some(Stage::Deleting) && !is_listed
    }

    /// Deletes the files of a download that are of no use any more.
    fn discard(&mut self, key: &str, slot: Slot) {
        if let Err(error) = slot.discard() {
            tracing::warn!(%error, "what a download left could not be deleted");
        }
        self.downloads.gone(key);
    }

    /// Deletes what an earlier run of the node could not delete any more.
    pub(super) fn delete_orphans(&mut self) {
        for key in std::mem::take(&mut self.downloads.orphans) {
            tracing::info!(download = key.as_str(), "nothing asks for it; its files are deleted");
            self.delete_files(key.as_str());
        }
    }

    /// Deletes the files of a download, which nobody writes any more. It is under way until that is
    /// over: who asks for the same file meanwhile waits.
    fn delete_files(&mut self, key: &str) {
        self.downloads.under_way.remove(key);
        self.downloads.gone(key);
        let Some(file_key) = FileKey::parse(key) else { return };
        let (stop, (_, told)) = (CancellationToken::new(), watch::channel(Progress::default()));
        let under_way = UnderWay::new(stop, told, Stage::Deleting);
        self.downloads.under_way.insert(key.to_owned(), under_way);
        let folder = self.downloads.folder.clone();
        self.run(Job::Delete { key: file_key, folder });
    }

    /// The files of a download are gone, or cannot be deleted now.
    pub(super) fn on_deleted(&mut self, key: &str) {
        let stage = self.downloads.under_way.get(key).map(|it| it.stage);
        if stage == Some(Stage::Deleting) {
            self.downloads.under_way.remove(key);
        }
        self.start_downloads();
    }
}

/// Networks come back and disks get room; a file that is not there stays so.
fn may_pass(error: &FetchError) -> AtNextStart {
    match error {
        FetchError::Nowhere { errors } => {
            let goes_on = errors.iter().any(|error| may_pass(error) == AtNextStart::GoesOn);
            if goes_on { AtNextStart::GoesOn } else { AtNextStart::Rests }
        }
        FetchError::GaveUp { .. }
        | FetchError::NoRoom { .. }
        | FetchError::Disk { .. }
        | FetchError::Busy { .. }
        | FetchError::Lost => AtNextStart::GoesOn,
        _ => AtNextStart::Rests,
    }
}
