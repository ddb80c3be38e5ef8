//! The "K" formats: 256 numbers in a block, scales of parts of it quantised in turn.

use super::{Block, bytes_at, f16_at, numbers_at};

/// Numbers in a block of this module.
const QK: usize = 256;

/// 16 bytes of 4-bit scales and, above them, minima, 64 bytes of bit pairs, `d` f16, `dmin` f16:
/// `d * scale * q - dmin * minimum`.
#[derive(Debug)]
pub enum Q2K {}

/// 32 bytes of third bits, 64 of bit pairs, 12 bytes of sixteen 6-bit scales, `d` f16:
/// `d * (scale - 32) * (q - 4)`.
#[derive(Debug)]
pub enum Q3K {}

/// `d` f16, `dmin` f16, 12 bytes of eight 6-bit scales and minima, 128 bytes of nibbles:
/// `d * scale * q - dmin * minimum`.
#[derive(Debug)]
pub enum Q4K {}

/// As [`Q4K`], with 32 bytes of fifth bits before the nibbles.
#[derive(Debug)]
pub enum Q5K {}

/// 128 bytes of low nibbles, 64 of high bit pairs, 16 signed scales, `d` f16:
/// `d * scale * (q - 32)`.
#[derive(Debug)]
pub enum Q6K {}

impl Block for Q2K {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 84;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let scales = bytes_at::<16>(bytes, 0);
        let (d, dmin) = (f16_at(bytes, 80), f16_at(bytes, 82));
        // Part `p` of 16 numbers takes bit pair `p / 2 % 4` of 16 bytes.
        for (part, scale) in scales.iter().enumerate() {
            let pairs = bytes_at::<16>(bytes, 16 + 32 * (part / 8) + 16 * (part % 2));
            let shift = 2 * (part / 2 % 4);
            let (a, b) = (d * f32::from(scale & 15), dmin * f32::from(scale >> 4));
            let out = numbers_at::<16>(out, 16 * part);
            for i in 0..16 {
                out[i] = a * f32::from((pairs[i] >> shift) & 3) - b;
            }
        }
    }
}

impl Block for Q3K {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 110;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let scales = bytes_at::<12>(bytes, 96);
        let d = f16_at(bytes, 108);
        for part in 0..16 {
            let third = bytes_at::<16>(bytes, 16 * (part % 2));
            let pairs = bytes_at::<16>(bytes, 32 + 32 * (part / 8) + 16 * (part % 2));
            let (shift, bit) = (2 * (part / 2 % 4), part / 2);
            let scale = d * f32::from(q3_scale(scales, part));
            let out = numbers_at::<16>(out, 16 * part);
            for i in 0..16 {
                let q = (pairs[i] >> shift) & 3 | ((third[i] >> bit) & 1) << 2;
                out[i] = scale * (i32::from(q) - 4) as f32;
            }
        }
    }
}

impl Block for Q4K {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 144;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let (d, dmin) = (f16_at(bytes, 0), f16_at(bytes, 2));
        let scales = &bytes[4..16];
        for pair in 0..4 {
            let nibbles = bytes_at::<32>(bytes, 16 + 32 * pair);
            let (scale, minimum) = scale_and_minimum(scales, 2 * pair);
            let (a, b) = (d * f32::from(scale), dmin * f32::from(minimum));
            let low = numbers_at::<32>(out, 64 * pair);
            for i in 0..32 {
                low[i] = a * f32::from(nibbles[i] & 15) - b;
            }
            let (scale, minimum) = scale_and_minimum(scales, 2 * pair + 1);
            let (a, b) = (d * f32::from(scale), dmin * f32::from(minimum));
            let high = numbers_at::<32>(out, 64 * pair + 32);
            for i in 0..32 {
                high[i] = a * f32::from(nibbles[i] >> 4) - b;
            }
        }
    }
}

impl Block for Q5K {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 176;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let (d, dmin) = (f16_at(bytes, 0), f16_at(bytes, 2));
        let scales = &bytes[4..16];
        let fifth = bytes_at::<32>(bytes, 16);
        for pair in 0..4 {
            let nibbles = bytes_at::<32>(bytes, 48 + 32 * pair);
            let (scale, minimum) = scale_and_minimum(scales, 2 * pair);
            let (a, b) = (d * f32::from(scale), dmin * f32::from(minimum));
            let low = numbers_at::<32>(out, 64 * pair);
            for i in 0..32 {
                let q = (nibbles[i] & 15) | ((fifth[i] >> (2 * pair)) & 1) << 4;
                low[i] = a * f32::from(q) - b;
            }
            let (scale, minimum) = scale_and_minimum(scales, 2 * pair + 1);
            let (a, b) = (d * f32::from(scale), dmin * f32::from(minimum));
            let high = numbers_at::<32>(out, 64 * pair + 32);
            for i in 0..32 {
                let q = (nibbles[i] >> 4) | ((fifth[i] >> (2 * pair + 1)) & 1) << 4;
                high[i] = a * f32::from(q) - b;
            }
        }
    }
}

impl Block for Q6K {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 210;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = f16_at(bytes, 208);
        for half in 0..2 {
            let high = bytes_at::<32>(bytes, 128 + 32 * half);
            let scales = bytes_at::<8>(bytes, 192 + 8 * half);
            // Quarter `k` takes the nibbles `k / 2` of the bytes `32 * (k % 2)..`, and bit pair
            // `k`.
            for quarter in 0..4 {
                let low = bytes_at::<32>(bytes, 64 * half + 32 * (quarter % 2));
                let mut q = [0u8; 32];
                for i in 0..32 {
                    let nibble = (low[i] >> (4 * (quarter / 2))) & 15;
                    q[i] = nibble | ((high[i] >> (2 * quarter)) & 3) << 4;
                }
                for part in 0..2 {
                    let scale = d * f32::from(scales[2 * quarter + part] as i8);
                    let out = numbers_at::<16>(out, 128 * half + 32 * quarter + 16 * part);
                    for i in 0..16 {
                        out[i] = scale * (i32::from(q[16 * part + i]) - 32) as f32;
                    }
                }
            }
        }
    }
}

/// The 6-bit scale and minimum number `j` of 8, from the 12 bytes that hold them all.
#[inline(always)]
pub(crate) fn scale_and_minimum(packed: &[u8], j: usize) -> (u8, u8) {
    if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        (
            (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4,
            (packed[j + 4] >> 4) | (packed[j] >> 6) << 4,
        )
    }
}

/// Scale number `part` of 16 of a [`Q3K`] block, from the 12 bytes that hold them all: -32 to 31.
#[inline(always)]
pub(crate) fn q3_scale(packed: &[u8], part: usize) -> i8 {
    let low = (packed[part % 8] >> (4 * (part / 8))) & 15;
    let high = (packed[8 + part % 4] >> (2 * (part / 4))) & 3;
    (low | high << 4) as i8 - 32
}
