//! [`Packing`] of the IQ1, IQ2 and IQ3 formats: what a panel holds are the numbers of rows of a codebook
//! and signs, as in the file, and the kernels look the rows up. So a model takes no more memory
//! than its file.
//!
//! A unit of a row is `WORDS` words and, where row numbers have more than eight bits that fit
//! nowhere else, `MORE` bytes. IQ1 ([`iq1`]) has no signs; in the others, the last word is its signs: bit `g` of byte `k` is the sign of column `4 *
//! g + k`, so that one shift brings the signs of a group to the lowest bits of its four bytes. The
//! words before it have a byte for each row of the codebook. Where the file has seven signs for
//! eight numbers, the place of the eighth is **spare**: bits 25, 27, 29 and 31, which hold the scale
//! of the unit or the ninth bits of its row numbers.
//!
//! A weight is `d * scale * ±row` (of IQ1, `d * scale * (row - zero)`) with an odd `scale`: the fraction in [`crate::block::codebook`],
//! an eighth of IQ2 for one, is part of `d`.

#![allow(unsafe_code, reason = "reads codes into vector registers")]

mod iq1;

use super::planes::{GROUPS, Planes, VECTOR, put_word, vector};
use super::{HALVES, PANEL_ROWS, Packing, Parts, UNIT, halves};
use crate::activations::Grain;
use crate::block::codebook::{Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs};
use crate::block::{Block, grids};
use crate::simd::{Plain, Simd};

/// What differs between the formats of this module.
pub(crate) trait Coded: Block {
    /// Pieces of a unit.
    const SCALES: usize;
    /// Bytes of scales of a row in the head, with two scales in each; without any, scales are in
    /// the spare bits of the signs.
    const SCALE_BYTES: usize;
    /// What `d` of the file is multiplied with.
    const FRACTION: f32;
    /// Words of a row in a unit.
    const WORDS: usize;
    /// Further bytes of a row in a unit.
    const MORE: usize;
    /// What is subtracted from a number of a row. Such rows have no signs.
    const ZERO: i32 = 0;

    /// The words of a unit, and its further bytes, at the beginning of `q`.
    fn codes(block: &[u8], unit: usize, q: &mut [u8; UNIT]);

    /// The bytes of `d` in f16.
    #[inline(always)]
    fn d(block: &[u8]) -> [u8; 2] {
        [block[0], block[1]]
    }

    /// The scales of a block that the head holds.
    #[inline(always)]
    fn scales(_block: &[u8], _scales: &mut [u8]) {}

    /// The scale in a unit, where the head holds none.
    ///
    /// # Safety
    ///
    /// As [`Planes::load`].
    #[inline(always)]
    unsafe fn unit_scale<S: Simd>(unit: *const u8, part: usize) -> S::I {
        // SAFETY: the caller's promise.
        unsafe { spare::<S>(vector::<S>(unit, Self::WORDS - 1, part)) }
    }

    /// The groups of a unit, for rows `LANES * part` on.
    ///
    /// # Safety
    ///
    /// As [`Planes::load`].
    unsafe fn groups<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS];
}

impl<C: Coded> Planes for C {
    const BYTES: usize = C::WORDS * VECTOR + C::MORE * PANEL_ROWS;

    fn put(q: &[u8; UNIT], lane: usize, unit: &mut [u8]) {
        for (vector, word) in q.as_chunks::<4>().0.iter().take(C::WORDS).enumerate() {
            put_word(unit, vector, lane, u32::from_ne_bytes(*word));
        }
        for (number, byte) in q[4 * C::WORDS..][..C::MORE].iter().enumerate() {
            unit[C::WORDS * VECTOR + number * PANEL_ROWS + lane] = *byte;
        }
    }

    fn get(unit: &[u8], lane: usize) -> [u8; UNIT] {
        assert_eq!(unit.len(), <Self as Planes>::BYTES, "the caller cuts blocks into units");
        // SAFETY: `unit` is a whole unit, and plain code needs no instructions.
        let groups = unsafe { C::groups::<Plain>(unit.as_ptr(), 0) };
        std::array::from_fn(|k| groups[k / 4][lane].to_ne_bytes()[k % 4])
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS] {
        // SAFETY: the caller's promise.
        unsafe { C::groups::<S>(unit, part) }
    }
}

