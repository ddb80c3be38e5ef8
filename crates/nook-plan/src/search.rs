//! The shortest path over (device, layer): the cheapest legal route with at least one hop.
//!
//! A label says "layers `0..b` are done, this device did the last one", with all that the rest of
//! the route depends on: time so far, the busiest stage, loading, room left, devices that are used
//! up. Labels grow layer by layer; one that is nowhere better than another at the same place goes.
//! All constraints (memory, streams, cuts, ends, hops) are looked at while a label grows, so that a
//! good route is never thrown away for a bad detail after the search. Labels at one place are
//! bounded by [`LABELS_MAX`]; at the bound the dearest goes, and the search is no longer exact, so
//! the cuts of what it found are polished.

use nook_base::LayerRange;

use crate::facts::Width;
use crate::polish::polished;
use crate::price::{Prices, Visit};

/// Labels kept for one device at one boundary.
const LABELS_MAX: usize = 16;

/// The same in the first look.
const LABELS_FIRST: usize = 6;

/// Most devices that one search looks at, this one included; a label keeps one bit for each.
pub(crate) const DEVICES_SEARCHED_MAX: usize = 17;

/// Bit of a label that has come home for good.
const HOME_FOR_GOOD: u32 = 1 << 31;

#[derive(Debug, Clone, Copy)]
struct Label {
    /// First chunk and all decode steps so far.
    time: u64,
    /// Loading and prefill cycles as far as they are the maximum over devices: closed visits of
    /// others, this device, the visit under way.
    cycle: u64,
    cycle_home: u64,
    chunk: u64,
    load: u64,
    load_home: u64,
    load_now: u64,
    /// Room left here, and at the device under way.
    room_home: u64,
    room: u64,
    /// Devices that may not be visited any more, and those that were visited.
    spent: u32,
    used: u32,
    hops: u16,
    /// Index of the label that this one grew from.
    came: u32,
    device: u8,
}

/// A label at its place.
#[derive(Debug, Clone, Copy)]
struct Kept {
    label: Label,
    /// Where it stands in [`Search::grown`].
    index: u32,
    maxima: [u64; 16],
}

/// Whether a label that has been at a device may beat one that has not. Coming back is dearer and
/// finds less room; where that is counted, labels are told apart more finely, and the bound is met
/// sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Returns {
    Ignored,
    Counted,
}

/// What a route has done on one device before it comes there again.
#[derive(Debug, Clone, Copy, Default)]
struct Earlier {
    visits: u16,
    layers: u64,
    memory: u64,
    load: u64,
}

struct Search<'a> {
    prices: &'a Prices,
    /// Grown labels with the device that computed the layer; the chain of `came` is the route.
    grown: Vec<Label>,
    /// Least time for the layers from each boundary on.
    least: Vec<u64>,
    /// Memory that the layers from each boundary on could need at most.
    need: Vec<u64>,
    best: Option<(u64, Vec<Visit>)>,
    labels_max: usize,
    returns: Returns,
    hops_bind: bool,
}

/// The cheapest route with at least one hop, among the first [`DEVICES_SEARCHED_MAX`] devices of
/// `prices`; `None` when there is none.
pub(crate) fn cheapest_pooled(prices: &Prices) -> Option<Vec<Visit>> {
    let mut search = Search::new(prices);
    // A first, narrow search finds a price that lets the wide one drop most labels at once.
    for (labels_max, returns) in [(LABELS_FIRST, Returns::Ignored), (LABELS_MAX, Returns::Counted)]
    {
        (search.labels_max, search.returns) = (labels_max, returns);
        search.run();
    }
    search.best.map(|(_, visits)| polished(prices, visits))
}

impl<'a> Search<'a> {
    fn new(prices: &'a Prices) -> Self {
        let calls: usize = prices
            .terms
            .iter()
            .skip(1)
            .map(|terms| usize::from(terms.visits_max))
            .fold(0, usize::saturating_add);
        let mut need = vec![0_u64; prices.layers + 1];
        for layer in (0..prices.layers).rev() {
            let most = prices.terms.iter().map(|terms| terms.memory[layer]).max().unwrap_or(0);
            need[layer] = need[layer + 1].saturating_add(most);
        }
        Self {
            prices,
            grown: Vec::new(),
            least: least_times(prices),
            need,
            best: None,
            labels_max: LABELS_FIRST,
            returns: Returns::Ignored,
            hops_bind: calls > prices.hops_max,
        }
    }

