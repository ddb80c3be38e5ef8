//! The models of this device as the house sees them: what the library lists, with each header read.

use nook_base::{ErrorCode, LayerRange, ModelDigest};
use nook_model::ModelFile;
use nook_text::Capabilities;
use nook_wire::HaveModel;

use crate::open_models::Listed;
use nook_api::views::{CapabilitiesView, FitView, ModelView};
use nook_api::{NodeError, sentence};

/// One model of this device.
#[derive(Debug, Clone)]
pub struct Entry {
    /// How the library lists it.
    pub listed: Listed,
    /// Its file, with the header read.
    pub file: ModelFile,
    /// Whether the program brings it along.
    pub built_in: bool,
    /// When it was added, in seconds since 1970.
    pub added: u64,
    /// Whether the file is deleted with its entry.
    pub owned: bool,
    /// Whether only the ends are meant to be here, for what this device itself computes.
    pub ends_only: bool,
}

/// A model of which only some layers are here.
#[derive(Debug, Clone)]
pub struct PartialEntry {
    /// The model. Its name is for people; it is in no list.
    pub entry: Entry,
    /// The layers that are here: ranges in order that do not touch.
    pub layers: Vec<LayerRange>,
}

impl PartialEntry {
    /// Whether all of `layers` are here.
    pub fn has(&self, layers: LayerRange) -> bool {
        self.layers.iter().any(|here| here.contains(layers))
    }
}

/// What a device has of models beside the whole ones, and could still get: the library, as the
/// lending side sees it.
pub trait PartialModels: std::fmt::Debug {
    /// Models of which only some layers are here.
    fn entries(&self) -> &[PartialEntry];

    /// Bytes that layers could still take on the disk.
    fn room(&self) -> u64;

    /// What a device of the household that may be copied from says of `model`; the figures are its
    /// claim. Else why nobody gives it: [`ErrorCode::BadModel`] where a device does that has sent
    /// something else.
    fn given(&self, model: ModelDigest) -> Result<HaveModel, ErrorCode>;

    /// How much has come of the layers of `model` that are on their way, 0 to 100.
    fn percent(&self, model: ModelDigest) -> u8;
}

/// The models that this device uses: those that were added, else those that the program brings
/// along.
pub fn in_use(entries: &[Entry]) -> impl Iterator<Item = &Entry> {
    let only_built_in = entries.iter().all(|entry| entry.built_in);
    entries.iter().filter(move |entry| only_built_in || !entry.built_in)
}

/// The model that answers where nobody has chosen one, in every front end: the newest that was
/// added, else one that the program brings along.
pub fn usual(entries: &[Entry]) -> Option<&Entry> {
    entries.iter().max_by_key(|entry| (!entry.built_in, entry.added))
}

impl Entry {
    /// The digest by which all devices know it.
    pub fn digest(&self) -> ModelDigest {
        self.listed.digest
    }

    /// Whether the file goes along when the library moves to another folder.
    pub fn is_moved(&self) -> bool {
        self.owned && !self.built_in && !self.ends_only
    }

    /// Bytes of the tensors that are in its file.
    fn bytes_here(&self) -> u64 {
        let presence = self.file.presence();
        presence.map_or(self.file.file_bytes(), |presence| presence.bytes(self.file.header()))
    }

    /// How many layers it has.
    pub fn layers(&self) -> u32 {
        self.file.shape().layers
    }

    /// What it can besides answering. Reads its vocabulary, which takes a moment and tens of
    /// megabytes.
    pub fn capabilities(&self) -> Result<CapabilitiesView, NodeError> {
        let vocabulary = self.file.vocabulary();
        let vocabulary = vocabulary
            .map_err(|error| NodeError::new(ErrorCode::BadModel, sentence(&error.to_string())))?;
        let Capabilities { thinks, fills_gaps } = Capabilities::of(&vocabulary);
        Ok(CapabilitiesView { thinks, fills_gaps })
    }

    /// It as front ends show it, with `fit` worked out by the caller.
    pub fn view(&self, fit: FitView) -> ModelView {
        ModelView {
            name: self.listed.name.clone(),
            title: self.file.name().to_owned(),
            digest: self.digest().to_string(),
            architecture: self.file.architecture().to_owned(),
            quantisation: self.file.quantisation(),
            layers: self.layers(),
            context_length: self.file.shape().context_length,
            file_bytes: self.file.file_bytes(),
            built_in: self.built_in,
            added: self.added,
            owned: self.owned,
            file: self.file.path().display().to_string(),
            ends_bytes: self.ends_only.then(|| self.bytes_here()),
            fit,
        }
    }
}
