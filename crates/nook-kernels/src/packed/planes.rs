//! Where the quantised numbers of a unit lie: sixteen rows of 32 columns.
//!
//! Column `k` of a row belongs to group `k / 4` of eight. A **plane** holds some bits of each
//! number: a vector of 64 bytes has byte `4 * row + k % 4` for each row, and as many groups in one
//! byte as fit there. Half a vector is eight rows, a quarter four, so narrower registers read the
//! same bytes.

#![allow(unsafe_code, reason = "reads planes into vector registers")]

use super::UNIT;
use crate::simd::Simd;

/// Bytes of a vector of sixteen rows.
pub(super) const VECTOR: usize = 64;

/// Groups of four columns in a unit.
pub(crate) const GROUPS: usize = UNIT / 4;

/// One arrangement of planes.
pub(crate) trait Planes {
    /// Bytes of a unit.
    const BYTES: usize;

    /// Puts the numbers of row `lane` into `unit`, whose bits for that row are zero.
    fn put(q: &[u8; UNIT], lane: usize, unit: &mut [u8]);

    /// The numbers of row `lane`.
    fn get(unit: &[u8], lane: usize) -> [u8; UNIT];

    /// The groups, for rows `LANES * part` on.
    ///
    /// # Safety
    ///
    /// `unit` has [`Self::BYTES`] readable bytes, and the processor has the instructions of `S`.
    unsafe fn load<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS];
}

/// One byte for each number.
#[derive(Debug)]
pub(crate) enum Bytes {}

/// Low four bits: groups 0 to 3 in the low halves of bytes, 4 to 7 in the high ones.
#[derive(Debug)]
pub(crate) enum Nibbles {}

/// [`Nibbles`], then a vector with bit `g` for group `g`.
#[derive(Debug)]
pub(crate) enum FiveBits {}

/// [`Nibbles`], then [`Pairs`] of the two higher bits.
#[derive(Debug)]
pub(crate) enum SixBits {}

/// Two bits: group `g` in vector `g / 4`, at bit `2 * (g % 4)`.
#[derive(Debug)]
pub(crate) enum Pairs {}

/// [`Pairs`], then a vector with bit `g` for group `g`.
#[derive(Debug)]
pub(crate) enum ThreeBits {}

/// Byte of column `k` of row `lane` in vector `vector`.
fn byte(vector: usize, lane: usize, k: usize) -> usize {
    vector * VECTOR + lane * 4 + k % 4
}

/// Calls `put` with each group and its four numbers as one word; bits outside of `mask` in each
/// byte are left out. Whole words, because packing all weights of a model is most of the time of
/// loading it.
#[inline(always)]
fn each_group(q: &[u8; UNIT], mask: u8, mut put: impl FnMut(usize, u32)) {
    let mask = u32::from_ne_bytes([mask; 4]);
    for (group, numbers) in q.as_chunks::<4>().0.iter().enumerate() {
        put(group, u32::from_ne_bytes(*numbers) & mask);
    }
}

/// Adds the bits of `word` to those of row `lane` in vector `vector`.
#[inline(always)]
pub(super) fn put_word(unit: &mut [u8], vector: usize, lane: usize, word: u32) {
    let at = byte(vector, lane, 0);
    let there = &mut unit[at..at + 4];
    for (there, new) in there.iter_mut().zip(word.to_ne_bytes()) {
        *there |= new;
    }
}

fn put_nibbles(q: &[u8; UNIT], lane: usize, unit: &mut [u8]) {
    each_group(q, 15, |group, word| put_word(unit, group % 4, lane, word << (4 * (group / 4))));
}

fn get_nibble(unit: &[u8], lane: usize, k: usize) -> u8 {
    let group = k / 4;
    (unit[byte(group % 4, lane, k)] >> (4 * (group / 4))) & 15
}

/// Bits `shift` and `shift + 1` of each number.
fn put_pairs(q: &[u8; UNIT], shift: u32, lane: usize, unit: &mut [u8]) {
    each_group(q, 3 << shift, |group, word| {
        put_word(unit, group / 4, lane, word >> shift << (2 * (group % 4)));
    });
}

