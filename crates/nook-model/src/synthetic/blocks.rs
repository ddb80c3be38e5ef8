//! Random rows in each format, with the variance of a freshly initialised matrix.
//!
//! Quantised numbers are drawn evenly over all that a format can hold, and the scales chosen for
//! the wanted variance, so every bit of a block is used. A gigabyte takes about a second: bytes are
//! drawn eight at a time, and only scales are written over them.

use half::{bf16, f16};

use crate::gguf::TensorType;

/// splitmix64 (Steele, Lea and Flood, 2014): fast, and the same for ever.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Numbers that depend on `seed` alone.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `low..high`, evenly.
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        let unit = (self.bits() >> 40) as f32 / (1u64 << 24) as f32;
        low + unit * (high - low)
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        let (eights, rest) = bytes.as_chunks_mut::<8>();
        for eight in eights {
            *eight = self.bits().to_le_bytes();
        }
        rest.copy_from_slice(&self.bits().to_le_bytes()[..rest.len()]);
    }
}

/// One row of `columns` numbers of variance `1 / columns`; `None` for a type that is not known
/// here, or when the columns do not fill whole blocks.
#[must_use]
pub fn random_row(kind: TensorType, columns: usize, random: &mut Random) -> Option<Vec<u8>> {
    let deviation = 1.0 / (columns as f32).sqrt();
    let mut row = vec![0; usize::try_from(kind.bytes(columns as u64, 1)?).ok()?];
    // Even numbers of this deviation lie within its root-of-three-fold.
    let limit = deviation * 3f32.sqrt();
    match kind.name() {
        "F32" => each(&mut row, |out| *out = random.between(-limit, limit).to_le_bytes()),
        "F16" => each(&mut row, |out| {
            *out = f16::from_f32(random.between(-limit, limit)).to_le_bytes();
        }),
        "BF16" => each(&mut row, |out| {
            *out = bf16::from_f32(random.between(-limit, limit)).to_le_bytes();
        }),
        name => {
            random.fill(&mut row);
            for block in row.chunks_exact_mut(block_bytes(name)?) {
                scale(name, deviation, block);
            }
        }
    }
    Some(row)
}

/// Whether a tensor of two dimensions is a vector all the same.
pub(super) fn is_vector(name: &str) -> bool {
    ["ssm_a", "ssm_d", "ssm_norm.weight"].iter().any(|ending| name.ends_with(ending))
}

/// A vector in single precision, of values that suit its name.
pub(super) fn vector(name: &str, columns: usize, random: &mut Random) -> Vec<u8> {
    let number = |index: usize| {
        let number = if name.ends_with("norm.weight") || name.ends_with("scale.weight") {
            random.between(0.8, 1.2)
        } else if name.starts_with("rope_f") {
            // Slow frequencies are divided by more; long factors by more than short ones.
            let step = if name.contains("long") { 1.3 } else { 0.4 };
            1.0 + step * index as f32 + random.between(0.0, 0.3)
        } else if name.ends_with("ssm_a") {
            // Minus the exponential of a number.
            -random.between(0.1, 1.5)
        } else {
            random.between(-0.3, 0.3)
        };
        number.to_le_bytes()
    };
    (0..columns).flat_map(number).collect()
}

fn each<const N: usize>(row: &mut [u8], put: impl FnMut(&mut [u8; N])) {
    row.as_chunks_mut::<N>().0.iter_mut().for_each(put);
}

/// Bytes of one block.
fn block_bytes(name: &str) -> Option<usize> {
    Some(match name {
        "Q4_0" | "IQ4_NL" => 18,
        "Q4_1" => 20,
        "Q5_0" => 22,
        "Q5_1" => 24,
        "Q8_0" => 34,
        "Q2_K" => 84,
        "Q3_K" => 110,
        "Q4_K" => 144,
        "Q5_K" => 176,
        "Q6_K" => 210,
        "IQ4_XS" => 136,
        _ => return None,
    })
}

