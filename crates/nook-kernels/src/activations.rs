//! Activations as the packed kernels take them: bytes with a scale for each span of 32 or 256.
//!
//! A row is cut into spans, as long as the blocks of the weights ([`Grain`]). With `m` the greatest
//! magnitude of a span, its scale is `dx = m / 127` and each number becomes `x = round(number *
//! (127 / m))`, halves to even; a span whose magnitudes are all below 1e-30 becomes zeros, and one
//! with an infinity or NaN gets the scale NaN, so that faults stay visible in what is computed from
//! it. This depends on the span alone.
//!
//! Rows are grouped into tiles of 1, 2, 4 or 8, of which the kernels compute one at a time; a tile
//! stores span after span, and in a span ([`Fine`], [`Coarse`]) the bytes of all its rows, their
//! scales and their sums. Which tile a row lands in has no influence on its numbers.

#![allow(unsafe_code, reason = "threads write disjoint pieces of one buffer")]

use crate::compute::Compute;
use crate::isa::{Isa, per_isa};
use crate::packed::UNIT;
use crate::shared::SharedOut;

/// Columns of a span of [`Grain::Coarse`]: those of a super-block.
pub(crate) const SUPER_BLOCK: usize = 256;

/// Units of a super-block.
const UNITS: usize = SUPER_BLOCK / UNIT;

/// Magnitudes below this are taken for zero: their scale's inverse would overflow.
const SMALLEST: f32 = 1e-30;

/// How many numbers share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Grain {
    /// 32, for weights in blocks of 32.
    #[default]
    Fine,
    /// 256, for weights in super-blocks: scales of parts of them are integers, so a whole block
    /// sums exactly before anything is rounded.
    Coarse,
}

/// Where things lie in a span of 32 columns of a tile of `N` rows, in bytes. Each is an array with
/// one entry for each row of the tile; the numbers of row `t` are at `UNIT * t`.
#[derive(Debug)]
pub(crate) struct Fine<const N: usize>;

/// As [`Fine`] for a span of 256 columns. The numbers of unit `u` of row `t` are at
/// `UNIT * (N * u + t)`.
#[derive(Debug)]
pub(crate) struct Coarse<const N: usize>;

impl<const N: usize> Fine<N> {
    /// Bytes of a span.
    pub(crate) const BYTES: usize = N * Grain::Fine.row_bytes();
    /// The scales, f32.
    pub(crate) const SCALE: usize = N * UNIT;
    /// The negative sums of the bytes, i32.
    pub(crate) const NEGATIVE: usize = Self::SCALE + 4 * N;
    /// The negative sums of the last sixteen bytes, i32.
    pub(crate) const NEGATIVE_LAST: usize = Self::NEGATIVE + 4 * N;
    /// The sums times the scales, f32.
    pub(crate) const SCALED: usize = Self::NEGATIVE_LAST + 4 * N;
}

impl<const N: usize> Coarse<N> {
    /// Bytes of a span.
    pub(crate) const BYTES: usize = N * Grain::Coarse.row_bytes();
    /// The scales, f32.
    pub(crate) const SCALE: usize = N * SUPER_BLOCK;
    /// The sums over the halves of unit `u`, two i16, at `4 * (N * u + t)` from here.
    pub(crate) const HALVES: usize = Self::SCALE + 4 * N;
    /// The sums over units `2 * i` and `2 * i + 1`, two i16, at `4 * (N * i + t)` from here.
    pub(crate) const PAIRS: usize = Self::HALVES + 4 * N * UNITS;
}

impl Grain {
    /// Columns of a span.
    pub(crate) const fn columns(self) -> usize {
        match self {
            Self::Fine => UNIT,
            Self::Coarse => SUPER_BLOCK,
        }
    }

