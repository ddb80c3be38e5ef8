//! The products of panels with a tile of activations.

#![allow(unsafe_code, reason = "vector registers and pointers into packed weights")]

use super::planes::{GROUPS, Planes};
use super::{PANEL_ROWS, Packing, UNIT, halves};
use crate::activations::{Coarse, Fine, Grain};
use crate::simd::{Simd, dispatch};

/// Where products go: number `row` of activation `t` to `at + t * stride + row`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    /// The first row of the first panel, for the first activation of the tile.
    pub(crate) at: *mut f32,
    /// Numbers from one activation to the next.
    pub(crate) stride: usize,
    /// Rows from there on; a last panel has room for more.
    pub(crate) rows: usize,
}

dispatch! {
    /// The products of the panels that follow each other at `panels`, of `blocks` blocks each, with
    /// the `N` activations of the tile at `x`.
    ///
    /// # Safety
    ///
    /// There are panels of `P` for all rows of `out`, `x` is a tile of `N` rows of as many columns
    /// ([`crate::activations`]), and nobody else reads or writes what `out` names.
    pub(crate) unsafe fn multiply_panels<P: Packing, const N: usize>(
        panels: *const u8,
        blocks: usize,
        x: *const u8,
        out: Out,
    ) = panels_by_tile;
}

/// # Safety
///
/// As [`multiply_panels`], and the processor has the instructions of `S`.
#[inline(always)]
unsafe fn panels_by_tile<S: Simd, P: Packing, const N: usize>(
    panels: *const u8,
    blocks: usize,
    x: *const u8,
    out: Out,
) {
    let mut first = 0;
    while first < out.rows {
        // SAFETY: panels and rows are those of the caller's promise.
        unsafe {
            let panel = panels.add(first / PANEL_ROWS * blocks * P::PANEL_BYTES);
            let at = out.at.add(first);
            for part in 0..PANEL_ROWS / S::LANES {
                let sums = match P::GRAIN {
                    _ if P::FLOAT_SCALES => halved::<S, P, N>(panel, blocks, x, part),
                    Grain::Fine => fine::<S, P, N>(panel, blocks, x, part),
                    Grain::Coarse => coarse::<S, P, N>(panel, blocks, x, part),
                };
                let before = part * S::LANES;
                let rows = (out.rows - first).saturating_sub(before).min(S::LANES);
                for (t, sum) in sums.into_iter().enumerate() {
                    let at = at.add(t * out.stride + before.min(out.rows - first));
                    if rows == S::LANES {
                        S::store(at, sum);
                    } else {
                        let mut numbers = [0.0f32; PANEL_ROWS];
                        S::store(numbers.as_mut_ptr(), sum);
                        at.copy_from_nonoverlapping(numbers.as_ptr(), rows);
                    }
                }
            }
        }
        first += PANEL_ROWS;
    }
}

/// The sums of `LANES` rows with blocks of 32 numbers: a block is a unit.
///
/// # Safety
///
/// As [`panels_by_tile`], for one panel; `part` is below `PANEL_ROWS / LANES`.
#[inline(always)]
unsafe fn fine<S: Simd, P: Packing, const N: usize>(
    panel: *const u8,
    blocks: usize,
    x: *const u8,
    part: usize,
) -> [S::F; N] {
    // SAFETY: every pointer stays within the panel and the tile that the caller promises: block
    // numbers are below their count.
    unsafe {
        let mut sums = [S::splat(0.0); N];
        for block in 0..blocks {
            let x = x.add(block * Fine::<N>::BYTES);
            let block = panel.add(block * P::PANEL_BYTES);
            let q = P::Planes::load::<S>(block.add(P::HEAD), part);
            let d = P::d::<S>(block, part);
            for (t, total) in sums.iter_mut().enumerate() {
                let mut start = S::splat_int(0);
                if surplus::<S, P>() != 0 {
                    let negative = S::broadcast(x.add(Fine::<N>::NEGATIVE + 4 * t).cast());
                    start = S::mul_int(negative, S::splat_int(surplus::<S, P>()));
                }
                let exact = add_groups::<S, P, GROUPS>(start, &q, 0, x.add(UNIT * t));
                let dx = S::splat(number(x.add(Fine::<N>::SCALE + 4 * t)));
                let mut term = S::mul(S::to_f32(exact), S::mul(d, dx));
                if P::HAS_MINIMUM {
                    let sx = S::splat(number(x.add(Fine::<N>::SCALED + 4 * t)));
                    term = S::sub(term, S::mul(halves::<S>(block, 1, part), sx));
                }
                *total = S::add(*total, term);
            }
        }
        sums
    }
}

