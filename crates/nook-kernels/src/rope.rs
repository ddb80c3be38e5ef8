//! Rotary positions (RoFormer, Su et al. 2021) and the ways in which models stretch them.
//!
//! A pair of numbers of a head turns by `position * frequency`. Which two numbers are a pair is the
//! family's affair ([`RopeLayout`]), as is the part of a head that turns. Frequencies belong to the
//! model ([`Rope`]), their sines and cosines to the positions of a step ([`RopeTable`]), which all
//! layers share.
//!
//! Angles are single precision, `position as f32 * frequency as f32`, as in the publishers'
//! reference (Hugging Face transformers); sine and cosine are the `libm` crate's, so that a
//! position has the same bits everywhere.

use crate::compute::Compute;
use crate::isa::per_isa;
use crate::vector::shared::share_rows;

/// Which numbers of the turning part of a head (`2 n` of them) are a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RopeLayout {
    /// `2 i` and `2 i + 1`: what GGUF files of the architecture `llama` hold ("norm" in llama.cpp).
    Adjacent,
    /// `i` and `n + i`: Hugging Face's ("neox" in llama.cpp).
    Halves,
}

/// How the frequencies are stretched for contexts longer than those of the first training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// Not at all, or by frequency factors alone.
    None,
    /// Positions divided by `factor` (Chen et al. 2023).
    Linear {
        /// How many times longer.
        factor: f32,
    },
    /// YaRN (Peng et al. 2023): slow pairs are divided by `factor`, fast ones kept, those between
    /// mixed. Its attention temperature is [`Rope::with_magnitude`] of [`yarn_magnitude`].
    Yarn {
        /// How many times longer.
        factor: f32,
        /// Context of the first training, in positions.
        original_context: u32,
        /// Pairs that turn more often than this within that context are fast; usually 32.
        beta_fast: f32,
        /// Pairs that turn less often than this are slow; usually 1.
        beta_slow: f32,
        /// How far fast pairs are kept: 1 as in the paper, 0 makes it [`RopeScaling::Linear`].
        extrapolation: f32,
    },
}

/// Frequencies of the pairs of one model, and a factor of their sines and cosines.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    frequencies: Vec<f32>,
    magnitude: f32,
}

/// Sines and cosines of the positions of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeTable {
    pairs: usize,
    positions: usize,
    /// (positions, pairs)
    cosines: Vec<f32>,
    /// (positions, pairs)
    sines: Vec<f32>,
}

impl Rope {
    /// `base ^ (-2 i / dimensions)` for each of `dimensions / 2` pairs, divided by `factors` where
    /// the model has them (the tensors `rope_freqs` of Llama 3.1 and later, `rope_factors_short`
    /// and `rope_factors_long` of Phi-3; missing ones count as 1), then scaled.
    #[must_use]
    pub fn new(
        base: f32,
        dimensions: usize,
        scaling: RopeScaling,
        factors: Option<&[f32]>,
    ) -> Self {
        let frequencies = (0..dimensions / 2)
            .map(|i| {
                let exponent = (2 * i) as f64 / dimensions as f64;
                let frequency = (1.0 / libm::pow(f64::from(base), exponent)) as f32;
                let factor = factors.and_then(|f| f.get(i)).copied().unwrap_or(1.0);
                scaling.apply(frequency / factor, i, f64::from(base), dimensions)
            })
            .collect();
        Self { frequencies, magnitude: 1.0 }
    }

    /// Sines and cosines multiplied by `magnitude`: the attention temperature of YaRN
    /// ([`yarn_magnitude`]) and LongRoPE ([`longrope_magnitude`]), which so reaches queries and
    /// keys.
    #[must_use]
    pub fn with_magnitude(self, magnitude: f32) -> Self {
        Self { magnitude, ..self }
    }

    /// The turns of `positions`, in any order.
    #[must_use]
    pub fn table(&self, positions: &[u32]) -> RopeTable {
        let pairs = self.frequencies.len();
        let mut cosines = Vec::with_capacity(positions.len().saturating_mul(pairs));
        let mut sines = Vec::with_capacity(positions.len().saturating_mul(pairs));
        for position in positions {
            let position = *position as f32;
            for frequency in &self.frequencies {
                let (sine, cosine) = libm::sincosf(position * frequency);
                cosines.push(cosine * self.magnitude);
                sines.push(sine * self.magnitude);
            }
        }
        RopeTable { pairs, positions: positions.len(), cosines, sines }
    }

