//! Which device should hold which layers, for the replies to come.
//!
//! Routing ([`crate::plan`]) serves one request with what is there; placement says what should be
//! there, so loading does not count in it: it is told apart, as the price of moving. The planned
//! split pours layers by memory-capped water-filling over decode speed, drops devices whose hop
//! costs more than it saves, cuts by dynamic programming, and takes the best of that, of the
//! shortest path and of running alone. Moves go through [`crate::Steadiness`].

use std::time::Duration;

use nook_base::{LayerRange, ModelPart};

use crate::facts::{Device, Situation, Standing, Width};
use crate::predict::{Impossible, Prediction, by_id, predict};
use crate::price::{Prices, Spans, Tier, Visit};
use crate::route::{Place, Route, Segment};
use crate::search::{DEVICES_SEARCHED_MAX, cheapest_pooled};
use crate::topology::even_split;
use crate::water::{Vessel, fill};

/// How layers are divided among devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// As predicted to be best.
    Planned,
    /// Equal parts for every device that may be asked: for comparison and for tests.
    Uniform,
    /// Parts in proportion to decode speed, as far as memory allows, and no device left out.
    CapacityWeighted,
}

/// What the placement should be good at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// One reply at a time, as soon as possible.
    OneReply,
    /// Several conversations at once: the busiest device decides how many tokens the house makes.
    ManyReplies,
}

/// One device's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Who.
    pub place: Place,
    /// Which layers it should hold.
    pub layers: LayerRange,
}

/// Who should hold what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The route over it.
    pub route: Route,
    /// The usual request over it, once everything is loaded.
    pub prediction: Prediction,
    /// The longest decode step of any device, the way to it not counted.
    pub busiest: Duration,
    /// Loading what is not in memory, once.
    pub moving: Duration,
}

/// Layers that cannot be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The devices together have no room for the model.
    #[error("the devices have no room for all layers of the model")]
    NoRoom,
    /// This split is not possible here.
    #[error("this split is not possible: {0}")]
    Impossible(#[from] Impossible),
}

/// Places the layers of a model. The request of `situation` is the usual one.
pub fn place(
    situation: &Situation<'_>,
    aim: Aim,
    split: Split,
) -> Result<Placement, PlacementError> {
    let others: Vec<&Device> = by_id(situation.others)
        .into_iter()
        .filter(|device| device.standing == Standing::Ready && device.streams_free > 0)
        .collect();
    let mut ordered = others;
    // Those that hold layers stand where their layers are, so that little has to move.
    ordered.sort_by_key(|device| (first_layer(device), device.place));
    ordered.truncate(DEVICES_SEARCHED_MAX - 1);
    let mut prices = Prices::new(situation, &ordered, 0, Spans::Any, Tier::All);
    prices.ends_load = 0;
    for terms in &mut prices.terms {
        terms.load.fill(0);
    }
    let ground = Ground { situation, others: &ordered, prices, aim };
    match split {
        Split::Planned => ground.planned(),
        Split::Uniform => ground.uniform(),
        Split::CapacityWeighted => ground.weighted(),
    }
}

impl Placement {
    /// Who should hold what, in layer order; nothing empty, neighbours of one device joined.
    #[must_use]
    pub fn shares(&self) -> Vec<Share> {
        let segments = self.route.segments().iter();
        let shares =
            segments.map(|segment| Share { place: segment.place, layers: segment.part.layers });
        shares.filter(|share| !share.layers.is_empty()).collect()
    }
}

/// Everything that placing needs.
struct Ground<'a> {
    situation: &'a Situation<'a>,
    others: &'a [&'a Device],
    /// Without loading.
    prices: Prices,
    aim: Aim,
}