fn get_pair(unit: &[u8], lane: usize, k: usize) -> u8 {
    let group = k / 4;
    (unit[byte(group / 4, lane, k)] >> (2 * (group % 4))) & 3
}

/// Bit `shift` of each number.
fn put_bits(q: &[u8; UNIT], shift: u32, lane: usize, unit: &mut [u8]) {
    each_group(q, 1 << shift, |group, word| put_word(unit, 0, lane, word >> shift << group));
}

fn get_bit(unit: &[u8], lane: usize, k: usize) -> u8 {
    (unit[byte(0, lane, k)] >> (k / 4)) & 1
}

/// Vector `vector` of the rows from `LANES * part` on.
///
/// # Safety
///
/// It lies within readable bytes, and the processor has the instructions of `S`.
#[inline(always)]
pub(super) unsafe fn vector<S: Simd>(unit: *const u8, vector: usize, part: usize) -> S::I {
    // SAFETY: the caller's promise; a part is `4 * LANES` bytes of the vector's 64.
    unsafe { S::load_bytes(unit.add(vector * VECTOR + part * 4 * S::LANES)) }
}

impl Planes for Bytes {
    const BYTES: usize = GROUPS * VECTOR;

    fn put(q: &[u8; UNIT], lane: usize, unit: &mut [u8]) {
        each_group(q, 0xff, |group, word| put_word(unit, group, lane, word));
    }

    fn get(unit: &[u8], lane: usize) -> [u8; UNIT] {
        std::array::from_fn(|k| unit[byte(k / 4, lane, k)])
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS] {
        // SAFETY: the caller's promise, for each of the eight vectors.
        unsafe {
            [
                vector::<S>(unit, 0, part),
                vector::<S>(unit, 1, part),
                vector::<S>(unit, 2, part),
                vector::<S>(unit, 3, part),
                vector::<S>(unit, 4, part),
                vector::<S>(unit, 5, part),
                vector::<S>(unit, 6, part),
                vector::<S>(unit, 7, part),
            ]
        }
    }
}

impl Planes for Nibbles {
    const BYTES: usize = 4 * VECTOR;

    fn put(q: &[u8; UNIT], lane: usize, unit: &mut [u8]) {
        put_nibbles(q, lane, unit);
    }

    fn get(unit: &[u8], lane: usize) -> [u8; UNIT] {
        std::array::from_fn(|k| get_nibble(unit, lane, k))
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS] {
        // SAFETY: the caller's promise, for each of the four vectors.
        unsafe {
            let low = S::splat_u8(15);
            let a = vector::<S>(unit, 0, part);
            let b = vector::<S>(unit, 1, part);
            let c = vector::<S>(unit, 2, part);
            let d = vector::<S>(unit, 3, part);
            [
                S::and(a, low),
                S::and(b, low),
                S::and(c, low),
                S::and(d, low),
                S::and(S::shift_right::<4>(a), low),
                S::and(S::shift_right::<4>(b), low),
                S::and(S::shift_right::<4>(c), low),
                S::and(S::shift_right::<4>(d), low),
            ]
        }
    }
}

impl Planes for FiveBits {
    const BYTES: usize = 5 * VECTOR;

    fn put(q: &[u8; UNIT], lane: usize, unit: &mut [u8]) {
        put_nibbles(q, lane, unit);
        put_bits(q, 4, lane, &mut unit[Nibbles::BYTES..]);
    }

    fn get(unit: &[u8], lane: usize) -> [u8; UNIT] {
        let high = &unit[Nibbles::BYTES..];
        std::array::from_fn(|k| get_nibble(unit, lane, k) | get_bit(high, lane, k) << 4)
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS] {
        // SAFETY: the caller's promise, for the nibbles and the vector after them.
        unsafe {
            let bit = S::splat_u8(16);
            let [a, b, c, d, e, f, g, h] = Nibbles::load::<S>(unit, part);
            let high = vector::<S>(unit, 4, part);
            [
                S::or(a, S::and(S::shift_left::<4>(high), bit)),
                S::or(b, S::and(S::shift_left::<3>(high), bit)),
                S::or(c, S::and(S::shift_left::<2>(high), bit)),
                S::or(d, S::and(S::shift_left::<1>(high), bit)),
                S::or(e, S::and(high, bit)),
                S::or(f, S::and(S::shift_right::<1>(high), bit)),
                S::or(g, S::and(S::shift_right::<2>(high), bit)),
                S::or(h, S::and(S::shift_right::<3>(high), bit)),
            ]
        }
    }
}