/// The sums of `LANES` rows whose numbers have a floating-point scale for each half of a unit.
///
/// # Safety
///
/// As [`fine`].
#[inline(always)]
unsafe fn halved<S: Simd, P: Packing, const N: usize>(
    panel: *const u8,
    blocks: usize,
    x: *const u8,
    part: usize,
) -> [S::F; N] {
    // SAFETY: every pointer stays within the panel and the tile that the caller promises: block and
    // unit numbers are below their counts.
    unsafe {
        let mut sums = [S::splat(0.0); N];
        for index in 0..blocks * P::UNITS {
            let x = x.add(index * Fine::<N>::BYTES);
            let (block, unit) = (panel.add(index / P::UNITS * P::PANEL_BYTES), index % P::UNITS);
            let q = P::Planes::load::<S>(block.add(P::HEAD + unit * P::Planes::BYTES), part);
            let first = P::piece_scale::<S>(block, 2 * unit, part);
            let last = P::piece_scale::<S>(block, 2 * unit + 1, part);
            for (t, total) in sums.iter_mut().enumerate() {
                let (mut before, mut after) = (S::splat_int(0), S::splat_int(0));
                if surplus::<S, P>() != 0 {
                    let surplus = S::splat_int(surplus::<S, P>());
                    let whole = S::broadcast(x.add(Fine::<N>::NEGATIVE + 4 * t).cast());
                    after = S::broadcast(x.add(Fine::<N>::NEGATIVE_LAST + 4 * t).cast());
                    before = S::mul_int(S::sub_int(whole, after), surplus);
                    after = S::mul_int(after, surplus);
                }
                let x_bytes = x.add(UNIT * t);
                let before = add_groups::<S, P, { GROUPS / 2 }>(before, &q, 0, x_bytes);
                let after = add_groups::<S, P, { GROUPS / 2 }>(after, &q, GROUPS / 2, x_bytes);
                let before = S::mul(S::to_f32(before), first);
                let term = S::add(before, S::mul(S::to_f32(after), last));
                let dx = S::splat(number(x.add(Fine::<N>::SCALE + 4 * t)));
                *total = S::add(*total, S::mul(term, dx));
            }
        }
        sums
    }
}

/// The sums of `LANES` rows with super-blocks.
///
/// # Safety
///
/// As [`fine`].
#[inline(always)]
unsafe fn coarse<S: Simd, P: Packing, const N: usize>(
    panel: *const u8,
    blocks: usize,
    x: *const u8,
    part: usize,
) -> [S::F; N] {
    // SAFETY: every pointer stays within the panel and the tile that the caller promises: block and
    // unit numbers are below their counts.
    unsafe {
        let mut sums = [S::splat(0.0); N];
        for block in 0..blocks {
            let x = x.add(block * Coarse::<N>::BYTES);
            let block = panel.add(block * P::PANEL_BYTES);
            let mut exact = [S::splat_int(0); N];
            for unit in 0..P::UNITS {
                let planes = block.add(P::HEAD + unit * P::Planes::BYTES);
                let q = P::Planes::load::<S>(planes, part);
                let x = x.add(UNIT * N * unit);
                // Written out: the groups only stay in registers when the compiler knows at every
                // place which of them is meant.
                if P::SCALES == 1 {
                    let scale = P::scale::<S>(block, unit, part);
                    add_scaled::<S, P, N, GROUPS>(&mut exact, &q, scale, 0, x);
                } else {
                    let scale = P::scale::<S>(block, 2 * unit, part);
                    add_scaled::<S, P, N, { GROUPS / 2 }>(&mut exact, &q, scale, 0, x);
                    let scale = P::scale::<S>(block, 2 * unit + 1, part);
                    add_scaled::<S, P, N, { GROUPS / 2 }>(&mut exact, &q, scale, GROUPS / 2, x);
                }
            }
            let d = P::d::<S>(block, part);
            let extra = extra::<S, P, N>(block, x, part);
            for (t, total) in sums.iter_mut().enumerate() {
                let dx = S::splat(number(x.add(Coarse::<N>::SCALE + 4 * t)));
                let term = if P::HAS_MINIMUM {
                    let most = S::mul(S::to_f32(exact[t]), d);
                    S::sub(most, S::mul(S::to_f32(extra[t]), halves::<S>(block, 1, part)))
                } else {
                    S::mul(S::to_f32(S::sub_int(exact[t], extra[t])), d)
                };
                let term = S::mul(term, dx);
                *total = S::add(*total, term);
            }
        }
        sums
    }
}

