//! Every instruction set, thread count and number of rows gives the same bits; and blocks decode to
//! the very numbers of the reference.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

use std::path::Path;

use nook_kernels::attention::{Queries, attend};
use nook_kernels::rope::rotate;
use nook_kernels::vector::{rms_norm, silu_times};
use nook_kernels::{Compute, Format, Isa, LayerCache, Matrix, Rope};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

fn numbers(count: usize, random: &mut StdRng) -> Vec<f32> {
    (0..count).map(|_| random.random_range(-2.0f32..2.0)).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Random bytes, but no scale that is infinite or NaN: what would be compared is then the payload.
fn matrix(format: Format, rows: usize, columns: usize, random: &mut StdRng) -> Matrix {
    let mut bytes = vec![0; rows * format.row_bytes(columns).unwrap()];
    random.fill_bytes(&mut bytes);
    let exponent_ends: &[usize] = match format {
        Format::F32 => &[3],
        Format::F16 | Format::Bf16 | Format::Q4_0 | Format::Q5_0 | Format::Q8_0 => &[1],
        Format::Q6K => &[209],
        _ => &[1, 3],
    };
    for block in bytes.chunks_exact_mut(format.bytes()) {
        for at in exponent_ends {
            block[*at] &= 0xbf;
        }
    }
    Matrix::new(format, rows, columns, bytes).unwrap()
}

/// Each product by itself: one row of weights, decoded, and the stated order, written out again.
fn one_product(weights: &[f32], x: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 32];
    for (i, (w, x)) in weights.iter().zip(x).enumerate() {
        let product = w * x;
        lanes[i % 32] += product;
    }
    for width in [16, 8, 4, 2, 1] {
        for l in 0..width {
            lanes[l] += lanes[l + width];
        }
    }
    lanes[0]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn products_are_those_of_single_rows_everywhere(
        format in prop::sample::select(&Format::ALL[..]),
        blocks in 1usize..5,
        rows in 1usize..230,
        n in 1usize..9,
        seed: u64,
    ) {
        let mut random = StdRng::seed_from_u64(seed);
        let columns = match format.elements() {
            1 => 57 * blocks,
            elements => elements * blocks,
        };
        let matrix = matrix(format, rows, columns, &mut random);
        let input = numbers(n * columns, &mut random);
        let mut expected = Vec::new();
        let mut weights = vec![0.0; columns];
        for x in input.chunks_exact(columns) {
            for row in 0..rows {
                matrix.decode(row, &mut weights).unwrap();
                expected.push(one_product(&weights, x));
            }
        }
        for isa in Isa::available() {
            for threads in [1, 3] {
                let compute = Compute::with_isa(threads, isa).unwrap();
                let got = matrix.multiply(&compute, &input).unwrap();
                prop_assert_eq!(bits(&got), bits(&expected), "{:?} {:?} {}", format, isa, threads);
            }
        }
    }

    #[test]
    fn vectors_are_the_same_on_every_instruction_set(width in 1usize..300, seed: u64) {
        let mut random = StdRng::seed_from_u64(seed);
        let mut x = numbers(3 * width, &mut random);
        x[0] = 80.0;
        x[width] = -100.0;
        let weight = numbers(width, &mut random);
        let all: Vec<_> = Isa::available()
            .into_iter()
            .map(|isa| {
                let mut normed = vec![0.0; x.len()];
                rms_norm(isa, &x, &weight, 1e-5, &mut normed);
                let mut gated = x.clone();
                silu_times(isa, &mut gated, &normed);
                (bits(&normed), bits(&gated))
            })
            .collect();
        prop_assert!(all.iter().all(|one| *one == all[0]));
    }

    #[test]
    fn attention_is_the_same_however_a_step_is_cut(
        kv_heads in 1usize..4,
        shared_by in 1usize..4,
        pairs in 1usize..40,
        positions in 1usize..150,
        cut in 0usize..150,
        seed: u64,
    ) {
        let mut random = StdRng::seed_from_u64(seed);
        let (heads, head_dim) = (kv_heads * shared_by, 2 * pairs);
        let cut = cut % positions;
        let queries = numbers(positions * heads * head_dim, &mut random);
        let keys = numbers(positions * kv_heads * head_dim, &mut random);
        let values = numbers(positions * kv_heads * head_dim, &mut random);
        let shape = Queries { heads, first: 0, scale: 0.3 };
        let mut all = Vec::new();
        for isa in Isa::available() {
            for (threads, cut) in [(1, 0), (3, cut)] {
                let compute = Compute::with_isa(threads, isa).unwrap();
                let mut cache = LayerCache::new(kv_heads, head_dim);
                let mut out = Vec::new();
                for (from, to) in [(0, cut), (cut, positions)] {
                    cache.reserve(to).unwrap();
                    let row = kv_heads * head_dim;
                    let rows = from * row..to * row;
                    prop_assert!(cache.write(from, &keys[rows.clone()], &values[rows]));
                    let row = heads * head_dim;
                    let shape = Queries { first: from, ..shape };
                    let part = &queries[from * row..to * row];
                    out.extend(attend(&compute, &cache, shape, part).unwrap());
                }
                all.push(bits(&out));
            }
        }
        prop_assert!(all.iter().all(|one| *one == all[0]));
    }

    #[test]
    fn turns_are_the_same_on_every_instruction_set(first: u32, heads in 1usize..5, seed: u64) {
        let mut random = StdRng::seed_from_u64(seed);
        let table = Rope::new(500_000.0, 48, 1.0, None).table(first, 3);
        let x = numbers(3 * heads * 64, &mut random);
        let all: Vec<_> = Isa::available()
            .into_iter()
            .map(|isa| {
                let mut x = x.clone();
                rotate(isa, &mut x, heads, 64, table.pairs(), table.turns());
                bits(&x)
            })
            .collect();
        prop_assert!(all.iter().all(|one| *one == all[0]));
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let compute = Compute::new(1).unwrap();
    let mut random = StdRng::seed_from_u64(1);
    let matrix = matrix(Format::Q8_0, 2, 64, &mut random);
    assert!(matrix.multiply(&compute, &[0.0; 63]).is_err());
    assert!(matrix.decode(2, &mut [0.0; 64]).is_err());
    assert!(matrix.decode(0, &mut [0.0; 32]).is_err());
    assert!(Matrix::new(Format::Q8_0, 1, 40, vec![0; 42]).is_err());
    assert!(Matrix::new(Format::Q8_0, 1, 32, vec![0; 33]).is_err());
    let mut cache = LayerCache::new(2, 4);
    cache.reserve(1).unwrap();
    let shape = Queries { heads: 3, first: 0, scale: 1.0 };
    assert!(attend(&compute, &cache, shape, &[0.0; 12]).is_none());
    let shape = Queries { heads: 4, first: 64, scale: 1.0 };
    assert!(attend(&compute, &cache, shape, &[0.0; 16]).is_none());
}

#[test]
fn numbers_that_are_none_stay_none_and_harm_nothing() {
    let compute = Compute::new(1).unwrap();
    let nan = Matrix::new(Format::F16, 2, 8, vec![0xff; 32]).unwrap();
    assert!(nan.multiply(&compute, &[1.0; 8]).unwrap().iter().all(|x| x.is_nan()));
    let mut cache = LayerCache::new(1, 2);
    cache.reserve(1).unwrap();
    assert!(cache.write(0, &[f32::NAN; 2], &[1.0; 2]));
    let shape = Queries { heads: 1, first: 0, scale: 1.0 };
    let out = attend(&compute, &cache, shape, &[1.0, 1.0]).unwrap();
    assert!(out.iter().all(|x| x.is_nan()));
}

#[test]
fn blocks_decode_to_the_numbers_of_the_reference_to_the_bit() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/quant");
    let folder = Path::new(folder);
    if !folder.is_dir() {
        // Past the test harness, which keeps what a passing test prints to itself.
        let _ =
            std::io::Write::write_all(&mut std::io::stderr(), b"SKIPPED (no fixtures): blocks\n");
        return;
    }
    let about = std::fs::read_to_string(folder.join("blocks.json")).unwrap();
    let about: serde_json::Value = serde_json::from_str(&about).unwrap();
    let encoded = std::fs::read(folder.join("blocks.bin")).unwrap();
    let expected = std::fs::read(folder.join("blocks-expected.f32")).unwrap();
    let (expected, _) = expected.as_chunks::<4>();
    for (name, format) in [
        ("F16", Format::F16),
        ("BF16", Format::Bf16),
        ("Q4_0", Format::Q4_0),
        ("Q4_1", Format::Q4_1),
        ("Q5_0", Format::Q5_0),
        ("Q5_1", Format::Q5_1),
        ("Q8_0", Format::Q8_0),
        ("Q4_K", Format::Q4K),
        ("Q5_K", Format::Q5K),
        ("Q6_K", Format::Q6K),
    ] {
        let facts = &about["types"][name];
        let number = |key: &str| facts[key].as_u64().unwrap() as usize;
        assert_eq!(
            (number("block_elems"), number("block_bytes")),
            (format.elements(), format.bytes())
        );
        let bytes = &encoded[number("bytes_offset")..][..number("bytes_len")];
        let mut got = vec![0.0; number("rows") * number("cols")];
        format.decode(bytes, &mut got);
        let expected = &expected[number("expected_offset_f32")..][..got.len()];
        for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
            let expected = f32::from_le_bytes(*expected);
            assert_eq!(got.to_bits(), expected.to_bits(), "{name} {index}: {got} {expected}");
        }
    }
}