impl Planes for SixBits {
    const BYTES: usize = 6 * VECTOR;

    fn put(q: &[u8; UNIT], lane: usize, unit: &mut [u8]) {
        put_nibbles(q, lane, unit);
        put_pairs(q, 4, lane, &mut unit[Nibbles::BYTES..]);
    }

    fn get(unit: &[u8], lane: usize) -> [u8; UNIT] {
        let high = &unit[Nibbles::BYTES..];
        std::array::from_fn(|k| get_nibble(unit, lane, k) | get_pair(high, lane, k) << 4)
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS] {
        // SAFETY: the caller's promise, for the nibbles and the two vectors after them.
        unsafe {
            let pair = S::splat_u8(0x30);
            let [a, b, c, d, e, f, g, h] = Nibbles::load::<S>(unit, part);
            let (x, y) = (vector::<S>(unit, 4, part), vector::<S>(unit, 5, part));
            [
                S::or(a, S::and(S::shift_left::<4>(x), pair)),
                S::or(b, S::and(S::shift_left::<2>(x), pair)),
                S::or(c, S::and(x, pair)),
                S::or(d, S::and(S::shift_right::<2>(x), pair)),
                S::or(e, S::and(S::shift_left::<4>(y), pair)),
                S::or(f, S::and(S::shift_left::<2>(y), pair)),
                S::or(g, S::and(y, pair)),
                S::or(h, S::and(S::shift_right::<2>(y), pair)),
            ]
        }
    }
}

impl Planes for Pairs {
    const BYTES: usize = 2 * VECTOR;

    fn put(q: &[u8; UNIT], lane: usize, unit: &mut [u8]) {
        put_pairs(q, 0, lane, unit);
    }

    fn get(unit: &[u8], lane: usize) -> [u8; UNIT] {
        std::array::from_fn(|k| get_pair(unit, lane, k))
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS] {
        // SAFETY: the caller's promise, for both vectors.
        unsafe {
            let low = S::splat_u8(3);
            let (x, y) = (vector::<S>(unit, 0, part), vector::<S>(unit, 1, part));
            [
                S::and(x, low),
                S::and(S::shift_right::<2>(x), low),
                S::and(S::shift_right::<4>(x), low),
                S::and(S::shift_right::<6>(x), low),
                S::and(y, low),
                S::and(S::shift_right::<2>(y), low),
                S::and(S::shift_right::<4>(y), low),
                S::and(S::shift_right::<6>(y), low),
            ]
        }
    }
}

impl Planes for ThreeBits {
    const BYTES: usize = 3 * VECTOR;

    fn put(q: &[u8; UNIT], lane: usize, unit: &mut [u8]) {
        put_pairs(q, 0, lane, unit);
        put_bits(q, 2, lane, &mut unit[Pairs::BYTES..]);
    }

    fn get(unit: &[u8], lane: usize) -> [u8; UNIT] {
        let high = &unit[Pairs::BYTES..];
        std::array::from_fn(|k| get_pair(unit, lane, k) | get_bit(high, lane, k) << 2)
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(unit: *const u8, part: usize) -> [S::I; GROUPS] {
        // SAFETY: the caller's promise, for the pairs and the vector after them.
        unsafe {
            let bit = S::splat_u8(4);
            let [a, b, c, d, e, f, g, h] = Pairs::load::<S>(unit, part);
            let high = vector::<S>(unit, 2, part);
            [
                S::or(a, S::and(S::shift_left::<2>(high), bit)),
                S::or(b, S::and(S::shift_left::<1>(high), bit)),
                S::or(c, S::and(high, bit)),
                S::or(d, S::and(S::shift_right::<1>(high), bit)),
                S::or(e, S::and(S::shift_right::<2>(high), bit)),
                S::or(f, S::and(S::shift_right::<3>(high), bit)),
                S::or(g, S::and(S::shift_right::<4>(high), bit)),
                S::or(h, S::and(S::shift_right::<5>(high), bit)),
            ]
        }
    }
}
