//! Layers of models that were asked for: what waits, what is under way, and what is here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use nook_base::{ModelDigest, ModelPart, PeerId};
use nook_fetch::{Folder, Progress, Seats};
use nook_resources::catalogue::{Entry, PartialEntry};
use nook_resources::file_place::FilePlace;
use nook_resources::open_models::Listed;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::part_failure::PartFailure;
use crate::partial::{PARTS_BYTES_MAX, PartialModel, PartsBudget, scan};

/// Models whose layers are taken at once; further ones wait. More would only share the line.
pub const PARTS_RUNNING_MAX: usize = 2;

/// Models whose layers may be asked for at once; one more is refused.
pub const PARTS_ASKED_MAX: usize = 16;

/// Different parts of one model that may be asked for at once; one more is refused.
pub const PARTS_OF_ONE_MAX: usize = 16;

/// Layers that a node wants to have.
#[derive(Debug, Clone)]
pub struct PartWish {
    /// The model.
    pub model: ModelDigest,
    /// What it is called, for the log.
    pub name: String,
    /// The part of it.
    pub part: ModelPart,
    /// Devices that are asked before others; which ones give the model at all, their HAVE says.
    pub holders: BTreeSet<PeerId>,
}

/// What became of a [`PartWish`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartNotice {
    /// The part is here and can be loaded from this file.
    Present {
        /// The model.
        model: ModelDigest,
        /// The file.
        path: PathBuf,
        /// The part.
        part: ModelPart,
    },
    /// The part is not here.
    Failed {
        /// The model.
        model: ModelDigest,
        /// The part.
        part: ModelPart,
        /// Why.
        why: PartFailure,
    },
    /// Nothing of the model is here any more.
    Gone {
        /// The model.
        model: ModelDigest,
    },
}

/// The partial models of this device.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) folder: Folder,
    /// What is here, as of the last end of a job or look at the folder.
    pub(crate) known: BTreeMap<ModelDigest, PartialModel>,
    /// The same, for whoever lends it.
    entries: Vec<PartialEntry>,
    /// What waits, in the order in which it was asked for.
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) under_way: BTreeMap<ModelDigest, UnderWay>,
    /// Models that are of use now; they stay, whatever the cap.
    pub(crate) needed: BTreeSet<ModelDigest>,
    /// Models of which the owner wants the ends; they stay, and count towards no cap.
    own: BTreeSet<ModelDigest>,
    /// Models that go as soon as they are not of use any more.
    pub(crate) leaving: BTreeSet<ModelDigest>,
    pub(crate) budget: PartsBudget,
    pub(crate) seats: Seats,
}

/// A model of which parts are wanted.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) model: ModelDigest,
    pub(crate) parts: Vec<ModelPart>,
    pub(crate) first: BTreeSet<PeerId>,
}

/// A job under way.
#[derive(Debug)]
pub(crate) struct UnderWay {
    pub(crate) work: Work,
    pub(crate) stop: CancellationToken,
    /// How far it is.
    pub(crate) told: watch::Receiver<Progress>,
}

/// What it does.
#[derive(Debug)]
pub(crate) enum Work {
    /// Takes these parts.
    Taking(Waiting),
    /// Was told to end, and the file is to go.
    Forgetting,
    /// Deletes the file.
    Deleting,
}

impl Parts {
    /// What lies in `folder`, where that is there. Waits for the disk.
    pub(crate) fn open(folder: PathBuf, is_away: bool) -> Self {
        let folder = Folder::at(folder);
        let found = if is_away { Vec::new() } else { scan(&folder) };
        let mut parts = Self {
            folder,
            known: BTreeMap::new(),
            entries: Vec::new(),
            waiting: Vec::new(),
            under_way: BTreeMap::new(),
            needed: BTreeSet::new(),
            own: BTreeSet::new(),
            leaving: BTreeSet::new(),
            budget: PartsBudget::new(PARTS_BYTES_MAX),
            seats: Seats::new(PARTS_RUNNING_MAX),
        };
        parts.seen(found);
        parts
    }