    fn run(&mut self) {
        let devices = self.prices.terms.len().min(DEVICES_SEARCHED_MAX);
        let home = &self.prices.terms[0];
        let first =
            home.fill_visit().saturating_add(home.step(0).saturating_mul(self.prices.steps));
        let ends = self.prices.ends.saturating_mul(self.prices.steps.saturating_add(1));
        let start = Label {
            time: first.saturating_add(ends),
            cycle: 0,
            cycle_home: home.chunk_fixed.saturating_mul(self.prices.chunks_more),
            chunk: 0,
            load: 0,
            load_home: self.prices.ends_load,
            load_now: 0,
            room_home: home.room.min(self.need[0]),
            room: 0,
            spent: 0,
            used: 0,
            hops: 0,
            came: u32::MAX,
            device: 0,
        };
        self.grown.clear();
        self.grown.push(start);
        let mut places: Vec<Vec<Kept>> = vec![Vec::new(); devices];
        places[0].push(Kept { label: start, index: 0, maxima: self.maxima(&start) });
        for layer in 0..self.prices.layers {
            let mut next: Vec<Vec<Kept>> = vec![Vec::new(); devices];
            for Kept { label, index, .. } in places.iter().flatten() {
                for (device, place) in next.iter_mut().enumerate() {
                    if let Some(mut grown) = self.grow(label, device, layer) {
                        grown.came = *index;
                        self.keep(place, grown, layer + 1);
                    }
                }
            }
            places = next;
        }
        for Kept { label, index, .. } in places.iter().flatten() {
            self.finish(label, *index);
        }
    }

    /// The label after `device` has computed `layer` too; `None` where it may not.
    fn grow(&self, label: &Label, device: usize, layer: usize) -> Option<Label> {
        let terms = &self.prices.terms[device];
        if !terms.can[layer] {
            return None;
        }
        let from = usize::from(label.device);
        let mut grown = if device == from { *label } else { self.change(label, device, layer)? };
        // The first call begins at this device, with no layer of a cached span behind it.
        if device == from && layer > 0 && !terms.joined[layer] {
            return None;
        }
        if layer == 0 && device == 0 && !terms.enter[0] {
            return None;
        }
        let need = self.need[layer + 1];
        let per_layer = terms.chunk_layer.saturating_mul(self.prices.chunks_more);
        if device == 0 {
            grown.room_home = grown.room_home.checked_sub(terms.memory[layer])?.min(need);
            grown.load_home = grown.load_home.saturating_add(terms.load[layer]);
            grown.cycle_home = grown.cycle_home.saturating_add(per_layer);
        } else {
            grown.room = grown.room.checked_sub(terms.memory[layer])?.min(need);
            grown.load_now = grown.load_now.saturating_add(terms.load[layer]);
            grown.chunk = grown.chunk.saturating_add(terms.chunk_layer);
        }
        let step = terms.step_layer.saturating_mul(self.prices.steps);
        grown.time = grown.time.saturating_add(terms.chunk_layer).saturating_add(step);
        Some(grown)
    }

