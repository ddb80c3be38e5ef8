//! What was measured of how much a helper could read: read at the start, kept and shown.
//!
//! The measuring itself is done by a front end, in a process of its own. What it found is named by
//! the digest of the file that it measured; so figures of a file that somebody has changed since
//! are not shown, and those of a model that is not on the list any more are forgotten.

use nook_api::views::{KeptPrivacyView, PrivacyOfModelView};
use nook_api::{Answer, NodeError, sentence};
use nook_base::{ErrorCode, FileStamp, ModelDigest, PrivacyFigures};
use nook_model::ModelFile;
use nook_store::KeptFigures;

use crate::state::State;

impl State {
    /// Keeps the figures of a model of the list, in place of its earlier ones.
    pub(crate) fn keep_privacy(
        &mut self,
        model: &str,
        figures: PrivacyFigures,
    ) -> Result<(), NodeError> {
        let refused = |code, sentence: &str| NodeError::new(code, sentence);
        let model: ModelDigest = model.parse().map_err(|_| {
            refused(ErrorCode::BadRequest, "What was measured names no digest of a model.")
        })?;
        if !figures.is_sound() {
            let sentence = "What was measured cannot be: a share is not from 0 to 1.";
            return Err(refused(ErrorCode::BadRequest, sentence));
        }
        if !self.library.is_listed(model) {
            let sentence = "The file that was measured is none of the models here.";
            return Err(refused(ErrorCode::NotFound, sentence));
        }
        let list = self.privacy.list.with(KeptFigures { model, figures });
        let kept = self.privacy.replace(list);
        kept.map_err(|error| refused(ErrorCode::BadRequest, &sentence(&error.to_string())))
    }

    /// Forgets the figures of models that are not on the list any more.
    pub(crate) fn forget_privacy(&mut self) {
        let left = self.privacy.list.without(|model| !self.library.is_listed(model));
        if let Err(error) = self.privacy.replace(left) {
            // They are forgotten with the next change.
            tracing::warn!(%error, "figures of a model that is gone are still kept");
        }
    }

    /// Answers with the figures of each model whose file is still the one that was measured.
    pub(crate) fn show_privacy(&self, answer: Answer<KeptPrivacyView>) {
        let of = |kept: &KeptFigures| {
            let mut entries = self.library.entries().iter();
            let entry = entries.find(|entry| entry.digest() == kept.model && !entry.ends_only)?;
            let view = PrivacyOfModelView {
                model: entry.listed.name.clone(),
                digest: kept.model.to_string(),
                figures: kept.figures,
            };
            Some((entry.file.clone(), view))
        };
        let known: Vec<_> = self.privacy.list.models().iter().filter_map(of).collect();
        let problem = self.privacy.problem.clone();
        self.tasks.spawn_until_cancelled("privacy", async move {
            let look = move || known.into_iter().filter(|(file, _)| is_as_noted(file)).collect();
            let found: Vec<(ModelFile, PrivacyOfModelView)> =
                tokio::task::spawn_blocking(look).await.unwrap_or_default();
            let models = found.into_iter().map(|(_, view)| view).collect();
            // Nobody waits any more: then nobody wants to know.
            let _ = answer.send(Ok(KeptPrivacyView { models, problem }));
        });
    }
}

/// Whether the file is still what it was when all of it was digested, by a look at it. The one that
/// the program brings along is made anew at each start.
fn is_as_noted(file: &ModelFile) -> bool {
    let now = || std::fs::metadata(file.path()).ok().map(|facts| FileStamp::of(&facts));
    file.noted().is_none_or(|noted| now() == Some(noted))
}
