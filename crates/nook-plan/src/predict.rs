//! What one given route will cost, and whether it is possible at all.
//!
//! The node asks this for the route that it is walking, to show predicted beside measured; the
//! planner asks it once more for whatever it is about to choose. It checks every rule on the
//! finished route and shares only the prices with the search, so it is also what the search is
//! tested against.

use std::time::Duration;

use nook_base::PeerId;

use crate::facts::{Device, EndsHeld, Situation, Standing, Width};
use crate::price::{Costs, Prices, Spans, Tier, Visit};
use crate::route::{Place, Route};

/// Whether a price rests on measurements alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// Everything in it was measured.
    Measured,
    /// Something was never measured and is taken at its worst. Not to be shown beside a measured
    /// price without saying so.
    Assumed,
}

/// What a route will cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction {
    /// From the request to the first token, loading included.
    pub first_token: Duration,
    /// Of that, loading layers that are not in memory.
    pub load: Duration,
    /// Each further token.
    pub token: Duration,
    /// The whole reply as long as it is expected to be.
    pub total: Duration,
    /// Positions of the prompt that are not computed again, because every stage holds them.
    pub resumed: u32,
    /// What the figures rest on.
    pub basis: Basis,
}

/// Why a route is not possible in a situation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// The route is that of another model.
    #[error("the route has {route} layers, the model {model}")]
    OtherModel {
        /// Layers of the route.
        route: u32,
        /// Layers of the model.
        model: u32,
    },
    /// A device that is not there, or may not be asked.
    #[error("{place} may not be asked")]
    NotReady {
        /// Who.
        place: Place,
    },
    /// A device does not compute that layer.
    #[error("{place} does not compute layer {layer}")]
    NotComputed {
        /// Who.
        place: Place,
        /// The first such layer.
        layer: u32,
    },
    /// The family cannot be cut there.
    #[error("the model cannot be cut before layer {layer}")]
    BadCut {
        /// The layer after the cut.
        layer: u32,
    },
    /// An end on this device is not what the request asks for.
    #[error("the layers at this device's ends, {prefix} and {suffix}, are not what was asked for")]
    WrongEnds {
        /// Layers at the start.
        prefix: u32,
        /// Layers at the end.
        suffix: u32,
    },
    /// Weights to load and caches for all layers of the range do not fit.
    #[error("{place} would need {needs} bytes and has {free}")]
    NoRoom {
        /// Who.
        place: Place,
        /// Bytes that the route adds there.
        needs: u64,
        /// Bytes that it would still spend.
        free: u64,
    },
    /// More calls than the device has free streams.
    #[error("{place} has {free} free streams, {calls} are needed")]
    NoStreams {
        /// Who.
        place: Place,
        /// Calls.
        calls: u16,
        /// Free streams.
        free: u16,
    },
    /// More hops than the request allows.
    #[error("{hops} hops are more than {hops_max}")]
    TooManyHops {
        /// Calls to others.
        hops: usize,
        /// The limit.
        hops_max: usize,
    },
}

impl Prediction {
    /// Tokens per second after the first.
    #[must_use]
    pub fn tokens_per_second(&self) -> f64 {
        1.0 / self.token.as_secs_f64().max(1e-9)
    }

    pub(crate) fn of(costs: Costs, resumed: u32) -> Self {
        let time = Duration::from_nanos;
        Self {
            first_token: time(costs.first_token),
            load: time(costs.load),
            token: time(costs.token),
            total: time(costs.total),
            resumed,
            basis: if costs.assumed { Basis::Assumed } else { Basis::Measured },
        }
    }
}

/// What walking `route` will cost, if it is possible.
pub fn predict(situation: &Situation<'_>, route: &Route) -> Result<Prediction, Impossible> {
    let Situation { model, request, here, others } = *situation;
    if route.layers() != model.layers {
        return Err(Impossible::OtherModel { route: route.layers(), model: model.layers });
    }
    if route.hops() > request.hops_max {
        let (hops, hops_max) = (route.hops(), request.hops_max);
        return Err(Impossible::TooManyHops { hops, hops_max });
    }
    let mut devices = vec![here];
    let mut visits: Vec<Visit> = Vec::with_capacity(route.segments().len());
    for segment in route.segments() {
        let place = segment.place;
        let at = match devices.iter().position(|device| device.place == place) {
            Some(at) => at,
            None => {
                let other = others.iter().filter(|other| other.place == place).min();
                devices.push(other.ok_or(Impossible::NotReady { place })?);
                devices.len() - 1
            }
        };
        visits.push((at, segment.part.layers));
    }
    check_ends(situation, route, &visits)?;
    check_cuts(situation, &visits)?;
    let done = resumed(situation, &devices, &visits);
    for (at, device) in devices.iter().enumerate() {
        check_device(situation, device, &visits, at, done)?;
    }
    let prices = Prices::new(situation, &devices[1..], done, Spans::Any, Tier::All);
    Ok(Prediction::of(prices.costs(&visits), done))
}

