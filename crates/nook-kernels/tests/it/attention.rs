//! Attention gives the bits of its stated order, however rows are cut, batched and shared.

#![allow(clippy::unwrap_used, reason = "test code outside `#[test]` functions")]

use nook_kernels::{CacheKind, CacheShape, Compute, Heads, Isa, LayerCache, Piece, attend};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn numbers(count: usize, random: &mut StdRng) -> Vec<f32> {
    (0..count).map(|_| random.random_range(-2.0f32..2.0)).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// One session: all its queries, keys and values.
#[derive(Clone)]
struct Session {
    shape: CacheShape,
    /// Without the sinks.
    heads: Heads<'static>,
    sinks: Option<Vec<f32>>,
    positions: usize,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} positions of {:?} for {:?}", self.positions, self.shape, self.heads)
    }
}

impl Session {
    fn new(
        shape: CacheShape,
        heads: Heads<'static>,
        positions: usize,
        random: &mut StdRng,
    ) -> Self {
        let row = positions * shape.kv_heads;
        let (keys, values) =
            (numbers(row * shape.key_dim, random), numbers(row * shape.value_dim, random));
        let queries = numbers(positions * heads.heads * shape.key_dim, random);
        Self { shape, heads, sinks: None, positions, queries, keys, values }
    }

    fn heads(&self) -> Heads<'_> {
        Heads { sinks: self.sinks.as_deref(), ..self.heads }
    }

    /// A cache with positions `0..to`.
    fn cache(&self, to: usize) -> LayerCache {
        let mut cache = LayerCache::new(self.shape);
        cache.reserve(to).unwrap();
        let row = to * self.shape.kv_heads;
        cache.append(
            &self.keys[..row * self.shape.key_dim],
            &self.values[..row * self.shape.value_dim],
        );
        cache
    }

    fn rows(&self, from: usize, to: usize) -> &[f32] {
        let row = self.heads.heads * self.shape.key_dim;
        &self.queries[from * row..to * row]
    }

    fn out(&self, rows: usize) -> Vec<f32> {
        vec![7.0; rows * self.heads.heads * self.shape.value_dim]
    }

    /// All outputs, in chunks that end at `ends`.
    fn run(&self, compute: &Compute, ends: &[usize]) -> Vec<f32> {
        let (mut all, mut from) = (Vec::new(), 0);
        for to in ends {
            let (cache, mut out) = (self.cache(*to), self.out(to - from));
            let queries = self.rows(from, *to);
            let piece = Piece { cache: &cache, first: from, queries, out: &mut out };
            attend(compute, self.heads(), &mut [piece]);
            all.extend(out);
            from = *to;
        }
        all
    }

    /// The number that the cache keeps for `x`.
    fn kept(&self, x: f32) -> f32 {
        match self.shape.kind {
            CacheKind::F16 => half::f16::from_f32(x).to_f32(),
            CacheKind::F32 => x,
        }
    }

    /// One head of one row in the stated order, written out one number at a time.
    fn stated(&self, row: usize, head: usize) -> Vec<f32> {
        let CacheShape { kv_heads, key_dim, value_dim, .. } = self.shape;
        let kv_head = head / (self.heads.heads / kv_heads);
        let query = &self.queries[(row * self.heads.heads + head) * key_dim..][..key_dim];
        let window = self.heads.window.unwrap_or(usize::MAX).max(1);
        let first = (row + 1).saturating_sub(window);
        let sink = self.sinks.as_ref().map(|sinks| sinks[head] * std::f32::consts::LOG2_E);
        let (mut greatest, mut total) = sink.map_or((f32::NEG_INFINITY, 0.0), |sink| (sink, 1.0));
        let mut out = vec![0.0f32; value_dim];
        for block in first / 64..=row / 64 {
            let seen = first.max(block * 64)..(row + 1).min(block * 64 + 64);
            let mut scores = [f32::NEG_INFINITY; 64];
            for position in seen.clone() {
                let key = &self.keys[(position * kv_heads + kv_head) * key_dim..][..key_dim];
                let mut score = 0.0f32;
                for (q, k) in query.iter().zip(key) {
                    score += q * self.kept(*k);
                }
                scores[position % 64] = match self.heads.soft_cap {
                    None => score * (self.heads.scale * std::f32::consts::LOG2_E),
                    Some(cap) => {
                        let score = score * self.heads.scale;
                        cap * nook_kernels::elementary::tanh(score / cap) * std::f32::consts::LOG2_E
                    }
                };
            }
            let before = greatest;
            greatest = scores.iter().fold(greatest, |a, b| if *b > a { *b } else { a });
            let decay = power_of_two(before - greatest);
            let weights = scores.map(|score| power_of_two(score - greatest));
            let mut lanes = [0.0f32; 16];
            for (index, weight) in weights.iter().enumerate() {
                lanes[index % 16] += weight;
            }
            for width in [8, 4, 2, 1] {
                for lane in 0..width {
                    lanes[lane] += lanes[lane + width];
                }
            }
            total = total * decay + lanes[0];
            let mut sums = vec![0.0f32; value_dim];
            for position in seen {
                let value = &self.values[(position * kv_heads + kv_head) * value_dim..];
                for (sum, value) in sums.iter_mut().zip(value) {
                    *sum += weights[position % 64] * self.kept(*value);
                }
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = *out * decay + sum;
            }
        }
        out.iter().map(|x| x / total).collect()
    }

    /// The same in f64, by the definition.
    fn exact(&self, row: usize, head: usize) -> Vec<f64> {
        let CacheShape { kv_heads, key_dim, value_dim, .. } = self.shape;
        let kv_head = head / (self.heads.heads / kv_heads);
        let query = &self.queries[(row * self.heads.heads + head) * key_dim..][..key_dim];
        let first = (row + 1).saturating_sub(self.heads.window.unwrap_or(usize::MAX).max(1));
        let sink = self.sinks.as_ref().map_or(0.0, |sinks| f64::from(sinks[head]).exp());
        let (mut total, mut out) = (sink, vec![0.0; value_dim]);
        for position in first..=row {
            let at = position * kv_heads + kv_head;
            let key = &self.keys[at * key_dim..][..key_dim];
            let products =
                query.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(self.kept(*k)));
            let mut score = products.sum::<f64>() * f64::from(self.heads.scale);
            if let Some(cap) = self.heads.soft_cap.map(f64::from) {
                score = cap * (score / cap).tanh();
            }
            let weight = score.exp();
            total += weight;
            for (out, value) in out.iter_mut().zip(&self.values[at * value_dim..]) {
                *out += weight * f64::from(self.kept(*value));
            }
        }
        out.iter().map(|x| x / total).collect()
    }
}