impl<C: Coded> Packing for C {
    const GRAIN: Grain = Grain::Coarse;
    const HEAD: usize = HALVES + C::SCALE_BYTES * PANEL_ROWS;
    const SCALES: usize = C::SCALES;
    const HAS_MINIMUM: bool = false;
    const SIGNED: bool = C::ZERO == 0;
    const ZERO: i32 = C::ZERO;
    type Planes = Self;

    #[inline(always)]
    fn take_apart(block: &[u8]) -> Parts {
        let mut parts = Parts { d: C::d(block), ..Parts::ZERO };
        C::scales(block, &mut parts.scales[..C::SCALE_BYTES]);
        for (unit, q) in parts.q.iter_mut().enumerate() {
            C::codes(block, unit, q);
        }
        parts
    }

    #[inline(always)]
    fn put_head(parts: &Parts, lane: usize, head: &mut [u8]) {
        head[2 * lane..][..2].copy_from_slice(&parts.d);
        for (number, scales) in parts.scales[..C::SCALE_BYTES].iter().enumerate() {
            head[HALVES + number * PANEL_ROWS + lane] = *scales;
        }
    }

    #[inline(always)]
    unsafe fn d<S: Simd>(block: *const u8, part: usize) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { S::mul(halves::<S>(block, 0, part), S::splat(C::FRACTION)) }
    }

    #[inline(always)]
    unsafe fn scale<S: Simd>(block: *const u8, piece: usize, part: usize) -> S::I {
        // SAFETY: the caller's promise: scales follow `d` in the head, or are in the unit that the
        // piece is.
        unsafe {
            let scale = if C::SCALE_BYTES == 0 {
                C::unit_scale::<S>(block.add(Self::HEAD + piece * <Self as Planes>::BYTES), part)
            } else {
                let at = HALVES + piece / 2 * PANEL_ROWS + S::LANES * part;
                let both = S::extend_u8(block.add(at));
                if piece.is_multiple_of(2) {
                    S::and(both, S::splat_int(15))
                } else {
                    S::shift_right::<4>(both)
                }
            };
            S::add_int(S::shift_left::<1>(scale), S::splat_int(1))
        }
    }
}

impl Coded for Iq2Xxs {
    const SCALES: usize = 1;
    const SCALE_BYTES: usize = 0;
    const FRACTION: f32 = 0.125;
    const WORDS: usize = 2;
    const MORE: usize = 0;

    #[inline(always)]
    fn codes(block: &[u8], unit: usize, q: &mut [u8; UNIT]) {
        let at = 2 + 8 * unit;
        q[..4].copy_from_slice(&block[at..at + 4]);
        put_seven(word(block, at + 4), &mut q[4..8]);
    }

    #[inline(always)]
    unsafe fn groups<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS] {
        // SAFETY: the caller's promise; the numbers of rows have eight bits, of 256 rows.
        unsafe {
            let rows = four::<S>(vector::<S>(unit, 0, part));
            let numbers = eights::<S, 256>(&grids::IQ2_XXS, rows);
            signed::<S>(numbers, with_eighth::<S>(vector::<S>(unit, 1, part)))
        }
    }
}

impl Coded for Iq2Xs {
    const SCALES: usize = 2;
    const SCALE_BYTES: usize = 8;
    const FRACTION: f32 = 0.125;
    const WORDS: usize = 2;
    const MORE: usize = 0;

    #[inline(always)]
    fn codes(block: &[u8], unit: usize, q: &mut [u8; UNIT]) {
        let (mut signs, mut ninth) = ([0; 4], 0);
        for i in 0..4 {
            let [low, high] = [block[2 + 8 * unit + 2 * i], block[3 + 8 * unit + 2 * i]];
            q[i] = low;
            signs[i] = high >> 1;
            ninth |= (high & 1) << i;
        }
        put(sign_word(signs) | spare_word(ninth), &mut q[4..8]);
    }

