//! The list of models that can be downloaded: which one is in use.

use nook_fetch::{Catalogue, CatalogueEntry};
use nook_model::Architecture;

use super::ModelLibrary;
use crate::events::LibraryEffect;

impl ModelLibrary {
    /// Takes a list that is newer than the one in use, as far as this program runs its models.
    pub(super) fn take_catalogue(&mut self, catalogue: Catalogue) {
        if catalogue.written() <= self.downloads.catalogue.written() {
            return;
        }
        let usable = catalogue.only(can_run);
        if usable.entries().is_empty() {
            tracing::warn!("this program runs no model of the newer catalogue");
            return;
        }
        tracing::info!(written = usable.written(), "a newer catalogue is in use");
        self.downloads.catalogue = usable;
        self.effects.push(LibraryEffect::Show);
    }
}

/// Whether this version of the program runs such a model, as far as the list tells.
fn can_run(entry: &CatalogueEntry) -> bool {
    let is_known = Architecture::ALL.iter().any(|known| known.name() == entry.architecture);
    let running = nook_base::VERSION.parse().ok();
    is_known && entry.since.as_ref().is_none_or(|since| running.as_ref() >= Some(since))
}
