//! How the usual reply would be divided if layers lay where they do most good.
//!
//! The same facts as for a reply, with three differences: a device that takes requests counts with
//! everything that its cap allows, whatever it offers now; one that would fetch layers counts with
//! what it has disk space for; and loading is told apart. Where this device has only its ends of the
//! model, and the others have not the memory for the rest, it counts with as few layers more as will
//! do, and is told which of them it lacks. `placement` compares the two and decides
//! whether it is worth asking anybody. What fetching costs does not count: it happens once, in the
//! background, and what came stays.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nook_base::limits::GUEST_POSITIONS_TYPICAL;
use nook_base::{LayerRange, PeerId};
use nook_plan::{
    Aim, Device, Ends, Execution, LOAD_ASSUMED, ModelCosts, Out, Place, Prediction, Share,
    Situation, Split, Standing, Width, place, plan,
};
use nook_store::{Pooling, SplitChoice};

use super::{Encoded, Question, REPLY_TOKENS_EXPECTED};
use nook_resources::adverts::{AdvertBook, Heard};

/// Tokens of the prompt that the usual reply answers.
pub const PROMPT_TOKENS_USUAL: u32 = 256;

/// What is, and what could be.
#[derive(Debug, Clone)]
pub(crate) struct Outlook {
    pub(crate) present: Present,
    /// Absent where the layers cannot be placed at all, or best where they are: on this device.
    pub(crate) wanted: Option<Wanted>,
    /// Layers that this device would have to get for that.
    pub(crate) lacking: Vec<LayerRange>,
}

/// The usual reply as things stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Present {
    /// It would take this.
    Predicted(Prediction),
    /// It is made with others whatever it takes, as the owner set, and that is possible.
    AsSet,
    /// It cannot be made as the owner wants it.
    Impossible,
}

/// Who should hold what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// In layer order, this device's shares among them.
    pub(crate) shares: Vec<Share>,
    /// The usual reply then.
    pub(crate) prediction: Prediction,
    /// Loading what is not in memory, devices side by side.
    pub(crate) moving: Duration,
}

impl Encoded {
    /// The usual reply, before anybody has asked for one.
    pub(crate) fn usual(held: Vec<LayerRange>, memory_free: u64) -> Self {
        let (prompt, tokens_max) = (PROMPT_TOKENS_USUAL, REPLY_TOKENS_EXPECTED);
        let memory_ceiling = memory_free;
        Self { prompt, tokens_max, held, memory_free, memory_ceiling, warm: Vec::new() }
    }
}

impl Question {
    /// Looks at the usual reply. `movable` are the devices that take wishes and have not refused
    /// one.
    pub(crate) fn outlook(
        &self,
        told: &Encoded,
        book: &AdvertBook,
        movable: &BTreeSet<PeerId>,
        now: Instant,
    ) -> Outlook {
        let (model, here) = (self.costs(), self.here(told));
        let request = self.request(told);
        let others = self.others(told, book, now);
        let present = match self.pooling {
            Pooling::Always if self.cover(book, now).is_ok() => Present::AsSet,
            Pooling::Always => Present::Impossible,
            Pooling::WhenFaster => {
                let situation =
                    Situation { model: &model, request: &request, here: &here, others: &others };
                match plan(&situation) {
                    Ok(decision) if matches!(decision.plan.execution, Execution::Route(_)) => {
                        Present::Predicted(decision.plan.prediction)
                    }
                    _ => Present::Impossible,
                }
            }
        };
        // With pooling `always` this device keeps its two ends and nothing else.
        let ends = match self.pooling {
            Pooling::Always => Ends { width: Width::Fixed, ..request.ends },
            Pooling::WhenFaster => request.ends,
        };
        let split = match (self.split, self.pooling) {
            (SplitChoice::Planned, Pooling::WhenFaster) => Split::Planned,
            (SplitChoice::Planned, Pooling::Always) | (SplitChoice::Weighted, _) => {
                Split::CapacityWeighted
            }
            (SplitChoice::Uniform, _) => Split::Uniform,
        };
        let request = nook_plan::Request { ends, ..request };
        let could: Vec<Device> = others
            .iter()
            .map(|device| match device.peer().filter(|peer| movable.contains(peer)) {
                Some(peer) => {
                    self.at_its_cap(device, &model, request.positions, book.heard.get(&peer))
                }
                None => device.clone(),
            })
            .collect();
        let placed = |computes: Vec<LayerRange>| {
            let here = &Device { computes, ..here.clone() };
            let situation = Situation { model: &model, request: &request, here, others: &could };
            place(&situation, Aim::OneReply, split).ok()
        };
        let placement = placed(here.computes.clone());
        let placement = placement.or_else(|| least_more(&here.computes, model.layers, placed));
        let wanted = placement.map(|placement| {
            let shares = placement.shares();
            let moving = moving(&shares, &others, model.layer_bytes);
            Wanted { shares, prediction: placement.prediction, moving }
        });
        let is_elsewhere =
            |wanted: &Wanted| wanted.shares.iter().any(|share| share.place != Place::Local);
        let wanted = wanted.filter(is_elsewhere);
        let shares = wanted.iter().flat_map(|wanted| &wanted.shares);
        let own = shares.filter(|share| share.place == Place::Local).map(|share| share.layers);
        let lacks = |layers: &LayerRange| !here.computes.iter().any(|it| it.contains(*layers));
        let lacking = own.filter(lacks).collect();
        Outlook { present, wanted, lacking }
    }