    #[inline(always)]
    fn scales(block: &[u8], scales: &mut [u8]) {
        scales.copy_from_slice(&block[66..74]);
    }

    #[inline(always)]
    unsafe fn groups<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS] {
        // SAFETY: the caller's promise; the numbers of rows have nine bits, of 512 rows.
        unsafe {
            let signs = vector::<S>(unit, 1, part);
            let rows = four::<S>(vector::<S>(unit, 0, part));
            let rows = higher::<S>(rows, S::shift_right::<25>(signs), 0x100);
            let numbers = eights::<S, 512>(&grids::IQ2_XS, rows);
            signed::<S>(numbers, with_eighth::<S>(signs))
        }
    }
}

impl Coded for Iq2S {
    const SCALES: usize = 2;
    const SCALE_BYTES: usize = 8;
    const FRACTION: f32 = 0.125;
    const WORDS: usize = 2;
    const MORE: usize = 1;

    #[inline(always)]
    fn codes(block: &[u8], unit: usize, q: &mut [u8; UNIT]) {
        q[..4].copy_from_slice(&block[2 + 4 * unit..][..4]);
        put(sign_word(bytes(block, 34 + 4 * unit)), &mut q[4..8]);
        q[8] = block[66 + unit];
    }

    #[inline(always)]
    fn scales(block: &[u8], scales: &mut [u8]) {
        scales.copy_from_slice(&block[74..82]);
    }

    #[inline(always)]
    unsafe fn groups<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS] {
        // SAFETY: the caller's promise; the numbers of rows have ten bits, of 1024 rows.
        unsafe {
            let high = S::extend_u8(unit.add(2 * VECTOR + S::LANES * part));
            let rows = four::<S>(vector::<S>(unit, 0, part));
            let rows = higher::<S>(rows, high, 0x300);
            let numbers = eights::<S, 1024>(&grids::IQ2_S, rows);
            signed::<S>(numbers, vector::<S>(unit, 1, part))
        }
    }
}

impl Coded for Iq3Xxs {
    const SCALES: usize = 1;
    const SCALE_BYTES: usize = 0;
    const FRACTION: f32 = 0.25;
    const WORDS: usize = 3;
    const MORE: usize = 0;

    #[inline(always)]
    fn codes(block: &[u8], unit: usize, q: &mut [u8; UNIT]) {
        q[..8].copy_from_slice(&block[2 + 8 * unit..][..8]);
        put_seven(word(block, 66 + 4 * unit), &mut q[8..12]);
    }

    #[inline(always)]
    unsafe fn groups<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS] {
        // SAFETY: the caller's promise; the numbers of rows have eight bits, of 256 rows.
        unsafe {
            let [a, b, c, d] = four::<S>(vector::<S>(unit, 0, part));
            let [e, f, g, h] = four::<S>(vector::<S>(unit, 1, part));
            let numbers = fours::<S, 256>(&grids::IQ3_XXS, [a, b, c, d, e, f, g, h]);
            signed::<S>(numbers, with_eighth::<S>(vector::<S>(unit, 2, part)))
        }
    }
}

impl Coded for Iq3S {
    const SCALES: usize = 1;
    const SCALE_BYTES: usize = 4;
    const FRACTION: f32 = 1.0;
    const WORDS: usize = 3;
    const MORE: usize = 1;

    #[inline(always)]
    fn codes(block: &[u8], unit: usize, q: &mut [u8; UNIT]) {
        q[..8].copy_from_slice(&block[2 + 8 * unit..][..8]);
        put(sign_word(bytes(block, 74 + 4 * unit)), &mut q[8..12]);
        q[12] = block[66 + unit];
    }

    #[inline(always)]
    fn scales(block: &[u8], scales: &mut [u8]) {
        scales.copy_from_slice(&block[106..110]);
    }

