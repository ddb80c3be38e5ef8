//! The models of this device as the house sees them: what the library lists, with each header read.

use nook_base::ModelDigest;
use nook_model::ModelFile;

use crate::open_models::Listed;
use nook_api::views::{FitView, ModelView};

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
}

impl Entry {
    /// The digest by which all devices know it.
    pub fn digest(&self) -> ModelDigest {
        self.listed.digest
    }

    /// How many layers it has.
    pub fn layers(&self) -> u32 {
        self.file.shape().layers
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
            fit,
        }
    }
}