/// What is to be taken away for the whole block: the sum of `minimum * sum of x` over its pieces,
/// or that of `scale * surplus * sum of x`.
///
/// # Safety
///
/// As [`coarse`], for one block.
#[inline(always)]
unsafe fn extra<S: Simd, P: Packing, const N: usize>(
    block: *const u8,
    x: *const u8,
    part: usize,
) -> [S::I; N] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut extra = [S::splat_int(0); N];
        if !P::HAS_MINIMUM && surplus::<S, P>() == 0 {
            return extra;
        }
        let sums = if P::SCALES == 1 { Coarse::<N>::PAIRS } else { Coarse::<N>::HALVES };
        for pair in 0..P::UNITS * P::SCALES / 2 {
            let low = weight::<S, P>(block, 2 * pair, part);
            let high = weight::<S, P>(block, 2 * pair + 1, part);
            // Two i16 in each lane; the low one may be negative.
            let low = S::shift_right::<16>(S::shift_left::<16>(low));
            let both = S::or(low, S::shift_left::<16>(high));
            for (t, extra) in extra.iter_mut().enumerate() {
                let x = S::broadcast(x.add(sums + 4 * (N * pair + t)).cast());
                *extra = S::dot_pairs(*extra, both, x);
            }
        }
        if !P::HAS_MINIMUM {
            for extra in &mut extra {
                *extra = S::mul_int(*extra, S::splat_int(surplus::<S, P>()));
            }
        }
        extra
    }
}

/// What the sum of the activations of a piece is multiplied with in [`extra`].
///
/// # Safety
///
/// As [`Packing::scale`].
#[inline(always)]
unsafe fn weight<S: Simd, P: Packing>(block: *const u8, piece: usize, part: usize) -> S::I {
    // SAFETY: the caller's promise.
    unsafe {
        if P::HAS_MINIMUM {
            P::minimum::<S>(block, piece, part)
        } else {
            P::scale::<S>(block, piece, part)
        }
    }
}

/// Adds `scale * sum of q * x` to each of `exact`, over `C` groups from group `first` on.
///
/// # Safety
///
/// `x` is a unit of a tile of `N`, and the processor has the instructions of `S`.
#[inline(always)]
unsafe fn add_scaled<S: Simd, P: Packing, const N: usize, const C: usize>(
    exact: &mut [S::I; N],
    q: &[S::I; GROUPS],
    scale: S::I,
    first: usize,
    x: *const u8,
) {
    for (t, exact) in exact.iter_mut().enumerate() {
        // SAFETY: row `t` of the unit.
        unsafe {
            let sum = add_groups::<S, P, C>(S::splat_int(0), q, first, x.add(UNIT * t));
            *exact = S::add_int(*exact, S::mul_int(sum, scale));
        }
    }
}

/// `start` and the sum of the byte products of `C` groups from group `first` on.
///
/// # Safety
///
/// `x` is a unit of a row of activations, and the processor has the instructions of `S`.
#[inline(always)]
unsafe fn add_groups<S: Simd, P: Packing, const C: usize>(
    start: S::I,
    q: &[S::I; GROUPS],
    first: usize,
    x: *const u8,
) -> S::I {
    let mut sum = start;
    #[allow(clippy::needless_range_loop, reason = "what is indexed stays in registers")]
    for group in first..first + C {
        // SAFETY: the caller's promise; there are `GROUPS` groups of four bytes.
        unsafe {
            let w = P::value::<S>(q[group]);
            let x = S::broadcast(x.add(4 * group).cast());
            sum = if P::SIGNED { S::dot_signed(sum, w, x) } else { S::dot(sum, w, x) };
        }
    }
    sum
}

/// How much more than `q - zero` the byte product multiplies.
#[inline(always)]
const fn surplus<S: Simd, P: Packing>() -> i32 {
    if P::SIGNED { S::SIGNED_OFFSET } else { P::ZERO }
}

/// The f32 at `at`.
///
/// # Safety
///
/// There is one.
#[inline(always)]
unsafe fn number(at: *const u8) -> f32 {
    // SAFETY: the caller's promise.
    unsafe { at.cast::<f32>().read_unaligned() }
}