    /// Bytes that a row takes in a span.
    pub(crate) const fn row_bytes(self) -> usize {
        match self {
            // The numbers, a scale and three sums.
            Self::Fine => UNIT + 16,
            // The numbers, a scale, and sums of 16 and of 32.
            Self::Coarse => SUPER_BLOCK + 4 + 4 * UNITS + 2 * UNITS,
        }
    }
}

/// Rows of quantised activations, in tiles. Kept between steps for its memory.
#[derive(Default)]
pub(crate) struct Activations {
    bytes: Vec<u8>,
    tiles: Vec<Tile>,
    /// Bytes of a row.
    row_bytes: usize,
}

/// One tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tile {
    /// First row.
    pub(crate) first: usize,
    /// Rows: 1, 2, 4 or 8.
    pub(crate) rows: usize,
}

impl Activations {
    /// Quantises `x`, rows of `columns` numbers (whole spans), in tiles of at most `largest`.
    pub(crate) fn set(
        &mut self,
        compute: &Compute,
        grain: Grain,
        x: &[f32],
        columns: usize,
        largest: usize,
    ) {
        let row_bytes = columns / grain.columns() * grain.row_bytes();
        self.row_bytes = row_bytes;
        self.tiles.clear();
        self.tiles.extend(tiles(x.len() / columns, largest));
        self.bytes.resize(x.len() / columns * row_bytes, 0);
        let out = SharedOut::new(&mut self.bytes);
        let (tiles, isa) = (&self.tiles, compute.isa());
        compute.share(tiles.len(), x.len() * 4, &|index| {
            let tile = tiles[index];
            let rows = tile.first..tile.first + tile.rows;
            // SAFETY: tiles have different rows.
            let out = unsafe { out.piece(rows.start * row_bytes..rows.end * row_bytes) };
            let x = &x[rows.start * columns..rows.end * columns];
            quantise(isa, grain, tile.rows, x, columns, out);
        });
    }

    /// The tiles.
    pub(crate) fn tiles(&self) -> &[Tile] {
        &self.tiles
    }