    /// These were found in the folder. What is under way knows better.
    pub(crate) fn seen(&mut self, found: Vec<PartialModel>) {
        for partial in found {
            if self.under_way.contains_key(&partial.model) {
                continue;
            }
            let known = self.known.get(&partial.model);
            let used = known.map_or(0, |known| known.used).max(partial.used);
            self.note(PartialModel { used, ..partial });
        }
    }

    /// This is here now.
    pub(crate) fn note(&mut self, partial: PartialModel) {
        self.budget.set(partial.model, partial.bytes);
        let entry = entry_of(&partial);
        self.entries.retain(|known| known.entry.digest() != partial.model);
        self.entries.push(entry);
        self.known.insert(partial.model, partial);
    }

    /// Nothing of `model` is here any more; whether something was.
    pub(crate) fn drop_known(&mut self, model: ModelDigest) -> bool {
        self.budget.forget(model);
        self.entries.retain(|known| known.entry.digest() != model);
        self.known.remove(&model).is_some()
    }

    /// The owner wants the ends of `model`.
    pub(crate) fn keep(&mut self, model: ModelDigest) {
        self.own.insert(model);
        self.leaving.remove(&model);
        self.budget.exempt(model);
    }

    /// Whether the owner wants the ends of `model`.
    pub(crate) fn is_own(&self, model: ModelDigest) -> bool {
        self.own.contains(&model)
    }

    /// The owner does not want them any more.
    pub(crate) fn let_go(&mut self, model: ModelDigest) {
        self.own.remove(&model);
        self.budget.count(model);
    }

    /// What is here, with the layers as of the last end of a job or look at the folder.
    pub(crate) fn entries(&self) -> &[PartialEntry] {
        &self.entries
    }

    /// Bytes that layers of models could still take, those freed first that nobody needs.
    pub(crate) fn room(&self) -> u64 {
        let is_needed =
            |model: &ModelDigest| self.needed.contains(model) || self.under_way.contains_key(model);
        self.budget.room(is_needed)
    }

    /// Whether something waits. Nobody says when a job gives its permit back, because every device
    /// that has its model is busy.
    pub(crate) fn lacks_seat(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether no job has to do with the files.
    pub(crate) fn is_still(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Ends what takes layers; what came stays.
    pub(crate) fn rest(&mut self) {
        for under_way in self.under_way.values() {
            if matches!(under_way.work, Work::Taking(_)) {
                under_way.stop.cancel();
            }
        }
    }

    /// Bytes of the models that are being deleted, and count.
    pub(crate) fn bytes_leaving(&self) -> u64 {
        let leaves = |work: &Work| matches!(work, Work::Deleting | Work::Forgetting);
        let leaving = self
            .under_way
            .iter()
            .filter(|(model, it)| leaves(&it.work) && !self.own.contains(*model));
        let bytes = leaving.filter_map(|(model, _)| self.known.get(model)).map(|it| it.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Files that can go, the longest unused first: nobody needs them, waits for more of them or
    /// writes them.
    pub(crate) fn unneeded(&self, but: Option<ModelDigest>) -> Vec<&PartialModel> {
        let is_free = |partial: &&PartialModel| {
            let model = partial.model;
            Some(model) != but
                && !self.needed.contains(&model)
                && !self.own.contains(&model)
                && !self.under_way.contains_key(&model)
                && self.waiting.iter().all(|waiting| waiting.model != model)
        };
        let mut free: Vec<_> = self.known.values().filter(is_free).collect();
        free.sort_by_key(|partial| (partial.used, partial.model));
        free
    }
}

fn entry_of(partial: &PartialModel) -> PartialEntry {
    let name = match partial.file.name() {
        "" => partial.model.short(),
        name => name.to_owned(),
    };
    let path = FilePlace::new(partial.path.clone());
    PartialEntry {
        entry: Entry {
            listed: Listed { name, digest: partial.model, path },
            file: partial.file.clone(),
            built_in: false,
            added: 0,
            owned: true,
            ends_only: false,
        },
        layers: partial.file.layers_present(),
    }
}
