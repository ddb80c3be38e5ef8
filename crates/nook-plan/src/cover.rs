//! Covers the remote middle with what other devices offer: lowest queue first.
//!
//! The node passes offers of admitted devices that hold the same model digest; a lost hop makes
//! `nook-pipeline` ask again for that hop's layers. The rule is HearthNet's `ShardRouter.pick`,
//! made deterministic and kept within a number of hops and within each device's free streams.

use std::collections::BTreeMap;

use nook_base::{LayerRange, PeerId};

/// Most offers looked at; of more, those with the highest peer ids are left out. A house has tens.
pub const OFFERS_MAX: usize = 4096;

/// Most partial covers looked at before the search gives up with [`WhyUncovered::AllBusy`]. Only
/// devices that offer several ranges and run out of streams make the search turn back at all.
const PARTIAL_COVERS_MAX: usize = 10_000;

/// What one device would compute right now. A device may make several offers; they share its
/// streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offer {
    /// The device.
    pub peer: PeerId,
    /// Layers it would compute, held or to be loaded; any range within.
    pub layers: LayerRange,
    /// Those of them that are in its memory.
    pub held: LayerRange,
    /// Sessions of others that are open there, each of which has a step under way or soon.
    pub queue_depth: u16,
    /// Calls it would accept now, over all its offers.
    pub streams_free: u16,
}

impl Offer {
    /// What it computes without loading anything first; `None`: nothing.
    #[must_use]
    pub fn in_memory(&self) -> Option<Self> {
        let layers = self.layers.intersection(self.held);
        (!layers.is_empty()).then_some(Self { layers, held: layers, ..*self })
    }
}

/// One device's range in a cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// The device.
    pub peer: PeerId,
    /// The layers it computes; within what it offered.
    pub layers: LayerRange,
}

/// Why the middle could not be covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CoverError {
    /// Some layer is left without a device.
    #[error("{0}")]
    Uncovered(Uncovered),
}

/// The first layer that stayed without a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("layer {first_missing_layer}: {why}")]
pub struct Uncovered {
    /// Everything before it could be covered.
    pub first_missing_layer: u32,
    /// The reason, for a sentence to the user.
    pub why: WhyUncovered,
}

/// Absent, full and too scattered are three different things to tell the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WhyUncovered {
    /// No device holds it.
    #[error("no device offers it")]
    NobodyOffers,
    /// Devices hold it, but all their streams are taken.
    #[error("every device that offers it is busy")]
    AllBusy,
    /// Only a route over more devices than allowed would reach it.
    #[error("it takes more devices than a route may have")]
    TooManyHops,
}

/// Covers `middle` by hops in layer order, at most `hops_max` of them; an empty middle takes none.
///
/// From the first uncovered layer on, takes among the offers that include it the one with the
/// lowest queue, then the furthest reach, then the most free streams, then the lowest peer id;
/// never one from which the rest could not be covered. Finds a cover whenever there is one.
pub fn greedy_cover(
    middle: LayerRange,
    offers: &[Offer],
    hops_max: usize,
) -> Result<Vec<Hop>, CoverError> {
    let mut offers = offers.to_vec();
    offers.sort_unstable();
    offers.truncate(OFFERS_MAX);
    let mut search = Search {
        middle,
        needs: hops_needed(middle, &offers),
        offers,
        hops_max,
        partial_covers_left: PARTIAL_COVERS_MAX,
    };
    let mut hops = Vec::new();
    if search.extend(&mut hops, middle.start()) {
        Ok(hops)
    } else {
        Err(CoverError::Uncovered(search.explain()))
    }
}

struct Search {
    middle: LayerRange,
    offers: Vec<Offer>,
    /// Fewest hops from a cursor to the end, streams shared between offers not considered; a cursor
    /// that is absent cannot reach the end.
    needs: BTreeMap<u32, usize>,
    hops_max: usize,
    partial_covers_left: usize,
}

