//! Models, catalogue and downloads as front ends show them.

use std::path::PathBuf;

use nook_api::views::{CatalogueView, DownloadState, DownloadView, FitKind, ModelView};
use nook_base::{Extent, ModelDigest};
use nook_fetch::{HouseSource, Phase, Source};
use nook_resources::catalogue::Entry;
use nook_store::{DownloadEntry, DownloadWish};

use super::ModelLibrary;
use super::household_shown::is_of;
use crate::copies::Holder;
use crate::downloads::{Downloads, Stage, UnderWay};
use crate::fits::Fits;
use crate::troubles;

impl ModelLibrary {
    /// The models that can be used, each with its header; those that the program brings along
    /// first.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Where the manifests of models are kept that are given to other devices.
    #[must_use]
    pub fn manifests_folder(&self) -> PathBuf {
        self.library.manifests_folder()
    }

    /// The same as front ends show them.
    #[must_use]
    pub fn model_views(&self, fits: &Fits) -> Vec<ModelView> {
        self.entries.iter().map(|entry| entry.view(fits.of_model(entry.digest()))).collect()
    }

    /// What the model is called here; the beginning of its digest where it is not here.
    #[must_use]
    pub fn name_of(&self, model: ModelDigest) -> String {
        let known = self.entries.iter().find(|entry| entry.digest() == model);
        known.map_or_else(|| model.short(), |entry| entry.listed.name.clone())
    }

    /// Whether the model is on the list, also one whose file cannot be used now.
    #[must_use]
    pub fn is_listed(&self, model: ModelDigest) -> bool {
        self.library.get(model).is_some()
    }

    /// The catalogue of models that can be downloaded.
    #[must_use]
    pub fn catalogue(&self) -> &nook_fetch::Catalogue {
        self.downloads.catalogue()
    }

    /// Bytes free on the disk of the models, in steps, as they were at the last look.
    #[must_use]
    pub fn disk_free(&self) -> Option<u64> {
        self.downloads.disk_free()
    }

    /// Sets whether files are to travel slowly, because something is computed here.
    pub fn set_busy(&self, is_busy: bool) {
        self.copies.traffic.set(is_busy);
    }

    /// The downloads, in the order in which they were asked for.
    #[must_use]
    pub fn download_views(&self) -> Vec<DownloadView> {
        let downloads = &self.downloads;
        let view = |entry: &DownloadEntry| match entry.source.parse::<HouseSource>() {
            Err(_) => downloads.view(entry),
            Ok(source) => self.copy_view(&source, downloads.view(entry)),
        };
        downloads.list.entries().iter().map(view).collect()
    }

    /// A copy from the house: who has it, and what it waits for where nobody has.
    fn copy_view(&self, source: &HouseSource, view: DownloadView) -> DownloadView {
        let model = source.model();
        let holders = self.copies.holders.borrow();
        let having: Vec<&Holder> =
            holders.values().filter(|holder| holder.model(model).is_some()).collect();
        let origin: Vec<&str> = having.iter().map(|holder| holder.giver.name.as_str()).collect();
        let said = having.first().and_then(|holder| holder.model(model));
        let length = said.map(|it| match source.extent() {
            Extent::Whole => it.bytes,
            Extent::Ends => self.kept_ends.bytes_of(it.bytes, it.layers),
        });
        let here = self.parts.known.get(&model).filter(|_| source.extent() == Extent::Ends);
        let waits = view.state == DownloadState::Waiting && having.is_empty();
        DownloadView {
            origin: origin.join(", "),
            copied: true,
            have_bytes: view.have_bytes.max(here.map_or(0, |known| known.bytes)),
            file_bytes: view.file_bytes.or(length),
            problem: view.problem.or_else(|| waits.then(troubles::of_nobody)),
            ..view
        }
    }

