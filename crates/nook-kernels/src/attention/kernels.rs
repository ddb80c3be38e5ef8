//! The loops of attention: a few queries that share their keys and values (a *tile*) against one
//! block of the cache.
//!
//! This is where the time goes. What a key or value costs to load is shared by the queries of the
//! tile, and sums stay in registers; each query's own order of operations is the one that
//! [`crate::attention`] states, whatever the tile.

use std::ops::Range;

use super::lanes::{Lanes, Load, per_lanes};
use crate::cache::line::{FloatLine, WIDTH};
use crate::cache::{GROUPS_PER_BLOCK, POSITIONS_PER_BLOCK};
use crate::elementary::{LOG2_E, ROUND, tanh};
use crate::isa::Isa;

/// Most queries of a tile; tiles have 1, 2, 4 or 8.
pub(super) const TILE_MAX: usize = 8;

/// Scores, or weights, of one query for the positions of one block.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Scores(pub(super) [f32; POSITIONS_PER_BLOCK]);

/// What one query has seen so far, and its part of a block.
pub(super) struct Weighing {
    /// Absolute positions that it sees.
    pub(super) seen: Range<usize>,
    /// Positions of the block that it sees; empty for none.
    pub(super) visible: Range<usize>,
    /// Greatest score so far.
    pub(super) greatest: f32,
    /// Sum of the weights so far.
    pub(super) total: f32,
    /// Factor of what was summed up before this block.
    pub(super) decay: f32,
}

impl Weighing {
    /// A query that sees the absolute positions `seen`, of which none were taken yet, after a
    /// `sink` where its head has one.
    pub(super) fn new(seen: Range<usize>, sink: Option<f32>) -> Self {
        let (greatest, total) = sink.map_or((f32::NEG_INFINITY, 0.0), |sink| (sink, 1.0));
        Self { seen, visible: 0..0, greatest, total, decay: 1.0 }
    }
}

/// Most queries of a tile with the instructions of `isa`.
pub(super) fn tile_max(isa: Isa) -> usize {
    let mut most = 0;
    tile_max_of_isa(isa, &mut most);
    most
}

per_lanes! { fn tile_max_of_isa(most: &mut usize) = tile_max_of; }

#[inline(always)]
fn tile_max_of<L: Lanes>(_: L, most: &mut usize) {
    *most = if L::BUDGET >= 16 { TILE_MAX } else { TILE_MAX / 2 };
}

per_lanes! {
    /// Scores of a tile for the first `groups` groups of sixteen positions of a block, or a few
    /// more: products added in the order of the dimensions, times `factor`. `turned` is (`key_dim`,
    /// queries) and `keys` (`key_dim`, [`GROUPS_PER_BLOCK`]) lines. Meanwhile `ahead` is asked for.
    pub(super) fn score<K: Load>(
        turned: &[f32],
        keys: &[K],
        ahead: &[K],
        groups: usize,
        factor: f32,
        scores: &mut [Scores],
    ) = score_of;
}

per_lanes! {
    /// Turns the scores of each query (in units of `ln 2`; with a soft cap, as they are) into
    /// weights, and works out by what its former sums are to be multiplied.
    pub(super) fn weigh(soft_cap: Option<f32>, scores: &mut [Scores], queries: &mut [Weighing])
        = weigh_of;
}

per_lanes! {
    /// Adds the values of the positions in `range`, weighed, to the sums of a tile (queries,
    /// `value_lines`). `values` is ([`POSITIONS_PER_BLOCK`], `value_lines`) lines.
    pub(super) fn add_values<K: Load>(
        values: &[K],
        range: Range<usize>,
        weights: &[Scores],
        sums: &mut [FloatLine],
    ) = add_values_of;
}

per_lanes! {
    /// As [`add_values`] for a whole block and sums that begin with 0, and then [`decay_and_add`]
    /// for each query of the tile. Meanwhile `ahead` is asked for.
    pub(super) fn add_block<K: Load>(
        values: &[K],
        ahead: &[K],
        weights: &[Scores],
        queries: &[Weighing],
        out: &mut [FloatLine],
    ) = add_block_of;
}

per_lanes! {
    /// `out = out * decay + sum`, number by number.
    pub(super) fn decay_and_add(out: &mut [FloatLine], decay: f32, sums: &[FloatLine])
        = decay_and_add_of;
}

per_lanes! {
    /// `out = out / by`, number by number.
    pub(super) fn divide(out: &mut [FloatLine], by: f32) = divide_of;
}

