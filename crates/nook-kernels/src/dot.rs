//! Dot products with one order of operations.
//!
//! Element `i` is multiplied, and the product added to accumulator `i % 32`; at the end the 32
//! accumulators are added by halves (`l` and `l + 16`, then `l` and `l + 8`, ...). Thirty-two are
//! two AVX-512 registers, four of AVX2, eight of NEON: enough to hide the latency of the addition.
//! A tile computes several products at once to reuse what it has loaded; each keeps that order.

/// Accumulators of one dot product.
pub const LANES: usize = 32;

const WIDTH: usize = 16;

/// The dot product of two vectors of the same length (the shorter one counts).
#[inline(always)]
#[must_use]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    let mut sum = Pair::ZERO;
    let mut at = 0;
    while at + LANES <= length {
        sum.add_product(Pair::load(a, at), Pair::load(b, at));
        at += LANES;
    }
    sum.finish(&a[at..], &b[at..])
}

/// The sum of `values`, in the same order as a dot product with ones.
#[inline(always)]
#[must_use]
pub fn sum(values: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane += value;
    }
    reduce(lanes)
}

/// The dot products of two vectors with a third. All have the same length (the shortest counts).
#[inline(always)]
#[must_use]
pub fn dot_2(a: [&[f32]; 2], b: &[f32]) -> [f32; 2] {
    let length = a.iter().map(|a| a.len()).fold(b.len(), usize::min);
    let [a0, a1] = a.map(|a| &a[..length]);
    let b = &b[..length];
    let (mut sum0, mut sum1) = (Pair::ZERO, Pair::ZERO);
    let mut at = 0;
    while at + LANES <= length {
        let x = Pair::load(b, at);
        sum0.add_product(Pair::load(a0, at), x);
        sum1.add_product(Pair::load(a1, at), x);
        at += LANES;
    }
    let tail = &b[at..];
    [sum0.finish(&a0[at..], tail), sum1.finish(&a1[at..], tail)]
}

/// The dot products of four vectors with a fifth. All have the same length (the shortest counts).
///
/// Written out rather than looped: the compiler does not keep an array of this many accumulators in
/// registers, and is thirty times slower when it does not.
#[inline(always)]
#[must_use]
pub fn dot_4(a: [&[f32]; 4], b: &[f32]) -> [f32; 4] {
    let length = a.iter().map(|a| a.len()).fold(b.len(), usize::min);
    let [a0, a1, a2, a3] = a.map(|a| &a[..length]);
    let b = &b[..length];
    let (mut sum0, mut sum1) = (Pair::ZERO, Pair::ZERO);
    let (mut sum2, mut sum3) = (Pair::ZERO, Pair::ZERO);
    let mut at = 0;
    while at + LANES <= length {
        let x = Pair::load(b, at);
        sum0.add_product(Pair::load(a0, at), x);
        sum1.add_product(Pair::load(a1, at), x);
        sum2.add_product(Pair::load(a2, at), x);
        sum3.add_product(Pair::load(a3, at), x);
        at += LANES;
    }
    let tail = &b[at..];
    [
        sum0.finish(&a0[at..], tail),
        sum1.finish(&a1[at..], tail),
        sum2.finish(&a2[at..], tail),
        sum3.finish(&a3[at..], tail),
    ]
}

#[inline(always)]
fn reduce(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            lanes[l] += lanes[l + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// The accumulators of one product, as two vectors.
#[derive(Clone, Copy)]
struct Pair {
    low: Half,
    high: Half,
}

/// Sixteen accumulators, written so that the compiler keeps them in vector registers.
#[derive(Clone, Copy)]
struct Half([f32; WIDTH]);

impl Pair {
    const ZERO: Self = Self { low: Half([0.0; WIDTH]), high: Half([0.0; WIDTH]) };

    #[inline(always)]
    fn load(from: &[f32], at: usize) -> Self {
        Self { low: Half::load(from, at), high: Half::load(from, at + WIDTH) }
    }

    #[inline(always)]
    fn add_product(&mut self, a: Self, b: Self) {
        self.low.add_product(a.low, b.low);
        self.high.add_product(a.high, b.high);
    }

    /// Adds the last elements, fewer than [`LANES`], and reduces.
    #[inline(always)]
    fn finish(self, a: &[f32], b: &[f32]) -> f32 {
        let mut lanes = [0.0f32; LANES];
        lanes[..WIDTH].copy_from_slice(&self.low.0);
        lanes[WIDTH..].copy_from_slice(&self.high.0);
        for (lane, (x, y)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += x * y;
        }
        reduce(lanes)
    }
}

impl Half {
    #[inline(always)]
    fn load(from: &[f32], at: usize) -> Self {
        let mut lanes = [0.0; WIDTH];
        lanes.copy_from_slice(&from[at..at + WIDTH]);
        Self(lanes)
    }

    #[inline(always)]
    fn add_product(&mut self, a: Self, b: Self) {
        for l in 0..WIDTH {
            self.0[l] += a.0[l] * b.0[l];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_gives_the_bits_of_single_products() {
        let vectors: Vec<Vec<f32>> = (0..6)
            .map(|v| (0..171).map(|i| ((i * 37 + v * 11) % 101) as f32 / 7.0 - 5.0).collect())
            .collect();
        let [x, a, b, c, d, _] = &vectors[..] else {
            unreachable!("six were made");
        };
        let single = [a, b, c, d].map(|v| dot(v, x).to_bits());
        assert_eq!(dot_4([a, b, c, d], x).map(f32::to_bits), single);
        assert_eq!(dot_2([a, b], x).map(f32::to_bits), single[..2]);
    }

    #[test]
    fn a_sum_is_a_product_with_ones() {
        let values: Vec<f32> = (0..77).map(|i| (i as f32).sin()).collect();
        assert_eq!(sum(&values).to_bits(), dot(&values, &[1.0; 77]).to_bits());
        assert_eq!(sum(&[]), 0.0);
    }
}
