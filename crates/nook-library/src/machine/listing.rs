//! Models join the list and leave it.

use nook_api::views::Wording;
use nook_api::{NodeError, sentence};
use nook_base::{ErrorCode, Extent, ModelDigest};
use nook_resources::catalogue::{self, Entry};
use nook_store::{FileStanding, ImportError, LibraryError, ModelEntry, ResolveError, Staged};

use super::ModelLibrary;
use crate::events::{Job, LibraryEffect, Surroundings};
use crate::reading::{entry, import_wording};

impl ModelLibrary {
    /// A model by name: exact, then ignoring case, then a unique beginning.
    pub fn model(&self, name: &str) -> Result<&Entry, NodeError> {
        let found = self.listed_model(name)?;
        let known = self.entries.iter().find(|entry| entry.digest() == found.digest);
        known.ok_or_else(|| {
            let away = self.away_error(ErrorCode::BadModel).filter(|_| found.owned);
            let coming = self.ends_download(found.digest).is_some().then(|| {
                let words = format!(
                    "What this computer needs of {} is still on its way; nook models says how \
                     far it is.",
                    found.name
                );
                let wording = Wording::EndsOnTheirWay { model: found.name.clone() };
                NodeError::new(ErrorCode::BadModel, words).worded(wording)
            });
            away.or(coming).or_else(|| self.being_read_error(found)).unwrap_or_else(|| {
                let words =
                    format!("The file of {} is missing or damaged; import it again.", found.name);
                NodeError::new(ErrorCode::BadModel, words)
                    .worded(Wording::ModelUnusable { model: found.name.clone() })
            })
        })
    }

    /// The model that answers where nobody has chosen one, in every front end.
    #[must_use]
    pub fn default_model(&self) -> Option<String> {
        catalogue::usual(&self.entries).map(|entry| entry.listed.name.clone())
    }

    fn listed_model(&self, name: &str) -> Result<&ModelEntry, NodeError> {
        self.library.resolve(name).map_err(|error| {
            let code = match &error {
                ResolveError::Unknown { .. } => ErrorCode::NotFound,
                ResolveError::Ambiguous { .. } => ErrorCode::BadRequest,
            };
            NodeError::new(code, sentence(&error.to_string()))
        })
    }

    /// Takes a checked file into the list; what is lent follows.
    pub(super) fn take_in(
        &mut self,
        staged: Staged,
        name: Option<&str>,
        around: &Surroundings<'_>,
    ) -> Result<ModelDigest, NodeError> {
        let is_known = match self.library.get(staged.digest()) {
            Some(known)
                if self.library.standing(known) != FileStanding::Whole && !self.is_lost(known) =>
            {
                // Its own file is whole, perhaps, where nobody can look now.
                self.check_in_reach()?;
                true
            }
            known => known.is_some(),
        };
        let adopted = self.library.adopt(staged, name, around.unix);
        let model = adopted.map_err(|error| match error {
            ImportError::Away { .. } => self.found_away(ErrorCode::BadRequest),
            error => {
                let wording = import_wording(&error);
                let error = NodeError::new(ErrorCode::BadRequest, sentence(&error.to_string()));
                NodeError { wording, ..error }
            }
        })?;
        let entry = self.read_in(&model)?;
        self.forget_ends(entry.digest());
        if self.parts.known.contains_key(&entry.digest()) {
            // It reads from a file with holes, and all layers may be wanted from now on.
            self.run(Job::CloseWhenIdle(entry.digest()));
        }
        self.library_changed();
        if is_known {
            // It may have been said that its file is gone.
            self.read_models();
        }
        Ok(entry.digest())
    }

    /// Reads the header of a listed model, and shows it from now on.
    pub(super) fn read_in(&mut self, model: &ModelEntry) -> Result<Entry, NodeError> {
        let mut entry = entry(model)?;
        if let Some(known) = self.entries.iter().find(|known| known.digest() == entry.digest()) {
            // Whoever holds a copy of it hears when the file moves, or that another one took its
            // place.
            known.listed.path.lies(&model.path, model.stamp);
            entry.listed.path = known.listed.path.clone();
        }
        self.entries.retain(|known| known.digest() != entry.digest());
        self.entries.push(entry.clone());
        Ok(entry)
    }

    /// Takes a model off the list.
    pub(super) fn remove_model(&mut self, name: &str) -> Result<(), NodeError> {
        self.check_no_move()?;
        // Also one whose file is gone: that is how it leaves the list.
        let ModelEntry { digest, owned, built_in, extent, .. } = *self.listed_model(name)?;
        if owned && !built_in {
            self.check_in_reach()?;
        }
        self.library.remove(digest).map_err(|error| {
            let code = match error {
                LibraryError::NoSuchModel => ErrorCode::NotFound,
                _ => ErrorCode::BadRequest,
            };
            NodeError::new(code, sentence(&error.to_string()))
        })?;
        if extent == Extent::Ends {
            // Else they would be taken again.
            self.forget_ends(digest);
            self.drop_ends(digest);
        } else {
            // A deleted file takes its space until nobody has it open.
            self.run(Job::CloseWhenIdle(digest));
        }
        if !self.entries.iter().any(|entry| entry.digest() == digest) {
            // It was said that its file is gone, or damaged.
            self.read_models();
        }
        self.entries.retain(|entry| entry.digest() != digest);
        self.library_changed();
        Ok(())
    }

    /// What is lent follows from what is here, and so does what earlier replies have left. Streams
    /// that run go on.
    pub(super) fn library_changed(&mut self) {
        self.entries
            .sort_by(|a, b| (!a.built_in, &a.listed.name).cmp(&(!b.built_in, &b.listed.name)));
        self.effects.push(LibraryEffect::ModelsChanged);
        self.drop_parts_of_whole();
    }
}
