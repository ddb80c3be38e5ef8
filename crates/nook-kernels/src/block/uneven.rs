//! Formats whose four bits choose one of 16 uneven values.

use super::{Block, bytes_at, f16_at, numbers_at, u16_at};

/// Values that the nibbles of [`Iq4Nl`] and [`Iq4Xs`] stand for: denser near zero, where most
/// weights are (`kvalues_iq4nl` in llama.cpp).
pub(crate) const BELL: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the values of a floating-point number of four bits: sign, two bits of exponent, one of
/// mantissa (E2M1 of the OCP Microscaling Formats specification, version 1.0).
pub(crate) const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// `d` f16, 16 bytes of nibbles: `d * BELL[q]`.
#[derive(Debug)]
pub enum Iq4Nl {}

/// `d` f16, 16 high bit pairs of scales, 4 bytes of their low nibbles, 128 bytes of nibbles:
/// `d * (scale - 32) * BELL[q]`.
#[derive(Debug)]
pub enum Iq4Xs {}

/// An exponent, 16 bytes of nibbles: `2^(exponent - 128) * E2M1[q]`.
#[derive(Debug)]
pub enum Mxfp4 {}

/// Four scales (four bits of exponent, three of mantissa) for 16 each, 32 bytes of nibbles: `scale
/// / 2 * E2M1[q]`. The one scale of a whole tensor, which such files keep apart, is not part of it.
#[derive(Debug)]
pub enum Nvfp4 {}

impl Block for Iq4Nl {
    const ELEMENTS: usize = 32;
    const BYTES: usize = 18;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        look_up(&BELL, f16_at(bytes, 0), bytes_at::<16>(bytes, 2), &mut out[..32]);
    }
}

impl Block for Iq4Xs {
    const ELEMENTS: usize = 256;
    const BYTES: usize = 136;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = f16_at(bytes, 0);
        for part in 0..8 {
            let scale = d * f32::from(iq4_xs_scale(bytes, part));
            let nibbles = bytes_at::<16>(bytes, 8 + 16 * part);
            look_up(&BELL, scale, nibbles, numbers_at::<32>(out, 32 * part));
        }
    }
}

impl Block for Mxfp4 {
    const ELEMENTS: usize = 32;
    const BYTES: usize = 17;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        // The smallest two powers have no exponent bits of their own (they are subnormal).
        let bits = match bytes[0] {
            exponent @ 0..2 => 0x0020_0000 << exponent,
            exponent => (u32::from(exponent) - 1) << 23,
        };
        look_up(&E2M1, f32::from_bits(bits), bytes_at::<16>(bytes, 1), &mut out[..32]);
    }
}

impl Block for Nvfp4 {
    const ELEMENTS: usize = 64;
    const BYTES: usize = 36;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        for part in 0..4 {
            let scale = half_of_e4m3(bytes[part]);
            let nibbles = bytes_at::<8>(bytes, 4 + 8 * part);
            look_up(&E2M1, scale, nibbles, numbers_at::<16>(out, 16 * part));
        }
    }
}

/// The values of the nibbles times `scale`: low nibbles first, then high ones.
#[inline(always)]
fn look_up(values: &[i8; 16], scale: f32, nibbles: &[u8], out: &mut [f32]) {
    let (low, high) = out.split_at_mut(nibbles.len());
    for ((byte, low), high) in nibbles.iter().zip(low).zip(high) {
        *low = scale * f32::from(values[usize::from(byte & 15)]);
        *high = scale * f32::from(values[usize::from(byte >> 4)]);
    }
}

/// Half of an unsigned number with four bits of exponent (bias 7) and three of mantissa. 0x7f
/// stands for "not a number" in that format and counts as 0 here, as in the reference; the top bit
/// does not count.
#[inline(always)]
fn half_of_e4m3(byte: u8) -> f32 {
    if byte == 0x7f {
        return 0.0;
    }
    let (exponent, mantissa) = (u32::from(byte >> 3) & 15, byte & 7);
    // The factors are 2^(exponent - 11), written as their bits; subnormal numbers have the lowest.
    match exponent {
        0 => f32::from(mantissa) * f32::from_bits((127 - 10) << 23),
        _ => f32::from(8 + mantissa) * f32::from_bits((exponent + 127 - 11) << 23),
    }
}

/// Scale number `part` of 8 of a block of [`Iq4Xs`]: -32 to 31.
#[inline(always)]
pub(crate) fn iq4_xs_scale(block: &[u8], part: usize) -> i8 {
    let low = (block[4 + part / 2] >> (4 * (part % 2))) & 15;
    let high = ((u16_at(block, 2) >> (2 * part)) & 3) as u8;
    (low | high << 4) as i8 - 32
}
