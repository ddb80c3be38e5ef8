//! What a route costs, in terms that a search can add up layer by layer.
//!
//! One figure, one unit, one place: the search, the prediction of a given route and the explanation
//! of a device left out all read these terms. A reply is loading (once, devices in parallel), then
//! prefill (the first chunk routes through all visits, each further one follows as fast as the
//! busiest device allows, two chunks under way per hop), then decode steps (every visit in turn):
//!
//! `first token = max load + Σ chunk visits + (chunks - 1) · busiest + ends`, `token = Σ (fixed +
//! slope · layers) · (1 + queue) + Σ (round trip + overhead + rows on the way) + ends`.
//!
//! Where a device hands its results to the next one, `Prices::saved` is taken off for each such
//! pair.

use std::collections::BTreeSet;
use std::time::Duration;

use nook_base::LayerRange;

use crate::facts::{Device, EndsHeld, Situation, Standing, Width};
use crate::figure::{BytesPerSecond, Figure, nanos};
use crate::fit::Line;
use crate::link::RoundTrip;
use crate::route::Place;

/// What a hop costs beyond its round trip: the host's socket to its worker and back, and framing.
/// Measured on loopback (packaging/benchmarks, the pipeline): 0.3 ms at a width of 2048, of which
/// some is the round trip.
pub const HOP_OVERHEAD: Duration = Duration::from_micros(200);

/// Assumed where nothing was measured: an old laptop behind a poor wireless link, and the slowest
/// loading that was seen in the field (26 s for each GiB).
pub const WEIGHTS_ASSUMED: BytesPerSecond = BytesPerSecond(2_000_000_000);
/// See [`WEIGHTS_ASSUMED`].
pub const VISIT_ASSUMED: Duration = Duration::from_millis(2);
/// See [`WEIGHTS_ASSUMED`].
pub const LOAD_ASSUMED: BytesPerSecond = BytesPerSecond(41_000_000);
/// See [`WEIGHTS_ASSUMED`].
pub const ROUND_TRIP_ASSUMED: Duration = Duration::from_millis(60);
/// See [`WEIGHTS_ASSUMED`].
pub const BANDWIDTH_ASSUMED: BytesPerSecond = BytesPerSecond(2_000_000);

/// Most visits of one route to the same device.
pub(crate) const VISITS_MAX: u16 = 3;

/// Which devices are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    /// Only what has been measured; this device always.
    Measured,
    /// All, the unknown at its assumption.
    All,
}

/// Which stretches of layers a visit may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spans {
    /// Any.
    Any,
    /// Exactly those whose caches hold at least the positions that are not computed again.
    Cached,
}

/// One device's terms. Times in ns, memory in bytes; vectors by layer or by boundary.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) speed_assumed: bool,
    load_assumed: bool,
    /// Computing of one chunk of prefill.
    pub(crate) chunk_fixed: u64,
    pub(crate) chunk_layer: u64,
    /// Round trip and both ways of one chunk; one way of it.
    chunk_away: u64,
    chunk_way: u64,
    /// One decode step: everything but the layers, and a layer.
    pub(crate) step_visit: u64,
    /// The part of `step_visit` that is the way.
    pub(crate) step_away: u64,
    pub(crate) step_layer: u64,
    pub(crate) load: Vec<u64>,
    pub(crate) memory: Vec<u64>,
    pub(crate) can: Vec<bool>,
    pub(crate) joined: Vec<bool>,
    pub(crate) enter: Vec<bool>,
    pub(crate) leave: Vec<bool>,
    pub(crate) room: u64,
    pub(crate) visits_max: u16,
}

/// The terms of all devices for one request; index 0 is this device.
#[derive(Debug, Clone)]
pub(crate) struct Prices {
    pub(crate) layers: usize,
    /// Chunks of prefill after the first.
    pub(crate) chunks_more: u64,
    /// Decode steps.
    pub(crate) steps: u64,
    /// Embedding and head, for one token.
    pub(crate) ends: u64,
    /// Loading them here.
    pub(crate) ends_load: u64,
    pub(crate) ends_assumed: bool,
    pub(crate) terms: Vec<Terms>,
    /// Devices, by index, of which the first hands its results to the second.
    pub(crate) hands: BTreeSet<(usize, usize)>,
    pub(crate) width: Width,
    pub(crate) hops_max: usize,
}

