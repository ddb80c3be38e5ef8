//! Downloads whose bytes other devices of the household bring.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use nook_api::NodeError;
use nook_api::views::{DownloadTrouble, DownloadView, Wording};
use nook_base::{ErrorCode, Extent, PeerId};
use nook_fetch::{CopyOrder, HouseSource, Seat};
use nook_store::{DownloadEntry, DownloadWish, ModelEntry};
use nook_wire::{Have, HaveModel};

use super::ModelLibrary;
use super::endings::AtNextStart;
use super::fetching::refused;
use crate::copies::{Holder, Holders, believable};
use crate::events::{Job, Surroundings};
use crate::troubles;

/// Digits of a digest that are enough to mean a model.
const DIGITS_MIN: usize = 8;

impl ModelLibrary {
    /// Begins to copy a model of another device, or goes on with that.
    pub(super) fn copy_model(
        &mut self,
        wanted: &str,
        from: Option<String>,
        extent: Extent,
        around: &Surroundings<'_>,
    ) -> Result<DownloadView, NodeError> {
        let first = from.map(|device| (around.paired)(&device)).transpose()?;
        let meant = self.meant_in_house(wanted.trim(), first)?;
        let is_here = |here: &&ModelEntry| match (here.extent, extent) {
            // All of it may come where only its ends are.
            (Extent::Ends, wanted) => wanted == Extent::Ends,
            (Extent::Whole, _) => !self.is_lost(here),
        };
        if let Some(here) = self.library.get(meant.model).filter(is_here) {
            return Err(refused(&format!("this model is here already, as {}", here.name)));
        }
        let entry = self.downloads.catalogue.get(wanted.trim()).map(|entry| entry.id.clone());
        let known = self.downloads.copy_of(meant.model, extent).cloned();
        // A part that is here already keeps its key, which hangs on the name that it was first
        // heard under.
        let before = known.as_ref().and_then(|known| known.source.parse::<HouseSource>().ok());
        let said = before.as_ref().map_or(meant.name.as_str(), HouseSource::name);
        let source = HouseSource::new(meant.model, said);
        let source = match (&entry, extent) {
            (_, Extent::Ends) => source.ends(),
            (Some(id), Extent::Whole) => source.meant_as(id),
            (None, Extent::Whole) => source,
        };
        let key = source.key().as_str().to_owned();
        let listed = DownloadEntry {
            key: key.clone(),
            source: source.to_string(),
            name: match (known, self.library.get(meant.model)) {
                (Some(known), _) => known.name,
                // Its ends are here under this name, or were.
                (None, Some(listed)) => listed.name.clone(),
                (None, None) => self.name_of_copy(&source),
            },
            wish: DownloadWish::Run,
            added: around.unix,
        };
        self.downloads.list.put(listed).map_err(|error| refused(&error.to_string()))?;
        self.downloads.troubles.remove(&key);
        match first {
            Some(first) => self.copies.first.insert(key.clone(), first),
            None => self.copies.first.remove(&key),
        };
        tracing::info!(download = key, "asked for, from the house");
        self.start_downloads();
        let view = self.download_views().into_iter().find(|view| view.key == key);
        view.ok_or_else(|| refused("the copy is not in the list"))
    }

