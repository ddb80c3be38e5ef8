//! Attention over a cache on a GPU, against the definition in double precision.

use nook_gpu::{Attend, Buffer, Cache, CacheShape, Commands, KernelSet, Reach, spare_numbers};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::weights::{numbers, worst};

/// Greatest difference over the root mean square of all, with numbers that half precision holds
/// exactly. WGSL allows an exponential of `x` an error of `3 + 2 |x|` units in the last place.
const APART_MAX: f64 = 2e-5;

struct Case {
    shape: CacheShape,
    heads: usize,
    before: usize,
    rows: usize,
    reach: Reach,
    soft_cap: Option<f32>,
    /// Whether each head has a sink.
    sinks: bool,
}

#[test]
fn attention_mixes_what_each_position_sees() {
    let shape =
        |kv_heads, key_dim, value_dim, half| CacheShape { kv_heads, key_dim, value_dim, half };
    let case = |shape, heads, before, rows, reach, soft_cap| Case {
        shape,
        heads,
        before,
        rows,
        reach,
        soft_cap,
        sinks: false,
    };
    let sinking = |case: Case| Case { sinks: true, ..case };
    let cases = [
        case(shape(2, 64, 64, false), 2, 0, 1, Reach::All, None),
        case(shape(2, 64, 64, true), 8, 63, 3, Reach::All, Some(30.0)),
        case(shape(1, 128, 128, true), 4, 200, 70, Reach::All, None),
        case(shape(3, 80, 80, true), 9, 100, 5, Reach::Window(33), None),
        case(shape(2, 16, 16, false), 10, 130, 4, Reach::Chunk(50), None),
        // One key-value head that all share, with wider keys than values.
        case(shape(1, 144, 128, true), 16, 90, 2, Reach::All, None),
        // Long enough to be shared out among workgroups.
        case(shape(2, 64, 64, true), 4, 3000, 2, Reach::All, None),
        case(shape(2, 64, 96, false), 2, 1500, 1, Reach::Window(1200), Some(5.0)),
        sinking(case(shape(2, 64, 64, true), 16, 40, 3, Reach::Window(33), None)),
        sinking(case(shape(1, 32, 32, false), 3, 0, 2, Reach::All, None)),
        sinking(case(shape(2, 64, 64, true), 4, 3000, 2, Reach::All, Some(30.0))),
    ];
    for kernels in [KernelSet::Portable, KernelSet::Subgroup] {
        let Some(gpu) = crate::gpu("attention", kernels) else { return };
        let mut random = StdRng::seed_from_u64(21);
        for (index, case) in cases.iter().enumerate() {
            let Case { shape, heads, before, rows, reach, soft_cap, .. } = *case;
            let positions = before + rows;
            let mut half = |count: usize| -> Vec<f32> {
                let rounded = |x: f32| half::f16::from_f32(x).to_f32();
                numbers(count, &mut random).into_iter().map(rounded).collect()
            };
            let keys = half(positions * shape.kv_heads * shape.key_dim);
            let values = half(positions * shape.kv_heads * shape.value_dim);
            // Rows of another session lie before these.
            let row = 3;
            let queries = half((row + rows) * heads * shape.key_dim);
            let cache = Cache::new(&gpu, shape, positions + 7).unwrap();
            let mut commands = Commands::new(&gpu);
            let key_rows = Buffer::of_floats(&gpu, "keys", &keys).unwrap();
            let value_rows = Buffer::of_floats(&gpu, "values", &values).unwrap();
            // In two steps, the second behind the first.
            commands.append(&cache, 0, &key_rows, &value_rows, 0, before).unwrap();
            commands.append(&cache, before, &key_rows, &value_rows, before, rows).unwrap();
            let input = Buffer::of_floats(&gpu, "queries", &queries).unwrap();
            let numbers = rows * heads * shape.value_dim;
            let out = Buffer::new(&gpu, "out", row * heads * shape.value_dim + numbers).unwrap();
            let spare = Buffer::new(&gpu, "spare", spare_numbers(shape.value_dim)).unwrap();
            // Some of them greater than every score.
            let sinks: Vec<f32> = (0..heads).map(|head| 5.0 * head as f32 - 4.0).collect();
            let held = Buffer::of_floats(&gpu, "sinks", &sinks).unwrap();
            let sinks_held = case.sinks.then_some(&held);
            let (scale, first) = (0.125, before);
            let attend =
                Attend { heads, scale, soft_cap, reach, first, row, rows, sinks: sinks_held };
            commands.attend(&input, &cache, attend, &spare, &out).unwrap();
            let got = commands.read_floats(&out, row * heads * shape.value_dim, numbers).unwrap();
            let queries = &queries[row * heads * shape.key_dim..];
            let expected = expected(case, queries, &keys, &values, &sinks);
            let off = worst(&got, &expected);
            assert!(off < APART_MAX, "{kernels:?}, case {index}: {off:.1e}");
        }
    }
}