/// What a route costs, before it is told to anybody. In ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Costs {
    pub(crate) total: u64,
    pub(crate) first_token: u64,
    pub(crate) token: u64,
    pub(crate) load: u64,
    pub(crate) assumed: bool,
}

/// One visit: index of the device and what it computes.
pub(crate) type Visit = (usize, LayerRange);

impl Prices {
    /// Terms of this device and `others` for computing all of the prompt but its first `done`
    /// positions.
    pub(crate) fn new(
        situation: &Situation<'_>,
        others: &[&Device],
        done: u32,
        spans: Spans,
        tier: Tier,
    ) -> Self {
        let Situation { model, request, here, .. } = *situation;
        let layers = model.layers as usize;
        let rest = request.prompt.saturating_sub(done).max(1);
        let chunks = rest.div_ceil(request.chunk.max(1));
        let asking =
            Asking { situation: *situation, done, spans, tier, rows: rest.div_ceil(chunks) };
        let ends_assumed = here.speed.ends.is_unknown();
        let mut home = asking.terms(here, true);
        let mut ends_load = 0;
        if here.ends == EndsHeld::ToLoad {
            home.room = home.room.saturating_sub(model.ends_bytes);
            ends_load = nanos(here.speed.load.or(LOAD_ASSUMED).time_for(model.ends_bytes));
        }
        let mut terms = vec![home];
        terms.extend(others.iter().map(|other| asking.terms(other, false)));
        Self {
            layers,
            chunks_more: u64::from(chunks - 1),
            steps: u64::from(request.reply),
            ends: nanos(here.speed.ends.or(WEIGHTS_ASSUMED.time_for(model.ends_bytes))),
            ends_load,
            ends_assumed,
            terms,
            hands: hands(others),
            width: request.ends.width,
            hops_max: request.hops_max.min(nook_base::limits::HOPS_MAX),
        }
    }

    /// What these visits cost; they are legal.
    pub(crate) fn costs(&self, visits: &[Visit]) -> Costs {
        let (mut fill, mut step) = (0_u64, 0_u64);
        // Sums of one device stand where its first visit does: routes are short and households are
        // not.
        let mut computing = vec![0_u64; visits.len()];
        let mut loading = vec![0_u64; visits.len()];
        let mut assumed = self.ends_assumed;
        for (at, (index, layers)) in visits.iter().enumerate() {
            let terms = &self.terms[*index];
            let first = visits.iter().position(|(other, _)| other == index).unwrap_or(at);
            let compute = terms.chunk(layers.len());
            fill = fill.saturating_add(compute).saturating_add(terms.chunk_away);
            step = step.saturating_add(terms.step(layers.len()));
            computing[first] = computing[first].saturating_add(compute);
            let load = layers.iter().fold(0_u64, |sum, layer| {
                sum.saturating_add(terms.load.get(layer as usize).copied().unwrap_or(0))
            });
            let ends = if *index == 0 && first == at { self.ends_load } else { 0 };
            if let Some((before, _)) = at.checked_sub(1).and_then(|before| visits.get(before)) {
                let (chunk, token) = self.saved(*before, *index);
                (fill, step) = (fill.saturating_sub(chunk), step.saturating_sub(token));
            }
            loading[first] = loading[first].saturating_add(load).saturating_add(ends);
            assumed |= terms.speed_assumed || (load > 0 && terms.load_assumed);
        }
        let cycles = visits.iter().zip(computing).map(|((at, _), sum)| self.terms[*at].cycle(sum));
        let busiest = cycles.max().unwrap_or(0);
        let load = loading.into_iter().max().unwrap_or(0);
        let first_token = load
            .saturating_add(fill)
            .saturating_add(busiest.saturating_mul(self.chunks_more))
            .saturating_add(self.ends);
        let token = step.saturating_add(self.ends);
        let total = first_token.saturating_add(token.saturating_mul(self.steps));
        Costs { total, first_token, token, load, assumed }
    }
}

impl Prices {
    /// What it saves, of the route of the first chunk and of each decode step, that a visit of
    /// `from` is followed by one of `to`. A device that hands its rows on spares them half of its
    /// own way and half of the next one's, there and back; how far the two are from each other
    /// nobody here has measured, so the longer of the two halves stands for it. `n` hops of one
    /// length then cost `n + 1` times the way in one direction, not `2 n` times.
    pub(crate) fn saved(&self, from: usize, to: usize) -> (u64, u64) {
        if !self.hands.contains(&(from, to)) {
            return (0, 0);
        }
        let (one, other) = (&self.terms[from], &self.terms[to]);
        (one.chunk_away.min(other.chunk_away) / 2, one.step_away.min(other.step_away) / 2)
    }
}