/// Turns a block of random bytes into numbers of the wanted deviation around zero. The divisors are
/// the root of the mean of squares of what a scale of 1 gives: 4.6 for 16 even steps of 1, 9.2 for
/// 32, 18.5 for 64, 74 for 256, 37 for the 6-bit scales 0..64 themselves.
fn scale(name: &str, deviation: f32, block: &mut [u8]) {
    match name {
        // Steps from -8 to 7 have a mean, so half of the scales are negative, as in real files.
        "Q4_0" => put(block, 0, signed(deviation / 4.6, block[17])),
        "Q5_0" => put(block, 0, signed(deviation / 9.2, block[21])),
        "Q8_0" => put(block, 0, signed(deviation / 74.0, block[33])),
        "Q4_1" => {
            put(block, 0, deviation / 4.6);
            put(block, 2, deviation / 4.6 * -7.5);
        }
        "Q5_1" => {
            put(block, 0, deviation / 9.2);
            put(block, 2, deviation / 9.2 * -15.5);
        }
        "Q2_K" => {
            put(block, 80, deviation / (1.12 * 8.8));
            put(block, 82, deviation / (1.12 * 8.8) * 1.5);
            for byte in &mut block[..16] {
                *byte = (*byte & 15) | (*byte << 4);
            }
        }
        "Q3_K" => put(block, 108, deviation / (2.35 * 18.5)),
        "Q4_K" => {
            put(block, 0, deviation / (4.6 * 37.0));
            put(block, 2, deviation / (4.6 * 37.0) * 7.5);
            even_scales(&mut block[4..16]);
        }
        "Q5_K" => {
            put(block, 0, deviation / (9.2 * 37.0));
            put(block, 2, deviation / (9.2 * 37.0) * 15.5);
            even_scales(&mut block[4..16]);
        }
        "Q6_K" => put(block, 208, deviation / (18.5 * 74.0)),
        // The uneven steps of these two have a mean of squares of 67.4².
        "IQ4_NL" => put(block, 0, signed(deviation / 67.4, block[17])),
        "IQ4_XS" => put(block, 0, deviation / (67.4 * 18.5)),
        _ => {}
    }
}

/// Makes the eight 6-bit minima of a Q4_K or Q5_K block equal to its scales, which stay random:
/// scales and minima of the second four are nibbles of the last four bytes, and the high bit pairs
/// of the others.
fn even_scales(packed: &mut [u8]) {
    for j in 0..4 {
        packed[j + 4] = packed[j];
        packed[j + 8] = (packed[j + 8] & 15) | (packed[j + 8] << 4);
    }
}

/// `value`, negative for half of all random bytes.
fn signed(value: f32, random: u8) -> f32 {
    if random & 1 == 0 { value } else { -value }
}

fn put(block: &mut [u8], at: usize, value: f32) {
    block[at..at + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use nook_kernels::Format;

    use super::*;

    #[test]
    fn rows_of_every_format_have_the_wanted_deviation() {
        for format in Format::ALL {
            let kind = TensorType::from_format(format).unwrap();
            let mut random = Random::new(7);
            let columns = 1 << 14;
            // Formats that only ever decode have no random rows.
            let Some(row) = random_row(kind, columns, &mut random) else { continue };
            let mut numbers = vec![0.0; columns];
            format.decode(&row, &mut numbers);
            let mean = numbers.iter().sum::<f32>() / columns as f32;
            let squares = numbers.iter().map(|x| x * x).sum::<f32>();
            let wanted = 1.0 / (columns as f32).sqrt();
            assert!((0.9..1.1).contains(&squares.sqrt()), "{}: {squares}", kind.name());
            assert!(mean.abs() < 0.05 * wanted, "{}: {mean}", kind.name());
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_row() {
        let kind = TensorType::from_format(Format::Q4K).unwrap();
        let row = |seed| random_row(kind, 512, &mut Random::new(seed));
        assert_eq!(row(3), row(3));
        assert_ne!(row(3), row(4));
    }
}
