//! Reading model files: what each is, and why one cannot be used.

use std::io::ErrorKind;
use std::path::Path;

use nook_api::NodeError;
use nook_api::views::{Trouble, TroubleView, Wording};
use nook_base::{ErrorCode, Extent, ModelDigest};
use nook_model::ModelFile;
use nook_resources::catalogue::Entry;
use nook_resources::open_models::{FilePlace, Listed, open_file};
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
}

/// What a model file is: validated, then hashed whole. For the library, which knows no GGUF.
pub(crate) fn digest_of(path: &Path) -> Result<ModelDigest, String> {
    let file = ModelFile::open(path).map_err(|error| error.to_string())?;
    file.digest().map_err(|error| error.to_string())
}

/// Reads the header of every model. `is_away`: the folder of the library's own files is not there,
/// which is said once and not of each of them.
pub(crate) fn read(models: &[ModelEntry], is_away: bool) -> Found {
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
                let words = format!("{} cannot be used: {error}.", model.name);
                broken.push(TroubleView::new(words, unusable(model, &error)));
            }
        }
    }
    Found { entries, broken, missing }
}

/// What keeps a listed model from being used.
fn unusable(model: &ModelEntry, error: &NodeError) -> Trouble {
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
        FileState::Changed => return Err(changed("has changed")),
    }
    let file = open_file(&model.path)?;
    if model.extent == Extent::Ends && !has_ends(&file) {
        return Err(changed("lacks layers"));
    }
    Ok(Entry {
        listed: Listed {
            name: model.name.clone(),
            digest: model.digest,
            path: FilePlace::new(model.path.clone()),
        },
        file,
        built_in: model.built_in,
        added: model.imported,
        owned: model.owned,
        ends_only: model.extent == Extent::Ends,
    })
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