impl Search {
    /// Completes `hops` from `cursor` to the end, or leaves them as they were.
    fn extend(&mut self, hops: &mut Vec<Hop>, cursor: u32) -> bool {
        if cursor >= self.middle.end() {
            return true;
        }
        for offer in self.choices(hops, cursor) {
            if self.partial_covers_left == 0 {
                return false;
            }
            self.partial_covers_left -= 1;
            let reach = offer.layers.end().min(self.middle.end());
            hops.push(Hop {
                peer: offer.peer,
                layers: LayerRange::with_len(cursor, reach - cursor),
            });
            if self.extend(hops, reach) {
                return true;
            }
            hops.pop();
        }
        false
    }

    /// The offers that may come next, best first.
    fn choices(&self, hops: &[Hop], cursor: u32) -> Vec<Offer> {
        let hops_left = self.hops_max.saturating_sub(hops.len() + 1);
        let mut choices: Vec<Offer> = self
            .offers
            .iter()
            .filter(|offer| {
                let reach = offer.layers.end().min(self.middle.end());
                let taken = hops.iter().filter(|hop| hop.peer == offer.peer).count();
                offer.layers.contains_layer(cursor)
                    && hops.len() < self.hops_max
                    && self.needs.get(&reach).is_some_and(|needs| *needs <= hops_left)
                    && taken < usize::from(offer.streams_free)
            })
            .copied()
            .collect();
        choices.sort_by(|a, b| {
            let reach = |offer: &Offer| offer.layers.end().min(self.middle.end());
            (a.queue_depth.cmp(&b.queue_depth))
                .then(reach(b).cmp(&reach(a)))
                .then(b.streams_free.cmp(&a.streams_free))
                .then(a.cmp(b))
        });
        choices
    }

    /// Walks by furthest reach to the first layer that cannot be had.
    fn explain(&self) -> Uncovered {
        let mut cursor = self.middle.start();
        for _ in 0..self.hops_max {
            match furthest(&self.offers, cursor) {
                Some(reach) if reach < self.middle.end() => cursor = reach,
                // Each stretch has a free device, yet one device's streams do not suffice for all.
                Some(_) => return uncovered(self.middle.start(), WhyUncovered::AllBusy),
                None => break,
            }
        }
        let held = self.offers.iter().any(|offer| offer.layers.contains_layer(cursor));
        let why = match (furthest(&self.offers, cursor), held) {
            (Some(_), _) => WhyUncovered::TooManyHops,
            (None, true) => WhyUncovered::AllBusy,
            (None, false) => WhyUncovered::NobodyOffers,
        };
        uncovered(cursor, why)
    }
}

fn uncovered(first_missing_layer: u32, why: WhyUncovered) -> Uncovered {
    Uncovered { first_missing_layer, why }
}

/// Hops from every cursor that a cover can stand at. Reaching further never takes more hops, so the
/// furthest reach is the fewest.
fn hops_needed(middle: LayerRange, offers: &[Offer]) -> BTreeMap<u32, usize> {
    let mut cursors: Vec<u32> = offers
        .iter()
        .map(|offer| offer.layers.end())
        .filter(|end| middle.contains_layer(*end))
        .chain([middle.start()])
        .collect();
    cursors.sort_unstable();
    cursors.dedup();
    let mut needs = BTreeMap::from([(middle.end(), 0)]);
    for cursor in cursors.into_iter().rev().filter(|c| *c < middle.end()) {
        let from_reach =
            furthest(offers, cursor).and_then(|reach| needs.get(&reach.min(middle.end())).copied());
        if let Some(hops) = from_reach {
            needs.insert(cursor, hops + 1);
        }
    }
    needs
}

/// How far one device with a free stream gets from `cursor`.
fn furthest(offers: &[Offer], cursor: u32) -> Option<u32> {
    offers
        .iter()
        .filter(|offer| offer.streams_free > 0 && offer.layers.contains_layer(cursor))
        .map(|offer| offer.layers.end())
        .max()
}
