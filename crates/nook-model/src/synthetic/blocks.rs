//! Random rows in each format, with the variance of a freshly initialised matrix.
//!
//! Quantised numbers are drawn evenly over all that a format can hold, and the scales chosen for the
//! wanted variance, so every bit of a block is used.

use half::{bf16, f16};
use nook_kernels::Format;
use rand::rngs::StdRng;
use rand::{Rng, RngCore};

/// One row of `columns` numbers of variance `1 / columns`; `columns` fills whole blocks.
#[must_use]
pub fn random_row(format: Format, columns: usize, random: &mut StdRng) -> Vec<u8> {
    let deviation = 1.0 / (columns as f32).sqrt();
    let blocks = columns / format.elements();
    let mut row = vec![0; blocks * format.bytes()];
    random.fill_bytes(&mut row);
    for block in row.chunks_exact_mut(format.bytes()) {
        scale(format, deviation, block, random);
    }
    row
}

/// Norm weights: single precision, near 1.
pub(super) fn near_one(columns: usize, random: &mut StdRng) -> Vec<u8> {
    let weight = |_| random.random_range(0.8f32..1.2).to_le_bytes();
    (0..columns).flat_map(weight).collect()
}

/// Turns a block of random bytes into numbers of the wanted deviation.
fn scale(format: Format, deviation: f32, block: &mut [u8], random: &mut StdRng) {
    let even = |random: &mut StdRng| {
        let limit = deviation * 3f32.sqrt();
        random.random_range(-limit..limit)
    };
    match format {
        Format::F32 => block.copy_from_slice(&even(random).to_le_bytes()),
        Format::F16 => block.copy_from_slice(&f16::from_f32(even(random)).to_le_bytes()),
        Format::Bf16 => block.copy_from_slice(&bf16::from_f32(even(random)).to_le_bytes()),
        Format::Q4_0 => put(block, 0, deviation / 4.6),
        Format::Q5_0 => put(block, 0, deviation / 9.2),
        Format::Q8_0 => put(block, 0, deviation / 74.0),
        Format::Q4_1 => {
            put(block, 0, deviation / 4.6);
            put(block, 2, deviation / 4.6 * -7.5);
        }
        Format::Q5_1 => {
            put(block, 0, deviation / 9.2);
            put(block, 2, deviation / 9.2 * -15.5);
        }
        Format::Q4K => {
            put(block, 0, deviation / (4.6 * 37.0));
            put(block, 2, deviation / (4.6 * 37.0) * 7.5);
            even_scales(&mut block[4..16], random);
        }
        Format::Q5K => {
            put(block, 0, deviation / (9.2 * 37.0));
            put(block, 2, deviation / (9.2 * 37.0) * 15.5);
            even_scales(&mut block[4..16], random);
        }
        Format::Q6K => put(block, 208, deviation / (18.5 * 74.0)),
    }
}

/// Eight random 6-bit scales, and minima equal to them, packed as the formats Q4_K and Q5_K do.
fn even_scales(packed: &mut [u8], random: &mut StdRng) {
    for j in 0..4 {
        let (low, high) = (random.random_range(0..64u8), random.random_range(0..64u8));
        packed[j] = low | (high >> 4) << 6;
        packed[j + 4] = low | (high >> 4) << 6;
        packed[j + 8] = (high & 15) | (high & 15) << 4;
    }
}

fn put(block: &mut [u8], at: usize, value: f32) {
    block[at..at + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
}