per_lanes! {
    /// Half-precision lines as single-precision ones.
    pub(super) fn unpack<K: Load>(from: &[K], to: &mut [FloatLine]) = unpack_of;
}

/// Lines that `Q` queries can accumulate in at once, at most `GROUPS_PER_BLOCK`.
macro_rules! by_lines {
    ($budget:expr, $kernel:ident::<$l:ident, $k:ident, $q:literal>($($arg:expr),*)) => {
        match $budget / $q {
            0 | 1 => $kernel::<$l, $k, $q, 1>($($arg),*),
            2 | 3 => $kernel::<$l, $k, $q, 2>($($arg),*),
            _ => $kernel::<$l, $k, $q, 4>($($arg),*),
        }
    };
}

#[inline(always)]
fn score_of<L: Lanes, K: Load>(
    lanes: L,
    turned: &[f32],
    keys: &[K],
    ahead: &[K],
    groups: usize,
    factor: f32,
    scores: &mut [Scores],
) {
    match scores.len() {
        8 if L::BUDGET >= 8 => {
            by_lines!(
                L::BUDGET,
                score_tile::<L, K, 8>(lanes, turned, keys, ahead, groups, factor, scores)
            );
        }
        4 => by_lines!(
            L::BUDGET,
            score_tile::<L, K, 4>(lanes, turned, keys, ahead, groups, factor, scores)
        ),
        2 => by_lines!(
            L::BUDGET,
            score_tile::<L, K, 2>(lanes, turned, keys, ahead, groups, factor, scores)
        ),
        _ => by_lines!(
            L::BUDGET,
            score_tile::<L, K, 1>(lanes, turned, keys, ahead, groups, factor, scores)
        ),
    }
}

/// As [`score`], for `Q` queries and `N` groups at once.
#[inline(always)]
fn score_tile<L: Lanes, K: Load, const Q: usize, const N: usize>(
    lanes: L,
    turned: &[f32],
    keys: &[K],
    ahead: &[K],
    groups: usize,
    factor: f32,
    scores: &mut [Scores],
) {
    let (turned, _) = turned.as_chunks::<Q>();
    let (keys, _) = keys.as_chunks::<GROUPS_PER_BLOCK>();
    let scores: &mut [Scores; Q] = scores.try_into().expect("chosen by the number of queries");
    let factor = lanes.splat(factor);
    for group in (0..groups).step_by(N) {
        // Never past the end; the minimum tells the compiler so.
        let group = group.min(GROUPS_PER_BLOCK - N);
        let mut sums = [[lanes.splat(0.0); N]; Q];
        for (at, (query, keys)) in turned.iter().zip(keys).enumerate() {
            prefetch::<L, K, N>(lanes, ahead, (group * turned.len()) + at * N);
            for n in 0..N {
                let key = keys[group + n].load(lanes);
                for q in 0..Q {
                    sums[q][n] = lanes.add(sums[q][n], lanes.mul(lanes.splat(query[q]), key));
                }
            }
        }
        for q in 0..Q {
            let (lines, _) = scores[q].0.as_chunks_mut::<WIDTH>();
            for n in 0..N {
                lanes.store(lanes.mul(sums[q][n], factor), &mut lines[group + n]);
            }
        }
    }
}

#[inline(always)]
fn weigh_of<L: Lanes>(
    lanes: L,
    soft_cap: Option<f32>,
    scores: &mut [Scores],
    queries: &mut [Weighing],
) {
    // The exponentials of all decays together: one vector of them costs as much as one number.
    let mut decays = [0.0; WIDTH];
    for ((scores, query), decay) in scores.iter_mut().zip(&mut *queries).zip(&mut decays) {
        if query.visible.is_empty() {
            continue;
        }
        if let Some(cap) = soft_cap {
            for score in &mut scores.0 {
                *score = cap * tanh(*score / cap) * LOG2_E;
            }
        }
        if query.visible.len() < POSITIONS_PER_BLOCK {
            scores.0[..query.visible.start].fill(f32::NEG_INFINITY);
            scores.0[query.visible.end..].fill(f32::NEG_INFINITY);
        }
        let before = query.greatest;
        query.greatest = greatest_of(lanes, scores, before);
        *decay = before - query.greatest;
    }
    // Mostly nothing greater has come; 2^0 is 1 to the bit.
    if decays == [0.0; WIDTH] {
        decays = [1.0; WIDTH];
    } else {
        let decayed = power_of_two(lanes, lanes.load(&decays));
        lanes.store(decayed, &mut decays);
    }
    for ((scores, query), decay) in scores.iter_mut().zip(queries).zip(decays) {
        if !query.visible.is_empty() {
            query.decay = decay;
            query.total = query.total * decay + weights_of(lanes, scores, query.greatest);
        }
    }
}