    /// The bytes of a tile.
    pub(crate) fn tile(&self, tile: Tile) -> &[u8] {
        &self.bytes[tile.first * self.row_bytes..(tile.first + tile.rows) * self.row_bytes]
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

/// Quantises the rows of one tile of `rows`.
fn quantise(isa: Isa, grain: Grain, rows: usize, x: &[f32], columns: usize, out: &mut [u8]) {
    match grain {
        Grain::Fine => quantise_fine(isa, rows, x, columns, out),
        Grain::Coarse => quantise_coarse(isa, rows, x, columns, out),
    }
}

per_isa! {
    fn quantise_fine(n: usize, x: &[f32], columns: usize, out: &mut [u8]) = fine;
}
per_isa! {
    fn quantise_coarse(n: usize, x: &[f32], columns: usize, out: &mut [u8]) = coarse;
}

#[inline(always)]
fn fine<const WIDE: bool>(n: usize, x: &[f32], columns: usize, out: &mut [u8]) {
    for (t, row) in x.chunks_exact(columns).enumerate() {
        let (spans, _) = row.as_chunks::<UNIT>();
        let out = out.chunks_exact_mut(n * Grain::Fine.row_bytes());
        for (span, out) in spans.iter().zip(out) {
            let (scale, bytes) = quantise_span(span);
            put_bytes(out, UNIT * t, &bytes);
            let sum = |bytes: &[i8]| bytes.iter().map(|byte| i32::from(*byte)).sum::<i32>();
            let last = sum(&bytes[UNIT / 2..]);
            let whole = sum(&bytes[..UNIT / 2]) + last;
            let at = n * Fine::<1>::SCALE + 4 * t;
            put(out, at, scale.to_ne_bytes());
            put(out, at + 4 * n, (-whole).to_ne_bytes());
            put(out, at + 8 * n, (-last).to_ne_bytes());
            put(out, at + 12 * n, (whole as f32 * scale).to_ne_bytes());
        }
    }
}

#[inline(always)]
fn coarse<const WIDE: bool>(n: usize, x: &[f32], columns: usize, out: &mut [u8]) {
    for (t, row) in x.chunks_exact(columns).enumerate() {
        let (spans, _) = row.as_chunks::<SUPER_BLOCK>();
        let out = out.chunks_exact_mut(n * Grain::Coarse.row_bytes());
        for (span, out) in spans.iter().zip(out) {
            let (scale, bytes) = quantise_span(span);
            put(out, n * Coarse::<1>::SCALE + 4 * t, scale.to_ne_bytes());
            let mut before = 0;
            for (u, unit) in bytes.as_chunks::<UNIT>().0.iter().enumerate() {
                put_bytes(out, UNIT * (n * u + t), unit);
                // Sums of 16 bytes, and of 32, are far from the ends of an i16.
                let sum = |bytes: &[i8]| bytes.iter().map(|byte| i16::from(*byte)).sum::<i16>();
                let (low, high) = (sum(&unit[..UNIT / 2]), sum(&unit[UNIT / 2..]));
                put(out, n * Coarse::<1>::HALVES + 4 * (n * u + t), pair(low, high));
                if u % 2 == 1 {
                    let at = n * Coarse::<1>::PAIRS + 4 * (n * (u / 2) + t);
                    put(out, at, pair(before, low + high));
                }
                before = low + high;
            }
        }
    }
}

/// Two i16 as the kernels broadcast them: `first` in the low half of an i32.
#[inline(always)]
fn pair(first: i16, second: i16) -> [u8; 4] {
    (i32::from(second) << 16 | i32::from(first) & 0xffff).to_ne_bytes()
}

#[inline(always)]
fn put_bytes(out: &mut [u8], at: usize, bytes: &[i8; UNIT]) {
    out[at..at + UNIT].copy_from_slice(&bytes.map(|byte| byte as u8));
}

#[inline(always)]
fn put(out: &mut [u8], at: usize, bytes: [u8; 4]) {
    out[at..at + 4].copy_from_slice(&bytes);
}

/// Scale and bytes of one span.
#[inline(always)]
fn quantise_span<const C: usize>(span: &[f32; C]) -> (f32, [i8; C]) {
    // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer, halves to even.
    const ROUND: f32 = 12_582_912.0;
    // As integers, magnitudes are in the order of the numbers, with infinity and NaN at the top.
    let mut greatest = 0u32;
    for number in span {
        greatest = greatest.max(number.to_bits() & 0x7fff_ffff);
    }
    let magnitude = f32::from_bits(greatest);
    if !magnitude.is_finite() {
        return (f32::NAN, [0; C]);
    }
    if magnitude < SMALLEST {
        return (0.0, [0; C]);
    }
    let inverse = 127.0 / magnitude;
    let mut bytes = [0i8; C];
    for (byte, number) in bytes.iter_mut().zip(span) {
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
        assert_eq!(sizes(0, 8), []);
        assert_eq!(sizes(1, 8), [1]);
        assert_eq!(sizes(39, 8), [8, 8, 8, 8, 4, 2, 1]);
        assert_eq!(sizes(7, 4), [4, 2, 1]);
    }

    #[test]
    fn a_span_is_rounded_to_even_and_faults_stay_visible() {
        let mut unit = [0.0; UNIT];
        unit[0] = -127.0;
        unit[1] = 2.5;
        unit[2] = 3.5;
        let (scale, bytes) = quantise_span(&unit);
        assert_eq!((scale, bytes[0], bytes[1], bytes[2], bytes[3]), (1.0, -127, 2, 4, 0));
        unit[9] = f32::NAN;
        assert!(quantise_span(&unit).0.is_nan());
        unit[9] = f32::INFINITY;
        assert!(quantise_span(&unit).0.is_nan());
        assert_eq!(quantise_span(&[1e-38; UNIT]), (0.0, [0; UNIT]));
        assert!(quantise_span(&[f32::MAX; UNIT]).0.is_finite());
    }
}
