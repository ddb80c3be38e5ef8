//! The model files of this device: which there are, under which names, and where.
//!
//! `models.json` lists them; the files lie in the folder `models`, or where the user keeps them.
//! What a model *is* (its digest, whether the file is valid) is `nook-model`'s knowledge: callers
//! pass it in as a function of a path. Importing has two steps, so that the long one needs no lock:
//! a [`Stager`] copies and checks a file, [`Library::adopt`] takes it into the list.
//!
//! The built-in model Ember is written out at the first start and compared byte by byte at every
//! later one. It stays with the home; the files of all other models lie where the owner wants them:
//! `moving` brings them there.

mod moving;
mod names;
mod staging;
mod standing;

use std::fs;
use std::path::{Path, PathBuf};

use nook_base::{Extent, FileStamp, ModelDigest};
use serde::{Deserialize, Serialize};

use crate::durable::{self, FileError, Readers};
use crate::home::Home;
use crate::json::{self, DocumentError};

pub use moving::{MOVE_RESERVE_BYTES, ModelsMove, MoveError, MovePlan, Stamps, recover_move};
pub use names::{MODEL_NAME_BYTES_MAX, ResolveError};
pub use staging::{ImportError, Staged, Stager, Take};
pub use standing::{FileStanding, FileState, stamp_before_digest};

const INDEX_FILE: &str = "models.json";
const FOLDER: &str = "models";
const PARTIAL: &str = "partial";
const MANIFESTS: &str = "manifests";
const VERSION: u64 = 1;

/// Most models in the list; a further import is refused.
pub const MODELS_MAX: usize = 1024;

/// The name of the built-in model.
pub const EMBER: &str = "ember";

const EMBER_FILE: &str = "ember-q8_0.gguf";
static EMBER_BYTES: &[u8] = include_bytes!("../ember/ember-q8_0.gguf");

/// One model of this device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEntry {
    /// Which model, exactly.
    pub digest: ModelDigest,
    /// Its name on this device; unique without regard to case.
    pub name: String,
    /// Where its file is.
    pub path: PathBuf,
    /// Length of the file when it was imported, in bytes.
    pub bytes: u64,
    /// When it was imported, in seconds since 1970.
    pub imported: u64,
    /// Whether it is part of the product.
    pub built_in: bool,
    /// Whether the file is the library's own, to be deleted with the entry.
    pub owned: bool,
    /// How much of the model is wanted here. The file of its ends lies in
    /// [`Library::partial_folder`], and whoever takes tensors into it also deletes it.
    pub extent: Extent,
    /// What the file was when all of it was digested. Absent in lists of earlier versions, and for
    /// ends, whose tensors have digests of their own.
    pub stamp: Option<FileStamp>,
    /// What the file was when all of it was digested again and found to be another model.
    pub other: Option<FileStamp>,
}

/// The models of one home. A clone is what the list was at that moment: for looks at the disk that
/// wait.
#[derive(Debug, Clone)]
pub struct Library {
    /// The folder in the home: Ember's, and everybody's unless the owner has chosen another one.
    usual: PathBuf,
    /// The folder that the owner has chosen.
    chosen: Option<PathBuf>,
    index: PathBuf,
    ember: EmberNote,
    models: Vec<ModelEntry>,
}

/// The library cannot be opened or changed. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// The list cannot be used.
    #[error("the list of models cannot be used: {0}")]
    Document(#[from] DocumentError),
    /// A file that the system refuses.
    #[error(transparent)]
    File(#[from] FileError),
    /// The built-in model is not what this build expects.
    #[error("the built-in model cannot be used: {reason}")]
    BuiltIn {
        /// Why.
        reason: String,
    },
    /// The built-in model stays.
    #[error("`{EMBER}` is part of Inglenook and cannot be removed or renamed")]
    CannotRemoveBuiltIn,
    /// No such model.
    #[error("this model is not on this device")]
    NoSuchModel,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u64,
    ember: EmberNote,
    models: Vec<IndexEntry>,
}

/// What the built-in file's digest was worked out to be, and for which bytes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct EmberNote {
    blake3: String,
    digest: String,
    imported: u64,
}

