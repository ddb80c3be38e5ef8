//! Formats that choose short rows of numbers from a codebook: IQ1, IQ2 and IQ3. 256 numbers in a
//! block; a part of it has 32 numbers.
//!
//! Rows of the IQ2 and IQ3 formats have no signs; those are eight bits for eight numbers. Where
//! only seven are stored, the eighth makes the number of negative ones even.

use super::{Block, bytes_at, f16_at, grids, numbers_at, u16_at, u32_at};

/// Numbers in a block of this module.
const QK: usize = 256;

/// Parts of a block.
const PARTS: usize = 8;

/// What is added to every number of a row of the IQ1 formats, or taken from it.
const IQ1_SHIFT: f32 = 0.125;

/// `d` f16, 32 bytes of low bits of rows, 8 u16 of three high bits for each of four rows, a 3-bit
/// scale and the sign of the shift: `d * (2 * scale + 1) * (row ± 0.125)`.
#[derive(Debug)]
pub enum Iq1S {}

/// 32 bytes of low bits of rows, 16 bytes of three high bits and the sign of the shift for each of
/// two rows, 4 u16 of four 3-bit scales with four bits of `d` f16 above them: `d * (2 * scale + 1)
/// * (row ± 0.125)`.
#[derive(Debug)]
pub enum Iq1M {}

/// `d` f16; for each part 4 bytes of rows and a u32 of four 7-bit signs and a 4-bit scale:
/// `d * (0.5 + scale) / 4 * ±row`.
#[derive(Debug)]
pub enum Iq2Xxs {}

/// `d` f16, 32 u16 of nine bits of row and seven of signs, 8 bytes of two 4-bit scales:
/// `d * (0.5 + scale) / 4 * ±row`.
#[derive(Debug)]
pub enum Iq2Xs {}

/// `d` f16, 32 bytes of low bits of rows, 32 bytes of signs, 8 bytes of four high bit pairs of
/// rows, 8 bytes of two 4-bit scales: `d * (0.5 + scale) / 4 * ±row`.
#[derive(Debug)]
pub enum Iq2S {}

/// `d` f16, 64 bytes of rows, 8 u32 of four 7-bit signs and a 4-bit scale:
/// `d * (0.5 + scale) / 2 * ±row`.
#[derive(Debug)]
pub enum Iq3Xxs {}

/// `d` f16, 64 bytes of low bits of rows, 8 bytes of eight high bits of rows, 32 bytes of signs,
/// 4 bytes of two 4-bit scales: `d * (1 + 2 * scale) * ±row`.
#[derive(Debug)]
pub enum Iq3S {}

impl Block for Iq1S {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 50;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = f16_at(bytes, 0);
        for part in 0..PARTS {
            let low = bytes_at::<4>(bytes, 2 + 4 * part);
            let high = u16_at(bytes, 34 + 2 * part);
            let scale = d * f32::from(2 * ((high >> 12) & 7) + 1);
            let shift = shift(high >> 15 != 0);
            for (i, low) in low.iter().enumerate() {
                let row = usize::from(*low) | usize::from((high >> (3 * i)) & 7) << 8;
                shifted(row, scale, shift, numbers_at(out, 32 * part + 8 * i));
            }
        }
    }
}

impl Block for Iq1M {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 56;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = crate::elementary::f16_to_f32(iq1_m_d(bytes));
        for part in 0..PARTS {
            let low = bytes_at::<4>(bytes, 4 * part);
            let high = bytes_at::<2>(bytes, 32 + 2 * part);
            for (i, low) in low.iter().enumerate() {
                let scale = d * f32::from(2 * iq1_m_scale(bytes, 2 * part + i / 2) + 1);
                let high = high[i / 2] >> (4 * (i % 2));
                let row = usize::from(*low) | usize::from(high & 7) << 8;
                shifted(row, scale, shift(high & 8 != 0), numbers_at(out, 32 * part + 8 * i));
            }
        }
    }
}

impl Block for Iq2Xxs {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 66;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = f16_at(bytes, 0);
        for part in 0..PARTS {
            let rows = bytes_at::<4>(bytes, 2 + 8 * part);
            let packed = u32_at(bytes, 6 + 8 * part);
            let scale = d * (0.5 + (packed >> 28) as f32) * 0.25;
            for (i, row) in rows.iter().enumerate() {
                let row = &grids::IQ2_XXS[usize::from(*row)];
                let signs = eight_signs((packed >> (7 * i)) as u8 & 127);
                signed(row, signs, scale, numbers_at(out, 32 * part + 8 * i));
            }
        }
    }
}

