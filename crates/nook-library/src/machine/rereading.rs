//! Models whose file somebody has touched: left out until all of it was read again.

use nook_api::NodeError;
use nook_base::ModelDigest;
use nook_store::{FileState, ModelEntry};

use super::ModelLibrary;
use crate::events::{Job, Surroundings};
use crate::reading::being_read_error;
use crate::rereading::{REREAD_AFTER, Reread, RereadJob};

impl ModelLibrary {
    /// Begins to read one file again, unless another one is being read or the files move.
    pub(super) fn reread_next(&mut self, around: &Surroundings<'_>) {
        let rests = self.rereading.rests_until.is_some_and(|until| around.now < until);
        if rests || self.rereading.under_way.is_some() || self.moving.job.is_some() {
            return;
        }
        let unsure = self.library.models().iter().find(|model| self.is_unsure(model));
        let Some((model, path)) = unsure.map(|model| (model.digest, model.path.clone())) else {
            return;
        };
        tracing::info!(?model, "its file was touched and is read again");
        self.rereading.under_way = Some(model);
        let stop = self.lifetime.clone();
        self.run(Job::Reread(RereadJob { model, path, stop }));
    }

    /// A file was read again.
    pub(super) fn on_reread(
        &mut self,
        model: ModelDigest,
        reread: Reread,
        around: &Surroundings<'_>,
    ) {
        self.rereading.under_way = None;
        self.rereading.rests_until = None;
        match reread {
            Reread::Same(stamp) => {
                if let Err(error) = self.library.confirm(model, Some(stamp)) {
                    tracing::warn!(%error, "the file of a model is read again at the next start");
                }
            }
            Reread::Other(stamp) => {
                tracing::warn!(?model, "its file is another one now");
                self.library.refuse(model, stamp);
            }
            Reread::Unread(why) => {
                tracing::warn!(?model, why, "its file is read again later");
                self.rereading.rests_until = around.now.checked_add(REREAD_AFTER);
            }
        }
        self.read_models();
    }

    /// What whoever wants a model hears while its file is read again.
    pub(super) fn being_read_error(&self, model: &ModelEntry) -> Option<NodeError> {
        self.is_unsure(model).then(|| being_read_error(model))
    }

    fn is_unsure(&self, model: &ModelEntry) -> bool {
        self.rereading.states.get(&model.digest) == Some(&FileState::Unsure)
    }
}