    #[inline(always)]
    unsafe fn groups<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS] {
        // SAFETY: the caller's promise; the numbers of rows have nine bits, of 512 rows.
        unsafe {
            let high = S::extend_u8(unit.add(3 * VECTOR + S::LANES * part));
            let ninth = S::splat_int(0x100);
            let [a, b, c, d] = four::<S>(vector::<S>(unit, 0, part));
            let [e, f, g, h] = four::<S>(vector::<S>(unit, 1, part));
            let rows = [
                S::or(a, S::and(S::shift_left::<8>(high), ninth)),
                S::or(b, S::and(S::shift_left::<7>(high), ninth)),
                S::or(c, S::and(S::shift_left::<6>(high), ninth)),
                S::or(d, S::and(S::shift_left::<5>(high), ninth)),
                S::or(e, S::and(S::shift_left::<4>(high), ninth)),
                S::or(f, S::and(S::shift_left::<3>(high), ninth)),
                S::or(g, S::and(S::shift_left::<2>(high), ninth)),
                S::or(h, S::and(S::shift_left::<1>(high), ninth)),
            ];
            let numbers = fours::<S, 512>(&grids::IQ3_S, rows);
            signed::<S>(numbers, vector::<S>(unit, 2, part))
        }
    }
}

/// The four bytes at `at`.
#[inline(always)]
fn bytes(block: &[u8], at: usize) -> [u8; 4] {
    [block[at], block[at + 1], block[at + 2], block[at + 3]]
}

/// The little-endian u32 at `at`.
#[inline(always)]
fn word(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes(block, at))
}

#[inline(always)]
fn put(word: u32, q: &mut [u8]) {
    q.copy_from_slice(&word.to_ne_bytes());
}

/// Bit `i` of four to bit 0 of byte `i`.
#[inline(always)]
fn spread(four: u32) -> u32 {
    (four * 0x0020_4081) & 0x0101_0101
}

/// The signs of 32 numbers, eight in a byte, as a panel has them.
#[inline(always)]
fn sign_word(signs: [u8; 4]) -> u32 {
    let mut word = 0;
    for (i, signs) in signs.into_iter().enumerate() {
        let signs = u32::from(signs);
        word |= spread(signs & 15) << (2 * i) | spread(signs >> 4) << (2 * i + 1);
    }
    word
}

/// Four bits in the spare places of a word of signs.
#[inline(always)]
fn spare_word(four: u8) -> u32 {
    let four = u32::from(four);
    (0..4).fold(0, |word, i| word | ((four >> i) & 1) << (25 + 2 * i))
}

/// Four times seven signs and a scale of four bits, as IQ2_XXS and IQ3_XXS have them in a word.
#[inline(always)]
fn put_seven(packed: u32, q: &mut [u8]) {
    let signs = std::array::from_fn(|i| (packed >> (7 * i)) as u8 & 127);
    put(sign_word(signs) | spare_word((packed >> 28) as u8), q);
}

/// The numbers in the bytes of a word.
///
/// # Safety
///
/// The processor has the instructions of `S`: as of all functions below.
#[inline(always)]
unsafe fn four<S: Simd>(word: S::I) -> [S::I; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let low = S::splat_int(255);
        [
            S::and(word, low),
            S::and(S::shift_right::<8>(word), low),
            S::and(S::shift_right::<16>(word), low),
            S::shift_right::<24>(word),
        ]
    }
}

/// Four numbers of rows with the bits of `mask` from `high`, two bits for each number.
///
/// # Safety
///
/// As [`four`].
#[inline(always)]
unsafe fn higher<S: Simd>(rows: [S::I; 4], high: S::I, mask: i32) -> [S::I; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let mask = S::splat_int(mask);
        let [a, b, c, d] = rows;
        [
            S::or(a, S::and(S::shift_left::<8>(high), mask)),
            S::or(b, S::and(S::shift_left::<6>(high), mask)),
            S::or(c, S::and(S::shift_left::<4>(high), mask)),
            S::or(d, S::and(S::shift_left::<2>(high), mask)),
        ]
    }
}