#[derive(Serialize, Deserialize)]
struct IndexEntry {
    name: String,
    digest: String,
    bytes: u64,
    imported: u64,
    file: Place,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<FileStamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    /// A plain file name in the library's folder.
    Library(String),
    /// A whole path elsewhere.
    Elsewhere(#[serde(with = "nook_base::paths::lossless")] PathBuf),
    /// The ends of the model alone, among the partial files.
    Ends,
}

impl Library {
    /// Opens the library of `home` and sees to it that Ember is there and whole. Its other files
    /// lie in the folder `chosen`, or in the usual one.
    ///
    /// A chosen folder is never made here: its disk may not be plugged in, and an empty folder in
    /// its place would take what belongs there. See [`Library::is_there`].
    ///
    /// `digest_of` validates a model file and says what it is; it is asked for Ember at the first
    /// start of each build.
    pub fn open(
        home: &Home,
        chosen: Option<&Path>,
        now: u64,
        digest_of: impl FnOnce(&Path) -> Result<ModelDigest, String>,
    ) -> Result<Self, LibraryError> {
        let (usual, index) = (home.file(FOLDER), home.file(INDEX_FILE));
        durable::create_private_folder(&usual)?;
        durable::sweep(&usual);
        // A name for the usual folder is the usual folder.
        let chosen = chosen.filter(|chosen| !moving::same(chosen, &usual));
        let document: Option<Document> = json::load(&index, VERSION)?;
        let (noted, listed) =
            document.map_or_else(Default::default, |found| (found.ember, found.models));
        let (ember, ember_entry, is_news) = place_ember(&usual, noted, now, digest_of)?;
        let chosen = chosen.map(Path::to_owned);
        let mut library = Self { usual, chosen, index, ember, models: vec![ember_entry] };
        for entry in listed {
            library.take_listed(entry)?;
        }
        if is_news {
            library.save(&library.models)?;
        }
        library.see_to_chosen(home);
        durable::sweep(&library.partial_folder());
        durable::sweep(&library.manifests_folder());
        Ok(library)
    }

    /// All models, Ember first.
    #[must_use]
    pub fn models(&self) -> &[ModelEntry] {
        &self.models
    }

    /// The model `digest`.
    #[must_use]
    pub fn get(&self, digest: ModelDigest) -> Option<&ModelEntry> {
        self.models.iter().find(|model| model.digest == digest)
    }

    /// The model that a person means by `name`: the whole name, the name in another case, the
    /// digest, or a beginning that only one name has. Never a path.
    pub fn resolve(&self, name: &str) -> Result<&ModelEntry, ResolveError> {
        names::resolve(&self.models, name)
    }

    /// The name that a model will have: `wished`, if it can be had, else one made of its file's.
    pub fn name_for(&self, wished: Option<&str>, file: &Path) -> Result<String, ImportError> {
        match wished {
            Some(name) => names::check_new(&self.models, name),
            None => Ok(names::make(&self.models, file)),
        }
    }

    /// What copies and checks files for [`Library::adopt`], on any thread.
    #[must_use]
    pub fn stager(&self) -> Stager {
        Stager::new(self.folder().to_owned())
    }

    /// Where the library's own files lie, but for Ember's.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.chosen.as_deref().unwrap_or(&self.usual)
    }

    /// The folder in the home, where they lie unless the owner has chosen another one.
    #[must_use]
    pub fn usual_folder(&self) -> &Path {
        &self.usual
    }

    /// Where unfinished downloads lie: in that folder, so that a finished one moves without a copy.
    #[must_use]
    pub fn downloads_folder(&self) -> PathBuf {
        self.folder().join(moving::DOWNLOADS)
    }

    /// Where files lie that hold only some layers of a model. They are no models of this list:
    /// whoever takes layers finds them there by the digest in their names.
    #[must_use]
    pub fn partial_folder(&self) -> PathBuf {
        self.folder().join(PARTIAL)
    }

    /// Where such a file of `model` lies.
    #[must_use]
    pub fn partial_file(&self, model: ModelDigest) -> PathBuf {
        self.partial_folder().join(partial_file_name(model))
    }

    /// Where the manifests of models are kept that are given to other devices: with the home, for
    /// they are small, and made again where they are lost.
    #[must_use]
    pub fn manifests_folder(&self) -> PathBuf {
        self.usual.join(MANIFESTS)
    }

