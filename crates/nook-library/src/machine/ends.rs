//! Models of which this device keeps only its own ends: embedding, first and last layers, head.
//!
//! An ends copy is a download of the list like any other. What brings its bytes is what also brings
//! layers for lending ([`super::parts`]): tensors that are checked one by one, into a file with
//! holes. Once the ends are there the model joins the list. What is missing of a listed one, because
//! its file was lost, the folder was changed or more layers are to stay here, is taken again by
//! itself.

use std::collections::BTreeSet;

use nook_api::NodeError;
use nook_base::{Extent, ModelDigest};
use nook_fetch::{HouseSource, Progress};
use nook_model::ModelFile;
use nook_store::{DownloadEntry, DownloadWish};
use tokio::sync::watch;

use super::ModelLibrary;
use super::endings::AtNextStart;
use super::fetching::refused;
use crate::downloads::{Stage, UnderWay};
use crate::events::{Job, Surroundings};
use crate::kept_ends::KeptEnds;
use crate::part_failure::PartFailure;
use crate::troubles;

impl ModelLibrary {
    /// Begins to take the ends that `source` names, or goes on with that.
    pub(super) fn begin_ends(&mut self, key: &str, source: &HouseSource) {
        let model = source.model();
        let Some(layers) = self.layers_of(model) else {
            return self.fail_download(
                key,
                troubles::of_part(&PartFailure::NoHolder),
                AtNextStart::GoesOn,
            );
        };
        let have = self.parts.known.get(&model).map_or(0, |known| known.bytes);
        let (_, told) = watch::channel(Progress { have, ..Progress::default() });
        let stop = self.lifetime.child_token();
        let under_way = UnderWay::new(stop, told, Stage::Loading);
        self.downloads.under_way.insert(key.to_owned(), under_way);
        self.parts.keep(model);
        let first: BTreeSet<_> = self.copies.first.get(key).copied().into_iter().collect();
        for part in self.kept_ends.parts(layers) {
            if !self.wait_for_part(model, part, first.clone()) {
                self.ends_failed(model, &PartFailure::TooMany);
                return;
            }
        }
        self.start_parts();
    }

    /// Layers of a model, by its own file or else by what a device that has it says.
    fn layers_of(&self, model: ModelDigest) -> Option<u32> {
        let known = self.parts.known.get(&model).map(|known| known.file.shape().layers);
        known.or_else(|| {
            let holders = self.copies.holders.borrow();
            let said = holders.values().find_map(|holder| holder.model(model));
            said.map(|said| said.layers)
        })
    }

    /// The ends of `model` among the downloads.
    pub(super) fn ends_download(&self, model: ModelDigest) -> Option<&DownloadEntry> {
        let is_it = |entry: &&DownloadEntry| ends_of(entry) == Some(model);
        self.downloads.list.entries().iter().find(is_it)
    }

    /// A job that takes parts of `model` tells how far it is.
    pub(super) fn follow_ends(&mut self, model: ModelDigest, told: &watch::Receiver<Progress>) {
        let Some(key) = self.ends_download(model).map(|entry| entry.key.clone()) else { return };
        if let Some(under_way) = self.downloads.under_way.get_mut(&key) {
            under_way.told = told.clone();
        }
    }

    /// Parts of `model` have come: perhaps all that was wanted.
    pub(super) fn ends_came(&mut self, model: ModelDigest, around: &Surroundings<'_>) {
        let Some(entry) = self.ends_download(model).cloned() else { return };
        // Also where another device's request has brought them while this one rested.
        if !self.parts.known.get(&model).is_some_and(|it| self.has_ends(&it.file)) {
            return;
        }
        match self.list_ends(model, &entry, around) {
            Ok(()) => {
                self.downloads.under_way.remove(&entry.key);
                self.forget_download(&entry.key);
                self.read_models();
            }
            Err(error) => self.fail_download(&entry.key, error.into(), AtNextStart::Rests),
        }
    }

    fn list_ends(
        &mut self,
        model: ModelDigest,
        entry: &DownloadEntry,
        around: &Surroundings<'_>,
    ) -> Result<(), NodeError> {
        let Some(known) = self.parts.known.get(&model) else { return Ok(()) };
        let bytes = known.file.file_bytes();
        let name = self.free_name(&entry.name).unwrap_or_else(|| model.short());
        let listed = self.library.list_ends(model, &name, bytes, around.unix);
        let listed = listed.map_err(|error| refused(&error.to_string()))?;
        // It is shown as a model before the download is gone: who follows it sees no gap.
        self.read_in(&listed)?;
        self.library_changed();
        tracing::info!(?model, name = listed.name, "its ends are here");
        Ok(())
    }

