//! Activations as the packed kernels take them: bytes with a scale for each 32.
//!
//! A row is cut into units of 32 numbers. With `m` the greatest magnitude of a unit, its scale is
//! `dx = m / 127` and each number becomes `x = round(number * (127 / m))`, halves to even; a unit
//! whose magnitudes are all below 1e-30 becomes zeros, and one with an infinity or NaN gets the scale
//! NaN, so that faults stay visible in what is computed from it. This depends on the unit alone.
//!
//! Rows are grouped into tiles of 1, 2, 4, 8 or 16, of which the kernels compute one at a time; a tile
//! stores unit after unit, and in a unit ([`Layout`]) the bytes of all its rows, their scales and
//! their sums. Which tile a row lands in has no influence on its numbers.

#![allow(unsafe_code, reason = "threads write disjoint pieces of one buffer")]

use std::ops::Range;

use crate::compute::Compute;
use crate::isa::{Isa, per_isa};
use crate::packed::UNIT;
use crate::shared::SharedOut;

/// Bytes that a row takes in a unit: 32 numbers, a scale and six sums, filled up to a cache line.
const ROW_BYTES: usize = 64;

/// Magnitudes below this are taken for zero: their scale's inverse would overflow.
const SMALLEST: f32 = 1e-30;

/// Where things lie in a unit of a tile of `N` rows, in bytes. Each is an array with one entry for
/// each row of the tile.
#[derive(Debug)]
pub(crate) struct Layout<const N: usize>;

/// Where the sums over a unit, or over a half of it, lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sums {
    /// The negative sum of the bytes, i32.
    pub(crate) negative: usize,
    /// The sum times the scale, f32.
    pub(crate) scaled: usize,
}

impl<const N: usize> Layout<N> {
    /// Bytes of a unit. The numbers of row `t` are at `UNIT * t`.
    pub(crate) const UNIT_BYTES: usize = N * ROW_BYTES;
    /// The scales.
    pub(crate) const SCALE: usize = N * UNIT;
    /// Sums over the whole unit.
    pub(crate) const WHOLE: Sums = Self::sums(0);
    /// Sums over its halves.
    pub(crate) const HALVES: [Sums; 2] = [Self::sums(1), Self::sums(2)];

    const fn sums(number: usize) -> Sums {
        let negative = Self::SCALE + N * 4 * (1 + 2 * number);
        Sums { negative, scaled: negative + N * 4 }
    }
}

/// Rows of quantised activations, in tiles. Kept between steps for its memory.
#[derive(Default)]
pub(crate) struct Activations {
    bytes: Vec<u8>,
    tiles: Vec<Tile>,
    units: usize,
}

/// One tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tile {
    /// First row.
    pub(crate) first: usize,
    /// Rows: 1, 2, 4, 8 or 16.
    pub(crate) rows: usize,
}

impl Activations {
    /// Quantises `x`, rows of `columns` numbers (a multiple of 32), in tiles of at most `largest`.
    pub(crate) fn set(&mut self, compute: &Compute, x: &[f32], columns: usize, largest: usize) {
        self.units = columns / UNIT;
        self.tiles.clear();
        self.tiles.extend(tiles(x.len() / columns, largest));
        self.bytes.resize(x.len() / UNIT * ROW_BYTES, 0);
        let out = SharedOut::new(&mut self.bytes);
        let (tiles, isa, row_bytes) = (&self.tiles, compute.isa(), self.units * ROW_BYTES);
        compute.share(tiles.len(), x.len() * 4, &|index| {
            let tile = tiles[index];
            let rows = tile.first..tile.first + tile.rows;
            // SAFETY: tiles have different rows.
            let out = unsafe { out.piece(rows.start * row_bytes..rows.end * row_bytes) };
            quantise(isa, tile.rows, &x[rows.start * columns..rows.end * columns], columns, out);
        });
    }

    /// The tiles.
    pub(crate) fn tiles(&self) -> &[Tile] {
        &self.tiles
    }

    /// The bytes of a tile.
    pub(crate) fn tile(&self, tile: Tile) -> &[u8] {
        let row = self.units * ROW_BYTES;
        let bytes: Range<usize> = tile.first * row..(tile.first + tile.rows) * row;
        &self.bytes[bytes]
    }
}

/// Cuts `rows` rows into tiles: as many of the largest size as fit, then smaller ones.
fn tiles(rows: usize, largest: usize) -> impl Iterator<Item = Tile> {
    let mut first = 0;
    let mut size = largest;
    std::iter::from_fn(move || {
        let left = rows - first;
        if left == 0 {
            return None;
        }
        while size > left {
            size /= 2;
        }
        let tile = Tile { first, rows: size };
        first += size;
        Some(tile)
    })
}

/// Quantises the rows of one tile.
fn quantise(isa: Isa, rows: usize, x: &[f32], columns: usize, out: &mut [u8]) {
    match rows {
        16 => quantise_16(isa, x, columns, out),
        8 => quantise_8(isa, x, columns, out),
        4 => quantise_4(isa, x, columns, out),
        2 => quantise_2(isa, x, columns, out),
        _ => quantise_1(isa, x, columns, out),
    }
}