#[test]
fn a_cache_rounds_as_the_cpu_does_and_gives_back_what_it_was_given() {
    let Some(gpu) = crate::gpu("caches", KernelSet::Portable) else { return };
    let shape = CacheShape { kv_heads: 2, key_dim: 32, value_dim: 16, half: true };
    let count = 40;
    let mut random = StdRng::seed_from_u64(22);
    let mut keys = numbers(count * 64, &mut random);
    // Subnormal, halfway, too great, not numbers.
    let special = [
        0.0,
        -0.0,
        5.9e-8,
        2.98e-8,
        2.9e-8,
        6.1e-5,
        1e-9,
        65_504.0,
        65_519.9,
        65_520.0,
        1e9,
        -1e9,
        f32::INFINITY,
        1.000_488_3,
        1.001_464_8,
        -2.999,
    ];
    keys[..special.len()].copy_from_slice(&special);
    keys[20] = f32::NAN;
    let values = numbers(count * 32, &mut random);
    let cache = Cache::new(&gpu, shape, count).unwrap();
    let mut commands = Commands::new(&gpu);
    let key_rows = Buffer::of_floats(&gpu, "keys", &keys).unwrap();
    let value_rows = Buffer::of_floats(&gpu, "values", &values).unwrap();
    commands.append(&cache, 0, &key_rows, &value_rows, 0, count).unwrap();
    commands.finish().unwrap();
    let bytes = cache.read(&gpu, 0, count).unwrap();
    let halves: Vec<half::f16> =
        bytes.as_chunks::<2>().0.iter().map(|bytes| half::f16::from_le_bytes(*bytes)).collect();
    for (got, number) in halves.iter().zip(keys.iter().chain(&values)) {
        let expected = half::f16::from_f32(*number);
        let same = got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan());
        assert!(same, "{number:e} became {got:?} instead of {expected:?}");
    }
    let other = Cache::new(&gpu, shape, count + 3).unwrap();
    let part = cache.read(&gpu, 11, 9).unwrap();
    other.write(&gpu, 20, 9, &part).unwrap();
    assert_eq!(other.read(&gpu, 20, 9).unwrap(), part);
    assert!(other.write(&gpu, 40, 9, &part).is_err());
    assert!(other.write(&gpu, 0, 8, &part).is_err());
    let grown = Cache::new(&gpu, shape, 2 * count).unwrap();
    grown.copy_from(&mut commands, &cache, count).unwrap();
    commands.finish().unwrap();
    assert_eq!(grown.read(&gpu, 0, count).unwrap(), bytes);
}

fn expected(case: &Case, queries: &[f32], keys: &[f32], values: &[f32], sinks: &[f32]) -> Vec<f32> {
    let Case { shape, heads, before, rows, reach, soft_cap, .. } = case;
    let CacheShape { kv_heads, key_dim, value_dim, .. } = *shape;
    let mut out = Vec::new();
    for row in 0..*rows {
        let position = before + row;
        let first = match *reach {
            Reach::All => 0,
            Reach::Window(size) => (position + 1).saturating_sub(size as usize),
            Reach::Chunk(size) => position - position % size as usize,
        };
        for head in 0..*heads {
            let kv = head / (heads / kv_heads);
            let query = &queries[(row * heads + head) * key_dim..][..key_dim];
            let score = |at: usize| {
                let key = &keys[(at * kv_heads + kv) * key_dim..][..key_dim];
                let dot: f64 =
                    query.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
                let scaled = dot * 0.125;
                soft_cap.map_or(scaled, |cap| f64::from(cap) * (scaled / f64::from(cap)).tanh())
            };
            let scores: Vec<f64> = (first..=position).map(score).collect();
            let sink = case.sinks.then_some(f64::from(sinks[head]));
            let top = scores.iter().copied().chain(sink).fold(f64::MIN, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
            let sunk = sink.map_or(0.0, |sink| (sink - top).exp());
            let total: f64 = weights.iter().sum::<f64>() + sunk;
            out.extend((0..value_dim).map(|i| {
                let value = |at: usize| f64::from(values[(at * kv_heads + kv) * value_dim + i]);
                let mixed: f64 =
                    weights.iter().zip(first..).map(|(weight, at)| weight * value(at)).sum();
                (mixed / total) as f32
            }));
        }
    }
    out
}