    /// The label at the beginning of a visit to `device`, before any of its layers.
    fn change(&self, label: &Label, device: usize, boundary: usize) -> Option<Label> {
        let prices = self.prices;
        let (from, terms) = (usize::from(label.device), &prices.terms[device]);
        let may_pass = prices.terms[from].leave[boundary] && terms.enter[boundary];
        if !may_pass || label.spent & bit(device) != 0 || label.spent & HOME_FOR_GOOD != 0 {
            return None;
        }
        let mut changed = self.closed(label);
        changed.device = u8::try_from(device).ok()?;
        changed.time = changed
            .time
            .saturating_add(terms.fill_visit())
            .saturating_add(terms.step(0).saturating_mul(prices.steps));
        let (chunk, step) = prices.saved(from, device);
        let saved = chunk.saturating_add(step.saturating_mul(prices.steps));
        changed.time = changed.time.saturating_sub(saved);
        if device == 0 {
            changed.cycle_home = changed
                .cycle_home
                .saturating_add(terms.chunk_fixed.saturating_mul(prices.chunks_more));
            if prices.width != Width::Free {
                changed.spent |= HOME_FOR_GOOD;
            }
            return Some(changed);
        }
        changed.hops += 1;
        if usize::from(changed.hops) > prices.hops_max {
            return None;
        }
        changed.used |= bit(device);
        let before = self.earlier(label, device, boundary);
        if before.visits + 1 >= terms.visits_max {
            changed.spent |= bit(device);
        }
        changed.room = terms.room.checked_sub(before.memory)?.min(self.need[boundary]);
        // A device that is visited again does both shares of each chunk, and loads one after the
        // other.
        let calls = u64::from(before.visits) + 1;
        changed.chunk = terms
            .chunk_layer
            .saturating_mul(before.layers)
            .saturating_add(terms.chunk_fixed.saturating_mul(calls));
        changed.load_now = before.load;
        Some(changed)
    }

    /// The label with its visit booked as over.
    fn closed(&self, label: &Label) -> Label {
        let mut closed = *label;
        if label.device != 0 {
            let terms = &self.prices.terms[usize::from(label.device)];
            let cycle = terms.cycle(label.chunk).saturating_mul(self.prices.chunks_more);
            closed.cycle = closed.cycle.max(cycle);
            closed.load = closed.load.max(label.load_now);
        }
        (closed.chunk, closed.load_now, closed.room) = (0, 0, 0);
        closed
    }

    /// What the route so far does on `device`. Only devices that may be visited again are asked for
    /// it, and those are few.
    fn earlier(&self, label: &Label, device: usize, boundary: usize) -> Earlier {
        let terms = &self.prices.terms[device];
        let mut earlier = Earlier::default();
        if terms.visits_max <= 1 {
            return earlier;
        }
        let (mut last, mut at) = (usize::from(label.device), label.came);
        let mut after = usize::MAX;
        for layer in (0..boundary).rev() {
            if last == device {
                earlier.layers += 1;
                earlier.memory = earlier.memory.saturating_add(terms.memory[layer]);
                earlier.load = earlier.load.saturating_add(terms.load[layer]);
                earlier.visits += u16::from(after != device);
            }
            after = last;
            let Some(previous) = self.grown.get(at as usize) else { break };
            (last, at) = (usize::from(previous.device), previous.came);
        }
        earlier
    }

    /// Adds `label` to those of its place, unless it is nowhere better than one of them.
    fn keep(&mut self, place: &mut Vec<Kept>, label: Label, boundary: usize) {
        let maxima = self.maxima(&label);
        let price = maxima[0];
        if let Some((best, _)) = &self.best
            && price.saturating_add(self.least[boundary]) >= *best
        {
            return;
        }
        let is_full = place.len() >= self.labels_max;
        if is_full && place.last().is_some_and(|dearest| dearest.maxima[0] <= price) {
            return;
        }
        let Ok(index) = u32::try_from(self.grown.len()) else { return };
        let new = Kept { label, index, maxima };
        if place.iter().any(|other| self.beats(other, &new)) {
            return;
        }
        place.retain(|other| !self.beats(&new, other));
        let at = place.partition_point(|other| other.maxima[0] <= price);
        self.grown.push(label);
        place.insert(at, new);
        place.truncate(self.labels_max);
    }

    /// Time so far with each combination of what is still a maximum; the first is the price. With
    /// none of these larger, no end of the route can be dearer.
    fn maxima(&self, label: &Label) -> [u64; 16] {
        let terms = &self.prices.terms[usize::from(label.device)];
        let now = match label.device {
            0 => 0,
            _ => terms.cycle(label.chunk).saturating_mul(self.prices.chunks_more),
        };
        let cycle = label.cycle.max(now).max(label.cycle_home);
        let load = label.load.max(label.load_now).max(label.load_home);
        let mut maxima = [0; 16];
        // A cycle grows no faster than its computing, so computing stands for what it may become.
        let growing = label.chunk.saturating_mul(self.prices.chunks_more);
        let cycles = [cycle, growing, label.cycle_home, 0];
        let loads = [load, label.load_now, label.load_home, 0];
        for (at, value) in maxima.iter_mut().enumerate() {
            *value = label.time.saturating_add(cycles[at % 4]).saturating_add(loads[at / 4]);
        }
        maxima
    }

