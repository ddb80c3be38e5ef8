//! The models of this device as the house sees them: what the library lists, with each header read.

use nook_base::ModelDigest;
use nook_model::ModelFile;

use crate::resources::shelf::Listed;
use crate::views::{FitView, ModelView};

/// One model of this device.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) listed: Listed,
    pub(crate) file: ModelFile,
    pub(crate) built_in: bool,
    pub(crate) added: u64,
    /// Whether the file is deleted with its entry.
    pub(crate) owned: bool,
}

impl Entry {
    pub(crate) fn digest(&self) -> ModelDigest {
        self.listed.digest
    }

    pub(crate) fn layers(&self) -> u32 {
        self.file.shape().layers
    }

    pub(crate) fn view(&self, fit: FitView) -> ModelView {
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