impl Ground<'_> {
    fn planned(&self) -> Result<Placement, PlacementError> {
        let all: Vec<usize> = (1..self.prices.terms.len()).collect();
        let alone = vec![(0, LayerRange::all(self.situation.model.layers))];
        let mut best: Option<((u64, u64), Placement)> = None;
        let mut consider = |visits: Vec<Visit>| {
            let Ok(placement) = self.finished(&visits) else { return };
            let value = self.value(&visits, self.aim);
            if best.as_ref().is_none_or(|(least, _)| value < *least) {
                best = Some((value, placement));
            }
        };
        // Alone first: others take part only where they are better, not where they are as good.
        consider(alone);
        consider(self.even());
        let mut orders = vec![all];
        // What is best for one aim may be best for the other as well, where a search met its bound.
        for aim in [Aim::OneReply, Aim::ManyReplies] {
            let pruned = self.pruned(&orders[0], aim);
            orders.push(pruned);
        }
        for order in &orders {
            let cuts = [Aim::OneReply, Aim::ManyReplies].map(|aim| self.cut(order, aim));
            for visits in cuts.into_iter().chain([self.poured(order)]).flatten() {
                consider(visits);
            }
        }
        // The search is bounded; priced with loading it keeps other labels, so it is asked both
        // ways.
        let loading = Prices::new(self.situation, self.others, 0, Spans::Any, Tier::All);
        for prices in [&self.prices, &loading] {
            if let Some(visits) = cheapest_pooled(prices) {
                consider(visits);
            }
        }
        best.map(|(_, placement)| placement).ok_or(PlacementError::NoRoom)
    }

    fn uniform(&self) -> Result<Placement, PlacementError> {
        self.finished(&self.even())
    }

    fn even(&self) -> Vec<Visit> {
        let ends = self.situation.request.ends;
        let layers = self.situation.model.layers;
        let ranges = even_split(middle(layers, ends.prefix, ends.suffix), self.others.len());
        self.execution((1..).zip(ranges))
    }

    fn weighted(&self) -> Result<Placement, PlacementError> {
        let all: Vec<usize> = (1..self.prices.terms.len()).collect();
        let visits = self.poured(&all).ok_or(PlacementError::NoRoom)?;
        self.finished(&visits)
    }

    /// What is to be small: the whole reply, or the busiest device and then the reply.
    fn value(&self, visits: &[Visit], aim: Aim) -> (u64, u64) {
        let total = self.prices.costs(visits).total;
        match aim {
            Aim::OneReply => (total, 0),
            Aim::ManyReplies => (self.busiest(visits), total),
        }
    }

    fn busiest(&self, visits: &[Visit]) -> u64 {
        let mut steps = vec![0_u64; self.prices.terms.len()];
        for (device, layers) in visits {
            let terms = &self.prices.terms[*device];
            let step = terms.step(layers.len()).saturating_sub(terms.step_away);
            steps[*device] = steps[*device].saturating_add(step);
        }
        steps.into_iter().max().unwrap_or(0)
    }

    /// Devices of `order` whose leaving out makes pouring worse: one at a time goes, the most
    /// useless first, until each one pays for its hop.
    fn pruned(&self, order: &[usize], aim: Aim) -> Vec<usize> {
        let value = |order: &[usize]| self.poured(order).map(|visits| self.value(&visits, aim));
        let mut kept = order.to_vec();
        let mut now = value(&kept);
        while !kept.is_empty() {
            let without = (0..kept.len()).filter_map(|at| {
                let mut fewer = kept.clone();
                fewer.remove(at);
                Some((value(&fewer)?, fewer))
            });
            match without.min() {
                Some((then, fewer)) if now.is_none_or(|now| then <= now) => {
                    (kept, now) = (fewer, Some(then));
                }
                _ => break,
            }
        }
        kept
    }

    /// Pours the layers over this device and those of `order`, in that order.
    fn poured(&self, order: &[usize]) -> Option<Vec<Visit>> {
        let ends = self.situation.request.ends;
        let middle = middle(self.situation.model.layers, ends.prefix, ends.suffix);
        let mut vessels: Vec<Vessel> = order.iter().map(|at| self.vessel(*at, middle)).collect();
        if ends.width != Width::Fixed {
            let mut home = self.vessel(0, middle);
            home.room = home.room.saturating_sub(ends.prefix + ends.suffix);
            vessels.push(home);
        }
        let mut counts = fill(middle.len(), &vessels)?;
        counts.truncate(order.len());
        let mut cursor = middle.start();
        let ranges = order.iter().zip(counts).map(|(device, count)| {
            let range = LayerRange::with_len(cursor, count);
            cursor = range.end();
            (*device, range)
        });
        Some(self.execution(ranges))
    }

    fn vessel(&self, device: usize, layers: LayerRange) -> Vessel {
        let terms = &self.prices.terms[device];
        let able = layers.iter().map(|layer| layer as usize).filter(|layer| terms.can[*layer]);
        let needs = able.clone().map(|layer| terms.memory[layer]).max().unwrap_or(u64::MAX);
        let fits = u32::try_from(terms.room / needs.max(1)).unwrap_or(u32::MAX);
        let able = u32::try_from(able.count()).unwrap_or(u32::MAX);
        Vessel { room: fits.min(able), layer: terms.step_layer.max(1) }
    }

    /// This device, then these parts in layer order, then this device with all that is left.
    fn execution(&self, parts: impl Iterator<Item = Visit>) -> Vec<Visit> {
        let layers = self.situation.model.layers;
        let parts: Vec<Visit> = parts.filter(|(_, range)| !range.is_empty()).collect();
        let Some((first, last)) = parts.first().zip(parts.last()) else {
            return vec![(0, LayerRange::all(layers))];
        };
        let (start, end) = (first.1.start(), last.1.end());
        let mut visits = vec![(0, LayerRange::all(start))];
        visits.extend(&parts);
        visits.push((0, LayerRange::with_len(end, layers.saturating_sub(end))));
        visits
    }

    /// The best cut points for devices that stand in this order, each with one visit or none: for
    /// every device and boundary the best way to get there, longer and longer.
    fn cut(&self, order: &[usize], aim: Aim) -> Option<Vec<Visit>> {
        let layers = self.prices.layers;
        let ends = self.situation.request.ends;
        let suffix_start = layers.saturating_sub(ends.suffix as usize);
        let mut stations = vec![0];
        stations.extend(order);
        let mut reached: Vec<Option<(u64, u64)>> = vec![None; layers + 1];
        reached[0] = Some((0, 0));
        let mut from: Vec<Vec<usize>> = Vec::with_capacity(stations.len());
        for (at, device) in stations.iter().enumerate() {
            let mut next = reached.clone();
            let mut came: Vec<usize> = (0..=layers).collect();
            if at == 0 {
                next = vec![None; layers + 1];
            }
            for (start, value) in reached.iter().enumerate() {
                let Some(value) = value else { continue };
                let least = if at == 0 { ends.prefix as usize } else { start + 1 };
                for end in self.ends_of(*device, start).filter(|end| *end >= least) {
                    let value = self.joined(*value, *device, start..end, aim);
                    if next[end].is_none_or(|best| value < best) {
                        (next[end], came[end]) = (Some(value), start);
                    }
                }
            }
            reached = next;
            from.push(came);
        }
        let last = (0..=suffix_start)
            .filter(|start| self.ends_of(0, *start).any(|end| end == layers))
            .filter_map(|start| Some((self.joined(reached[start]?, 0, start..layers, aim), start)))
            .min()?;
        let mut cursor = last.1;
        let mut parts = Vec::new();
        for (device, came) in stations.iter().zip(&from).rev() {
            let start = came[cursor];
            if *device != 0 && start < cursor {
                let len = u32::try_from(cursor - start).ok()?;
                parts.push((*device, LayerRange::with_len(u32::try_from(start).ok()?, len)));
            }
            cursor = start;
        }
        parts.reverse();
        Some(self.execution(parts.into_iter()))
    }

    /// Boundaries at which a visit of `device` that begins at `start` may end.
    fn ends_of(&self, device: usize, start: usize) -> impl Iterator<Item = usize> {
        let terms = &self.prices.terms[device];
        let mut room = terms.room;
        let mut far = start;
        while far < self.prices.layers && terms.can[far] && terms.memory[far] <= room {
            room -= terms.memory[far];
            far += 1;
        }
        let is_first = start == 0;
        (start..=far).filter(move |end| {
            let is_cut = terms.leave[*end] && terms.enter[start];
            is_cut && (*end > start || device == 0 && (is_first || start == self.prices.layers))
        })
    }

    fn joined(
        &self,
        value: (u64, u64),
        device: usize,
        layers: std::ops::Range<usize>,
        aim: Aim,
    ) -> (u64, u64) {
        let terms = &self.prices.terms[device];
        let len = u32::try_from(layers.len()).unwrap_or(u32::MAX);
        let step = terms.step(len);
        let chunk = terms.fill_visit().saturating_add(terms.chunk(len) - terms.chunk(0));
        let total = chunk.saturating_add(step.saturating_mul(self.prices.steps));
        match aim {
            Aim::OneReply => (value.0.saturating_add(total), 0),
            Aim::ManyReplies => {
                let busy = step.saturating_sub(terms.step_away);
                (value.0.max(busy), value.1.saturating_add(total))
            }
        }
    }

    /// Proves the route and prices it.
    fn finished(&self, visits: &[Visit]) -> Result<Placement, PlacementError> {
        let last = visits.len().saturating_sub(1);
        let segments = visits.iter().enumerate().map(|(at, (device, layers))| Segment {
            part: ModelPart { layers: *layers, embedding: at == 0, head: at == last },
            place: match device.checked_sub(1).and_then(|other| self.others.get(other)) {
                Some(other) => other.place,
                None => Place::Local,
            },
        });
        let layers = self.situation.model.layers;
        let route = Route::new(layers, segments.collect())
            .map_err(|_| Impossible::OtherModel { route: 0, model: layers })?;
        let now = predict(self.situation, &route)?;
        Ok(Placement {
            route,
            prediction: Prediction::of(self.prices.costs(visits), 0),
            busiest: Duration::from_nanos(self.busiest(visits)),
            moving: now.load,
        })
    }
}