    /// A device as it could be: what it holds of the model it could give up for other layers of it,
    /// and what it lacks it would fetch, where it says so.
    fn at_its_cap(
        &self,
        device: &Device,
        model: &ModelCosts,
        positions: u32,
        heard: Option<&Heard>,
    ) -> Device {
        // What it says itself, as it does of its memory; what it has answered lately may be gone.
        let shards = heard.into_iter().flat_map(|heard| &heard.advert.shards);
        let of_it = shards.filter(|shard| shard.model == self.model);
        let held: Vec<LayerRange> = of_it.map(|shard| shard.held).collect();
        let held: u64 = layers_in(&held).map(|_| model.layer_bytes).sum();
        let room = device.memory_free.saturating_add(held);
        // It offers as many as it would hold of those that it has, wherever they lie, with the
        // caches of all its streams.
        let offered = layers_in(&device.computes).count() as u64;
        let fetched = heard.and_then(|heard| self.fetch_room(heard, model, room));
        let layers = match (device.standing, fetched) {
            (Standing::Ready, None) => offered,
            (Standing::Ready | Standing::Out(Out::LacksLayers), Some(fetch)) => {
                offered.saturating_add(fetch.on_disk).min(fetch.in_memory.max(offered))
            }
            _ => return device.clone(),
        };
        let each =
            model.layer_bytes.saturating_add(model.kv_bytes.saturating_mul(u64::from(positions)));
        Device {
            standing: Standing::Ready,
            computes: vec![LayerRange::all(model.layers)],
            held: Vec::new(),
            memory_free: room.min(layers.saturating_mul(each)),
            ..device.clone()
        }
    }

    /// What a device that fetches layers has room for; absent where it fetches none. Counted as
    /// hosts count: with a usual cache for each of its streams.
    fn fetch_room(&self, heard: &Heard, model: &ModelCosts, memory: u64) -> Option<FetchRoom> {
        let advert = &heard.advert;
        let on_disk = advert.fetch_bytes / model.layer_bytes.max(1);
        if on_disk == 0 {
            return None;
        }
        let positions = self.file.shape().context_length.min(GUEST_POSITIONS_TYPICAL);
        let streams = u64::from(advert.streams_free) + u64::from(advert.queue_depth);
        let caches = model.kv_bytes.saturating_mul(u64::from(positions)).saturating_mul(streams);
        let each = model.layer_bytes.saturating_add(caches).max(1);
        Some(FetchRoom { in_memory: memory / each, on_disk })
    }
}

/// What comes of as few layers as possible besides those that are `here`, behind the first of them;
/// absent where nothing comes of all.
fn least_more<T>(
    here: &[LayerRange],
    layers: u32,
    placed: impl Fn(Vec<LayerRange>) -> Option<T>,
) -> Option<T> {
    let first = here.first().filter(|range| range.start() == 0).map_or(0, |range| range.len());
    let rest = here.iter().filter(|range| range.start() >= first).copied();
    let rest: Vec<LayerRange> = rest.collect();
    let with = |more: u32| {
        let mut computes = vec![LayerRange::all(first.saturating_add(more))];
        computes.extend(rest.iter().filter(|range| range.end() > first.saturating_add(more)));
        placed(computes)
    };
    let (mut few, mut enough) = (0, layers.saturating_sub(first));
    let mut found = with(enough)?;
    while enough - few > 1 {
        let middle = few + (enough - few) / 2;
        match with(middle) {
            Some(placement) => (found, enough) = (placement, middle),
            None => few = middle,
        }
    }
    Some(found)
}

/// What a device would spend on layers that it fetches first.
struct FetchRoom {
    /// Layers for whose weights and usual caches it has memory.
    in_memory: u64,
    /// Layers for which it has disk space.
    on_disk: u64,
}

/// The longest that any device would load.
fn moving(shares: &[Share], others: &[Device], layer_bytes: u64) -> Duration {
    let takes = |device: &Device| {
        let of_it = shares.iter().filter(|share| share.place == device.place);
        let missing = of_it
            .flat_map(|share| share.layers.iter())
            .filter(|layer| !device.held.iter().any(|held| held.contains_layer(*layer)));
        let bytes = layer_bytes.saturating_mul(missing.count() as u64);
        let rate = device.speed.load.measured().unwrap_or(LOAD_ASSUMED);
        if bytes == 0 { Duration::ZERO } else { rate.time_for(bytes) }
    };
    others.iter().map(takes).max().unwrap_or_default()
}

/// Each layer of `ranges` once.
fn layers_in(ranges: &[LayerRange]) -> impl Iterator<Item = u32> {
    let layers: BTreeSet<u32> = ranges.iter().flat_map(|range| range.iter()).collect();
    layers.into_iter()
}
