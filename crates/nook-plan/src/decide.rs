//! Alone or pooled: the one place where that is decided, with both predictions and all reasons.
//!
//! Measured figures come first: devices whose speed or link nobody has measured are looked at only
//! when the measured ones cannot do it, because a price with an assumption in it is not comparable
//! with one without. A pool must be faster than this device alone by [`POOLING_GAIN_MIN_PERCENT`];
//! else it runs alone.

use std::time::Duration;

use nook_base::{LayerRange, ModelPart, PeerId};

use crate::explain::{Judged, explain};
use crate::facts::{Device, OffloadPolicy, Situation, Standing};
use crate::figure::nanos;
use crate::predict::{Basis, Impossible, Prediction, by_id, peer_of, predict};
use crate::price::{Prices, ROUND_TRIP_ASSUMED, Spans, Tier, Visit};
use crate::reason::LeftOut;
use crate::route::{Place, Route, Segment};
use crate::search::{DEVICES_SEARCHED_MAX, cheapest_pooled};
use crate::shape::{OffloadPermit, Shape};

/// What a pool must gain to be worth other people's machines. Predictions are not better than that.
pub const POOLING_GAIN_MIN_PERCENT: u32 = 2;

/// Beginnings of the conversation that are looked at; of more, the longest.
const RESUMES_MAX: usize = 4;

/// Devices of more than a search can hold that are chosen for how far they reach; the others for
/// speed.
const REACHING_MAX: usize = 8;

/// How a request will be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Execution {
    /// Over these segments, both ends here.
    Route(Route),
    /// Everything on one device of the same person.
    Offload(OffloadPermit),
}

/// An execution and what it will cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How it is executed.
    pub execution: Execution,
    /// Which topology it is.
    pub shape: Shape,
    /// What it will cost.
    pub prediction: Prediction,
}

/// Why the chosen plan was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// This device cannot do it alone.
    AloneIsImpossible,
    /// The pool is faster.
    PoolIsFaster,
    /// One other device of the same person, which computes everything, is faster than this device
    /// and than any pool.
    OwnDeviceIsFaster,
    /// This device alone is faster, or nearly as fast.
    AloneIsFaster,
    /// No other device could help.
    NobodyElseCan,
}

/// Everything that was decided, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub plan: Plan,
    /// Why.
    pub because: Because,
    /// What this device alone would cost, or why it cannot.
    pub alone: Result<Prediction, Impossible>,
    /// The best plan over segments with other devices, chosen or not.
    pub pooled: Option<Plan>,
    /// The best device of the same person for everything, chosen or not; absent where that is not
    /// allowed, or none can.
    pub whole: Option<Plan>,
    /// Every other device without a part in `plan`, by id.
    pub left_out: Vec<LeftOut>,
}

/// Nothing can be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("neither this device alone ({alone}) nor a pool of {} devices can do it", left_out.len())]
pub struct NoPlan {
    /// Why this device cannot do it alone.
    pub alone: Impossible,
    /// The first layer that no device at all would compute, if there is one.
    pub first_missing_layer: Option<u32>,
    /// Why each of the others could not help.
    pub left_out: Vec<LeftOut>,
}

/// Decides how to execute one request. Pure: nothing is reserved or told to anybody.
pub fn plan(situation: &Situation<'_>) -> Result<Decision, NoPlan> {
    let others = by_id(situation.others);
    let alone = alone(situation);
    let (Pools { divided: pooled, whole }, tier) = pools(situation, &others, alone.is_ok());
    let (plan, because) = match (&alone, best_of(&pooled, &whole)) {
        (Ok(here), Some(pool)) if is_worth_it(here, &pool.prediction) => {
            let because = match pool.execution {
                Execution::Route(_) => Because::PoolIsFaster,
                Execution::Offload(_) => Because::OwnDeviceIsFaster,
            };
            (pool.clone(), because)
        }
        (Ok(here), Some(_)) => (here_alone(situation, *here), Because::AloneIsFaster),
        (Ok(here), None) => (here_alone(situation, *here), Because::NobodyElseCan),
        (Err(_), Some(pool)) => (pool.clone(), Because::AloneIsImpossible),
        (Err(alone), None) => {
            let judged = Judged { situation, others: &others, tier, execution: None };
            return Err(NoPlan {
                alone: *alone,
                first_missing_layer: first_missing_layer(situation, &others),
                left_out: explain(&judged),
            });
        }
    };
    let judged = Judged { situation, others: &others, tier, execution: Some(&plan.execution) };
    let left_out = explain(&judged);
    Ok(Decision { plan, because, alone, pooled, whole, left_out })
}

fn alone(situation: &Situation<'_>) -> Result<Prediction, Impossible> {
    let layers = situation.model.layers;
    let route =
        Route::alone(layers).map_err(|_| Impossible::OtherModel { route: 0, model: layers })?;
    predict(situation, &route)
}

