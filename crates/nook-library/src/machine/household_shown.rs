//! Models of the household that this device lacks, as front ends show them.

use std::collections::BTreeMap;

use nook_api::views::InHouseView;
use nook_base::{Extent, ModelDigest};
use nook_fetch::{CatalogueEntry, DISK_RESERVE_BYTES};
use nook_wire::HaveModel;

use super::ModelLibrary;
use crate::fits::Fits;

/// Most models that are shown, those with the smallest digests first: more than a household has.
/// The rest can still be asked for by name.
const SHOWN_MAX: usize = 64;

/// By how much the file of a catalogue's entry may differ from what the catalogue says, in percent.
const SIZE_SLACK_PERCENT: u64 = 5;

impl ModelLibrary {
    /// Models that others give and that are not here, each once.
    pub fn household_models(&self) -> impl Iterator<Item = HaveModel> + use<> {
        let holders = self.copies.holders.borrow().clone();
        let mut models: BTreeMap<[u8; 32], HaveModel> = BTreeMap::new();
        for model in holders.values().flat_map(|holder| &holder.models) {
            let here = self.library.get(model.model);
            if here.is_none_or(|here| here.extent == Extent::Ends) {
                models.entry(model.model.0).or_insert_with(|| model.clone());
            }
        }
        models.into_values().take(SHOWN_MAX)
    }

    /// The same as front ends show them, by name.
    #[must_use]
    pub fn household_views(&self, fits: &Fits) -> Vec<InHouseView> {
        let mut views: Vec<InHouseView> =
            self.household_models().map(|model| self.household_view(model, fits)).collect();
        views.sort_by(|a, b| (&a.name, &a.digest).cmp(&(&b.name, &b.digest)));
        views
    }

    fn household_view(&self, have: HaveModel, fits: &Fits) -> InHouseView {
        let free = self.downloads.disk_free();
        let copy = self.downloads.copy_of(have.model, Extent::Whole);
        let copy = copy.or_else(|| self.downloads.copy_of(have.model, Extent::Ends));
        let ends_bytes = self.kept_ends.bytes_of(have.bytes, have.layers);
        let has_room =
            |bytes: u64| free.is_none_or(|free| free >= bytes.saturating_add(DISK_RESERVE_BYTES));
        InHouseView {
            digest: have.model.to_string(),
            devices: self.devices_with(have.model),
            fit: fits.in_household(have.model),
            // Where the system does not say, the copy does when it begins.
            room: has_room(have.bytes),
            ends_bytes,
            ends_room: has_room(ends_bytes),
            ends_here: self.library.get(have.model).is_some(),
            copy: copy.map(|entry| entry.key.clone()),
            file_bytes: have.bytes,
            name: have.name,
        }
    }

    fn devices_with(&self, model: ModelDigest) -> Vec<String> {
        let holders = self.copies.holders.borrow();
        let having = holders.values().filter(|holder| holder.model(model).is_some());
        having.map(|holder| holder.giver.name.clone()).collect()
    }
}

/// Whether `seen` seems to be this entry of the catalogue. Whether it is, the publisher's digest
/// tells when it was copied as that.
pub(super) fn is_of(seen: &InHouseView, entry: &CatalogueEntry) -> bool {
    let slack = entry.bytes / 100 * SIZE_SLACK_PERCENT;
    seen.name.eq_ignore_ascii_case(&entry.id) && seen.file_bytes.abs_diff(entry.bytes) <= slack
}