    /// Whether the owner has chosen no folder.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        self.chosen.is_none()
    }

    /// Whether that folder is there and the one that is meant, by a look at the disk. The empty
    /// folder on which a disk is to appear is not.
    #[must_use]
    pub fn is_there(&self) -> bool {
        match &self.chosen {
            None => true,
            Some(chosen) if moving::is_marked(chosen) => true,
            Some(_) => self.own_files().any(|model| model.state() != FileState::Missing),
        }
    }

    /// Marks a chosen folder that its files prove and that has no mark, and takes away what
    /// interrupted imports left there; all else in it may be the user's.
    fn see_to_chosen(&self, home: &Home) {
        let Some(chosen) = self.chosen.as_deref().filter(|_| self.is_there()) else { return };
        if !moving::is_marked(chosen)
            && let Err(error) = moving::mark(home, chosen)
        {
            tracing::warn!(%error, "the folder of the models has no mark");
        }
        durable::sweep_of(chosen, &[staging::IMPORT, moving::MARK_FILE]);
    }

    /// The models whose files are moved with the folder.
    fn own_files(&self) -> impl Iterator<Item = &ModelEntry> {
        self.models.iter().filter(|model| model.is_moved())
    }

    /// Takes a staged file into the list under `name`, or under a name made of its file's. A model
    /// that is there already stays as it is, and is returned. One whose file is gone or changed
    /// keeps its name, and is found in the new file from then on; what lies in its old place stays
    /// there. While the folder is away nobody knows which of them is gone.
    pub fn adopt(
        &mut self,
        staged: Staged,
        name: Option<&str>,
        now: u64,
    ) -> Result<ModelEntry, ImportError> {
        let known = self.models.iter().position(|model| model.digest == staged.digest());
        let (name, imported) = match known.and_then(|at| self.models.get(at)) {
            // All of it is here now, where only its ends were wanted.
            Some(known) if known.extent == Extent::Ends => (known.name.clone(), known.imported),
            Some(known) => match self.standing(known) {
                FileStanding::Whole => return self.adopt_known(&staged),
                FileStanding::Away => {
                    return Err(ImportError::Away { folder: self.folder().into() });
                }
                FileStanding::Lost => (known.name.clone(), known.imported),
            },
            None if self.models.len() >= MODELS_MAX => return Err(ImportError::Full),
            None => match name {
                Some(name) => (names::check_new(&self.models, name)?, now),
                None => (names::make(&self.models, staged.source()), now),
            },
        };
        let (digest, bytes) = (staged.digest(), staged.bytes());
        let settled = staged.settle(self.folder(), &name)?;
        let (path, owned) = (settled.path().to_owned(), settled.is_owned());
        let entry = ModelEntry {
            digest,
            name,
            path,
            bytes,
            imported,
            built_in: false,
            owned,
            extent: Extent::Whole,
            stamp: settled.stamp(),
            other: None,
        };
        let mut models = self.models.clone();
        match known.and_then(|at| models.get_mut(at)) {
            Some(lost) => *lost = entry.clone(),
            None => models.push(entry.clone()),
        }
        if let Err(error) = self.save(&models) {
            settled.undo();
            return Err(error.into());
        }
        self.models = models;
        Ok(entry)
    }

    /// Takes nothing: the model is there. Where its own file has just been digested, that is noted.
    fn adopt_known(&mut self, staged: &Staged) -> Result<ModelEntry, ImportError> {
        let digest = staged.digest();
        let known = self.get(digest).ok_or(ImportError::NoSuchModel)?;
        if known.state() == FileState::Unsure && known.path == staged.source() {
            self.confirm(digest, staged.stamp())?;
        }
        self.get(digest).cloned().ok_or(ImportError::NoSuchModel)
    }

    /// Lists a model of which only the ends are here, in a file of `bytes` bytes. One that is listed
    /// already stays as it is, and is returned.
    pub fn list_ends(
        &mut self,
        digest: ModelDigest,
        name: &str,
        bytes: u64,
        now: u64,
    ) -> Result<ModelEntry, ImportError> {
        if let Some(known) = self.get(digest) {
            return Ok(known.clone());
        }
        if self.models.len() >= MODELS_MAX {
            return Err(ImportError::Full);
        }
        let entry = ModelEntry {
            digest,
            name: names::check_new(&self.models, name)?,
            path: self.partial_file(digest),
            bytes,
            imported: now,
            built_in: false,
            owned: true,
            extent: Extent::Ends,
            stamp: None,
            other: None,
        };
        let mut models = self.models.clone();
        models.push(entry.clone());
        self.save(&models)?;
        self.models = models;
        Ok(entry)
    }

    /// Gives a model another name.
    pub fn rename(&mut self, digest: ModelDigest, name: &str) -> Result<(), ImportError> {
        let mut models = self.models.clone();
        let Some(place) = models.iter().position(|model| model.digest == digest && !model.built_in)
        else {
            return Err(ImportError::NoSuchModel);
        };
        let mut entry = models.remove(place);
        entry.name = names::check_new(&models, name)?;
        models.insert(place, entry);
        self.save(&models)?;
        self.models = models;
        Ok(())
    }

    /// Takes a model off the list; its file goes with it where it is the library's own and whole.
    pub fn remove(&mut self, digest: ModelDigest) -> Result<(), LibraryError> {
        let entry = self.get(digest).ok_or(LibraryError::NoSuchModel)?.clone();
        if entry.built_in {
            return Err(LibraryError::CannotRemoveBuiltIn);
        }
        let mut models = self.models.clone();
        models.retain(|model| model.digest != digest);
        // The list first: a file without an entry is litter, an entry without a file is a puzzle.
        self.save(&models)?;
        self.models = models;
        if entry.owned && entry.extent == Extent::Whole {
            durable::remove(&entry.path)?;
        }
        Ok(())
    }

    /// Takes in an entry of the file, whose text is not believed.
    fn take_listed(&mut self, entry: IndexEntry) -> Result<(), LibraryError> {
        let damaged = |reason: String| json::damaged(&self.index, reason);
        let shown = entry.name.escape_debug().to_string();
        let name = names::check_new(&self.models, &entry.name)
            .map_err(|error| damaged(format!("model `{shown}`: {error}")))?;
        let digest: ModelDigest =
            entry.digest.parse().map_err(|error| damaged(format!("model `{shown}`: {error}")))?;
        let (path, owned, extent) = match entry.file {
            Place::Library(file) if names::is_plain_file(&file) => {
                (self.folder().join(file), true, Extent::Whole)
            }
            Place::Elsewhere(path) if path.is_absolute() => (path, false, Extent::Whole),
            Place::Ends => (self.partial_file(digest), true, Extent::Ends),
            _ => {
                return Err(damaged(format!("model `{shown}` has a file that is no place")).into());
            }
        };
        if self.get(digest).is_some() {
            // Ember of this build was imported by hand under an earlier one.
            return Ok(());
        }
        self.models.push(ModelEntry {
            digest,
            name,
            path,
            bytes: entry.bytes,
            imported: entry.imported,
            built_in: false,
            owned,
            extent,
            stamp: entry.stamp.filter(|_| extent == Extent::Whole),
            other: None,
        });
        Ok(())
    }

    fn save(&self, models: &[ModelEntry]) -> Result<(), FileError> {
        let document = Document {
            version: VERSION,
            ember: self.ember.clone(),
            models: models.iter().filter(|model| !model.built_in).map(IndexEntry::from).collect(),
        };
        json::save(&self.index, &document)
    }
}