/// Who hands results to whom, by index; this device is 0 and is handed all the rest.
fn hands(others: &[&Device]) -> BTreeSet<(usize, usize)> {
    let index = |peer| others.iter().position(|other| other.place == Place::Peer(peer));
    let pairs = others.iter().enumerate().flat_map(|(from, device)| {
        let to = device.hands_to.iter().filter_map(|to| index(*to));
        to.map(move |to| (from + 1, to + 1)).collect::<Vec<_>>()
    });
    pairs.collect()
}

impl Terms {
    /// Computing one chunk of prefill with `layers` layers.
    pub(crate) fn chunk(&self, layers: u32) -> u64 {
        self.chunk_fixed.saturating_add(self.chunk_layer.saturating_mul(u64::from(layers)))
    }

    /// What a visit adds to the route of the first chunk before any layer.
    pub(crate) fn fill_visit(&self) -> u64 {
        self.chunk_fixed.saturating_add(self.chunk_away)
    }

    /// One decode step with `layers` layers, the way included.
    pub(crate) fn step(&self, layers: u32) -> u64 {
        self.step_visit.saturating_add(self.step_layer.saturating_mul(u64::from(layers)))
    }

    /// As if the device stood next to this one.
    pub(crate) fn take_away_the_way(&mut self) {
        self.step_visit = self.step_visit.saturating_sub(self.step_away);
        (self.step_away, self.chunk_away, self.chunk_way) = (0, 0, 0);
    }

    /// How long after a chunk the next one can be done: computing, one way of the link, or half of
    /// the whole round where two chunks under way do not hide it.
    pub(crate) fn cycle(&self, compute: u64) -> u64 {
        compute.max(self.chunk_way).max(compute.saturating_add(self.chunk_away) / 2)
    }
}

/// What one request asks of every device alike.
struct Asking<'a> {
    situation: Situation<'a>,
    done: u32,
    spans: Spans,
    tier: Tier,
    rows: u32,
}