fn here_alone(situation: &Situation<'_>, prediction: Prediction) -> Plan {
    let route = Route::alone(situation.model.layers)
        .expect("this route was predicted, so the model has layers");
    Plan { execution: Execution::Route(route), shape: Shape::Alone, prediction }
}

fn is_worth_it(alone: &Prediction, pool: &Prediction) -> bool {
    // A price at its worst that still wins is no guess, but one measured price against one assumed
    // is.
    if alone.basis == Basis::Measured && pool.basis == Basis::Assumed {
        return false;
    }
    let percent = |plan: &Prediction, percent: u32| plan.total.as_nanos() * u128::from(percent);
    percent(pool, 100 + POOLING_GAIN_MIN_PERCENT) < percent(alone, 100)
}

/// What others could do.
struct Pools {
    /// The best plan over segments, both ends here.
    divided: Option<Plan>,
    /// The best device for everything.
    whole: Option<Plan>,
}

/// What others could do, and among which devices it was looked for.
fn pools(situation: &Situation<'_>, others: &[&Device], can_alone: bool) -> (Pools, Tier) {
    let of = |tier: Tier| Pools {
        divided: divided(situation, others, tier),
        whole: whole_elsewhere(situation, others, tier),
    };
    let measured = of(Tier::Measured);
    if measured.divided.is_some() || measured.whole.is_some() || can_alone {
        return (measured, Tier::Measured);
    }
    (of(Tier::All), Tier::All)
}

/// Prompt and reply leave this device only where that gains as much over the best pool as a pool
/// must gain over this device alone.
fn best_of<'a>(divided: &'a Option<Plan>, whole: &'a Option<Plan>) -> Option<&'a Plan> {
    match (divided, whole) {
        (Some(divided), Some(whole)) if is_worth_it(&divided.prediction, &whole.prediction) => {
            Some(whole)
        }
        (divided, whole) => divided.as_ref().or(whole.as_ref()),
    }
}

fn divided(situation: &Situation<'_>, others: &[&Device], tier: Tier) -> Option<Plan> {
    let chosen = choose(situation, others, tier);
    let plans = resumes(situation, others).into_iter().filter_map(|done| {
        let spans = if done == 0 { Spans::Any } else { Spans::Cached };
        let prices = Prices::new(situation, &chosen, done, spans, tier);
        let route = route_of(situation, &chosen, &cheapest_pooled(&prices)?)?;
        let prediction = predict(situation, &route).ok()?;
        Some(Plan { shape: Shape::of(&route), execution: Execution::Route(route), prediction })
    });
    // The first of equals: the order of candidates does not hang on that of the devices.
    plans.min_by_key(|plan| plan.prediction.total)
}

/// Numbers of positions from which the conversation might go on; 0 is always among them.
fn resumes(situation: &Situation<'_>, others: &[&Device]) -> Vec<u32> {
    let devices = others.iter().copied().chain([situation.here]);
    let last = situation.request.prompt.saturating_sub(1);
    let mut positions: Vec<u32> = devices
        .flat_map(|device| device.cached.iter().map(|cached| cached.positions.min(last)))
        .filter(|positions| *positions > 0)
        .collect();
    positions.sort_unstable_by(|a, b| b.cmp(a));
    positions.dedup();
    positions.truncate(RESUMES_MAX);
    positions.push(0);
    positions
}

fn route_of(situation: &Situation<'_>, devices: &[&Device], visits: &[Visit]) -> Option<Route> {
    let last = visits.len().checked_sub(1)?;
    let segments = visits.iter().enumerate().map(|(at, (device, layers))| Segment {
        part: ModelPart { layers: *layers, embedding: at == 0, head: at == last },
        place: match device.checked_sub(1).and_then(|other| devices.get(other)) {
            Some(other) => other.place,
            None => Place::Local,
        },
    });
    Route::new(situation.model.layers, segments.collect()).ok()
}

