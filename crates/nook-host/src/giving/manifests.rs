//! Manifests of the models that are given: worked out once for each file, and remembered.
//!
//! A manifest takes a pass over the whole file, so it is made when the first device asks for it, on
//! a thread that may wait. Whoever asks waits a while; where that is too short the call is refused
//! as busy, the work goes on, and the next question finds the result. Manifests are kept in memory
//! and, where a folder is named, on the disk for the next start.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nook_base::ModelDigest;
use nook_model::{Manifest, ModelFile};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::terms::Given;

/// Longest wait for a manifest that is being made. The taker waits for a minute without a byte
/// before it gives a device up; then it shall know better by an answer.
const MANIFEST_WAIT: Duration = Duration::from_secs(40);

/// Most manifests in memory; beyond it one that is given no more goes, else the first. With the
/// most tensors that a file may have, one is some megabytes; with usual ones it is 10 KiB.
const MANIFESTS_MAX: usize = 16;

/// What manifests on the disk are called behind their digest.
const ENDING: &str = ".manifest";

/// Why there is no manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoManifest {
    /// It takes longer, or another one is being made.
    Later,
    /// The file cannot be read, or has changed.
    Unreadable,
}

/// The manifests of this device. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Manifests {
    /// Where they are kept for the next start.
    folder: Option<PathBuf>,
    // Never held across an await or a look at the disk.
    known: Arc<Mutex<BTreeMap<Key, Outcome>>>,
}

/// Which file: the digest covers no bytes behind the weights, but a manifest says the length.
type Key = ([u8; 32], u64);

/// The manifest once it is there; that it failed where the sender is gone without one.
type Outcome = watch::Receiver<Option<Bytes>>;

impl Manifests {
    /// The same, kept in `folder`, which is made when it is needed.
    pub(super) fn kept_in(self, folder: PathBuf) -> Self {
        Self { folder: Some(folder), ..self }
    }

    /// The manifest of `model`, which lies in `file`; `given` is the list of what is given as long
    /// as this device gives anything.
    pub(super) async fn of(
        &self,
        model: ModelDigest,
        file: &ModelFile,
        given: watch::Receiver<Arc<Vec<Given>>>,
    ) -> Result<Bytes, NoManifest> {
        let mut outcome = self.begun(model, file, given)?;
        match tokio::time::timeout(MANIFEST_WAIT, outcome.wait_for(Option::is_some)).await {
            Ok(Ok(made)) => made.clone().ok_or(NoManifest::Unreadable),
            Ok(Err(_)) => Err(NoManifest::Unreadable),
            Err(_) => Err(NoManifest::Later),
        }
    }

