//! Models of which only some tensors are here: their files, and what is allowed to lie there.
//!
//! In the folder of the models, `partial/DIGEST.gguf` is laid out like the whole file, its record
//! `DIGEST.gguf.present` says which tensors are here, and `DIGEST.manifest` proves each of them.
//! The steps in which file and record come and go are those of [`nook_model::presence`]. A partial
//! model is never given to other devices. It is in no list of models, unless the owner wanted its
//! ends alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use nook_base::ModelDigest;
use nook_fetch::{
    FILE_BYTES_MAX, FetchError, FileKey, FileRange, Folder, RangeCheck, RangeRecord, Slot,
    SparseFile,
};
use nook_model::{Manifest, ModelFile, Presence, PresenceError, TensorCheck};

use nook_store::partial_file_name;

use crate::part_failure::PartFailure;

/// What all partial models together may take, in bytes, until the caller says otherwise: one file
/// of the longest kind.
pub const PARTS_BYTES_MAX: u64 = FILE_BYTES_MAX;

/// A model of which only some tensors are here.
#[derive(Debug, Clone)]
pub struct PartialModel {
    /// The model.
    pub model: ModelDigest,
    /// Where its file is.
    pub path: PathBuf,
    /// The file. Which parts are in it, it says itself; the answer grows as tensors come.
    pub file: ModelFile,
    /// Bytes of its header and of the tensors that were here when this was made.
    pub bytes: u64,
    /// When it was last of use, in seconds since 1970.
    pub used: u64,
}

/// What is on the disk of a model whose place is held.
#[derive(Debug)]
pub(crate) enum Found {
    /// A file with its record and its manifest.
    Begun(Box<Begun>),
    /// Nothing that can be gone on with.
    Nothing(Slot),
}

/// A file that tensors can be added to.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) manifest: Manifest,
    pub(crate) file: ModelFile,
    pub(crate) sparse: SparseFile,
    pub(crate) presence: Presence,
}

/// Where the files of one partial model lie.
#[derive(Debug, Clone)]
pub(crate) struct PartialPlace {
    folder: Folder,
    model: ModelDigest,
}

/// Checks tensors by the manifest and keeps the record of those that are here.
#[derive(Debug)]
pub(crate) struct PartRecord {
    manifest: Manifest,
    presence: Presence,
    path: PathBuf,
}

/// Checks one tensor; nothing passes where the model has no such tensor.
#[derive(Debug)]
pub(crate) struct PartCheck(Option<TensorCheck>);

/// Bytes that the partial models of this device may take together. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct PartsBudget {
    // Never held across an await or a look at the disk.
    state: Arc<Mutex<BudgetState>>,
}

#[derive(Debug)]
struct BudgetState {
    most: u64,
    /// What each one takes, or may come to take.
    held: BTreeMap<ModelDigest, u64>,
    /// Those that count not: the owner asked for them.
    exempt: BTreeSet<ModelDigest>,
}

impl PartialPlace {
    pub(crate) fn new(folder: Folder, model: ModelDigest) -> Self {
        Self { folder, model }
    }

