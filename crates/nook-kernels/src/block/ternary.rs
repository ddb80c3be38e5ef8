//! Formats of -1, 0 and 1 with one scale for 256 numbers, as BitNet models have them.

use super::{Block, bytes_at, f16_at, numbers_at};

/// 48 bytes of five ternary digits, 4 bytes of four, `d` f16: `d * (q - 1)`.
///
/// A byte holds the digits as a fraction: `ceil(256 * 0.abcde / 3^5)`; multiplying by 3 lifts the
/// next digit above the byte.
#[derive(Debug)]
pub enum Tq1_0 {}

/// 64 bytes of bit pairs, `d` f16: `d * (q - 1)`.
#[derive(Debug)]
pub enum Tq2_0 {}

impl Block for Tq1_0 {
    const ELEMENTS: usize = 256;
    const BYTES: usize = 54;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = f16_at(bytes, 52);
        digits::<32>(d, bytes_at(bytes, 0), &mut out[..160]);
        digits::<16>(d, bytes_at(bytes, 32), &mut out[160..240]);
        digits::<4>(d, bytes_at(bytes, 48), &mut out[240..256]);
    }
}

impl Block for Tq2_0 {
    const ELEMENTS: usize = 256;
    const BYTES: usize = 66;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = f16_at(bytes, 64);
        for part in 0..8 {
            let pairs = bytes_at::<32>(bytes, 32 * (part / 4));
            let out = numbers_at::<32>(out, 32 * part);
            for i in 0..32 {
                let q = (pairs[i] >> (2 * (part % 4))) & 3;
                out[i] = (i32::from(q) - 1) as f32 * d;
            }
        }
    }
}

/// Ternary digit of column `column` of a block of [`Tq1_0`].
pub(crate) fn tq1_digit(block: &[u8], column: usize) -> u8 {
    let (first, count, at) = match column {
        0..160 => (0, 32, column),
        160..240 => (32, 16, column - 160),
        _ => (48, 4, column - 240),
    };
    let byte = block[first + at % count];
    let rest = (0..at / count).fold(byte, |rest, _| rest.wrapping_mul(3));
    ((u16::from(rest) * 3) >> 8) as u8
}

/// The first digits of all bytes, then the second ones, and so on until `out` is full.
#[inline(always)]
fn digits<const N: usize>(d: f32, packed: &[u8; N], out: &mut [f32]) {
    let mut rest = *packed;
    for out in out.chunks_exact_mut(N) {
        for (rest, out) in rest.iter_mut().zip(out) {
            let digit = (u16::from(*rest) * 3) >> 8;
            *rest = rest.wrapping_mul(3);
            *out = (i32::from(digit) - 1) as f32 * d;
        }
    }
}