per_isa! {
    fn quantise_16(x: &[f32], columns: usize, out: &mut [u8]) = quantise_tile_16;
}
per_isa! {
    fn quantise_8(x: &[f32], columns: usize, out: &mut [u8]) = quantise_tile_8;
}
per_isa! {
    fn quantise_4(x: &[f32], columns: usize, out: &mut [u8]) = quantise_tile_4;
}
per_isa! {
    fn quantise_2(x: &[f32], columns: usize, out: &mut [u8]) = quantise_tile_2;
}
per_isa! {
    fn quantise_1(x: &[f32], columns: usize, out: &mut [u8]) = quantise_tile_1;
}

/// Names [`quantise_tile`] for each size, as `per_isa` asks for a name.
macro_rules! sizes {
    ($($name:ident = $n:literal),*) => {$(
        #[inline(always)]
        fn $name<const WIDE: bool>(x: &[f32], columns: usize, out: &mut [u8]) {
            quantise_tile::<$n>(x, columns, out);
        }
    )*};
}
sizes!(
    quantise_tile_16 = 16,
    quantise_tile_8 = 8,
    quantise_tile_4 = 4,
    quantise_tile_2 = 2,
    quantise_tile_1 = 1
);

#[inline(always)]
fn quantise_tile<const N: usize>(x: &[f32], columns: usize, out: &mut [u8]) {
    for (t, row) in x.chunks_exact(columns).enumerate() {
        let (units, _) = row.as_chunks::<UNIT>();
        for (unit, out) in units.iter().zip(out.chunks_exact_mut(Layout::<N>::UNIT_BYTES)) {
            let (scale, bytes) = quantise_unit(unit);
            out[UNIT * t..][..UNIT].copy_from_slice(&bytes.map(|byte| byte as u8));
            put(out, Layout::<N>::SCALE + 4 * t, scale.to_ne_bytes());
            let sum = |bytes: &[i8]| bytes.iter().map(|byte| i32::from(*byte)).sum::<i32>();
            let (low, high) = (sum(&bytes[..UNIT / 2]), sum(&bytes[UNIT / 2..]));
            let [first, second] = Layout::<N>::HALVES;
            for (at, sum) in [(Layout::<N>::WHOLE, low + high), (first, low), (second, high)] {
                put(out, at.negative + 4 * t, (-sum).to_ne_bytes());
                put(out, at.scaled + 4 * t, (sum as f32 * scale).to_ne_bytes());
            }
        }
    }
}

#[inline(always)]
fn put(out: &mut [u8], at: usize, bytes: [u8; 4]) {
    out[at..at + 4].copy_from_slice(&bytes);
}

/// Scale and bytes of one unit.
#[inline(always)]
fn quantise_unit(unit: &[f32; UNIT]) -> (f32, [i8; UNIT]) {
    // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer, halves to even.
    const ROUND: f32 = 12_582_912.0;
    // As integers, magnitudes are in the order of the numbers, with infinity and NaN at the top.
    let mut greatest = 0u32;
    for number in unit {
        greatest = greatest.max(number.to_bits() & 0x7fff_ffff);
    }
    let magnitude = f32::from_bits(greatest);
    if !magnitude.is_finite() {
        return (f32::NAN, [0; UNIT]);
    }
    if magnitude < SMALLEST {
        return (0.0, [0; UNIT]);
    }
    let inverse = 127.0 / magnitude;
    let mut bytes = [0i8; UNIT];
    for (byte, number) in bytes.iter_mut().zip(unit) {
        let rounded = number * inverse + ROUND;
        *byte = rounded.to_bits().wrapping_sub(ROUND.to_bits()) as i8;
    }
    (magnitude / 127.0, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_land_in_tiles_of_falling_size() {
        let sizes = |rows, largest| tiles(rows, largest).map(|t| t.rows).collect::<Vec<_>>();
        assert_eq!(sizes(0, 16), []);
        assert_eq!(sizes(1, 16), [1]);
        assert_eq!(sizes(39, 16), [16, 16, 4, 2, 1]);
        assert_eq!(sizes(7, 4), [4, 2, 1]);
    }

    #[test]
    fn a_unit_is_rounded_to_even_and_faults_stay_visible() {
        let mut unit = [0.0; UNIT];
        unit[0] = -127.0;
        unit[1] = 2.5;
        unit[2] = 3.5;
        let (scale, bytes) = quantise_unit(&unit);
        assert_eq!((scale, bytes[0], bytes[1], bytes[2], bytes[3]), (1.0, -127, 2, 4, 0));
        unit[9] = f32::NAN;
        assert!(quantise_unit(&unit).0.is_nan());
        unit[9] = f32::INFINITY;
        assert!(quantise_unit(&unit).0.is_nan());
        assert_eq!(quantise_unit(&[1e-38; UNIT]), (0.0, [0; UNIT]));
        assert!(quantise_unit(&[f32::MAX; UNIT]).0.is_finite());
    }
}
