//! The models of this device as the house sees them: what the library lists, with each header read.

use nook_base::{LayerRange, ModelDigest, ModelPart};
use nook_model::ModelFile;

use crate::lending::Lent;
use crate::shelf::Listed;
use crate::views::{FitView, ModelView};

/// Positions for which a guest's cache is counted when it is decided how many layers fit.
const TYPICAL_POSITIONS: u32 = 4096;

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

    /// What of this model is lent: the layers that the owner chose, else all that fit, placed where
    /// others `asked` for them, then where the fewest others offer some.
    pub(crate) fn lent(
        &self,
        chosen: Option<LayerRange>,
        bytes_max: u64,
        streams: u32,
        others: &[LayerRange],
        asked: &[LayerRange],
    ) -> Option<Lent> {
        let all = LayerRange::all(self.layers());
        let layers = match chosen {
            Some(chosen) => all.intersection(chosen),
            None => {
                let fits = self.layers_that_fit(bytes_max, streams);
                crate::placing::window(all, fits, others, asked)
            }
        };
        (!layers.is_empty()).then(|| Lent {
            model: self.digest(),
            name: self.listed.name.clone(),
            path: self.listed.path.clone(),
            layers,
        })
    }

    /// How many layers fit into `bytes_max` with the caches of all streams.
    fn layers_that_fit(&self, bytes_max: u64, streams: u32) -> u32 {
        let positions = self.file.shape().context_length.min(TYPICAL_POSITIONS);
        let one = |layer| {
            let range = LayerRange::with_len(layer, 1);
            let caches = self.file.cache_bytes(range, positions).saturating_mul(streams.into());
            self.file.weight_bytes(&ModelPart::inner(range)).saturating_add(caches)
        };
        let largest = (0..self.layers()).map(one).max().unwrap_or(u64::MAX).max(1);
        u32::try_from(bytes_max / largest).unwrap_or(u32::MAX).min(self.layers())
    }
}