    /// Parts of `model` did not come.
    pub(super) fn ends_failed(&mut self, model: ModelDigest, why: &PartFailure) {
        // One that was deleted is in no list, and one that rests hears of others' failures.
        let Some(key) = self.ends_download(model).map(|entry| entry.key.clone()) else { return };
        if !self.downloads.under_way.contains_key(&key) {
            return;
        }
        match why {
            PartFailure::Stopped | PartFailure::NoHolder | PartFailure::FolderAway => {
                self.downloads.rested(&key);
            }
            why => {
                let again = match why {
                    PartFailure::Unusable { .. } | PartFailure::NoSuchLayers { .. } => {
                        AtNextStart::Rests
                    }
                    _ => AtNextStart::GoesOn,
                };
                self.fail_download(&key, troubles::of_part(why), again);
            }
        }
    }

    /// The owner wants an ends copy no more; it is off the list of downloads already.
    pub(super) fn delete_ends(&mut self, key: &str, model: ModelDigest) -> Result<(), NodeError> {
        self.downloads.under_way.remove(key);
        match self.library.get(model).filter(|known| known.extent == Extent::Ends) {
            Some(known) => {
                let name = known.name.clone();
                self.remove_model(&name)
            }
            None => {
                self.drop_ends(model);
                Ok(())
            }
        }
    }

    /// The ends of `model` are of no use to this device any more. They go when no worker has them
    /// open and nothing of them is lent.
    pub(super) fn drop_ends(&mut self, model: ModelDigest) {
        self.forget_ends(model);
        if self.parts.needed.contains(&model) {
            self.parts.leaving.insert(model);
            self.stop_part(model);
            self.run(Job::CloseWhenIdle(model));
        } else {
            self.forget_part(model);
        }
    }

    /// What is of use now has changed: what was to go and is not goes.
    pub(super) fn drop_leaving(&mut self) {
        let needed = &self.parts.needed;
        let free = self.parts.leaving.iter().filter(|model| !needed.contains(model));
        for model in free.copied().collect::<Vec<_>>() {
            self.parts.leaving.remove(&model);
            self.forget_part(model);
        }
    }

    /// The ends of `model` are not to be taken any more, because they are to go or all of it came.
    pub(super) fn forget_ends(&mut self, model: ModelDigest) {
        self.parts.let_go(model);
        if let Some(key) = self.ends_download(model).map(|entry| entry.key.clone()) {
            self.downloads.under_way.remove(&key);
            self.forget_download(&key);
        }
    }

    /// Whether all is in `file` that this device keeps of a model.
    fn has_ends(&self, file: &ModelFile) -> bool {
        let parts = self.kept_ends.parts(file.shape().layers);
        parts.iter().all(|part| file.has_part(part))
    }

    /// So many layers stay here from now on.
    pub(super) fn keep_ends(&mut self, kept: KeptEnds, around: &Surroundings<'_>) {
        if self.kept_ends != kept {
            self.kept_ends = kept;
            self.look_at_ends(around);
        }
    }

    /// Lists for taking what is missing of the listed models of which the ends are wanted.
    pub(super) fn look_at_ends(&mut self, around: &Surroundings<'_>) {
        if self.moving.holds() {
            return;
        }
        let listed = self.library.models().iter().filter(|model| model.extent == Extent::Ends);
        let lacking: Vec<_> = listed
            .filter(|model| {
                let known = self.parts.known.get(&model.digest);
                !known.is_some_and(|known| self.has_ends(&known.file))
                    && self.ends_download(model.digest).is_none()
            })
            .map(|model| (model.digest, model.name.clone()))
            .collect();
        if lacking.is_empty() {
            return;
        }
        for (model, name) in lacking {
            tracing::info!(?model, name, "its ends are not all here and are taken again");
            let source = HouseSource::new(model, &name).ends();
            let entry = DownloadEntry {
                key: source.key().as_str().to_owned(),
                source: source.to_string(),
                name,
                wish: DownloadWish::Run,
                added: around.unix,
            };
            if let Err(error) = self.downloads.list.put(entry) {
                tracing::warn!(%error, "the ends of a model are not taken again");
            }
        }
        self.start_downloads();
    }
}

/// The model of which an entry of the downloads takes the ends.
pub(crate) fn ends_of(entry: &DownloadEntry) -> Option<ModelDigest> {
    let source: HouseSource = entry.source.parse().ok()?;
    (source.extent() == Extent::Ends).then(|| source.model())
}