    /// The model file.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(partial_file_name(self.model))
    }

    fn manifest_path(&self) -> PathBuf {
        self.folder.path().join(format!("{}.manifest", self.model))
    }

    /// Takes the place, alone, and looks what is there. Waits for the disk.
    pub(crate) fn find(&self) -> Result<Found, PartFailure> {
        let slot = self.folder.claim(&FileKey::of_model(self.model))?;
        let Some((manifest, presence)) = self.kept() else { return Ok(Found::Nothing(slot)) };
        let file = ModelFile::open(&self.path()).map_err(|error| unusable(&error))?;
        let sparse = SparseFile::open(slot)?;
        Ok(Found::Begun(Box::new(Begun { manifest, file, sparse, presence })))
    }

    /// Manifest and record, where they and the file belong together and the header is whole.
    pub(crate) fn kept(&self) -> Option<(Manifest, Presence)> {
        let manifest = self.kept_manifest()?;
        let path = self.path();
        let presence = Presence::load(&path).ok().flatten()?;
        let is_its = presence.digest() == self.model
            && presence.file_bytes() == manifest.file_bytes()
            && presence.tensors() == manifest.tensors();
        let found = fs::symlink_metadata(&path).ok()?;
        if !is_its || !found.is_file() || found.len() != manifest.file_bytes() {
            return None;
        }
        let mut header = Vec::new();
        let file = File::open(&path).ok()?;
        file.take(manifest.header_bytes()).read_to_end(&mut header).ok()?;
        manifest.check_header(&header).is_ok().then_some((manifest, presence))
    }

    /// The manifest of the last run.
    fn kept_manifest(&self) -> Option<Manifest> {
        let mut bytes = Vec::new();
        let file = File::open(self.manifest_path()).ok()?;
        file.take(Manifest::BYTES_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
        Manifest::from_bytes_of(&bytes, self.model).ok()
    }

    /// Makes the file of the model with `header`, which [`Manifest::read_header`] has read, and
    /// with no tensor in it. What was there before goes. Waits for the disk.
    pub(crate) fn begin(
        &self,
        slot: Slot,
        manifest: Manifest,
        header: &[u8],
    ) -> Result<Begun, PartFailure> {
        let path = self.path();
        self.remove_files().map_err(|error| FetchError::disk(&path, &error))?;
        let presence = Presence::new(&manifest);
        store(&presence, &path)?;
        let mut sparse = SparseFile::open(slot)?;
        sparse.set_length(manifest.file_bytes())?;
        sparse.write_at(0, header)?;
        sparse.sync()?;
        let kept = self.manifest_path();
        let written = write(&kept, &manifest.to_bytes());
        written.map_err(|error| FetchError::disk(&kept, &error))?;
        let file = ModelFile::open(&path).map_err(|error| unusable(&error))?;
        Ok(Begun { manifest, file, sparse, presence })
    }

    /// Deletes everything of the model; fails while somebody writes it. Waits for the disk.
    pub(crate) fn discard(&self) -> Result<(), FetchError> {
        let slot = self.folder.claim(&FileKey::of_model(self.model))?;
        let removed = self.remove_files();
        removed.map_err(|error| FetchError::disk(&self.path(), &error))?;
        slot.discard()
    }

    /// The file goes before its record: without one it would look whole.
    fn remove_files(&self) -> io::Result<()> {
        let path = self.path();
        for path in [&path, &Presence::path_of(&path), &self.manifest_path()] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// The partial model as it is now, where it can be used. Waits for the disk.
    pub(crate) fn look(&self) -> Option<PartialModel> {
        let path = self.path();
        // A file without a record is not one of these, or just comes or goes.
        let record = Presence::load(&path).ok().flatten()?;
        if record.digest() != self.model {
            return None;
        }
        let file = match ModelFile::open(&path) {
            Ok(file) => file,
            Err(error) => {
                tracing::info!(%error, "layers of a model are here that cannot be used");
                return None;
            }
        };
        let bytes = bytes_here(&file);
        let changed = fs::metadata(Presence::path_of(&path)).and_then(|found| found.modified());
        let used = changed.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let used = used.map_or(0, |since| since.as_secs());
        Some(PartialModel { model: self.model, path, file, bytes, used })
    }
}

/// The partial models in `folder`. Waits for the disk.
pub(crate) fn scan(folder: &Folder) -> Vec<PartialModel> {
    let models = folder.keys().into_iter().filter_map(|key| key.as_str().parse().ok());
    models.filter_map(|model| PartialPlace::new(folder.clone(), model).look()).collect()
}

/// Bytes of the header and of the tensors that are in `file` now.
pub(crate) fn bytes_here(file: &ModelFile) -> u64 {
    let tensors = file.presence().map_or(0, |presence| presence.bytes(file.header()));
    tensors.saturating_add(file.header().data_start())
}

impl Begun {
    /// The tensors that are missing of `wanted`, each once.
    pub(crate) fn missing(&self, wanted: &[nook_base::ModelPart]) -> Vec<FileRange> {
        let ranges = wanted.iter().flat_map(|part| self.file.ranges_of(part));
        let missing = ranges.filter(|range| !self.presence.has(range.number));
        let by_number: BTreeMap<u32, FileRange> = missing
            .map(|range| {
                let number = range.number;
                (number, FileRange { number, start: range.start, bytes: range.bytes })
            })
            .collect();
        by_number.into_values().collect()
    }

    /// Its parts, for a fetch of ranges.
    pub(crate) fn into_record(self, path: PathBuf) -> (SparseFile, PartRecord) {
        let Self { manifest, sparse, presence, .. } = self;
        (sparse, PartRecord { manifest, presence, path })
    }
}

impl RangeRecord for PartRecord {
    type Check = PartCheck;

    fn check(&self, number: u32) -> PartCheck {
        PartCheck(self.manifest.tensor_check(number).ok())
    }

    fn record(&mut self, numbers: &[u32]) -> Result<(), FetchError> {
        for number in numbers {
            self.presence.mark(*number).map_err(|error| failed(&self.path, &error))?;
        }
        store(&self.presence, &self.path)
    }
}

impl RangeCheck for PartCheck {
    fn update(&mut self, bytes: &[u8]) {
        if let Some(check) = &mut self.0 {
            check.update(bytes);
        }
    }

    fn holds(self) -> bool {
        self.0.is_some_and(|check| check.finish().is_ok())
    }
}

impl PartsBudget {
    /// Nothing is taken yet.
    pub(crate) fn new(most: u64) -> Self {
        let state = BudgetState { most, held: BTreeMap::new(), exempt: BTreeSet::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// So much may be taken from now on.
    pub(crate) fn set_most(&self, most: u64) {
        self.state().most = most;
    }

    /// `model` takes so many bytes now.
    pub(crate) fn set(&self, model: ModelDigest, bytes: u64) {
        self.state().held.insert(model, bytes);
    }

    /// What `model` takes does not count: the owner asked for it.
    pub(crate) fn exempt(&self, model: ModelDigest) {
        self.state().exempt.insert(model);
    }

    /// It counts again.
    pub(crate) fn count(&self, model: ModelDigest) {
        self.state().exempt.remove(&model);
    }

    /// `model` takes nothing any more.
    pub(crate) fn forget(&self, model: ModelDigest) {
        self.state().held.remove(&model);
    }

    /// Lets `model` come to take so many bytes in all, or says how many it may take.
    pub(crate) fn reserve(&self, model: ModelDigest, bytes: u64) -> Result<(), u64> {
        let mut state = self.state();
        let others = state.counted().filter(|(of, _)| **of != model).map(|(_, bytes)| *bytes);
        let most = state.most.saturating_sub(others.fold(0, u64::saturating_add));
        if bytes > most && !state.exempt.contains(&model) {
            return Err(most);
        }
        state.held.insert(model, bytes);
        Ok(())
    }

    /// Bytes that all of them take beyond what they may.
    pub(crate) fn over(&self) -> u64 {
        let state = self.state();
        let all = state.counted().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        all.saturating_sub(state.most)
    }

    /// Bytes that are left beside the models that `is_needed` names.
    pub(crate) fn room(&self, is_needed: impl Fn(&ModelDigest) -> bool) -> u64 {
        let state = self.state();
        let needed = state.counted().filter(|(model, _)| is_needed(model));
        let needed = needed.fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        state.most.saturating_sub(needed)
    }

    fn state(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetState {
    fn counted(&self) -> impl Iterator<Item = (&ModelDigest, &u64)> {
        self.held.iter().filter(|(model, _)| !self.exempt.contains(model))
    }
}

fn store(presence: &Presence, path: &Path) -> Result<(), FetchError> {
    presence.store(path).map_err(|error| failed(path, &error))
}

/// What the system says of the record of the file at `path`.
fn failed(path: &Path, error: &PresenceError) -> FetchError {
    let kind = match error {
        PresenceError::File { kind, .. } => *kind,
        _ => io::ErrorKind::InvalidData,
    };
    FetchError::disk(&Presence::path_of(path), &io::Error::new(kind, error.to_string()))
}

fn unusable(error: &nook_model::ModelError) -> PartFailure {
    PartFailure::Unusable { reason: error.to_string() }
}

/// Replaces the file at `path` in one step.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Of the form that the library sweeps away where this was interrupted.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.new-{}", std::process::id()));
    let mut file = File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    drop(file);
    fs::rename(&draft, path)
}
