//! The library as the house uses it: reading it at the start, adding and removing models.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nook_base::{ErrorCode, ModelDigest, clock};
use nook_model::ModelFile;
use nook_store::{
    FileStanding, FileState, ImportError, LibraryError, ModelEntry, ResolveError, Staged, Take,
};

pub(crate) use nook_api::sentence;
use nook_host::HostEvent;

use crate::house::{Answer, HouseError};
use crate::state::{Inside, State};
use crate::views::{ModelView, Trouble, TroubleView, Wording};
use nook_requester::Event;
use nook_resources::catalogue::Entry;
use nook_resources::shelf::{FilePlace, Listed, open_file};

/// What the library holds.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) entries: Vec<Entry>,
    /// Models whose file is missing or damaged.
    pub(crate) broken: Vec<TroubleView>,
    /// Models whose file is missing, by name.
    pub(crate) missing: Vec<String>,
}

/// What a model file is: validated, then hashed whole. For the library, which knows no GGUF.
pub(crate) fn digest_of(path: &Path) -> Result<ModelDigest, String> {
    let file = ModelFile::open(path).map_err(|error| error.to_string())?;
    file.digest().map_err(|error| error.to_string())
}

/// Reads the header of every model. `is_away`: the folder of the library's own files is not there, which
/// is said once and not of each of them.
pub(crate) fn read(models: &[ModelEntry], is_away: bool) -> Found {
    let (mut entries, mut broken, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for model in models {
        if model.state() == FileState::Missing {
            missing.push(model.name.clone());
        }
        match entry(model) {
            Ok(entry) => entries.push(entry),
            Err(error) => {
                tracing::warn!(model = model.name, %error, "left out");
                if is_away && model.owned && !model.built_in {
                    continue;
                }
                let words = format!("{} cannot be used: {error}.", model.name);
                broken.push(TroubleView::new(words, unusable(model, &error)));
            }
        }
    }
    Found { entries, broken, missing }
}

/// What keeps a listed model from being used.
fn unusable(model: &ModelEntry, error: &HouseError) -> Trouble {
    let (name, file) = (model.name.clone(), model.path.display().to_string());
    match model.state() {
        FileState::Missing => Trouble::ModelFileGone { model: name, file },
        FileState::Changed => Trouble::ModelFileChanged { model: name, file },
        FileState::Present => {
            Trouble::ModelUnreadable { model: name, reason: error.sentence.clone().into() }
        }
    }
}

/// A listed model with its header. Its length must be what it was when all of it was checked.
fn entry(model: &ModelEntry) -> Result<Entry, HouseError> {
    let changed = |what: &str| {
        HouseError::new(
            ErrorCode::BadModel,
            format!("the file {} {what}; import it again", model.path.display()),
        )
    };
    match model.state() {
        FileState::Present => {}
        FileState::Missing => return Err(changed("is gone")),
        FileState::Changed => return Err(changed("has changed")),
    }
    Ok(Entry {
        listed: Listed {
            name: model.name.clone(),
            digest: model.digest,
            path: FilePlace::new(model.path.clone()),
        },
        file: open_file(&model.path)?,
        built_in: model.built_in,
        added: model.imported,
        owned: model.owned,
    })
}

impl State {
    /// A model by name: exact, then ignoring case, then a unique beginning.
    pub(crate) fn model(&self, name: &str) -> Result<&Entry, HouseError> {
        let found = self.listed_model(name)?;
        let known = self.catalogue.iter().find(|entry| entry.digest() == found.digest);
        known.ok_or_else(|| {
            let away = self.away_error(ErrorCode::BadModel).filter(|_| found.owned);
            away.unwrap_or_else(|| {
                let words =
                    format!("The file of {} is missing or damaged; import it again.", found.name);
                HouseError::new(ErrorCode::BadModel, words)
                    .worded(Wording::ModelUnusable { model: found.name.clone() })
            })
        })
    }

    /// The model that answers where nobody has chosen one, for every door.
    pub(crate) fn default_model(&self) -> Option<String> {
        let newest = self.catalogue.iter().max_by_key(|entry| (!entry.built_in, entry.added));
        newest.map(|entry| entry.listed.name.clone())
    }

    fn listed_model(&self, name: &str) -> Result<&ModelEntry, HouseError> {
        self.library.resolve(name).map_err(|error| {
            let code = match &error {
                ResolveError::Unknown { .. } => ErrorCode::NotFound,
                ResolveError::Ambiguous { .. } => ErrorCode::BadRequest,
            };
            HouseError::new(code, sentence(&error.to_string()))
        })
    }

    /// Adds a file to the library where it lies: checked and hashed in a task of its own.
    pub(crate) fn import(
        &mut self,
        file: PathBuf,
        name: Option<String>,
        answer: Answer<ModelView>,
    ) {
        let (stager, inside) = (self.library.stager(), self.inside.clone());
        self.tasks.spawn_until_cancelled("import", async move {
            let staged = tokio::task::spawn_blocking(move || {
                stager.stage(&file, Take::InPlace, digest_of).map_err(|error| {
                    let wording = import_wording(&error);
                    let error = HouseError::new(ErrorCode::BadModel, sentence(&error.to_string()));
                    HouseError { wording, ..error }
                })
            });
            let staged = match staged.await {
                Ok(staged) => staged,
                Err(_) => Err(ErrorCode::BadModel.into()),
            };
            let checked = Inside::Imported { staged: Box::new(staged), name, answer };
            // A closed inbox means that the node is leaving.
            let _ = inside.send(checked).await;
        });
    }

    /// A file was checked: takes it into the list.
    pub(crate) fn imported(
        &mut self,
        staged: Result<Staged, HouseError>,
        name: Option<String>,
        answer: Answer<ModelView>,
    ) {
        let outcome = staged.and_then(|staged| self.take_in(staged, name.as_deref()));
        // Whoever imports a model looks at the list next, and may be quick.
        self.publish();
        let _ = answer.send(outcome);
    }

    /// Takes a checked file into the list; what is lent follows.
    pub(crate) fn take_in(
        &mut self,
        staged: Staged,
        name: Option<&str>,
    ) -> Result<ModelView, HouseError> {
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
        let adopted = self.library.adopt(staged, name, clock::unix_seconds());
        let model = adopted.map_err(|error| match error {
            ImportError::Away { .. } => self.found_away(ErrorCode::BadRequest),
            error => {
                let wording = import_wording(&error);
                let error = HouseError::new(ErrorCode::BadRequest, sentence(&error.to_string()));
                HouseError { wording, ..error }
            }
        })?;
        let mut entry = entry(&model)?;
        if let Some(known) = self.catalogue.iter().find(|known| known.digest() == entry.digest()) {
            // Whoever holds a copy of it hears when the file moves, or that another one took its place.
            known.listed.path.lies(&model.path);
            entry.listed.path = known.listed.path.clone();
        }
        self.catalogue.retain(|known| known.digest() != entry.digest());
        self.catalogue.push(entry.clone());
        self.library_changed();
        if is_known {
            // It may have been said that its file is gone.
            self.read_models();
        }
        Ok(entry.view(self.fits.of_model(entry.digest())))
    }

    /// Takes a model off the list.
    pub(crate) fn remove_model(&mut self, name: &str) -> Result<(), HouseError> {
        self.check_no_move()?;
        // Also one whose file is gone: that is how it leaves the list.
        let ModelEntry { digest, owned, built_in, .. } = *self.listed_model(name)?;
        if owned && !built_in {
            self.check_in_reach()?;
        }
        self.library.remove(digest).map_err(|error| {
            let code = match error {
                LibraryError::NoSuchModel => ErrorCode::NotFound,
                _ => ErrorCode::BadRequest,
            };
            HouseError::new(code, sentence(&error.to_string()))
        })?;
        if !self.catalogue.iter().any(|entry| entry.digest() == digest) {
            // It was said that its file is gone, or damaged.
            self.read_models();
        }
        self.catalogue.retain(|entry| entry.digest() != digest);
        self.library_changed();
        Ok(())
    }

    /// What is lent follows from what is here, and so does what earlier replies have left. Streams that run go on.
    pub(crate) fn library_changed(&mut self) {
        self.catalogue
            .sort_by(|a, b| (!a.built_in, &a.listed.name).cmp(&(!b.built_in, &b.listed.name)));
        self.tell_host(HostEvent::ModelsChanged);
        self.look_at_fits();
        self.ask(Event::ModelsChanged);
    }
}

/// Why a file did not come into the library, where the window has words for it.
fn import_wording(error: &ImportError) -> Option<Wording> {
    let shown = |path: &Path| path.display().to_string();
    match error {
        ImportError::NotAFile { path } => Some(Wording::NoFile { file: shown(path) }),
        ImportError::SourceChanged { path } => Some(Wording::FileChanges { file: shown(path) }),
        ImportError::BadModel { path, reason } => {
            Some(Wording::NoModel { file: shown(path), reason: reason.clone() })
        }
        ImportError::NameTaken { name } => Some(Wording::NameTaken { name: name.clone() }),
        ImportError::File(file) if file.kind == ErrorKind::StorageFull => Some(Wording::DiskFull),
        ImportError::BadName { .. }
        | ImportError::Away { .. }
        | ImportError::Full
        | ImportError::NoSuchModel
        | ImportError::File(_) => None,
    }
}
