//! Plain numbers, and the formats with one scale (and perhaps one minimum) for 32 numbers.

use super::{Block, bytes_at, f16_at, numbers_at, u16_at, u32_at};
use crate::elementary::{bf16_to_f32, f16_to_f32};

/// Numbers in a quantised block of this module.
const QK: usize = 32;

/// IEEE single precision.
#[derive(Debug)]
pub enum F32 {}

/// IEEE half precision.
#[derive(Debug)]
pub enum F16 {}

/// bfloat16.
#[derive(Debug)]
pub enum Bf16 {}

/// `d` f16, 16 bytes of nibbles: `d * (q - 8)`.
#[derive(Debug)]
pub enum Q4_0 {}

/// `d` f16, `m` f16, 16 bytes of nibbles: `d * q + m`.
#[derive(Debug)]
pub enum Q4_1 {}

/// `d` f16, 32 high bits, 16 bytes of nibbles: `d * (q - 16)`.
#[derive(Debug)]
pub enum Q5_0 {}

/// `d` f16, `m` f16, 32 high bits, 16 bytes of nibbles: `d * q + m`.
#[derive(Debug)]
pub enum Q5_1 {}

/// `d` f16, 32 signed bytes: `d * q`.
#[derive(Debug)]
pub enum Q8_0 {}

impl Block for F32 {
    const ELEMENTS: usize = 1;
    const BYTES: usize = 4;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        out[0] = f32::from_bits(u32_at(bytes, 0));
    }
}

impl Block for F16 {
    const ELEMENTS: usize = 1;
    const BYTES: usize = 2;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        out[0] = f16_to_f32(u16_at(bytes, 0));
    }
}

impl Block for Bf16 {
    const ELEMENTS: usize = 1;
    const BYTES: usize = 2;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        out[0] = bf16_to_f32(u16_at(bytes, 0));
    }
}

impl Block for Q4_0 {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 18;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = f16_at(bytes, 0);
        let q = nibbles(bytes_at(bytes, 2));
        let out = numbers_at::<QK>(out, 0);
        for i in 0..QK {
            out[i] = (i32::from(q[i]) - 8) as f32 * d;
        }
    }
}

impl Block for Q4_1 {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 20;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = f16_at(bytes, 0);
        let m = f16_at(bytes, 2);
        let q = nibbles(bytes_at(bytes, 4));
        let out = numbers_at::<QK>(out, 0);
        for i in 0..QK {
            out[i] = f32::from(q[i]) * d + m;
        }
    }
}

impl Block for Q5_0 {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 22;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = f16_at(bytes, 0);
        let bits = u32_at(bytes, 2);
        let (low, high) = out[..QK].split_at_mut(QK / 2);
        for (i, byte) in bytes[6..22].iter().enumerate() {
            let (first, second) = five_bits(*byte, bits, i);
            low[i] = (first as i32 - 16) as f32 * d;
            high[i] = (second as i32 - 16) as f32 * d;
        }
    }
}

impl Block for Q5_1 {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 24;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = f16_at(bytes, 0);
        let m = f16_at(bytes, 2);
        let bits = u32_at(bytes, 4);
        let (low, high) = out[..QK].split_at_mut(QK / 2);
        for (i, byte) in bytes[8..24].iter().enumerate() {
            let (first, second) = five_bits(*byte, bits, i);
            low[i] = first as f32 * d + m;
            high[i] = second as f32 * d + m;
        }
    }
}

impl Block for Q8_0 {
    const ELEMENTS: usize = QK;
    const BYTES: usize = 34;

    #[inline(always)]
    fn decode(bytes: &[u8], out: &mut [f32]) {
        let d = f16_at(bytes, 0);
        let q = bytes_at::<QK>(bytes, 2);
        let out = numbers_at::<QK>(out, 0);
        for i in 0..QK {
            out[i] = f32::from(q[i] as i8) * d;
        }
    }
}

/// The 32 nibbles of 16 bytes: low ones first.
#[inline(always)]
fn nibbles(bytes: &[u8; QK / 2]) -> [u8; QK] {
    let mut q = [0; QK];
    for i in 0..QK / 2 {
        q[i] = bytes[i] & 15;
        q[i + QK / 2] = bytes[i] >> 4;
    }
    q
}

/// Numbers `i` and `i + 16` of a block of five-bit numbers, whose fifth bits are in `bits`.
#[inline(always)]
fn five_bits(byte: u8, bits: u32, i: usize) -> (u32, u32) {
    let first = u32::from(byte & 15) | ((bits >> i) & 1) << 4;
    let second = u32::from(byte >> 4) | ((bits >> (i + 16)) & 1) << 4;
    (first, second)
}