fn check_ends(
    situation: &Situation<'_>,
    route: &Route,
    visits: &[Visit],
) -> Result<(), Impossible> {
    let ends = situation.request.ends;
    let len = |visit: Option<&Visit>| visit.map_or(0, |(_, layers)| layers.len());
    let (prefix, suffix) = (len(visits.first()), len(visits.last()));
    let is_legal = if route.hops() == 0 {
        true
    } else {
        let middle = visits.get(1..visits.len().saturating_sub(1)).unwrap_or_default();
        let is_between = middle.iter().any(|(device, _)| *device == 0);
        match ends.width {
            Width::Free => prefix >= ends.prefix && suffix >= ends.suffix,
            Width::EndsOnly => prefix >= ends.prefix && suffix >= ends.suffix && !is_between,
            Width::Fixed => prefix == ends.prefix && suffix == ends.suffix && !is_between,
        }
    };
    if is_legal { Ok(()) } else { Err(Impossible::WrongEnds { prefix, suffix }) }
}

fn check_cuts(situation: &Situation<'_>, visits: &[Visit]) -> Result<(), Impossible> {
    let starts = visits.iter().skip(1).map(|(_, layers)| layers.start());
    match starts.into_iter().find(|start| !situation.model.may_cut(*start)) {
        Some(layer) => Err(Impossible::BadCut { layer }),
        None => Ok(()),
    }
}

/// Positions that every stage of the route holds in its cache: all or nothing, because a stage that
/// misses needs what the stages before it computed. The last position is always computed.
fn resumed(situation: &Situation<'_>, devices: &[&Device], visits: &[Visit]) -> u32 {
    let held = |(at, layers): &Visit| {
        let same = devices[*at].cached.iter().filter(|cached| cached.layers == *layers);
        same.map(|cached| cached.positions).max().unwrap_or(0)
    };
    let stages = visits.iter().filter(|(_, layers)| !layers.is_empty());
    let least = stages.map(held).min().unwrap_or(0);
    least.min(situation.request.prompt.saturating_sub(1))
}

fn check_device(
    situation: &Situation<'_>,
    device: &Device,
    visits: &[Visit],
    at: usize,
    done: u32,
) -> Result<(), Impossible> {
    let Situation { model, request, .. } = *situation;
    let place = device.place;
    let is_here = at == 0;
    if !is_here && device.standing != Standing::Ready {
        return Err(Impossible::NotReady { place });
    }
    let positions = u64::from(request.positions.saturating_sub(done));
    let mut needs = match (is_here, device.ends) {
        (true, EndsHeld::ToLoad) => model.ends_bytes,
        _ => 0,
    };
    let mut calls = 0_u16;
    for (_, layers) in visits.iter().filter(|(index, _)| *index == at) {
        calls = calls.saturating_add(1);
        for layer in layers.iter() {
            if !device.computes.iter().any(|range| range.contains_layer(layer)) {
                return Err(Impossible::NotComputed { place, layer });
            }
            let is_held = device.held.iter().any(|range| range.contains_layer(layer));
            let weights = if is_held { 0 } else { model.layer_bytes };
            needs = needs
                .saturating_add(weights)
                .saturating_add(model.kv_bytes.saturating_mul(positions));
        }
    }
    if needs > device.memory_free {
        return Err(Impossible::NoRoom { place, needs, free: device.memory_free });
    }
    if !is_here && calls > device.streams_free {
        return Err(Impossible::NoStreams { place, calls, free: device.streams_free });
    }
    Ok(())
}

/// The device of a peer among `others`, as every function of this crate finds it.
pub(crate) fn by_id(others: &[Device]) -> Vec<&Device> {
    let mut sorted: Vec<&Device> = others.iter().filter(|other| other.peer().is_some()).collect();
    sorted.sort_unstable();
    sorted.dedup_by_key(|device| device.place);
    sorted
}

/// The peer of a device that is known to be another one.
pub(crate) fn peer_of(device: &Device) -> PeerId {
    match device.place {
        Place::Peer(peer) => peer,
        Place::Local => PeerId([0; 32]),
    }
}
