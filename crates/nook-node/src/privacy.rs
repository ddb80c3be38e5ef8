//! What was measured of how much a helper could read: read at the start, kept and shown.
//!
//! The measuring itself is done by a front end, in a process of its own. What it found is named by
//! the digest of the file that it measured; so figures of a file that somebody has changed since
//! are not shown, and those of a model that is not on the list any more are forgotten.

use nook_api::views::{KeptPrivacyView, PrivacyOfModelView};
use nook_api::{Answer, NodeError, sentence};
use nook_base::{ErrorCode, FileStamp, ModelDigest, PrivacyFigures};
use nook_model::ModelFile;
use nook_store::{FileError, Home, KeptFigures, PrivacyFile, PrivacyList};

use crate::state::State;

/// The figures, as they are on the disk.
#[derive(Debug)]
pub(crate) struct KeptPrivacy {
    file: PrivacyFile,
    list: PrivacyList,
    /// Why earlier ones are lost.
    problem: Option<String>,
}

impl KeptPrivacy {
    /// Reads them. Waits for the disk.
    pub(crate) fn read(home: &Home) -> Self {
        let file = PrivacyFile::of(home);
        let (list, problem) = match file.load() {
            Ok(list) => (list, None),
            Err(error) => {
                // It is measured anew, and the file is written again.
                tracing::warn!(%error, "what was measured of what helpers could read is lost");
                (PrivacyList::default(), Some(error.to_string()))
            }
        };
        Self { file, list, problem }
    }

    /// Puts `list` in the place of what is kept, on the disk first.
    fn replace(&mut self, list: PrivacyList) -> Result<(), FileError> {
        if list != self.list {
            self.file.save(&list)?;
            (self.list, self.problem) = (list, None);
        }
        Ok(())
    }
}

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

#[cfg(test)]
mod tests {
    use std::fs;

    use nook_base::ActivationDtype;
    use nook_store::HomeChoice;

    use super::*;

    fn kept(number: u8) -> KeptFigures {
        let figures = PrivacyFigures {
            measured_at: 1,
            tokens: 64,
            candidates: 2048,
            layers_before: 1,
            format: ActivationDtype::F16,
            nearest: 0.125,
            probe: 0.5,
            lens: 0.0,
            replay: 1.0,
            next: 0.25,
        };
        KeptFigures { model: ModelDigest([number; 32]), figures }
    }

    #[test]
    fn nothing_is_forgotten_that_the_disk_still_has() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&HomeChoice::At(folder.path().to_owned())).unwrap();
        let mut privacy = KeptPrivacy::read(&home);
        let both = PrivacyList::of(vec![kept(1), kept(2)]);
        privacy.replace(both.clone()).unwrap();
        assert_eq!(KeptPrivacy::read(&home).list, both);
        // A disk that takes nothing more: there is a folder in the place of the file.
        let path = home.data().join("privacy.json");
        fs::rename(&path, home.data().join("aside")).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("in-the-way"), "").unwrap();
        let one = both.without(|model| model == kept(1).model);
        assert!(privacy.replace(one.clone()).is_err());
        assert_eq!(privacy.list, both);
        fs::remove_dir_all(&path).unwrap();
        privacy.replace(one.clone()).unwrap();
        assert_eq!((&privacy.list, &KeptPrivacy::read(&home).list), (&one, &one));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_told_and_stands_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&HomeChoice::At(folder.path().to_owned())).unwrap();
        fs::write(home.data().join("privacy.json"), "not ours").unwrap();
        let mut privacy = KeptPrivacy::read(&home);
        assert_eq!(privacy.list, PrivacyList::default());
        let problem = privacy.problem.clone().unwrap_or_default();
        assert!(problem.contains("privacy.json is damaged"), "{problem}");
        privacy.replace(PrivacyList::of(vec![kept(1)])).unwrap();
        assert_eq!(privacy.problem, None);
        assert_eq!(KeptPrivacy::read(&home).list.models(), [kept(1)]);
    }
}
