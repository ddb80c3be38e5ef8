//! Vector functions and rotary positions: the same bits everywhere, near the exact results.

#![allow(clippy::unwrap_used, reason = "test code outside `#[test]` functions")]

use nook_kernels::vector::{self, layer_norm, rms_norm, rms_norm_in_place};
use nook_kernels::{Compute, Isa, Rope, RopeLayout, RopeScaling, rotate};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn numbers(count: usize, random: &mut StdRng) -> Vec<f32> {
    (0..count).map(|_| random.random_range(-4.0f32..4.0)).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Every function on `rows` rows of `width` numbers; all outputs, one after the other.
fn everything(compute: &Compute, rows: usize, width: usize, seed: u64) -> Vec<u32> {
    let mut random = StdRng::seed_from_u64(seed);
    let (x, y) = (numbers(rows * width, &mut random), numbers(rows * width, &mut random));
    let (weight, bias) = (numbers(width, &mut random), numbers(width, &mut random));
    let mut out = vec![0.0; x.len()];
    let mut all = Vec::new();
    rms_norm(compute, &x, Some(&weight), width, 1e-5, &mut out);
    all.extend(bits(&out));
    let mut inside = x.clone();
    rms_norm_in_place(compute, &mut inside, Some(&weight), width, 1e-5);
    assert_eq!(bits(&inside), bits(&out));
    rms_norm(compute, &x, None, width, 1e-5, &mut out);
    all.extend(bits(&out));
    layer_norm(compute, &x, Some(&weight), Some(&bias), width, 1e-5, &mut out);
    all.extend(bits(&out));
    vector::silu_times(compute, &x, &y, &mut out);
    all.extend(bits(&out));
    vector::gelu_tanh_times(compute, &x, &y, &mut out);
    all.extend(bits(&out));
    vector::gelu_erf_times(compute, &x, &y, &mut out);
    all.extend(bits(&out));
    type InPlace<'a> = Box<dyn Fn(&mut [f32]) + 'a>;
    let in_place: Vec<InPlace<'_>> = vec![
        Box::new(|x| vector::add(compute, x, &y)),
        Box::new(|x| vector::add_scaled(compute, x, 0.3, &y)),
        Box::new(|x| vector::add_bias(compute, x, &bias)),
        Box::new(|x| vector::multiply_rows(compute, x, &weight)),
        Box::new(|x| vector::scale(compute, x, 0.7)),
        Box::new(|x| vector::gelu_tanh(compute, x)),
        Box::new(|x| vector::gelu_erf(compute, x)),
        Box::new(|x| vector::sigmoid(compute, x)),
        Box::new(|x| vector::soft_cap(compute, x, 3.0)),
        Box::new(|x| vector::softmax(compute, x, width)),
    ];
    for function in in_place {
        let mut x = x.clone();
        function(&mut x);
        all.extend(bits(&x));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn functions_are_the_same_everywhere(rows in 1usize..70, width in 1usize..600, seed: u64) {
        let plain = Compute::with_isa(1, Isa::PLAIN).unwrap();
        let expected = everything(&plain, rows, width, seed);
        for isa in Isa::available() {
            for threads in [1, 3] {
                let compute = Compute::with_isa(threads, isa).unwrap();
                prop_assert!(everything(&compute, rows, width, seed) == expected, "{isa:?} {threads}");
            }
        }
    }

    #[test]
    fn norms_are_near_their_exact_values(width in 1usize..700, seed: u64) {
        let compute = Compute::new(1).unwrap();
        let mut random = StdRng::seed_from_u64(seed);
        let (x, weight) = (numbers(2 * width, &mut random), numbers(width, &mut random));
        let bias = numbers(width, &mut random);
        let (mut rms, mut layer, mut soft) = (x.clone(), x.clone(), x.clone());
        rms_norm(&compute, &x, Some(&weight), width, 1e-3, &mut rms);
        layer_norm(&compute, &x, Some(&weight), Some(&bias), width, 1e-3, &mut layer);
        vector::softmax(&compute, &mut soft, width);
        for row in 0..2 {
            let range = row * width..(row + 1) * width;
            let wide: Vec<f64> = x[range.clone()].iter().map(|x| f64::from(*x)).collect();
            let mean = wide.iter().sum::<f64>() / width as f64;
            let squares = wide.iter().map(|x| x * x).sum::<f64>() / width as f64;
            let spread = wide.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
            let total = wide.iter().map(|x| x.exp()).sum::<f64>();
            for (at, x) in wide.iter().enumerate() {
                let (w, b) = (f64::from(weight[at]), f64::from(bias[at]));
                let expected = [
                    x / (squares + f64::from(1e-3f32)).sqrt() * w,
                    (x - mean) / (spread + f64::from(1e-3f32)).sqrt() * w + b,
                    x.exp() / total,
                ];
                let got = [&rms, &layer, &soft].map(|out| f64::from(out[range.start + at]));
                for (got, expected) in got.iter().zip(expected) {
                    prop_assert!((got - expected).abs() < 1e-5 * expected.abs().max(1.0));
                }
            }
        }
    }

    #[test]
    fn turns_are_the_same_everywhere_and_near_the_exact_ones(
        positions in prop::collection::vec(0u32..100_000, 1..40),
        heads in 1usize..20,
        pairs in 1usize..40,
        offset in 0usize..20,
        rest in 0usize..20,
        adjacent: bool,
        seed: u64,
    ) {
        let head_dim = offset + 2 * pairs + rest;
        let layout = if adjacent { RopeLayout::Adjacent } else { RopeLayout::Halves };
        let rope = Rope::new(500_000.0, 2 * pairs, RopeScaling::None, None).with_magnitude(1.25);
        let table = rope.table(&positions);
        let mut random = StdRng::seed_from_u64(seed);
        let x = numbers(positions.len() * heads * head_dim, &mut random);
        let turned = |isa, threads| {
            let mut x = x.clone();
            let compute = Compute::with_isa(threads, isa).unwrap();
            rotate(&compute, &mut x, heads, head_dim, offset, layout, &table);
            x
        };
        let expected = turned(Isa::PLAIN, 1);
        for isa in Isa::available() {
            prop_assert_eq!(bits(&turned(isa, 3)), bits(&expected));
        }
        let each = x.chunks_exact(head_dim).zip(expected.chunks_exact(head_dim));
        for (number, (before, after)) in each.enumerate() {
            let position = positions[number / heads] as f32;
            for pair in 0..pairs {
                let (a, b) = match layout {
                    RopeLayout::Adjacent => (offset + 2 * pair, offset + 2 * pair + 1),
                    RopeLayout::Halves => (offset + pair, offset + pairs + pair),
                };
                let angle = f64::from(position * rope.frequencies()[pair]);
                let (sine, cosine) = (1.25 * angle.sin(), 1.25 * angle.cos());
                let (x, y) = (f64::from(before[a]), f64::from(before[b]));
                prop_assert!((f64::from(after[a]) - (x * cosine - y * sine)).abs() < 3e-6);
                prop_assert!((f64::from(after[b]) - (x * sine + y * cosine)).abs() < 3e-6);
            }
            prop_assert_eq!(&before[..offset], &after[..offset]);
            prop_assert_eq!(&before[offset + 2 * pairs..], &after[offset + 2 * pairs..]);
        }
    }
}

#[test]
fn a_position_has_the_same_turn_wherever_a_chunk_begins() {
    let rope = Rope::new(10_000.0, 64, RopeScaling::None, None);
    let all: Vec<u32> = (0..50).collect();
    let (whole, part) = (rope.table(&all), rope.table(&all[31..]));
    assert_eq!(&whole.cosines()[31 * 32..], part.cosines());
    assert_eq!(&whole.sines()[31 * 32..], part.sines());
    assert_eq!((part.positions(), part.pairs()), (19, 32));
}

#[test]
fn many_rows_are_shared_and_come_out_as_few() {
    let compute = Compute::new(3).unwrap();
    let one = Compute::new(1).unwrap();
    assert_eq!(everything(&compute, 300, 512, 7), everything(&one, 300, 512, 7));
}
