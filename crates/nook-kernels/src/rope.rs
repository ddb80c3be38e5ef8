//! Rotary positions (RoFormer, Su et al. 2021), adjacent pairs.
//!
//! Numbers `2 i` and `2 i + 1` of a head turn by `position * frequency(i)`: the layout that the GGUF
//! architecture `llama` stores (the Hugging Face layout, halves, is turned into it by the converter).
//! Angles are single precision, `position as f32 * frequency as f32`, as in the reference of the
//! publishers; sine and cosine are the `libm` crate's, so a position has the same bits everywhere.

use crate::isa::per_isa;

/// Frequencies of the pairs of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    frequencies: Vec<f32>,
}

/// Sines and cosines of the positions of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeTable {
    pairs: usize,
    /// (positions, pairs) of cosine and sine.
    turns: Vec<[f32; 2]>,
}

impl Rope {
    /// `base ^ (-2 i / dimensions)` for each of `dimensions / 2` pairs, divided by `factors` (the
    /// tensor `rope_freqs.weight` of Llama 3.1 and later) where the model has them, and by `scale`
    /// (linear scaling of positions; 1 for most).
    #[must_use]
    pub fn new(base: f32, dimensions: usize, scale: f32, factors: Option<&[f32]>) -> Self {
        let frequencies = (0..dimensions / 2)
            .map(|i| {
                let exponent = (2 * i) as f64 / dimensions as f64;
                let frequency = (1.0 / libm::pow(f64::from(base), exponent)) as f32;
                let factor = factors.and_then(|f| f.get(i)).copied().unwrap_or(1.0);
                frequency / factor / scale
            })
            .collect();
        Self { frequencies }
    }

    /// The turns of `count` positions from `first` on.
    #[must_use]
    pub fn table(&self, first: u32, count: usize) -> RopeTable {
        let mut turns = Vec::with_capacity(count * self.frequencies.len());
        for index in 0..count {
            let position = (u64::from(first) + index as u64) as f32;
            turns.extend(self.frequencies.iter().map(|frequency| {
                let angle = position * frequency;
                [libm::cosf(angle), libm::sinf(angle)]
            }));
        }
        RopeTable { pairs: self.frequencies.len(), turns }
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
        self.turns.len().checked_div(self.pairs).unwrap_or(0)
    }

    /// The turns: (positions, pairs).
    #[must_use]
    pub fn turns(&self) -> &[[f32; 2]] {
        &self.turns
    }
}

per_isa! {
    /// Turns the heads of `x` (positions, heads, `head_dim`) in place; `turns` is (positions,
    /// `pairs`). Numbers past `2 * pairs` of a head stay.
    pub fn rotate(
        x: &mut [f32],
        heads: usize,
        head_dim: usize,
        pairs: usize,
        turns: &[[f32; 2]],
    ) = rotate_all;
}

#[inline(always)]
fn rotate_all<const WIDE: bool>(
    x: &mut [f32],
    heads: usize,
    head_dim: usize,
    pairs: usize,
    turns: &[[f32; 2]],
) {
    if heads == 0 || head_dim == 0 || pairs == 0 {
        return;
    }
    for (row, turns) in x.chunks_exact_mut(heads * head_dim).zip(turns.chunks_exact(pairs)) {
        for head in row.chunks_exact_mut(head_dim) {
            let (head_pairs, _) = head.as_chunks_mut::<2>();
            for ([a, b], [cos, sin]) in head_pairs.iter_mut().zip(turns) {
                let turned = *a * cos - *b * sin;
                *b = *a * sin + *b * cos;
                *a = turned;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;

    #[test]
    fn a_position_has_the_same_turn_wherever_a_chunk_begins() {
        let rope = Rope::new(10_000.0, 64, 1.0, None);
        let whole = rope.table(0, 50);
        let part = rope.table(31, 19);
        assert_eq!(&whole.turns()[31 * 32..], part.turns());
    }

    #[test]
    fn pairs_turn_and_the_rest_stays() {
        let rope = Rope::new(10_000.0, 2, 1.0, Some(&[2.0]));
        let table = rope.table(3, 1);
        let mut x = [1.0, 0.0, 5.0, 6.0];
        rotate(Isa::PLAIN, &mut x, 1, 4, 1, table.turns());
        assert!((x[0] - 1.5f32.cos()).abs() < 1e-6 && (x[1] - 1.5f32.sin()).abs() < 1e-6);
        assert_eq!(&x[2..], &[5.0, 6.0]);
    }
}
