//! Moves the cuts of a finished route while that makes it cheaper.
//!
//! The search drops labels at its bound, and in long chains of devices the best cut may be among
//! them. Neighbours of what it found are cheap to try: each cut a layer earlier or later, again and
//! again.

use nook_base::LayerRange;

use crate::price::{Prices, Visit};

/// Most improvements of one route; what would still be better after so many is not taken.
const IMPROVEMENTS_MAX: usize = 64;

/// How far one try moves a cut.
const STEPS: [i64; 4] = [-4, -1, 1, 4];

/// The route with its cuts moved to where no single move makes it cheaper.
pub(crate) fn polished(prices: &Prices, mut visits: Vec<Visit>) -> Vec<Visit> {
    let mut least = prices.costs(&visits).total;
    for _ in 0..IMPROVEMENTS_MAX {
        let cuts = 1..visits.len();
        let tries = cuts.flat_map(|at| STEPS.map(|step| moved(&visits, at, step)));
        let best = tries
            .flatten()
            .filter(|execution| is_possible(prices, execution))
            .map(|execution| (prices.costs(&execution).total, execution))
            .min_by_key(|(total, _)| *total);
        match best {
            Some((total, execution)) if total < least => (least, visits) = (total, execution),
            _ => break,
        }
    }
    visits
}

/// The route whose visit `at` begins that many layers later; no visit vanishes, but the two ends of
/// this device may be without a layer.
fn moved(visits: &[Visit], at: usize, step: i64) -> Option<Vec<Visit>> {
    let (before, after) = (visits.get(at - 1)?.1, visits.get(at)?.1);
    let cut = u32::try_from(i64::from(after.start()) + step).ok()?;
    let mut execution = visits.to_vec();
    execution[at - 1].1 = LayerRange::new(before.start(), cut).ok()?;
    execution[at].1 = LayerRange::new(cut, after.end()).ok()?;
    let is_end = |index: usize| index == 0 || index + 1 == execution.len();
    let vanishes =
        [at - 1, at].iter().any(|index| execution[*index].1.is_empty() && !is_end(*index));
    (!vanishes).then_some(execution)
}

/// Whether every visit computes what it may, begins and ends where it may, and fits.
fn is_possible(prices: &Prices, visits: &[Visit]) -> bool {
    let last = visits.len().saturating_sub(1);
    let is_whole = visits.iter().enumerate().all(|(at, (device, layers))| {
        let terms = &prices.terms[*device];
        let (start, end) = (layers.start() as usize, layers.end() as usize);
        (at == 0 || terms.enter[start])
            && (at == last || terms.leave[end])
            && layers.iter().all(|layer| terms.can[layer as usize])
            && (start + 1..end).all(|boundary| terms.joined[boundary])
    });
    is_whole
        && visits.iter().all(|(device, _)| {
            let same = visits.iter().filter(|(other, _)| other == device);
            let layers = same.flat_map(|(_, layers)| layers.iter());
            let needs = layers.fold(0_u64, |sum, layer| {
                sum.saturating_add(prices.terms[*device].memory[layer as usize])
            });
            needs <= prices.terms[*device].room
        })
}