    /// The one model of other devices that a person means by `wanted`.
    fn meant_in_house(&self, wanted: &str, only: Option<PeerId>) -> Result<HaveModel, NodeError> {
        let lower = wanted.to_lowercase();
        let holders = self.copies.holders.borrow().clone();
        let asked = holders.iter().filter(|(peer, _)| only.is_none_or(|only| only == **peer));
        let is_meant = |have: &&HaveModel| {
            let digest = have.model.to_string();
            let begins = lower.len() >= DIGITS_MIN && digest.starts_with(&lower);
            begins || have.name.eq_ignore_ascii_case(wanted)
        };
        let all = asked.flat_map(|(_, holder)| holder.models.iter().filter(is_meant));
        let mut found: BTreeMap<[u8; 32], &HaveModel> = BTreeMap::new();
        // Under the name that the list of the house shows: the first.
        all.for_each(|it| _ = found.entry(it.model.0).or_insert(it));
        let mut found = found.into_values();
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one.clone()),
            (Some(one), Some(other)) => Err(refused(&format!(
                "devices of the house have different models of this name: {} and {}; give the digest instead, or one device",
                one.model.short(),
                other.model.short()
            ))
            .worded(Wording::TwoModels {
                one: one.model.short(),
                other: other.model.short(),
            })),
            (None, _) => {
                let shown: String = wanted.chars().take(80).flat_map(char::escape_debug).collect();
                Err(NodeError::new(
                    ErrorCode::NotFound,
                    format!(
                        "No device that may give models to this one has `{shown}` now; nook models copy lists what there is."
                    ),
                )
                .worded(Wording::Download { trouble: DownloadTrouble::NobodyHasIt }))
            }
        }
    }

    /// A name that the model can have here: like its name there, with a number where that is taken.
    fn name_of_copy(&self, source: &HouseSource) -> String {
        let file = |name: &str| format!("{name}.gguf");
        let is_free = |name: &String| {
            self.downloads.list.entries().iter().all(|it| !it.name.eq_ignore_ascii_case(name))
        };
        let numbered = (2_u32..).map(|number| format!("{}-{number}", source.name()));
        let wishes = std::iter::once(source.name().to_owned()).chain(numbered);
        let names =
            wishes.filter_map(|wish| self.library.name_for(None, Path::new(&file(&wish))).ok());
        // The list of downloads is shorter than the numbers.
        names.into_iter().find(is_free).unwrap_or_else(|| source.name().to_owned())
    }

    pub(super) fn begin_copy(&mut self, key: String, order: CopyOrder, seat: Seat) {
        let transfer = self.list_loading(&key);
        let holders = self.copies.holders.subscribe();
        let first = self.copies.first.get(&key).copied();
        let traffic = self.copies.traffic.clone();
        let parts = self.parts.folder.clone();
        self.run(Job::Copy { key, order, seat, transfer, holders, first, traffic, parts });
    }

    /// What came is something else than what was asked for. It is deleted already.
    pub(super) fn wrong_copy(&mut self, key: &str, around: &Surroundings<'_>) {
        let giver = self.downloads.under_way.get(key).and_then(|it| it.giver);
        let device = giver.map(around.name_of);
        self.fail_download(key, troubles::of_copy(device), AtNextStart::Rests);
        if let Some(giver) = giver {
            self.disbelieve(giver, around);
        }
    }

    /// Whether a device that has it can be asked now, or none has to be; so for everything that is
    /// no copy.
    pub(super) fn can_begin(&self, entry: &DownloadEntry) -> bool {
        let Ok(source) = entry.source.parse::<HouseSource>() else { return true };
        let has = |holder: &Holder| holder.model(source.model()).is_some();
        self.copies.holders.borrow().values().any(has)
            || self.downloads.on_disk(&entry.key).is_whole
    }

    /// A device says what it gives.
    pub(super) fn on_have(&mut self, peer: PeerId, have: Have, around: &Surroundings<'_>) {
        self.copies.heard.insert(peer, believable(have));
        self.publish_holders(around);
    }

    /// A link is new or gone: what was said on an earlier one is void.
    pub(super) fn link_changed(&mut self, peer: PeerId, around: &Surroundings<'_>) {
        if self.copies.heard.remove(&peer).is_some() {
            self.publish_holders(around);
        }
    }

    /// A device sent something else than what it had said.
    pub(super) fn disbelieve(&mut self, peer: PeerId, around: &Surroundings<'_>) {
        tracing::warn!(
            ?peer,
            "it sent wrong bytes for a model; nothing is copied from it any more"
        );
        self.copies.liars.insert(peer);
        self.publish_holders(around);
    }

    /// Tells copies under way, and those that wait, who can be asked.
    pub(super) fn publish_holders(&mut self, around: &Surroundings<'_>) {
        let holder = |(peer, models): (&PeerId, &Vec<HaveModel>)| {
            let is_believed = !models.is_empty() && !self.copies.liars.contains(peer);
            let giver = (around.giver)(*peer).filter(|_| is_believed)?;
            Some((*peer, Holder { giver, models: models.clone() }))
        };
        let holders: Holders = self.copies.heard.iter().filter_map(holder).collect();
        self.copies.holders.send_replace(Arc::new(holders));
        self.start_downloads();
    }
}
