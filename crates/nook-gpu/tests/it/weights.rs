//! Random weights in every format, and small helpers for comparing.

use nook_kernels::Format;
use rand::rngs::StdRng;
use rand::{Rng, RngCore};

/// The formats that there are kernels for.
pub(crate) const FORMATS: [Format; 26] = Format::ALL;

pub(crate) fn numbers(count: usize, random: &mut StdRng) -> Vec<f32> {
    (0..count).map(|_| random.random_range(-2.0f32..2.0)).collect()
}

pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Random blocks whose scales are those of usual weights.
pub(crate) fn file_bytes(
    format: Format,
    rows: usize,
    columns: usize,
    random: &mut StdRng,
) -> Vec<u8> {
    let mut bytes = vec![0; rows * format.row_bytes(columns).unwrap()];
    if format == Format::F32 {
        bytes.chunks_exact_mut(4).for_each(|number| {
            number.copy_from_slice(&random.random_range(-1.0f32..1.0).to_le_bytes());
        });
        return bytes;
    }
    random.fill_bytes(&mut bytes);
    for block in bytes.chunks_exact_mut(format.bytes()) {
        let halves: &[usize] = match format {
            Format::F16 => &[0],
            Format::Iq1M => {
                let d = half::f16::from_f32(random.random_range(0.001..0.01)).to_bits();
                for (i, byte) in [49, 51, 53, 55].into_iter().enumerate() {
                    block[byte] = (block[byte] & 15) | ((d >> (4 * i)) as u8 & 15) << 4;
                }
                continue;
            }
            // Any bytes are scales; the one that stands for no number is among them.
            Format::Nvfp4 => {
                block[3] = if block[3] < 64 { 0x7f } else { block[3] };
                continue;
            }
            Format::Tq1_0 => &[52],
            Format::Tq2_0 => &[64],
            Format::Q6K => &[208],
            Format::Q3K => &[108],
            Format::Q2K => &[80, 82],
            Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
            Format::Bf16 => {
                let number = half::bf16::from_f32(random.random_range(-1.0..1.0));
                block.copy_from_slice(&number.to_le_bytes());
                continue;
            }
            Format::Mxfp4 => {
                block[0] = random.random_range(118..123);
                continue;
            }
            _ => &[0],
        };
        for at in halves {
            let size: f32 = random.random_range(0.001..0.01);
            // Weights lie around zero: what these two add in the file is negative.
            let added = *at == 2 && matches!(format, Format::Q4_1 | Format::Q5_1);
            let sign = if added { -1.0 } else { 1.0 };
            block[*at..at + 2].copy_from_slice(&half::f16::from_f32(sign * size).to_le_bytes());
        }
    }
    bytes
}

/// Greatest difference over the root mean square of what is expected; infinite where not a number.
pub(crate) fn worst(got: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let squares: f64 = expected.iter().map(|x| f64::from(*x).powi(2)).sum();
    let size = (squares / expected.len().max(1) as f64).sqrt().max(f64::MIN_POSITIVE);
    let apart = got.iter().zip(expected).map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs());
    apart.fold(0.0, |most: f64, off| if off.is_nan() { f64::INFINITY } else { most.max(off) })
        / size
}