    /// What is made or known of it; begins to make it, unless another one is being made: two passes
    /// at once would only share the disk.
    fn begun(
        &self,
        model: ModelDigest,
        file: &ModelFile,
        given: watch::Receiver<Arc<Vec<Given>>>,
    ) -> Result<Outcome, NoManifest> {
        let key = (model.0, file.file_bytes());
        let mut known = self.known();
        // One whose making failed is made again.
        known.retain(|_, it| it.borrow().is_some() || it.has_changed().is_ok());
        if let Some(outcome) = known.get(&key) {
            return Ok(outcome.clone());
        }
        if known.values().any(|it| it.borrow().is_none()) {
            return Err(NoManifest::Later);
        }
        if known.len() >= MANIFESTS_MAX {
            let listed = given.borrow();
            let is_given = |key: &Key| listed.iter().any(|given| given.model.0 == key.0);
            let gone = known.keys().find(|key| !is_given(key)).or_else(|| known.keys().next());
            if let Some(gone) = gone.copied() {
                known.remove(&gone);
            }
        }
        let (tell, outcome) = watch::channel(None);
        known.insert(key, outcome.clone());
        let (file, folder) = (file.clone(), self.folder.clone());
        // It asks again and again whether anybody is to be given the model: so it ends with the
        // node.
        spawn_blocking(move || {
            if let Some(manifest) = made(model, &file, folder.as_deref(), &given) {
                tell.send_replace(Some(manifest));
            }
        });
        Ok(outcome)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Key, Outcome>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the manifest from the disk or works it out. Waits for the disk.
fn made(
    model: ModelDigest,
    file: &ModelFile,
    folder: Option<&Path>,
    given: &watch::Receiver<Arc<Vec<Given>>>,
) -> Option<Bytes> {
    let kept = folder.map(|folder| folder.join(format!("{model}{ENDING}")));
    let is_it = |manifest: &Manifest| manifest.file_bytes() == file.file_bytes();
    if let Some(manifest) = kept.as_deref().and_then(|kept| read(kept, model)).filter(is_it) {
        return Some(manifest.to_bytes().into());
    }
    let is_given = || given.borrow().iter().any(|given| given.model == model);
    let is_over = || given.has_changed().is_err() || !is_given();
    let manifest = match file.manifest_unless(&is_over) {
        Ok(manifest) if manifest.digest() == model && is_it(&manifest) => manifest,
        Ok(_) => {
            tracing::warn!(?model, "the file of a model has changed; its manifest is not given");
            return None;
        }
        Err(error) => {
            // Where the file lies is nobody else's business.
            tracing::warn!(%error, "the manifest of a model cannot be made");
            return None;
        }
    };
    let bytes = manifest.to_bytes();
    if let (Some(folder), Some(kept)) = (folder, &kept) {
        let listed: Vec<ModelDigest> = given.borrow().iter().map(|given| given.model).collect();
        if let Err(error) = keep(folder, kept, &bytes, &listed) {
            // It is made again at the next start.
            tracing::debug!(%error, "a manifest could not be kept");
        }
    }
    Some(bytes.into())
}

/// The manifest of `model` at `path`, if it is one.
fn read(path: &Path, model: ModelDigest) -> Option<Manifest> {
    let most = Manifest::BYTES_MAX as u64;
    let file = fs::File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).ok()?;
    Manifest::from_bytes_of(&bytes, model).ok()
}

/// Writes a manifest in one step, and deletes those of models that are given no more: so there are
/// never more than models are given.
fn keep(folder: &Path, path: &Path, bytes: &[u8], given: &[ModelDigest]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        let digest = name.to_str().and_then(|name| name.strip_suffix(ENDING));
        let model = digest.and_then(|digest| digest.parse::<ModelDigest>().ok());
        if model.is_some_and(|model| !given.contains(&model)) {
            let _ = fs::remove_file(entry.path());
        }
    }
    // Of the form that the library sweeps away where this was interrupted.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.new-{}", std::process::id()));
    let mut file = fs::File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    drop(file);
    fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use nook_resources::file_place::FilePlace;

    use super::*;

    const EMBER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../nook-store/ember/ember-q8_0.gguf");

    #[tokio::test]
    async fn while_one_is_made_another_one_waits_and_after_a_failure_it_is_made_anew() {
        let file = ModelFile::open(Path::new(EMBER)).unwrap();
        let model = file.digest().unwrap();
        let place = FilePlace::new(EMBER.into());
        let given = Given { model, name: "amber".to_owned(), layers: 6, file: file.clone(), place };
        let (_give, given) = watch::channel(Arc::new(vec![given]));
        let manifests = Manifests::default();
        let (making, outcome) = watch::channel(None);
        manifests.known().insert(([9; 32], 9), outcome);
        let asked = manifests.of(model, &file, given.clone()).await;
        assert_eq!(asked, Err(NoManifest::Later));
        // It failed.
        drop(making);
        let made = manifests.of(model, &file, given.clone()).await.unwrap();
        assert!(Manifest::from_bytes_of(&made, model).is_ok());
        assert_eq!(manifests.known().len(), 1);
        assert_eq!(manifests.of(model, &file, given).await, Ok(made));
    }

    #[tokio::test]
    async fn a_pass_over_a_file_ends_when_nobody_is_given_it_any_more() {
        let file = ModelFile::open(Path::new(EMBER)).unwrap();
        let model = file.digest().unwrap();
        let (_give, given) = watch::channel(Arc::default());
        let asked = Manifests::default().of(model, &file, given).await;
        assert_eq!(asked, Err(NoManifest::Unreadable));
    }
}
