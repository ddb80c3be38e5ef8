//! For each device without a part in the plan: why, by trying it in.
//!
//! What the node already knows (absent, refused, …) is passed on. Any other device is put into the
//! plan at each place where it fits, and the best such route is priced three times: as it is,
//! without its loading, and without the way to it. The term that turns gain into loss is the
//! reason.

use std::time::Duration;

use nook_base::LayerRange;

use crate::decide::{Execution, peers_of};
use crate::facts::{Device, Situation, Standing};
use crate::predict::peer_of;
use crate::price::{Prices, Spans, Tier, Visit};
use crate::reason::{LeftOut, Why};
use crate::route::Place;

/// A finished plan and what it was made of.
pub(crate) struct Judged<'a> {
    pub(crate) situation: &'a Situation<'a>,
    /// By id.
    pub(crate) others: &'a [&'a Device],
    /// The devices that were looked at.
    pub(crate) tier: Tier,
    /// What was chosen; `None` when nothing was possible.
    pub(crate) execution: Option<&'a Execution>,
}

/// One reason for each device that the route does not use, by id.
pub(crate) fn explain(judged: &Judged<'_>) -> Vec<LeftOut> {
    let used = judged.execution.map(peers_of).unwrap_or_default();
    let mut prices = Prices::new(judged.situation, judged.others, 0, Spans::Any, Tier::All);
    let base = judged.execution.and_then(|execution| visits(execution, judged.others));
    let out =
        judged.others.iter().enumerate().filter(|(_, device)| !used.contains(&peer_of(device)));
    out.map(|(at, device)| {
        let why = known(&prices, device, at + 1, judged.tier).unwrap_or_else(|| match &base {
            None => Why::DoesNotFitIn,
            Some(base) => by_trying(&mut prices, base, at + 1),
        });
        LeftOut { peer: peer_of(device), why }
    })
    .collect()
}

/// Reasons that need no trying.
fn known(prices: &Prices, device: &Device, at: usize, tier: Tier) -> Option<Why> {
    let terms = prices.terms.get(at)?;
    if let Standing::Out(out) = device.standing {
        return Some(Why::Out(out));
    }
    if device.computes.iter().all(|range| range.is_empty()) {
        return Some(Why::NothingToCompute);
    }
    if device.streams_free == 0 {
        return Some(Why::StreamsTaken);
    }
    let able = (0..prices.layers).filter(|layer| terms.can[*layer]);
    match able.map(|layer| terms.memory[layer]).min() {
        None => return Some(Why::DoesNotFitIn),
        Some(needs) if needs > terms.room => return Some(Why::Full { needs, free: terms.room }),
        Some(_) => {}
    }
    (tier == Tier::Measured && terms.speed_assumed).then_some(Why::UnknownSpeed)
}

/// The route as visits; a whole request elsewhere is compared as one here.
fn visits(execution: &Execution, others: &[&Device]) -> Option<Vec<Visit>> {
    let Execution::Route(route) = execution else { return None };
    let visits = route.segments().iter().map(|segment| {
        let at = match segment.place {
            Place::Local => Some(0),
            place => others.iter().position(|other| other.place == place).map(|at| at + 1),
        };
        at.map(|at| (at, segment.part.layers))
    });
    visits.collect()
}

fn by_trying(prices: &mut Prices, base: &[Visit], device: usize) -> Why {
    let now = prices.costs(base).total;
    let tried = with(prices, base, device);
    let Some((then, execution)) = tried
        .into_iter()
        .map(|execution| (prices.costs(&execution).total, execution))
        .min_by_key(|(time, _)| *time)
    else {
        return Why::DoesNotFitIn;
    };
    let time = Duration::from_nanos;
    if then < now {
        // The search knew this route, too: it found a better one, or the gain was not worth a pool.
        let is_alone = base.len() == 1;
        let saves = time(now - then);
        return if is_alone { Why::GainIsTooSmall { saves } } else { Why::OthersAreBetter };
    }
    let whole = prices.terms[device].clone();
    prices.terms[device].load.fill(0);
    let loaded = prices.costs(&execution).total;
    prices.terms[device].take_away_the_way();
    let near = prices.costs(&execution).total;
    prices.terms[device] = whole;
    let saves = time(now.saturating_sub(near));
    if near >= now {
        Why::TooSlow { slower_by: time(then - now) }
    } else if loaded >= now {
        Why::HopCostsMoreThanItSaves { hop: time(loaded.saturating_sub(near)), saves }
    } else {
        let saves = time(now.saturating_sub(loaded));
        Why::LoadingTakesTooLong { load: time(then.saturating_sub(loaded)), saves }
    }
}

/// The routes in which `device` takes over the beginning, the end or all of one visit of `base`.
fn with(prices: &Prices, base: &[Visit], device: usize) -> Vec<Vec<Visit>> {
    let mut walks = Vec::new();
    for (at, (holder, layers)) in base.iter().enumerate() {
        if layers.is_empty() || *holder == device {
            continue;
        }
        let able: Vec<u32> =
            layers.iter().filter(|layer| prices.terms[device].can[*layer as usize]).collect();
        let (Some(first), Some(last)) = (able.first(), able.last()) else { continue };
        let forwards = stretch(prices, device, (*first..layers.end()).collect());
        let backwards = stretch(prices, device, (layers.start()..=*last).rev().collect());
        for taken in [forwards, backwards].into_iter().flatten() {
            let mut execution = base[..at].to_vec();
            let before = LayerRange::with_len(layers.start(), taken.start() - layers.start());
            let after = LayerRange::with_len(taken.end(), layers.end() - taken.end());
            // The two ends stay calls of this device, if need be without a layer.
            if !before.is_empty() || at == 0 {
                execution.push((*holder, before));
            }
            execution.push((device, taken));
            if !after.is_empty() || at + 1 == base.len() {
                execution.push((*holder, after));
            }
            execution.extend_from_slice(&base[at + 1..]);
            walks.push(execution);
        }
    }
    walks
}

/// As many of these neighbouring layers, from the first on, as the device computes and has room
/// for, ending where the model may be cut.
fn stretch(prices: &Prices, device: usize, layers: Vec<u32>) -> Option<LayerRange> {
    let terms = &prices.terms[device];
    let mut room = terms.room;
    let mut taken: Vec<u32> = Vec::new();
    for layer in layers {
        let at = layer as usize;
        let Some(left) = room.checked_sub(terms.memory[at]).filter(|_| terms.can[at]) else {
            break;
        };
        room = left;
        taken.push(layer);
    }
    let (first, last) = (*taken.first()?, *taken.last()?);
    let (mut start, mut end) = (first.min(last), first.max(last) + 1);
    while start < end && !terms.enter[start as usize] {
        start += 1;
    }
    while start < end && !terms.leave[end as usize] {
        end -= 1;
    }
    (start < end).then(|| LayerRange::with_len(start, end - start))
}
