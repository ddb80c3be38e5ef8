//! Reading model files: what each is, and why one cannot be used.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use nook_api::NodeError;
use nook_api::views::{Trouble, TroubleView, Wording};
use nook_base::{ErrorCode, Extent, ModelDigest, NotedFile};
use nook_model::ModelFile;
use nook_resources::catalogue::Entry;
use nook_resources::file_place::FilePlace;
use nook_resources::open_models::{Listed, open_file};
use nook_store::{FileState, ImportError, ModelEntry};

use crate::kept_ends::KeptEnds;

/// What the library holds.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) entries: Vec<Entry>,
    /// Models whose file is missing or damaged.
    pub(crate) broken: Vec<TroubleView>,
    /// Models whose file is missing, by name.
    pub(crate) missing: Vec<String>,
    /// What the files of whole models were.
    pub(crate) states: States,
}

/// What the files of whole models are, by a look at each.
pub(crate) type States = BTreeMap<ModelDigest, FileState>;

/// Looks at the files of the whole models. Waits for the disk.
pub(crate) fn states(models: &[ModelEntry]) -> States {
    let whole = models.iter().filter(|model| model.extent == Extent::Whole);
    whole.map(|model| (model.digest, model.state())).collect()
}

/// What a model file is: validated, then hashed whole. For the library, which knows no GGUF.
pub(crate) fn digest_of(path: &Path) -> Result<ModelDigest, String> {
    let file = ModelFile::open(path).map_err(|error| error.to_string())?;
    file.digest().map_err(|error| error.to_string())
}

/// Reads the header of every model. `is_away`: the folder of the library's own files is not there,
/// which is said once and not of each of them.
pub(crate) fn read(models: &[ModelEntry], is_away: bool) -> Found {
    // Before the files are opened: what changes in between is seen by the next look.
    let states = states(models);
    let (mut entries, mut broken, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for model in models {
        if model.state() == FileState::Missing && model.extent == Extent::Whole {
            missing.push(model.name.clone());
        }
        match entry(model) {
            Ok(entry) => entries.push(entry),
            // They are taken again by themselves.
            Err(_) if model.extent == Extent::Ends => {}
            Err(error) => {
                tracing::warn!(model = model.name, %error, "left out");
                if is_away && model.owned && !model.built_in {
                    continue;
                }
                broken.push(unusable(model, &error));
            }
        }
    }
    Found { entries, broken, missing, states }
}

/// What keeps a listed model from being used.
fn unusable(model: &ModelEntry, error: &NodeError) -> TroubleView {
    let (name, file) = (model.name.clone(), model.path.display().to_string());
    let trouble = match model.state() {
        FileState::Missing => Trouble::ModelFileGone { model: name, file },
        FileState::Unsure => return being_read(model),
        FileState::Changed if !model.built_in => Trouble::ModelFileChanged { model: name, file },
        FileState::Changed | FileState::Present => {
            Trouble::ModelUnreadable { model: name, reason: error.sentence.clone().into() }
        }
    };
    TroubleView::new(format!("{} cannot be used: {error}.", model.name), trouble)
}

/// What is said of a model whose file is read again.
fn being_read(model: &ModelEntry) -> TroubleView {
    let (model, file) = (model.name.clone(), model.path.display().to_string());
    let words = format!(
        "{model} cannot be used yet: its file {file} may have changed, so all of it is read first."
    );
    TroubleView::new(words, Trouble::ModelFileBeingRead { model, file })
}

/// What whoever wants a model hears while its file is read again.
pub(crate) fn being_read_error(model: &ModelEntry) -> NodeError {
    let TroubleView { sentence, trouble } = being_read(model);
    let wording = trouble.map(|trouble| Wording::Trouble { trouble: Box::new(trouble) });
    NodeError { wording, ..NodeError::new(ErrorCode::BadModel, sentence) }
}

/// A listed model with its header. Its file must be what it was when all of it was digested.
pub(crate) fn entry(model: &ModelEntry) -> Result<Entry, NodeError> {
    let changed = |what: &str| {
        NodeError::new(
            ErrorCode::BadModel,
            format!("the file {} {what}; import it again", model.path.display()),
        )
    };
    match model.state() {
        FileState::Present => {}
        FileState::Missing => return Err(changed("is gone")),
        FileState::Changed if model.built_in => return Err(changed_built_in(model)),
        FileState::Changed => return Err(changed("has changed")),
        FileState::Unsure => return Err(being_read_error(model)),
    }
    let file = open_file(&NotedFile { path: model.path.clone(), stamp: model.stamp })?;
    if model.extent == Extent::Ends && !has_ends(&file) {
        return Err(changed("lacks layers"));
    }
    Ok(Entry {
        listed: Listed {
            name: model.name.clone(),
            digest: model.digest,
            path: FilePlace::noted(model.path.clone(), model.stamp),
        },
        file,
        built_in: model.built_in,
        added: model.imported,
        owned: model.owned,
        ends_only: model.extent == Extent::Ends,
    })
}

fn changed_built_in(model: &ModelEntry) -> NodeError {
    let file = model.path.display();
    let words = format!(
        "the file {file} has changed; close Inglenook and start it again, which puts it right"
    );
    NodeError::new(ErrorCode::BadModel, words)
}

/// Whether the least is in `file` that this device computes itself. One without a record of what
/// is in it would pass for whole.
fn has_ends(file: &ModelFile) -> bool {
    let parts = KeptEnds { prefix: 0, suffix: 0 }.parts(file.shape().layers);
    file.presence().is_some() && parts.iter().all(|part| file.has_part(part))
}

/// Why a file did not come into the library, where the window has words for it.
pub(crate) fn import_wording(error: &ImportError) -> Option<Wording> {
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
