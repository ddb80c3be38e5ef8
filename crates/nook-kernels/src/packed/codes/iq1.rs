//! The IQ1 formats: rows of -1, 0 and 1, of which eight numbers of a row (of IQ1_S, 32 in turn) are
//! moved up or down by an eighth. Eight times such a number, and 9 more, is a byte: what the
//! codebook has ([`grids::IQ1`]), and 2 more where it is moved up.

#![allow(unsafe_code, reason = "reads codes into vector registers")]

use super::{Coded, eights, four};
use crate::block::codebook::{Iq1M, Iq1S, iq1_m_d, iq1_m_scale};
use crate::block::grids;
use crate::packed::planes::{GROUPS, VECTOR, vector};
use crate::packed::{PANEL_ROWS, UNIT};
use crate::simd::Simd;

/// Eight of the codebook's numbers for 0, and one between down and up.
const ZERO: i32 = 9;

impl Coded for Iq1S {
    const SCALES: usize = 1;
    const SCALE_BYTES: usize = 0;
    const FRACTION: f32 = 0.125;
    const WORDS: usize = 1;
    const MORE: usize = 2;
    const ZERO: i32 = ZERO;

    #[inline(always)]
    fn codes(block: &[u8], unit: usize, q: &mut [u8; UNIT]) {
        q[..4].copy_from_slice(&block[2 + 4 * unit..][..4]);
        q[4..6].copy_from_slice(&block[34 + 2 * unit..][..2]);
    }

    #[inline(always)]
    unsafe fn unit_scale<S: Simd>(unit: *const u8, part: usize) -> S::I {
        // SAFETY: the caller's promise.
        unsafe { S::and(S::shift_right::<12>(more::<S>(unit, part)), S::splat_int(7)) }
    }

    #[inline(always)]
    unsafe fn groups<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS] {
        // SAFETY: the caller's promise; the numbers of rows have eleven bits, of 2048 rows.
        unsafe {
            let more = more::<S>(unit, part);
            let mask = S::splat_int(0x700);
            let [a, b, c, d] = four::<S>(vector::<S>(unit, 0, part));
            let rows = [
                S::or(a, S::and(S::shift_left::<8>(more), mask)),
                S::or(b, S::and(S::shift_left::<5>(more), mask)),
                S::or(c, S::and(S::shift_left::<2>(more), mask)),
                S::or(d, S::and(S::shift_right::<1>(more), mask)),
            ];
            let up = up::<S>(S::shift_right::<15>(more));
            eights::<S, 2048>(&grids::IQ1, rows).map(|numbers| S::or(numbers, up))
        }
    }
}

impl Coded for Iq1M {
    const SCALES: usize = 2;
    const SCALE_BYTES: usize = 8;
    const FRACTION: f32 = 0.125;
    const WORDS: usize = 1;
    const MORE: usize = 2;
    const ZERO: i32 = ZERO;

    #[inline(always)]
    fn codes(block: &[u8], unit: usize, q: &mut [u8; UNIT]) {
        q[..4].copy_from_slice(&block[4 * unit..][..4]);
        q[4..6].copy_from_slice(&block[32 + 2 * unit..][..2]);
    }

    #[inline(always)]
    fn d(block: &[u8]) -> [u8; 2] {
        iq1_m_d(block).to_le_bytes()
    }

    #[inline(always)]
    fn scales(block: &[u8], scales: &mut [u8]) {
        for (number, scales) in scales.iter_mut().enumerate() {
            *scales = iq1_m_scale(block, 2 * number) | iq1_m_scale(block, 2 * number + 1) << 4;
        }
    }

    #[inline(always)]
    unsafe fn groups<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS] {
        // SAFETY: as above; of each four bits of `more`, three belong to the number of a row.
        unsafe {
            let more = more::<S>(unit, part);
            let mask = S::splat_int(0x700);
            let [a, b, c, d] = four::<S>(vector::<S>(unit, 0, part));
            let rows = [
                S::or(a, S::and(S::shift_left::<8>(more), mask)),
                S::or(b, S::and(S::shift_left::<4>(more), mask)),
                S::or(c, S::and(more, mask)),
                S::or(d, S::and(S::shift_right::<4>(more), mask)),
            ];
            let [a, b, c, d, e, f, g, h] = eights::<S, 2048>(&grids::IQ1, rows);
            let first = up::<S>(S::shift_right::<3>(more));
            let second = up::<S>(S::shift_right::<7>(more));
            let third = up::<S>(S::shift_right::<11>(more));
            let fourth = up::<S>(S::shift_right::<15>(more));
            [
                S::or(a, first),
                S::or(b, first),
                S::or(c, second),
                S::or(d, second),
                S::or(e, third),
                S::or(f, third),
                S::or(g, fourth),
                S::or(h, fourth),
            ]
        }
    }
}

/// The two further bytes of a unit.
///
/// # Safety
///
/// `unit` is a unit of a panel, and the processor has the instructions of `S`.
#[inline(always)]
unsafe fn more<S: Simd>(unit: *const u8, part: usize) -> S::I {
    // SAFETY: the caller's promise: they follow the word of each of the sixteen rows.
    unsafe {
        let low = S::extend_u8(unit.add(VECTOR + S::LANES * part));
        let high = S::extend_u8(unit.add(VECTOR + PANEL_ROWS + S::LANES * part));
        S::or(low, S::shift_left::<8>(high))
    }
}

/// 2 in each byte, or 0 where the lowest bit says that the numbers are moved down.
///
/// # Safety
///
/// The processor has the instructions of `S`.
#[inline(always)]
unsafe fn up<S: Simd>(bits: S::I) -> S::I {
    // SAFETY: the caller's promise.
    unsafe {
        let down = S::and(bits, S::splat_int(1));
        S::mul_int(S::sub_int(S::splat_int(1), down), S::splat_u8(2))
    }
}