/// What a file with only some tensors of `model` is called.
#[must_use]
pub fn partial_file_name(model: ModelDigest) -> String {
    format!("{model}.gguf")
}

impl From<&ModelEntry> for IndexEntry {
    fn from(model: &ModelEntry) -> Self {
        let file = model.path.file_name().unwrap_or_default().to_string_lossy();
        Self {
            name: model.name.clone(),
            digest: model.digest.to_string(),
            bytes: model.bytes,
            imported: model.imported,
            file: match (model.extent, model.owned) {
                (Extent::Ends, _) => Place::Ends,
                (Extent::Whole, true) => Place::Library(file.into_owned()),
                (Extent::Whole, false) => Place::Elsewhere(model.path.clone()),
            },
            stamp: model.stamp,
        }
    }
}

/// Writes Ember out where it is missing or damaged, and works out its digest where this build's is
/// not known yet. Says whether the note is new.
fn place_ember(
    folder: &Path,
    noted: EmberNote,
    now: u64,
    digest_of: impl FnOnce(&Path) -> Result<ModelDigest, String>,
) -> Result<(EmberNote, ModelEntry, bool), LibraryError> {
    let path = folder.join(EMBER_FILE);
    let whole = blake3::hash(EMBER_BYTES);
    let is_link = fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
    let mut stamp = stamp_before_digest(&path).ok();
    let found = durable::read(&path)?.map(|bytes| blake3::hash(&bytes));
    if found != Some(whole) || is_link {
        if found.is_some() {
            tracing::warn!(file = %path.display(), "the built-in model was damaged and is restored");
        }
        durable::write(&path, EMBER_BYTES, Readers::Default)?;
        stamp = fs::metadata(&path).ok().map(|found| FileStamp::of(&found));
    }
    let blake3 = whole.to_hex().to_string();
    let known: Option<ModelDigest> = noted.digest.parse().ok().filter(|_| noted.blake3 == blake3);
    let (note, digest, is_news) = match known {
        Some(digest) => (noted, digest, false),
        None => {
            let digest = digest_of(&path).map_err(|reason| LibraryError::BuiltIn { reason })?;
            let note = EmberNote { blake3, digest: digest.to_string(), imported: now };
            (note, digest, true)
        }
    };
    let entry = ModelEntry {
        digest,
        name: EMBER.to_owned(),
        path,
        bytes: EMBER_BYTES.len() as u64,
        imported: note.imported,
        built_in: true,
        owned: true,
        extent: Extent::Whole,
        stamp,
        other: None,
    };
    Ok((note, entry, is_news))
}