impl Asking<'_> {
    fn terms(&self, device: &Device, is_here: bool) -> Terms {
        let Situation { model, request, .. } = self.situation;
        let speed = device.speed;
        let slowest = WEIGHTS_ASSUMED.time_for(model.layer_bytes);
        let decode = speed.decode.or(Line { fixed: VISIT_ASSUMED, slope: slowest });
        // A row of prefill never costs more than a decode step of it.
        let prefill = speed.prefill.or(decode);
        let queue = if device.wait.is_some() { 1 } else { u64::from(device.queue_depth) + 1 };
        let wait = device.wait.map_or(0, nanos);
        let rows = u64::from(self.rows);
        let chunk_layer = nanos(prefill.slope)
            .saturating_mul(rows)
            .max(nanos(decode.slope))
            .saturating_mul(queue);
        let chunk_fixed = nanos(prefill.fixed).max(nanos(decode.fixed)).saturating_mul(queue);
        let step_fixed = nanos(decode.fixed).saturating_mul(queue);
        let (trip, bandwidth) = if is_here { (0, None) } else { way(device) };
        let carry = |rows: u64| {
            bandwidth.map_or(0, |bandwidth: BytesPerSecond| {
                nanos(bandwidth.time_for(model.row_bytes.saturating_mul(rows)))
            })
        };
        let step_away = trip.saturating_add(carry(1).saturating_mul(2));
        let positions = u64::from(request.positions.saturating_sub(self.done));
        let layer_load = nanos(speed.load.or(LOAD_ASSUMED).time_for(model.layer_bytes));
        let is_held = |layer: u32| device.held.iter().any(|held| held.contains_layer(layer));
        let speed_assumed = speed.decode.is_unknown()
            || speed.prefill.is_unknown()
            || (!is_here
                && (device.link.round_trip.is_unknown() || device.link.bandwidth.is_unknown()));
        let mut terms = Terms {
            speed_assumed,
            load_assumed: speed.load.is_unknown(),
            chunk_fixed: chunk_fixed.saturating_add(wait),
            chunk_layer,
            chunk_away: trip.saturating_add(carry(rows).saturating_mul(2)),
            chunk_way: carry(rows),
            step_visit: step_fixed.saturating_add(wait).saturating_add(step_away),
            step_away,
            step_layer: nanos(decode.slope).saturating_mul(queue),
            load: LayerRange::all(model.layers)
                .iter()
                .map(|layer| if is_held(layer) { 0 } else { layer_load })
                .collect(),
            memory: LayerRange::all(model.layers)
                .iter()
                .map(|layer| if is_held(layer) { 0 } else { model.layer_bytes })
                .map(|weights| weights.saturating_add(model.kv_bytes.saturating_mul(positions)))
                .collect(),
            can: Vec::new(),
            joined: Vec::new(),
            enter: Vec::new(),
            leave: Vec::new(),
            room: device.memory_free,
            visits_max: if is_here { u16::MAX } else { visits_max(device) },
        };
        self.limit(&mut terms, device, is_here);
        terms
    }

    /// Which layers the device may compute, and where a visit may begin, go on and end.
    fn limit(&self, terms: &mut Terms, device: &Device, is_here: bool) {
        let Situation { model, request, .. } = self.situation;
        let layers = model.layers;
        let is_ready = device.standing == Standing::Ready && device.streams_free > 0;
        let is_out =
            !is_here && (!is_ready || (self.tier == Tier::Measured && terms.speed_assumed));
        let must_be_held = !is_here && self.tier == Tier::Measured && terms.load_assumed;
        let suffix_start = layers.saturating_sub(request.ends.suffix);
        let is_mine = |layer: u32| layer < request.ends.prefix || layer >= suffix_start;
        let is_allowed = |layer: u32| match (is_here, is_mine(layer)) {
            (true, false) => request.ends.width != Width::Fixed,
            (is_here, is_mine) => is_here == is_mine,
        };
        let spans: Vec<LayerRange> = match self.spans {
            Spans::Any => Vec::new(),
            Spans::Cached => {
                let far = device.cached.iter().filter(|cached| cached.positions >= self.done);
                far.map(|cached| cached.layers).filter(|layers| !layers.is_empty()).collect()
            }
        };
        let any = self.spans == Spans::Any;
        terms.can = (0..layers)
            .map(|layer| {
                let at = layer as usize;
                !is_out
                    && is_allowed(layer)
                    && device.computes.iter().any(|range| range.contains_layer(layer))
                    && (!must_be_held || terms.load[at] == 0)
                    && (any || spans.iter().any(|span| span.contains_layer(layer)))
            })
            .collect();
        let boundary =
            |holds: &dyn Fn(u32) -> bool| -> Vec<bool> { (0..=layers).map(holds).collect() };
        terms.joined =
            boundary(&|b| any || spans.iter().any(|span| span.start() < b && b < span.end()));
        terms.enter =
            boundary(&|b| model.may_cut(b) && (any || spans.iter().any(|span| span.start() == b)));
        // This device's first call may hold the embedding alone.
        terms.leave = boundary(&|b| {
            model.may_cut(b)
                && (any || (is_here && b == 0) || spans.iter().any(|span| span.end() == b))
        });
        if is_here && !any {
            // Likewise its last one the head.
            if let Some(end) = terms.enter.last_mut() {
                *end = true;
            }
        }
    }
}

/// Round trip with its deviation and overhead in ns, and bandwidth, of the way to another device.
fn way(device: &Device) -> (u64, Option<BytesPerSecond>) {
    let assumed = RoundTrip { mean: ROUND_TRIP_ASSUMED, deviation: Duration::ZERO };
    let RoundTrip { mean, deviation } = match device.link.round_trip {
        Figure::Measured(round_trip) => round_trip,
        Figure::Unknown => assumed,
    };
    let trip = nanos(mean).saturating_add(nanos(deviation)).saturating_add(nanos(HOP_OVERHEAD));
    (trip, Some(device.link.bandwidth.or(BANDWIDTH_ASSUMED)))
}

/// A device is visited more than once only where what it has lies apart.
fn visits_max(device: &Device) -> u16 {
    let pieces = device.computes.len().max(device.held.len()).max(device.cached.len());
    u16::try_from(pieces).unwrap_or(u16::MAX).clamp(2, VISITS_MAX).min(device.streams_free)
}