fn power_of_two(x: f32) -> f32 {
    let x = if -127.0 > x { -127.0 } else { x };
    let n = (x + 12_582_912.0) - 12_582_912.0;
    let r = x - n;
    let mut p = 1.535_336_2e-4f32;
    for coefficient in
        [1.339_887_4e-3, 9.618_437e-3, 5.550_332_5e-2, 2.402_264_8e-1, 6.931_472e-1, 1.0]
    {
        p = p * r + coefficient;
    }
    if n == -127.0 { p * 0.0 } else { p * 2.0f32.powi(n as i32) }
}

prop_compose! {
    fn sessions()(
        kv_heads in 1usize..4,
        shared_by in 1usize..10,
        key_dim in 1usize..50,
        value_dim in 1usize..90,
        half: bool,
        window in prop::option::of(0usize..150),
        soft_cap in prop::option::of(1.0f32..60.0),
        sinks: bool,
        lengths in prop::collection::vec(1usize..200, 1..4),
        seed: u64,
    ) -> (Vec<Session>, StdRng) {
        let mut random = StdRng::seed_from_u64(seed);
        let kind = if half { CacheKind::F16 } else { CacheKind::F32 };
        let shape = CacheShape { kv_heads, key_dim, value_dim, kind };
        let heads = Heads { heads: kv_heads * shared_by, scale: 0.3, soft_cap, window, sinks: None };
        let sinks = sinks.then(|| numbers(heads.heads, &mut random));
        let session = |length: &usize| {
            let session = Session::new(shape, heads, *length, &mut random);
            Session { sinks: sinks.clone(), ..session }
        };
        let sessions = lengths.iter().map(session).collect();
        (sessions, random)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn attention_is_the_same_however_rows_are_cut_batched_and_shared(
        (sessions, mut random) in sessions(),
    ) {
        let plain = Compute::with_isa(1, Isa::PLAIN).unwrap();
        let heads = sessions[0].heads();
        let whole: Vec<Vec<f32>> =
            sessions.iter().map(|session| session.run(&plain, &[session.positions])).collect();
        for isa in Isa::available() {
            for threads in [1, 3] {
                let compute = Compute::with_isa(threads, isa).unwrap();
                for (session, whole) in sessions.iter().zip(&whole) {
                    let mut ends: Vec<usize> =
                        (0..4).map(|_| random.random_range(1..=session.positions)).collect();
                    ends.push(session.positions);
                    ends.sort_unstable();
                    ends.dedup();
                    let cut = session.run(&compute, &ends);
                    prop_assert_eq!(bits(&cut), bits(whole), "{:?} {} {:?}", isa, threads, ends);
                }
                // The last rows of all sessions in one call, a different number of each.
                let firsts: Vec<usize> = sessions
                    .iter()
                    .map(|session| random.random_range(0..session.positions))
                    .collect();
                let caches: Vec<LayerCache> =
                    sessions.iter().map(|session| session.cache(session.positions)).collect();
                let mut outs: Vec<Vec<f32>> = sessions
                    .iter()
                    .zip(&firsts)
                    .map(|(session, first)| session.out(session.positions - first))
                    .collect();
                let mut pieces: Vec<Piece<'_>> = sessions
                    .iter()
                    .zip(&caches)
                    .zip(firsts.iter().zip(&mut outs))
                    .map(|((session, cache), (first, out))| Piece {
                        cache,
                        first: *first,
                        queries: session.rows(*first, session.positions),
                        out,
                    })
                    .collect();
                attend(&compute, heads, &mut pieces);
                for (out, whole) in outs.iter().zip(&whole) {
                    let expected = &whole[whole.len() - out.len()..];
                    prop_assert_eq!(bits(out), bits(expected), "{:?} {} batch", isa, threads);
                }
            }
        }
    }

    #[test]
    fn attention_follows_its_stated_order_and_is_near_the_exact_result(
        (sessions, _) in sessions(),
    ) {
        let compute = Compute::new(1).unwrap();
        let session = &sessions[0];
        let all = session.run(&compute, &[session.positions]);
        let each = all.chunks_exact(session.shape.value_dim);
        for (number, got) in each.enumerate() {
            let (row, head) = (number / session.heads.heads, number % session.heads.heads);
            let stated = session.stated(row, head);
            prop_assert_eq!(bits(got), bits(&stated), "row {} head {}", row, head);
            for (got, exact) in got.iter().zip(session.exact(row, head)) {
                prop_assert!((f64::from(*got) - exact).abs() < 2e-5, "{} {}", got, exact);
            }
        }
    }
}

fn small(kind: CacheKind, window: Option<usize>) -> Session {
    let shape = CacheShape { kv_heads: 1, key_dim: 5, value_dim: 3, kind };
    let heads = Heads { heads: 2, scale: 0.5, soft_cap: None, window, sinks: None };
    Session::new(shape, heads, 130, &mut StdRng::seed_from_u64(3))
}

#[test]
fn what_is_not_seen_does_no_harm() {
    let compute = Compute::new(1).unwrap();
    for (kind, window) in [(CacheKind::F16, Some(10)), (CacheKind::F32, None)] {
        let clean = small(kind, window);
        let expected = clean.run(&compute, &[130]);
        for unseen in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut session = clean.clone();
            // Rows 40..=89 see positions 31..=89 with the window, and 0..=89 without.
            for position in (90..130).chain(0..if window.is_some() { 31 } else { 0 }) {
                session.keys[position * 5..][..5].fill(unseen);
                session.values[position * 3..][..3].fill(unseen);
            }
            let (cache, mut out) = (session.cache(130), session.out(50));
            let queries = session.rows(40, 90);
            attend(
                &compute,
                session.heads,
                &mut [Piece { cache: &cache, first: 40, queries, out: &mut out }],
            );
            assert_eq!(bits(&out), bits(&expected[40 * 6..90 * 6]), "{kind:?} {unseen}");
        }
    }
}