/// The greatest of the scores and `before`.
#[inline(always)]
fn greatest_of<L: Lanes>(lanes: L, scores: &Scores, before: f32) -> f32 {
    let (lines, _) = scores.0.as_chunks::<WIDTH>();
    let mut all = lanes.splat(before);
    for line in lines {
        all = lanes.max(lanes.load(line), all);
    }
    lanes.greatest(all)
}

/// `2^(score - greatest)` of each score in its place, and their sum: lane by lane over the groups,
/// then by halves.
#[inline(always)]
fn weights_of<L: Lanes>(lanes: L, scores: &mut Scores, greatest: f32) -> f32 {
    let greatest = lanes.splat(greatest);
    let mut sum = lanes.splat(0.0);
    let (lines, _) = scores.0.as_chunks_mut::<WIDTH>();
    for line in lines {
        let weights = power_of_two(lanes, lanes.sub(lanes.load(line), greatest));
        lanes.store(weights, line);
        sum = lanes.add(sum, weights);
    }
    lanes.sum(sum)
}

#[inline(always)]
fn add_values_of<L: Lanes, K: Load>(
    lanes: L,
    values: &[K],
    range: Range<usize>,
    weights: &[Scores],
    sums: &mut [FloatLine],
) {
    let rows = sums.len() / weights.len().max(1);
    let part = Part { rows, values, ahead: values, range };
    add_by_tile(lanes, &part, weights, None, sums);
}

#[inline(always)]
fn add_block_of<L: Lanes, K: Load>(
    lanes: L,
    values: &[K],
    ahead: &[K],
    weights: &[Scores],
    queries: &[Weighing],
    out: &mut [FloatLine],
) {
    let rows = out.len() / weights.len().max(1);
    let part = Part { rows, values, ahead, range: 0..POSITIONS_PER_BLOCK };
    add_by_tile(lanes, &part, weights, Some(queries), out);
}

/// Values that are added, and where.
struct Part<'a, K> {
    /// Lines of one value.
    rows: usize,
    /// ([`POSITIONS_PER_BLOCK`], `rows`) lines.
    values: &'a [K],
    /// Asked for meanwhile.
    ahead: &'a [K],
    /// Positions of the block.
    range: Range<usize>,
}

/// Without `decays`, `out` (queries, `rows`) is added to; with them, see [`add_block`].
#[inline(always)]
fn add_by_tile<L: Lanes, K: Load>(
    lanes: L,
    part: &Part<'_, K>,
    weights: &[Scores],
    decays: Option<&[Weighing]>,
    out: &mut [FloatLine],
) {
    match weights.len() {
        8 if L::BUDGET >= 8 => add_tile::<L, K, 8>(lanes, part, weights, decays, out),
        4 => add_tile::<L, K, 4>(lanes, part, weights, decays, out),
        2 => add_tile::<L, K, 2>(lanes, part, weights, decays, out),
        _ => add_tile::<L, K, 1>(lanes, part, weights, decays, out),
    }
}

/// As [`add_by_tile`], for `Q` queries.
#[inline(always)]
fn add_tile<L: Lanes, K: Load, const Q: usize>(
    lanes: L,
    part: &Part<'_, K>,
    weights: &[Scores],
    decays: Option<&[Weighing]>,
    out: &mut [FloatLine],
) {
    let weights: &[Scores; Q] = weights.try_into().expect("chosen by the number of queries");
    let mut at = 0;
    if L::BUDGET / Q >= 4 {
        while at + 4 <= part.rows {
            add_lines::<L, K, Q, 4>(lanes, part, weights, decays, out, at);
            at += 4;
        }
    }
    if L::BUDGET / Q >= 2 {
        while at + 2 <= part.rows {
            add_lines::<L, K, Q, 2>(lanes, part, weights, decays, out, at);
            at += 2;
        }
    }
    while at < part.rows {
        add_lines::<L, K, Q, 1>(lanes, part, weights, decays, out, at);
        at += 1;
    }
}

