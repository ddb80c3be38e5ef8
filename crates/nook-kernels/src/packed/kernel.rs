//! The product of a panel with a tile of activations.

#![allow(unsafe_code, reason = "vector registers and pointers into packed weights")]

use super::planes::{GROUPS, Planes};
use super::{PANEL_ROWS, Packing, UNIT};
use crate::activations::Layout;
use crate::simd::{Simd, dispatch};

dispatch! {
    /// The products of the sixteen rows of `panel`, of `blocks` blocks, with the `N` activations of
    /// the tile at `x`; `out` gets sixteen numbers for each.
    ///
    /// # Safety
    ///
    /// `panel` has `blocks` blocks of `P`, and `x` a tile of `N` rows of as many columns
    /// ([`crate::activations`]).
    pub(crate) unsafe fn multiply_panel<P: Packing, const N: usize>(
        panel: *const u8,
        blocks: usize,
        x: *const u8,
        out: &mut [[f32; PANEL_ROWS]; N],
    ) = panel_by_tile;
}

/// # Safety
///
/// As [`multiply_panel`], and the processor has the instructions of `S`.
#[inline(always)]
unsafe fn panel_by_tile<S: Simd, P: Packing, const N: usize>(
    panel: *const u8,
    blocks: usize,
    x: *const u8,
    out: &mut [[f32; PANEL_ROWS]; N],
) {
    for part in 0..PANEL_ROWS / S::LANES {
        // SAFETY: every pointer stays within the panel and the tile that the caller promises: block
        // and unit numbers are below their counts.
        unsafe {
            let mut sums = [S::splat(0.0); N];
            let mut x = x;
            for block in 0..blocks {
                let block = panel.add(block * P::PANEL_BYTES);
                for unit in 0..P::UNITS {
                    let planes = block.add(P::HEAD + unit * P::Planes::BYTES);
                    let q = P::Planes::load::<S>(planes, part);
                    // Written out: the groups only stay in registers when the compiler knows at
                    // every place which of them is meant.
                    let scales = P::scales::<S>(block, unit, 0, part);
                    add_unit::<S, P, N>(&mut sums, &q, scales, 0, x);
                    if P::SCALES == 2 {
                        let scales = P::scales::<S>(block, unit, 1, part);
                        add_unit::<S, P, N>(&mut sums, &q, scales, 1, x);
                    }
                    x = x.add(Layout::<N>::UNIT_BYTES);
                }
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                S::store(out.as_mut_ptr().add(part * S::LANES), sum);
            }
        }
    }
}

/// Adds one scaled piece of a unit to the sums: all of it, or half `half` of it.
///
/// # Safety
///
/// `x` is a unit of a tile of `N`, and the processor has the instructions of `S`.
#[inline(always)]
unsafe fn add_unit<S: Simd, P: Packing, const N: usize>(
    sums: &mut [S::F; N],
    q: &[S::I; GROUPS],
    (a, b): (S::F, S::F),
    half: usize,
    x: *const u8,
) {
    let groups = GROUPS / P::SCALES;
    let sum = if P::SCALES == 1 { Layout::<N>::WHOLE } else { Layout::<N>::HALVES[half] };
    for (t, total) in sums.iter_mut().enumerate() {
        // SAFETY: all offsets lie within the unit of the tile.
        unsafe {
            let mut exact = P::start::<S>(x.add(sum.negative + 4 * t).cast());
            let bytes = x.add(UNIT * t + 4 * half * groups);
            for group in 0..groups {
                let w = P::value::<S>(q[half * groups + group]);
                let x = S::broadcast(bytes.add(4 * group).cast());
                exact = if P::SIGNED { S::dot_signed(exact, w, x) } else { S::dot(exact, w, x) };
            }
            let dx = S::splat(x.add(Layout::<N>::SCALE + 4 * t).cast::<f32>().read_unaligned());
            let mut term = S::mul(S::to_f32(exact), S::mul(a, dx));
            if P::HAS_MINIMUM {
                let sx = x.add(sum.scaled + 4 * t).cast::<f32>().read_unaligned();
                term = S::sub(term, S::mul(b, S::splat(sx)));
            }
            *total = S::add(*total, term);
        }
    }
}