impl Block for Iq2Xs {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 74;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = f16_at(bytes, 0);
        for i in 0..QK / 8 {
            let packed = u16_at(bytes, 2 + 2 * i);
            let row = &grids::IQ2_XS[usize::from(packed & 511)];
            let signs = eight_signs((packed >> 9) as u8);
            signed(row, signs, iq2_scale(d, bytes[66 + i / 4], i), numbers_at(out, 8 * i));
        }
    }
}

impl Block for Iq2S {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 82;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = f16_at(bytes, 0);
        for i in 0..QK / 8 {
            let high = (bytes[66 + i / 4] >> (2 * (i % 4))) & 3;
            let row = &grids::IQ2_S[usize::from(bytes[2 + i]) | usize::from(high) << 8];
            let scale = iq2_scale(d, bytes[74 + i / 4], i);
            signed(row, bytes[34 + i], scale, numbers_at(out, 8 * i));
        }
    }
}

impl Block for Iq3Xxs {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 98;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = f16_at(bytes, 0);
        for part in 0..PARTS {
            let rows = bytes_at::<8>(bytes, 2 + 8 * part);
            let packed = u32_at(bytes, 66 + 4 * part);
            let scale = d * (0.5 + (packed >> 28) as f32) * 0.5;
            for i in 0..4 {
                let signs = eight_signs((packed >> (7 * i)) as u8 & 127);
                let pair = [2 * i, 2 * i + 1].map(|at| &grids::IQ3_XXS[usize::from(rows[at])]);
                signed_pair(pair, signs, scale, numbers_at(out, 32 * part + 8 * i));
            }
        }
    }
}

impl Block for Iq3S {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 110;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = f16_at(bytes, 0);
        for part in 0..PARTS {
            let low = bytes_at::<8>(bytes, 2 + 8 * part);
            let high = bytes[66 + part];
            let signs = bytes_at::<4>(bytes, 74 + 4 * part);
            let scale = (bytes[106 + part / 2] >> (4 * (part % 2))) & 15;
            let scale = d * f32::from(1 + 2 * scale);
            for (i, signs) in signs.iter().enumerate() {
                let row = |at: usize| usize::from(low[at]) | usize::from((high >> at) & 1) << 8;
                let pair = [2 * i, 2 * i + 1].map(|at| &grids::IQ3_S[row(at)]);
                signed_pair(pair, *signs, scale, numbers_at(out, 32 * part + 8 * i));
            }
        }
    }
}

/// `d` of a block of [`Iq1M`], as the bits of an f16.
#[inline(always)]
pub(crate) fn iq1_m_d(block: &[u8]) -> u16 {
    (0..4).fold(0, |bits, i| bits | (u16_at(block, 48 + 2 * i) >> 12) << (4 * i))
}

/// Scale number `piece` of 16 of a block of [`Iq1M`]: three bits.
#[inline(always)]
pub(crate) fn iq1_m_scale(block: &[u8], piece: usize) -> u8 {
    (u16_at(block, 48 + 2 * (piece / 4)) >> (3 * (piece % 4))) as u8 & 7
}

/// The scale of row `i` of four that share two 4-bit scales.
#[inline(always)]
fn iq2_scale(d: f32, scales: u8, i: usize) -> f32 {
    d * (0.5 + f32::from((scales >> (4 * (i % 4 / 2))) & 15)) * 0.25
}

/// Seven signs and the eighth that makes the number of negative ones even.
#[inline(always)]
fn eight_signs(seven: u8) -> u8 {
    seven | ((seven.count_ones() & 1) as u8) << 7
}

#[inline(always)]
fn shift(negative: bool) -> f32 {
    if negative { -IQ1_SHIFT } else { IQ1_SHIFT }
}

#[inline(always)]
fn shifted(row: usize, scale: f32, shift: f32, out: &mut [f32; 8]) {
    let row = &grids::IQ1[row];
    for i in 0..8 {
        out[i] = scale * (f32::from(row[i]) / 8.0 - 1.0 + shift);
    }
}

#[inline(always)]
fn signed(row: &[u8; 8], signs: u8, scale: f32, out: &mut [f32; 8]) {
    for i in 0..8 {
        let sign = if (signs >> i) & 1 == 0 { 1.0 } else { -1.0 };
        out[i] = scale * f32::from(row[i]) * sign;
    }
}

/// As [`signed`], for two rows of four.
#[inline(always)]
fn signed_pair([first, second]: [&[u8; 4]; 2], signs: u8, scale: f32, out: &mut [f32; 8]) {
    let mut row = [0; 8];
    row[..4].copy_from_slice(first);
    row[4..].copy_from_slice(second);
    signed(&row, signs, scale, out);
}