/// As [`add_tile`], for the `N` lines from `at` on of each row.
#[inline(always)]
fn add_lines<L: Lanes, K: Load, const Q: usize, const N: usize>(
    lanes: L,
    part: &Part<'_, K>,
    weights: &[Scores; Q],
    decays: Option<&[Weighing]>,
    out: &mut [FloatLine],
    at: usize,
) {
    let rows = part.rows;
    let mut sums = [[lanes.splat(0.0); N]; Q];
    if decays.is_none() {
        for q in 0..Q {
            for n in 0..N {
                sums[q][n] = lanes.load(&out[q * rows + at + n].0);
            }
        }
    }
    let values = &part.values[part.range.start * rows..part.range.end * rows];
    for (position, value) in (part.range.start..).zip(values.chunks_exact(rows)) {
        let value = &value[at..at + N];
        // Never past the end; the remainder tells the compiler so.
        let position = position % POSITIONS_PER_BLOCK;
        prefetch::<L, K, N>(lanes, part.ahead, at * POSITIONS_PER_BLOCK + position * N);
        for n in 0..N {
            let value = value[n].load(lanes);
            for q in 0..Q {
                let weight = lanes.splat(weights[q].0[position]);
                sums[q][n] = lanes.add(sums[q][n], lanes.mul(weight, value));
            }
        }
    }
    for q in 0..Q {
        for n in 0..N {
            let out = &mut out[q * rows + at + n].0;
            if let Some(decays) = decays {
                let decayed = lanes.mul(lanes.load(out), lanes.splat(decays[q].decay));
                sums[q][n] = lanes.add(decayed, sums[q][n]);
            }
            lanes.store(sums[q][n], out);
        }
    }
}

/// Asks for the `N` lines of `ahead` from `at` on. Each step of a kernel asks for as many as it
/// reads, so that what the next kernel reads comes at an even pace while this one computes.
#[inline(always)]
fn prefetch<L: Lanes, K: Load, const N: usize>(lanes: L, ahead: &[K], at: usize) {
    const CACHE_LINE: usize = 64;
    let size = size_of::<K>();
    let start = ahead.as_ptr().wrapping_add(at).cast::<u8>();
    if N * size >= CACHE_LINE || (at * size).is_multiple_of(CACHE_LINE) {
        for offset in (0..N * size).step_by(CACHE_LINE) {
            lanes.prefetch(start.wrapping_add(offset));
        }
    }
}

#[inline(always)]
fn decay_and_add_of<L: Lanes>(lanes: L, out: &mut [FloatLine], decay: f32, sums: &[FloatLine]) {
    let decay = lanes.splat(decay);
    for (out, sum) in out.iter_mut().zip(sums) {
        let decayed = lanes.mul(lanes.load(&out.0), decay);
        lanes.store(lanes.add(decayed, lanes.load(&sum.0)), &mut out.0);
    }
}

#[inline(always)]
fn divide_of<L: Lanes>(lanes: L, out: &mut [FloatLine], by: f32) {
    let by = lanes.splat(by);
    for out in out {
        lanes.store(lanes.div(lanes.load(&out.0), by), &mut out.0);
    }
}

#[inline(always)]
fn unpack_of<L: Lanes, K: Load>(lanes: L, from: &[K], to: &mut [FloatLine]) {
    for (to, from) in to.iter_mut().zip(from) {
        lanes.store(from.load(lanes), &mut to.0);
    }
}

/// Two to the power of numbers that are not above 0, within 3 units in the last place; 0 below
/// -126.5.
///
/// The nearest integer and a polynomial of degree 6 for what is left (Cephes `exp2f`).
#[inline(always)]
fn power_of_two<L: Lanes>(lanes: L, x: L::F) -> L::F {
    const POLYNOMIAL: [f32; 7] = [
        1.535_336_2e-4,
        1.339_887_4e-3,
        9.618_437e-3,
        5.550_332_5e-2,
        2.402_264_8e-1,
        6.931_472e-1,
        1.0,
    ];
    let round = lanes.splat(ROUND);
    let clamped = lanes.max(lanes.splat(-127.0), x);
    let shifted = lanes.add(clamped, round);
    let r = lanes.sub(clamped, lanes.sub(shifted, round));
    let mut p = lanes.splat(POLYNOMIAL[0]);
    for coefficient in &POLYNOMIAL[1..] {
        p = lanes.add(lanes.mul(p, r), lanes.splat(*coefficient));
    }
    lanes.mul(p, lanes.power_of_two(shifted))
}

const _: () = assert!(GROUPS_PER_BLOCK == 4, "`by_lines` takes 1, 2 or 4 groups at once");