fn middle(layers: u32, prefix: u32, suffix: u32) -> LayerRange {
    let ends = prefix.saturating_add(suffix);
    LayerRange::with_len(prefix.min(layers), layers.saturating_sub(ends))
}

fn first_layer(device: &Device) -> u32 {
    let ranges = if device.held.is_empty() { &device.computes } else { &device.held };
    ranges.iter().map(|range| range.start()).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Household;
    use crate::{BytesPerSecond, Figure, Line, RoundTrip};

    #[test]
    fn pruning_drops_the_device_whose_hop_costs_more_than_it_saves_and_only_that() {
        let mut household = Household::small(1, 4, 16);
        household.model.uncuttable = vec![];
        household.request = crate::Request::usual(100, 100);
        let all = vec![LayerRange::all(16)];
        let micros = Duration::from_micros;
        household.here.memory_free = household.model.ends_bytes + 3 * household.model.layer_bytes;
        household.here.held = vec![];
        // Two near ones with room for ten layers each, and one far away that is as fast.
        for (device, trip) in household.others.iter_mut().zip([300, 300, 300_000]) {
            device.standing = Standing::Ready;
            (device.computes, device.held) = (all.clone(), vec![]);
            (device.streams_free, device.queue_depth, device.wait) = (1, 0, None);
            device.memory_free = 11 * household.model.layer_bytes;
            let line = Figure::Measured(Line { fixed: micros(300), slope: micros(400) });
            (device.speed.decode, device.speed.prefill) = (line, line);
            let (mean, deviation) = (micros(trip), Duration::ZERO);
            device.link.round_trip = Figure::Measured(RoundTrip { mean, deviation });
            device.link.bandwidth = Figure::Measured(BytesPerSecond(100_000_000));
        }
        let situation = household.situation();
        // As given, so that the far one is the third.
        let others: Vec<&Device> = household.others.iter().collect();
        let prices = Prices::new(&situation, &others, 0, Spans::Any, Tier::All);
        let ground = Ground { situation: &situation, others: &others, prices, aim: Aim::OneReply };
        assert_eq!(ground.pruned(&[1, 2, 3], Aim::OneReply), [1, 2]);
    }
}
