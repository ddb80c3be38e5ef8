//! The cache counts its memory, rounds as IEEE says, and is handed over without a change.

use nook_kernels::cache::handover::HandoverError;
use nook_kernels::{CacheKind, CacheShape, LayerCache};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const HEADER_BYTES: usize = 28;

fn filled(shape: CacheShape, positions: usize, seed: u64) -> (LayerCache, Vec<f32>, Vec<f32>) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut numbers = |dim: usize| -> Vec<f32> {
        // Normal, subnormal and infinite as half numbers.
        let one = |_| random.random_range(-2.0f32..2.0) * 2.0f32.powi(random.random_range(-26..18));
        (0..positions * shape.kv_heads * dim).map(one).collect()
    };
    let (keys, values) = (numbers(shape.key_dim), numbers(shape.value_dim));
    let mut cache = LayerCache::new(shape);
    cache.reserve(positions).expect("there is memory for a small cache");
    cache.append(&keys, &values);
    (cache, keys, values)
}

/// The bytes that the documented layout has for these numbers.
fn documented(shape: CacheShape, first: u32, keys: &[f32], values: &[f32]) -> Vec<u8> {
    let count = keys.len() / (shape.kv_heads * shape.key_dim);
    let kind = if shape.kind == CacheKind::F16 { 1 } else { 2 };
    let mut bytes = b"NKV1".to_vec();
    for field in [
        kind,
        shape.kv_heads as u32,
        shape.key_dim as u32,
        shape.value_dim as u32,
        first,
        count as u32,
    ] {
        bytes.extend(field.to_le_bytes());
    }
    for x in keys.iter().chain(values) {
        match shape.kind {
            CacheKind::F16 => bytes.extend(half::f16::from_f32(*x).to_le_bytes()),
            CacheKind::F32 => bytes.extend(x.to_le_bytes()),
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_is_handed_over_is_what_was_appended(
        kv_heads in 1usize..4,
        key_dim in 1usize..40,
        value_dim in 1usize..40,
        half: bool,
        positions in 1usize..150,
        cut in 0usize..150,
        seed: u64,
    ) {
        let kind = if half { CacheKind::F16 } else { CacheKind::F32 };
        let shape = CacheShape { kv_heads, key_dim, value_dim, kind };
        let (cache, keys, values) = filled(shape, positions, seed);
        let whole = cache.export(0..positions).unwrap();
        prop_assert_eq!(&whole, &documented(shape, 0, &keys, &values));
        let cut = cut % (positions + 1);
        let mut copy = LayerCache::new(shape);
        copy.import(&cache.export(0..cut).unwrap()).unwrap();
        copy.import(&cache.export(cut..positions).unwrap()).unwrap();
        prop_assert_eq!(copy.positions(), positions);
        prop_assert_eq!(copy.export(0..positions).unwrap(), whole);
    }

    #[test]
    fn noise_is_refused_or_taken_and_never_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        header: bool,
        fields in prop::array::uniform6(0u32..4),
    ) {
        let shape = CacheShape { kv_heads: 1, key_dim: 2, value_dim: 3, kind: CacheKind::F16 };
        let mut input = bytes;
        if header {
            let mut start = b"NKV1".to_vec();
            start.extend(fields.into_iter().flat_map(u32::to_le_bytes));
            start.append(&mut input);
            input = start;
        }
        let mut cache = LayerCache::new(shape);
        if cache.import(&input).is_err() {
            prop_assert_eq!((cache.positions(), cache.bytes()), (0, 0));
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let shape = CacheShape { kv_heads: 2, key_dim: 4, value_dim: 3, kind: CacheKind::F16 };
    let (cache, ..) = filled(shape, 70, 1);
    let bytes = cache.export(10..70).unwrap();
    let mut other = LayerCache::new(shape);
    assert_eq!(other.import(&bytes), Err(HandoverError::Position { first: 10, positions: 0 }));
    other.import(&cache.export(0..10).unwrap()).unwrap();
    let short = &bytes[..bytes.len() - 1];
    let (expected, got) = (bytes.len() as u64, short.len());
    assert_eq!(other.import(short), Err(HandoverError::Length { expected, got }));
    assert_eq!(other.import(&bytes[..HEADER_BYTES - 1]), Err(HandoverError::Unknown));
    assert_eq!(other.import(b"GGUF"), Err(HandoverError::Unknown));
    let mut huge = bytes.clone();
    huge[24..28].fill(0xff);
    assert!(matches!(other.import(&huge), Err(HandoverError::Length { .. })));
    for wrong in [
        CacheShape { kind: CacheKind::F32, ..shape },
        CacheShape { key_dim: 3, ..shape },
        CacheShape { value_dim: 4, ..shape },
        CacheShape { kv_heads: 1, ..shape },
    ] {
        let refused = LayerCache::new(wrong).import(&bytes);
        assert_eq!(refused, Err(HandoverError::Shape { expected: wrong }));
    }
    for range in [0..71, 60..71, std::ops::Range { start: 5, end: 4 }] {
        assert!(matches!(cache.export(range), Err(HandoverError::Range { .. })));
    }
    assert_eq!(other.positions(), 10);
}

#[test]
fn memory_grows_by_blocks_and_is_given_back() {
    let shape = CacheShape { kv_heads: 2, key_dim: 4, value_dim: 20, kind: CacheKind::F16 };
    let mut cache = LayerCache::new(shape);
    assert_eq!((cache.bytes(), cache.room()), (0, 0));
    cache.reserve(65).unwrap();
    assert_eq!((cache.room(), cache.positions()), (128, 0));
    // Values are filled up to 32 numbers.
    assert_eq!(cache.bytes(), 2 * 128 * 2 * (4 + 32));
    assert_eq!(cache.bytes(), shape.bytes_for(65));
    cache.append(&[1.0; 8 * 64], &[1.0; 40 * 64]);
    cache.truncate(100);
    assert_eq!((cache.room(), cache.positions()), (64, 64));
    cache.truncate(10);
    assert_eq!((cache.room(), cache.positions()), (64, 10));
    cache.truncate(0);
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn positions_that_were_forgotten_are_written_over() {
    let shape = CacheShape { kv_heads: 1, key_dim: 3, value_dim: 2, kind: CacheKind::F32 };
    let (mut cache, keys, values) = filled(shape, 80, 5);
    let whole = cache.export(0..80).unwrap();
    cache.truncate(70);
    cache.append(&[9.0; 9], &[9.0; 6]);
    cache.truncate(70);
    cache.append(&keys[70 * 3..], &values[70 * 2..]);
    assert_eq!(cache.export(0..80).unwrap(), whole);
}

#[test]
fn a_cache_past_all_memory_is_refused_and_stays_as_it_was() {
    let shape =
        CacheShape { kv_heads: 1 << 20, key_dim: 1 << 30, value_dim: 1, kind: CacheKind::F16 };
    let mut cache = LayerCache::new(shape);
    let full = cache.reserve(1).unwrap_err();
    assert_eq!((full.positions, cache.bytes()), (1, 0));
    assert!(full.to_string().contains("1 positions"), "{full}");
    let shape = CacheShape { kv_heads: usize::MAX, ..shape };
    assert_eq!(LayerCache::new(shape).reserve(1).unwrap_err().source, None);
    assert_eq!(shape.bytes_for(1), u64::MAX);
}