    /// Angle of one position, for each pair.
    #[must_use]
    pub fn frequencies(&self) -> &[f32] {
        &self.frequencies
    }
}

impl RopeScaling {
    /// The frequency of pair `i`, scaled.
    fn apply(self, frequency: f32, i: usize, base: f64, dimensions: usize) -> f32 {
        match self {
            Self::None => frequency,
            Self::Linear { factor } => frequency / factor,
            Self::Yarn { factor, original_context, beta_fast, beta_slow, extrapolation } => {
                let context = f64::from(original_context);
                let [low, high] = yarn_range(base, dimensions, context, [beta_fast, beta_slow]);
                let ramp = ((i as f64 - low) / (high - low).max(1e-3)).clamp(0.0, 1.0);
                let kept = (1.0 - ramp) as f32 * extrapolation;
                frequency / factor * (1.0 - kept) + frequency * kept
            }
        }
    }
}

impl RopeTable {
    /// Pairs that turn in each head.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// Positions.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// (positions, pairs) cosines.
    #[must_use]
    pub fn cosines(&self) -> &[f32] {
        &self.cosines
    }

    /// (positions, pairs) sines.
    #[must_use]
    pub fn sines(&self) -> &[f32] {
        &self.sines
    }
}

/// The magnitude that goes with [`RopeScaling::Yarn`]: `0.1 * scale * ln(factor) + 1`, where
/// `scale` is 1 as in the paper, or the model's `mscale` (DeepSeek-V2). 1 where nothing is
/// stretched.
#[must_use]
pub fn yarn_magnitude(factor: f32, scale: f32) -> f32 {
    if factor <= 1.0 {
        return 1.0;
    }
    (0.1 * f64::from(scale) * libm::log(f64::from(factor)) + 1.0) as f32
}

/// The magnitude of LongRoPE (Ding et al. 2024, as Phi-3 has it) for a context of `context`
/// positions where `original` were trained first: `sqrt(1 + ln(context / original) /
/// ln(original))`.
#[must_use]
pub fn longrope_magnitude(context: u32, original: u32) -> f32 {
    if context <= original || original <= 1 {
        return 1.0;
    }
    let original = f64::from(original);
    libm::sqrt(1.0 + libm::log(f64::from(context) / original) / libm::log(original)) as f32
}

/// Turns heads in place. `x` is (positions of `table`, `heads`, `head_dim`); of each head, the
/// `2 * table.pairs()` numbers from `offset` on turn and the others stay.
///
/// # Panics
///
/// When `x` has another shape, or the part that turns reaches past its head: mistakes of the
/// caller.
pub fn rotate(
    compute: &Compute,
    x: &mut [f32],
    heads: usize,
    head_dim: usize,
    offset: usize,
    layout: RopeLayout,
    table: &RopeTable,
) {
    let row = heads * head_dim;
    assert!(x.len() == table.positions * row, "a row of heads for each position of the table");
    assert!(
        offset <= head_dim && 2 * table.pairs <= head_dim - offset,
        "{} pairs from {offset} on lie in a head of {head_dim}",
        table.pairs
    );
    if table.pairs == 0 {
        return;
    }
    let head = [head_dim, offset];
    share_rows(compute, x, row, 2, |first, x| {
        let turns = first * table.pairs..(first + x.len() / row) * table.pairs;
        let (cosines, sines) = (&table.cosines[turns.clone()], &table.sines[turns]);
        match layout {
            RopeLayout::Adjacent => {
                rotate_adjacent(compute.isa(), x, row, head, table.pairs, cosines, sines);
            }
            RopeLayout::Halves => {
                rotate_halves(compute.isa(), x, row, head, table.pairs, cosines, sines);
            }
        }
    });
}

/// First pair that is not quite fast, first that is wholly slow: where a pair turns `beta` times
/// within the context, rounded outwards (`yarn_find_correction_range` of the paper's code).
fn yarn_range(base: f64, dimensions: usize, context: f64, betas: [f32; 2]) -> [f64; 2] {
    let dimensions = dimensions as f64;
    let [fast, slow] = betas.map(|beta| {
        let turns = f64::from(beta) * 2.0 * std::f64::consts::PI;
        dimensions * libm::log(context / turns) / (2.0 * libm::log(base))
    });
    [libm::floor(fast).max(0.0), libm::ceil(slow).min(dimensions - 1.0)]
}