    /// The catalogue, with what is here of it.
    #[must_use]
    pub fn catalogue_views(&self, fits: &Fits) -> Vec<CatalogueView> {
        let downloads = &self.downloads;
        let recommended = self.recommended(fits);
        let in_house = self.household_views(fits);
        let entries = downloads.catalogue.entries().iter();
        let view = |entry: &nook_fetch::CatalogueEntry| {
            let key = entry.order.source.key();
            let given = in_house.iter().find(|it| is_of(it, entry));
            let mut names = self.entries.iter().map(|model| &model.listed.name);
            CatalogueView {
                id: entry.id.clone(),
                name: entry.name.clone(),
                licence: entry.licence.clone(),
                origin: entry.repository.clone(),
                quantisation: entry.quantisation.clone(),
                file_bytes: entry.bytes,
                billions: entry.billions,
                languages: entry.languages.clone(),
                about_en: entry.about.en.clone(),
                about_de: entry.about.de.clone(),
                fit: fits.of_entry(&entry.id),
                recommended: recommended.as_deref() == Some(entry.id.as_str()),
                here: names.find(|name| name.eq_ignore_ascii_case(&entry.id)).cloned(),
                download: downloads
                    .find(key.as_str())
                    .map(|entry| entry.key.clone())
                    .or_else(|| given.and_then(|given| given.copy.clone())),
                in_house: given.map(|given| given.digest.clone()),
            }
        };
        entries.map(view).collect()
    }

    /// The best-ranked model that fits on this device; else the best-ranked that fits with others;
    /// else the smallest.
    fn recommended(&self, fits: &Fits) -> Option<String> {
        let entries = self.downloads.catalogue.entries();
        let best = |kind: FitKind| {
            let fitting = entries.iter().filter(|it| fits.of_entry(&it.id).kind == kind);
            fitting.min_by_key(|entry| entry.rank)
        };
        let found = best(FitKind::Here).or_else(|| best(FitKind::With));
        found.or_else(|| entries.first()).map(|entry| entry.id.clone())
    }
}

impl Downloads {
    fn view(&self, entry: &DownloadEntry) -> DownloadView {
        let source: Option<Source> = entry.source.parse().ok();
        let under_way = self.under_way.get(&entry.key);
        let trouble = self.troubles.get(&entry.key);
        let guess = source.as_ref().and_then(|source| self.catalogue.of_source(source));
        let bytes = under_way.and_then(|it| it.shown.bytes).or(guess.map(|it| it.bytes));
        let have = match under_way {
            Some(under_way) => under_way.shown.have,
            None => self.on_disk(&entry.key).bytes,
        };
        let is_loading = under_way.is_some_and(|it| it.is_loading());
        let pulse = under_way.filter(|_| is_loading).map(|it| &it.pulse);
        let left = bytes.map(|bytes| bytes.saturating_sub(have));
        DownloadView {
            key: entry.key.clone(),
            name: entry.name.clone(),
            origin: source.as_ref().map(Source::origin).unwrap_or_default(),
            file: source.as_ref().map(|it| it.file_name().to_owned()).unwrap_or_default(),
            copied: false,
            state: state(entry.wish, under_way, trouble.is_some()),
            have_bytes: have,
            file_bytes: bytes,
            // A whole number: a figure that trembles behind the comma says nothing.
            bytes_per_second: pulse.and_then(|it| it.per_second()).map(f64::round),
            seconds_left: pulse.zip(left).and_then(|(it, left)| it.seconds_for(left)),
            problem: trouble.cloned().or_else(|| {
                under_way.and_then(|it| it.shown.trouble.as_deref()).map(troubles::of_try)
            }),
        }
    }
}

impl UnderWay {
    fn is_loading(&self) -> bool {
        self.stage == Stage::Loading && self.shown.phase == Phase::Loading
    }
}

fn state(wish: DownloadWish, under_way: Option<&UnderWay>, failed: bool) -> DownloadState {
    let rests = match wish {
        _ if failed => DownloadState::Failed,
        DownloadWish::Run => DownloadState::Waiting,
        DownloadWish::Pause => DownloadState::Paused,
        DownloadWish::Cancel => DownloadState::Cancelled,
    };
    let Some(under_way) = under_way else { return rests };
    match (under_way.stage, under_way.shown.phase) {
        (Stage::Stopping | Stage::Deleting, _) => rests,
        (Stage::Loading, Phase::Reading) if under_way.shown.have == 0 => DownloadState::Connecting,
        (Stage::Checking, _) | (_, Phase::Finishing | Phase::Reading) => DownloadState::Checking,
        (Stage::Loading, Phase::Loading) => DownloadState::Loading,
        (Stage::Loading, Phase::Asking | Phase::Waiting) => DownloadState::Connecting,
    }
}