/// The devices that a search looks at: all, or of very many those that reach far and those that are
/// fast, so that a cover is found where one takes few devices.
fn choose<'a>(situation: &Situation<'_>, others: &[&'a Device], tier: Tier) -> Vec<&'a Device> {
    let limit = DEVICES_SEARCHED_MAX - 1;
    let able: Vec<&Device> = others
        .iter()
        .filter(|device| device.standing == Standing::Ready && device.streams_free > 0)
        .copied()
        .collect();
    if able.len() <= limit {
        return able;
    }
    let prices = Prices::new(situation, &able, 0, Spans::Any, tier);
    let mut chosen = reaching(&prices);
    let mut by_speed: Vec<(u64, usize)> = (1..prices.terms.len())
        .filter_map(|at| Some((price_of_a_layer(&prices, at)?, at)))
        .collect();
    by_speed.sort_unstable();
    for (_, at) in by_speed {
        if chosen.len() >= limit {
            break;
        }
        if !chosen.contains(&at) {
            chosen.push(at);
        }
    }
    chosen.sort_unstable();
    chosen.into_iter().filter_map(|at| able.get(at - 1).copied()).collect()
}

/// Devices that cover the model in few hops: from each layer on, the one that gets furthest.
fn reaching(prices: &Prices) -> Vec<usize> {
    let mut chosen = Vec::new();
    let mut layer = 0;
    while layer < prices.layers && chosen.len() < REACHING_MAX {
        let reach = |at: usize| (reach(prices, at, layer), std::cmp::Reverse(at));
        let free = (1..prices.terms.len()).filter(|at| !chosen.contains(at));
        let Some(best) = free.max_by_key(|at| reach(*at)) else { break };
        let end = reach(best).0;
        if end > layer {
            chosen.push(best);
        }
        layer = end.max(layer + 1);
    }
    chosen
}

/// The layer before which a visit from `layer` on must end for lack of layers or memory.
fn reach(prices: &Prices, device: usize, layer: usize) -> usize {
    let terms = &prices.terms[device];
    let mut room = terms.room;
    (layer..prices.layers)
        .find(|at| {
            let left = room.checked_sub(terms.memory[*at]).filter(|_| terms.can[*at]);
            room = left.unwrap_or(0);
            left.is_none()
        })
        .unwrap_or(prices.layers)
}

/// What a layer costs in the longest visit that the device could have; `None` without any.
fn price_of_a_layer(prices: &Prices, device: usize) -> Option<u64> {
    let terms = &prices.terms[device];
    let (mut best, mut layer) = (None, 0);
    while layer < prices.layers {
        let end = reach(prices, device, layer);
        let len = u32::try_from(end - layer).unwrap_or(u32::MAX);
        if len > 0 {
            let start = u32::try_from(layer).unwrap_or(u32::MAX);
            let costs = prices.costs(&[(device, LayerRange::with_len(start, len))]);
            let each = costs.total / u64::from(len);
            best = Some(best.map_or(each, |best: u64| best.min(each)));
        }
        layer = end.max(layer + 1);
        if terms.visits_max <= 1 && best.is_some() {
            break;
        }
    }
    best
}

/// The best device of the same person for the whole request, where that is allowed.
fn whole_elsewhere(situation: &Situation<'_>, others: &[&Device], tier: Tier) -> Option<Plan> {
    if situation.request.whole == OffloadPolicy::Refused {
        return None;
    }
    let plans = others.iter().filter_map(|device| whole_on(situation, device, tier));
    plans.min_by_key(|plan| plan.prediction.total)
}

fn whole_on(situation: &Situation<'_>, device: &Device, tier: Tier) -> Option<Plan> {
    let execution = OffloadPermit::new(peer_of(device), device.owner).ok()?;
    let has_streams = device.standing == Standing::Ready && device.streams_free > 0;
    let is_unknown = device.speed.ends.is_unknown()
        || device.speed.decode.is_unknown()
        || device.speed.prefill.is_unknown()
        || device.link.round_trip.is_unknown();
    if !has_streams || (tier == Tier::Measured && is_unknown) {
        return None;
    }
    // Priced as what it is: that device alone, seen from there, and one round trip for the first
    // token; the tokens after it follow each other over the link.
    let there = Device { place: Place::Local, ..device.clone() };
    let situation = Situation { here: &there, others: &[], ..*situation };
    let mut prediction = alone(&situation).ok()?;
    let trip = device.link.round_trip.measured().map_or(ROUND_TRIP_ASSUMED, |trip| {
        Duration::from_nanos(nanos(trip.mean).saturating_add(nanos(trip.deviation)))
    });
    prediction.first_token = prediction.first_token.saturating_add(trip);
    prediction.total = prediction.total.saturating_add(trip);
    if is_unknown {
        prediction.basis = Basis::Assumed;
    }
    let shape = Shape::OffloadPolicy { peer: execution.peer() };
    Some(Plan { execution: Execution::Offload(execution), shape, prediction })
}

fn first_missing_layer(situation: &Situation<'_>, others: &[&Device]) -> Option<u32> {
    let ready = |device: &&&Device| device.standing == Standing::Ready;
    let here = [situation.here];
    let holds = |layer: u32| {
        others
            .iter()
            .filter(ready)
            .chain(&here)
            .any(|device| device.computes.iter().any(|range| range.contains_layer(layer)))
    };
    (0..situation.model.layers).find(|layer| !holds(*layer))
}

impl Plan {
    /// The other devices that have a part.
    #[must_use]
    pub fn peers(&self) -> Vec<PeerId> {
        peers_of(&self.execution)
    }
}

/// The other devices of a route, each once, by id.
pub(crate) fn peers_of(execution: &Execution) -> Vec<PeerId> {
    let mut peers = match execution {
        Execution::Offload(whole) => vec![whole.peer()],
        Execution::Route(route) => {
            let places = route.segments().iter().map(|segment| segment.place);
            let peers = places.filter_map(|place| match place {
                Place::Peer(peer) => Some(peer),
                Place::Local => None,
            });
            peers.collect()
        }
    };
    peers.sort_unstable();
    peers.dedup();
    peers
}