per_isa! {
    /// Rows of `row` numbers; `head` is its length and the offset in it.
    fn rotate_adjacent(
        x: &mut [f32],
        row: usize,
        head: [usize; 2],
        pairs: usize,
        cosines: &[f32],
        sines: &[f32],
    ) = rotate_adjacent_of;
}

per_isa! {
    /// As [`rotate_adjacent`], for the other layout.
    fn rotate_halves(
        x: &mut [f32],
        row: usize,
        head: [usize; 2],
        pairs: usize,
        cosines: &[f32],
        sines: &[f32],
    ) = rotate_halves_of;
}

#[inline(always)]
fn rotate_adjacent_of<const WIDE: bool>(
    x: &mut [f32],
    row: usize,
    [head_dim, offset]: [usize; 2],
    pairs: usize,
    cosines: &[f32],
    sines: &[f32],
) {
    let turns = cosines.chunks_exact(pairs).zip(sines.chunks_exact(pairs));
    for (row, (cosines, sines)) in x.chunks_exact_mut(row).zip(turns) {
        for head in row.chunks_exact_mut(head_dim) {
            let (head, _) = head[offset..].as_chunks_mut::<2>();
            for ([a, b], (cosine, sine)) in head.iter_mut().zip(cosines.iter().zip(sines)) {
                let turned = *a * cosine - *b * sine;
                *b = *a * sine + *b * cosine;
                *a = turned;
            }
        }
    }
}

#[inline(always)]
fn rotate_halves_of<const WIDE: bool>(
    x: &mut [f32],
    row: usize,
    [head_dim, offset]: [usize; 2],
    pairs: usize,
    cosines: &[f32],
    sines: &[f32],
) {
    let turns = cosines.chunks_exact(pairs).zip(sines.chunks_exact(pairs));
    for (row, (cosines, sines)) in x.chunks_exact_mut(row).zip(turns) {
        for head in row.chunks_exact_mut(head_dim) {
            let (low, high) = head[offset..][..2 * pairs].split_at_mut(pairs);
            let both = low.iter_mut().zip(high);
            for ((a, b), (cosine, sine)) in both.zip(cosines.iter().zip(sines)) {
                let turned = *a * cosine - *b * sine;
                *b = *a * sine + *b * cosine;
                *a = turned;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yarn_keeps_fast_pairs_and_stretches_slow_ones() {
        let yarn = RopeScaling::Yarn {
            factor: 4.0,
            original_context: 2048,
            beta_fast: 32.0,
            beta_slow: 1.0,
            extrapolation: 1.0,
        };
        let plain = Rope::new(10_000.0, 128, RopeScaling::None, None);
        let stretched = Rope::new(10_000.0, 128, yarn, None);
        let ratios: Vec<f32> =
            plain.frequencies.iter().zip(&stretched.frequencies).map(|(a, b)| a / b).collect();
        // The paper's formula by hand: pair 16 is the last fast one, pair 41 the first slow one.
        assert!(ratios[..=16].iter().all(|ratio| *ratio == 1.0));
        assert!(ratios[41..].iter().all(|ratio| *ratio == 4.0));
        assert!(ratios[16..=41].is_sorted() && ratios[17] > 1.0 && ratios[40] < 4.0);
        assert!((yarn_magnitude(4.0, 1.0) - 1.138_629_4).abs() < 1e-6);
        assert_eq!(yarn_magnitude(1.0, 1.0), 1.0);
    }

    #[test]
    fn factors_and_linear_scaling_divide_the_angle() {
        let plain = Rope::new(10_000.0, 8, RopeScaling::None, None);
        let scaled = Rope::new(10_000.0, 8, RopeScaling::Linear { factor: 8.0 }, Some(&[2.0, 1.0]));
        let ratios: Vec<f32> =
            plain.frequencies.iter().zip(&scaled.frequencies).map(|(a, b)| a / b).collect();
        assert_eq!(ratios, [16.0, 8.0, 8.0, 8.0]);
    }

    #[test]
    fn the_magnitude_of_long_rope_is_that_of_phi_3() {
        // transformers: sqrt(1 + ln(131072 / 4096) / ln(4096))
        assert!((longrope_magnitude(131_072, 4096) - 1.190_238_1).abs() < 1e-6);
        assert_eq!(longrope_magnitude(4096, 4096), 1.0);
    }
}