/// Rows of eight numbers as groups of four.
///
/// # Safety
///
/// As [`four`], and there are such rows.
#[inline(always)]
unsafe fn eights<S: Simd, const ROWS: usize>(
    table: &[[u8; 8]; ROWS],
    rows: [S::I; 4],
) -> [S::I; GROUPS] {
    // SAFETY: the caller's promise.
    unsafe {
        let [one, two, three, four] = rows;
        let [a, b] = S::gather_pairs(table.as_ptr(), one);
        let [c, d] = S::gather_pairs(table.as_ptr(), two);
        let [e, f] = S::gather_pairs(table.as_ptr(), three);
        let [g, h] = S::gather_pairs(table.as_ptr(), four);
        [a, b, c, d, e, f, g, h]
    }
}

/// Rows of four numbers: a group each.
///
/// # Safety
///
/// As [`eights`].
#[inline(always)]
unsafe fn fours<S: Simd, const ROWS: usize>(
    table: &[[u8; 4]; ROWS],
    rows: [S::I; GROUPS],
) -> [S::I; GROUPS] {
    // SAFETY: the caller's promise.
    unsafe {
        let table = table.as_ptr();
        let [a, b, c, d, e, f, g, h] = rows;
        [
            S::gather(table, a),
            S::gather(table, b),
            S::gather(table, c),
            S::gather(table, d),
            S::gather(table, e),
            S::gather(table, f),
            S::gather(table, g),
            S::gather(table, h),
        ]
    }
}

/// Groups of numbers with the signs of a word.
///
/// # Safety
///
/// As [`four`]; no number is 0.
#[inline(always)]
unsafe fn signed<S: Simd>(numbers: [S::I; GROUPS], signs: S::I) -> [S::I; GROUPS] {
    // SAFETY: the caller's promise.
    unsafe {
        let [a, b, c, d, e, f, g, h] = numbers;
        [
            negated::<S>(a, signs),
            negated::<S>(b, S::shift_right::<1>(signs)),
            negated::<S>(c, S::shift_right::<2>(signs)),
            negated::<S>(d, S::shift_right::<3>(signs)),
            negated::<S>(e, S::shift_right::<4>(signs)),
            negated::<S>(f, S::shift_right::<5>(signs)),
            negated::<S>(g, S::shift_right::<6>(signs)),
            negated::<S>(h, S::shift_right::<7>(signs)),
        ]
    }
}

/// Four bytes, negated where the lowest bit of that byte of `signs` is set.
///
/// # Safety
///
/// As [`signed`].
#[inline(always)]
unsafe fn negated<S: Simd>(numbers: S::I, signs: S::I) -> S::I {
    // SAFETY: the caller's promise.
    unsafe {
        // A negated byte is its complement and one more; of a byte that is not 0, nothing is
        // carried into the next one.
        let one = S::and(signs, S::splat_u8(1));
        let all = S::sub_int(S::shift_left::<8>(one), one);
        S::add_int(S::xor(numbers, all), one)
    }
}

/// A word of signs whose spare bits are replaced by the eighth sign of eight, which makes the number
/// of negative ones even.
///
/// # Safety
///
/// As [`four`].
#[inline(always)]
unsafe fn with_eighth<S: Simd>(word: S::I) -> S::I {
    // SAFETY: the caller's promise.
    unsafe {
        let without = S::and(word, S::splat_int(0x55ff_ffff));
        let half = S::xor(without, S::shift_right::<16>(without));
        let byte = S::xor(half, S::shift_right::<8>(half));
        // Of two groups, the second has the eighth number.
        let both = S::xor(byte, S::shift_left::<1>(byte));
        let eighth = S::and(S::shift_left::<24>(both), S::splat_int(0xaa00_0000_u32 as i32));
        S::or(without, eighth)
    }
}

/// The four spare bits of a word of signs.
///
/// # Safety
///
/// As [`four`].
#[inline(always)]
unsafe fn spare<S: Simd>(word: S::I) -> S::I {
    // SAFETY: the caller's promise.
    unsafe {
        let bits = S::and(S::shift_right::<25>(word), S::splat_int(0x55));
        let pairs = S::and(S::or(bits, S::shift_right::<1>(bits)), S::splat_int(0x33));
        S::and(S::or(pairs, S::shift_right::<2>(pairs)), S::splat_int(15))
    }
}