#[test]
fn a_key_that_is_none_makes_its_outputs_none() {
    let mut session = small(CacheKind::F32, None);
    session.keys[70 * 5] = f32::NAN;
    for isa in Isa::available() {
        let compute = Compute::with_isa(1, isa).unwrap();
        let out = session.run(&compute, &[130]);
        assert!(out[..70 * 6].iter().all(|x| x.is_finite()));
        assert!(out[70 * 6..].iter().all(|x| x.is_nan()), "{isa:?}");
    }
}

#[test]
fn a_position_that_sees_only_itself_gives_its_value() {
    let session = small(CacheKind::F32, Some(1));
    let out = session.run(&Compute::new(1).unwrap(), &[130]);
    for (out, value) in out.chunks_exact(6).zip(session.values.chunks_exact(3)) {
        assert_eq!((&out[..3], &out[3..]), (value, value));
    }
}

/// A sink takes a share of the weights and brings nothing: one as high as the only score that is
/// seen takes half.
#[test]
fn a_sink_takes_its_share_and_gives_nothing() {
    let mut session = small(CacheKind::F32, Some(1));
    session.queries.fill(0.0);
    for (sink, share) in [(0.0, 0.5f32), (-1000.0, 1.0), (1000.0, 0.0)] {
        session.sinks = Some(vec![sink, f32::NEG_INFINITY]);
        let out = session.run(&Compute::new(1).unwrap(), &[130]);
        for (out, value) in out.chunks_exact(6).zip(session.values.chunks_exact(3)) {
            let expected: Vec<f32> = value.iter().map(|value| value * share).collect();
            assert_eq!((&out[..3], &out[3..]), (&expected[..], value), "{sink}");
        }
    }
}
