//! What fits into the memory of the household, as the node has worked it out.

use std::collections::BTreeMap;

use nook_api::views::{FitKind, FitView};
use nook_base::ModelDigest;

/// Where models fit. A model that is not in it is unknown.
#[derive(Debug, Clone, Default)]
pub struct Fits {
    /// Models of this device.
    pub models: BTreeMap<ModelDigest, FitView>,
    /// Entries of the catalogue, by their id.
    pub catalogue: BTreeMap<String, FitView>,
    /// Models that other devices of the household give.
    pub household: BTreeMap<ModelDigest, FitView>,
}

impl Fits {
    /// Of a model of this device.
    #[must_use]
    pub fn of_model(&self, digest: ModelDigest) -> FitView {
        self.models.get(&digest).cloned().unwrap_or_else(unknown)
    }

    /// Of a model that another device gives.
    #[must_use]
    pub fn in_household(&self, digest: ModelDigest) -> FitView {
        self.household.get(&digest).cloned().unwrap_or_else(unknown)
    }

    /// Of an entry of the catalogue.
    #[must_use]
    pub fn of_entry(&self, id: &str) -> FitView {
        self.catalogue.get(id).cloned().unwrap_or_else(unknown)
    }
}

fn unknown() -> FitView {
    FitView { kind: FitKind::Unknown, devices: Vec::new(), tokens_per_second: None }
}
