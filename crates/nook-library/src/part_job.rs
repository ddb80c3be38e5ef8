//! Takes layers of a model: manifest, header, then the tensors that are missing.
//!
//! ```text
//! manifest ──root──► digest    header ──► manifest    tensors of the layers ──► manifest ──► record
//! ```
//!
//! Nothing that a device says counts before it is proven by the digest. What no digest covers are
//! the two lengths in the manifest. Where the header does not fit them, a device is to blame that
//! gave both; where two devices gave them, both are taken again from the second one.

use std::collections::BTreeSet;
use std::sync::Arc;

use nook_base::{LayerRange, ModelDigest, ModelPart, PeerId};
use nook_fetch::{Ask, Conditions, DocumentOrder, FetchError, Fetcher, RangesOrder, Seat, Slot};
use nook_model::Manifest;
use nook_resources::traffic::Traffic;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::copies::Holders;
use crate::events::Transfer;
use crate::part_failure::PartFailure;
use crate::partial::{Begun, Found, PartialModel, PartialPlace, PartsBudget, bytes_here};
use crate::taking_parts::PartTaker;

/// Most times that manifest and header are taken before the job gives up. Each time after the first
/// means that a device has lied, or has gone between the two.
const BEGINNINGS_MAX: usize = 16;

/// Layers that are to be taken, and with what.
#[derive(Debug)]
pub struct PartJob {
    pub(crate) model: ModelDigest,
    /// Everything that is wanted of it.
    pub(crate) parts: Vec<ModelPart>,
    pub(crate) seat: Seat,
    pub(crate) transfer: Transfer,
    pub(crate) budget: PartsBudget,
    pub(crate) holders: watch::Receiver<Arc<Holders>>,
    /// Whom to ask first.
    pub(crate) first: BTreeSet<PeerId>,
    pub(crate) traffic: Traffic,
}

/// How a [`PartJob`] ended.
#[derive(Debug)]
pub struct PartEnd {
    pub(crate) model: ModelDigest,
    /// Why not everything is here, if it is not.
    pub(crate) failure: Option<PartFailure>,
    /// What is here now.
    pub(crate) partial: Option<PartialModel>,
    /// Devices that sent wrong bytes.
    pub(crate) liars: BTreeSet<PeerId>,
}

/// A job under way.
struct Taking<'a> {
    fetcher: &'a Fetcher,
    place: PartialPlace,
    model: ModelDigest,
    taker: PartTaker,
    conditions: Conditions<'a>,
}

impl PartJob {
    /// Takes the layers; everything that came is recorded before it ends.
    pub(crate) async fn run(self) -> PartEnd {
        let Self { model, parts, mut seat, transfer, budget, holders, first, traffic } = self;
        let Transfer { fetcher, folder, stop, tell } = transfer;
        let place = PartialPlace::new(folder, model);
        let taker = PartTaker::new(model, holders, first, traffic);
        let conditions = Conditions { seat: &mut seat, stop: &stop, told: &tell };
        let place_of = place.clone();
        let mut taking = Taking { fetcher: &fetcher, place, model, taker, conditions };
        let failure = taking.take(&parts, &budget).await.err();
        let liars = taking.taker.into_liars();
        let partial = spawn_blocking(move || place_of.look()).await.ok().flatten();
        PartEnd { model, failure, partial, liars }
    }
}

impl Taking<'_> {
    async fn take(&mut self, parts: &[ModelPart], budget: &PartsBudget) -> Result<(), PartFailure> {
        let place = self.place.clone();
        let begun = match blocking(move || place.find()).await? {
            Found::Begun(begun) => *begun,
            Found::Nothing(slot) => self.begin(slot).await?,
        };
        let layers = begun.file.shape().layers;
        if !parts.iter().all(|part| LayerRange::all(layers).contains(part.layers)) {
            return Err(PartFailure::NoSuchLayers { layers });
        }
        let ranges = begun.missing(parts);
        let coming = ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.bytes));
        let needed = bytes_here(&begun.file).saturating_add(coming);
        budget
            .reserve(self.model, needed)
            .map_err(|most| PartFailure::CapReached { needed, most })?;
        let (sparse, record) = begun.into_record(self.place.path());
        let order = RangesOrder { ranges, bytes_max: coming };
        let conditions = self.conditions.again();
        let taken =
            self.fetcher.take_ranges(sparse, order, record, &mut self.taker, conditions).await;
        taken?;
        Ok(())
    }

    /// Takes manifest and header, and makes the file.
    async fn begin(&mut self, slot: Slot) -> Result<Begun, PartFailure> {
        let (mut slot, mut blamed) = (Some(slot), None);
        for _ in 0..BEGINNINGS_MAX {
            let (manifest, giver) = self.manifest().await.map_err(|error| {
                // Where the only device left was to blame for the lengths, it is named.
                match (error, blamed.take()) {
                    (FetchError::Nobody, Some(device)) => FetchError::WrongBytes { device },
                    (error, _) => error,
                }
            })?;
            let header = match manifest.header_bytes() {
                0 => Vec::new(),
                bytes => self.header(bytes).await?,
            };
            match manifest.read_header(&header) {
                Ok(_) => {
                    let (place, slot) = (self.place.clone(), slot.take());
                    let slot = slot.ok_or(PartFailure::Lost)?;
                    return blocking(move || place.begin(slot, manifest, &header)).await;
                }
                Err(error) => {
                    tracing::warn!(%error, ?giver, "the header does not fit the manifest");
                    let last = self.taker.chosen();
                    if let Some(peer) = giver.filter(|giver| last == Some(*giver)) {
                        blamed = Some(self.taker.name());
                        self.taker.blame_peer(peer);
                    }
                }
            }
        }
        Err(PartFailure::GaveUp { last: "headers and manifests do not fit".to_owned() })
    }

    /// The manifest, and who gave it.
    async fn manifest(&mut self) -> Result<(Manifest, Option<PeerId>), FetchError> {
        let order = DocumentOrder {
            ask: Ask::Manifest,
            prefix_bytes: Manifest::PREFIX_BYTES as u64,
            bytes_max: Manifest::BYTES_MAX as u64,
        };
        let model = self.model;
        let length_of = |prefix: &[u8]| Manifest::length_of(prefix).ok().map(|long| long as u64);
        let read = |bytes: Vec<u8>| Manifest::from_bytes_of(&bytes, model).ok();
        let conditions = self.conditions.again();
        let taken =
            self.fetcher.take_document(order, length_of, read, &mut self.taker, conditions).await?;
        Ok((taken, self.taker.chosen()))
    }

    /// What a device says are the first `bytes` bytes of the file.
    async fn header(&mut self, bytes: u64) -> Result<Vec<u8>, FetchError> {
        let order = DocumentOrder { ask: Ask::File, prefix_bytes: bytes, bytes_max: bytes };
        let conditions = self.conditions.again();
        let length_of = |_: &[u8]| Some(bytes);
        self.fetcher.take_document(order, length_of, Some, &mut self.taker, conditions).await
    }
}

/// Does `work` on a thread that may wait for the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PartFailure> + Send + 'static,
) -> Result<T, PartFailure> {
    spawn_blocking(work).await.unwrap_or(Err(PartFailure::Lost))
}

#[cfg(test)]
#[path = "part_job_tests.rs"]
mod tests;