    /// Whether `one` is at least as good as `other` however the route goes on.
    fn beats(&self, one: &Kept, other: &Kept) -> bool {
        let (a, b) = (&one.label, &other.label);
        a.time <= b.time
            && a.spent & !b.spent == 0
            && (self.returns == Returns::Ignored || a.used & !b.used == 0)
            && a.room >= b.room
            && a.room_home >= b.room_home
            && (a.hops > 0 || b.hops == 0)
            && (!self.hops_bind || a.hops <= b.hops)
            && one.maxima.iter().zip(&other.maxima).all(|(one, other)| one <= other)
    }

    /// Ends the route at this device and remembers it if it is the cheapest.
    fn finish(&mut self, label: &Label, index: u32) {
        let layers = self.prices.layers;
        if label.device == 0 {
            if !self.prices.terms[0].leave[layers] {
                return;
            }
        } else if self.change(label, 0, layers).is_none() {
            return;
        }
        if label.hops == 0 {
            return;
        }
        let visits = self.visits(index);
        let price = self.prices.costs(&visits).total;
        if self.best.as_ref().is_none_or(|(best, _)| price < *best) {
            self.best = Some((price, visits));
        }
    }

    /// The route that ended in the label at `index`, with this device's two ends.
    fn visits(&self, index: u32) -> Vec<Visit> {
        let mut devices = Vec::with_capacity(self.prices.layers);
        let mut at = index;
        while let Some(label) = self.grown.get(at as usize).filter(|label| label.came != u32::MAX) {
            devices.push(usize::from(label.device));
            at = label.came;
        }
        devices.reverse();
        visits_of(&devices)
    }
}

fn bit(device: usize) -> u32 {
    1 << device
}

/// The visits of a route in which `devices[layer]` computes that layer. The first and the last
/// visit are this device's, if need be without a layer.
pub(crate) fn visits_of(devices: &[usize]) -> Vec<Visit> {
    let mut visits: Vec<Visit> = vec![(0, LayerRange::all(0))];
    for (layer, device) in (0_u32..).zip(devices) {
        match visits.last_mut() {
            Some((last, range)) if last == device => {
                *range = LayerRange::with_len(range.start(), range.len() + 1);
            }
            _ => visits.push((*device, LayerRange::with_len(layer, 1))),
        }
    }
    if visits.last().is_some_and(|(device, _)| *device != 0) {
        let layers = u32::try_from(devices.len()).unwrap_or(u32::MAX);
        visits.push((0, LayerRange::with_len(layers, 0)));
    }
    visits
}

/// For each boundary the least time that the layers after it can take: every device computes as
/// many of them as it has room for, the cheapest first, and nothing else costs anything.
fn least_times(prices: &Prices) -> Vec<u64> {
    let mut offers: Vec<(u64, usize)> = prices
        .terms
        .iter()
        .take(DEVICES_SEARCHED_MAX)
        .filter_map(|terms| {
            let able = (0..prices.layers).filter(|layer| terms.can[*layer]);
            let least = able.clone().map(|layer| terms.memory[layer]).min()?;
            let fits = usize::try_from(terms.room / least.max(1)).unwrap_or(usize::MAX);
            let step = terms.step_layer.saturating_mul(prices.steps);
            Some((terms.chunk_layer.saturating_add(step), fits.min(able.count())))
        })
        .collect();
    offers.sort_unstable();
    let mut least = vec![0_u64; prices.layers + 1];
    let each = offers.into_iter().flat_map(|(time, layers)| std::iter::repeat_n(time, layers));
    let times: Vec<u64> = each.take(prices.layers).collect();
    for boundary in (0..prices.layers).rev() {
        let count = prices.layers - boundary;
        let more = times.get(count - 1).copied().unwrap_or(0);
        least[boundary] = least[boundary + 1].saturating_add(more);
    }
    least
}
