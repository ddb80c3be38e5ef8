//! Some queries of one piece that share a key-value head, from the first block that any of them
//! sees to the last.
//!
//! A span is what one thread computes at a time. Blocks are the outer loop, so that a block is read
//! from memory once for all queries of the span; what each query has seen so far waits in a
//! [`Scratch`] of the thread.

use std::ops::Range;
use std::slice::from_ref;

use super::Heads;
use super::kernels::{Scores, TILE_MAX, Weighing, add_block, add_values, decay_and_add};
use super::kernels::{divide, score, tile_max, unpack, weigh};
use super::lanes::Load;
use crate::cache::line::{FloatLine, Line, WIDTH};
use crate::cache::{Block, Blocks, CacheShape, LayerCache, POSITIONS_PER_BLOCK, with_blocks};
use crate::elementary::LOG2_E;
use crate::isa::Isa;

/// From this many queries on, half-precision blocks are unpacked once for all of them.
const UNPACKED_FROM: usize = 16;

/// The work of one thread.
pub(super) struct Span<'a> {
    pub(super) isa: Isa,
    pub(super) cache: &'a LayerCache,
    pub(super) heads: Heads<'a>,
    /// The key-value head.
    pub(super) kv_head: usize,
    /// Absolute position of the first row of the piece.
    pub(super) first: usize,
    /// The queries of this span among those of the head: number `row * shared_by + i` is that of
    /// the piece's `row` and of the `i`-th query head that shares the key-value head.
    pub(super) numbers: Range<usize>,
    /// All queries of the piece: (rows, heads, `key_dim`).
    pub(super) queries: &'a [f32],
    /// Where the outputs of this thread go.
    pub(super) scratch: &'a mut Scratch,
}

/// What a thread needs while it computes a span. Kept for the next one.
#[derive(Default)]
pub(super) struct Scratch {
    /// Queries, turned, tile after tile: (`key_dim`, queries of the tile).
    turned: Vec<f32>,
    /// (queries)
    queries: Vec<Weighing>,
    /// (queries, `value_lines`) sums of weighed values; at the end, the outputs.
    pub(super) out: Vec<FloatLine>,
    /// ([`TILE_MAX`], `value_lines`) those of one block.
    sums: Vec<FloatLine>,
    /// ([`TILE_MAX`]) scores, then weights, of one block.
    scores: Vec<Scores>,
    /// Keys and values of one block, unpacked.
    keys: Vec<FloatLine>,
    values: Vec<FloatLine>,
}

impl Span<'_> {
    /// Query heads that share a key-value head.
    fn shared_by(&self) -> usize {
        self.heads.heads / self.cache.shape().kv_heads
    }

    /// Absolute positions that query `number` sees.
    fn visible(&self, number: usize) -> Range<usize> {
        let end = self.first + number / self.shared_by() + 1;
        let window = self.heads.window.unwrap_or(end).clamp(1, end);
        end - window..end
    }

    /// The sink of the head of query `number`, in units of `ln 2`.
    fn sink(&self, number: usize) -> Option<f32> {
        let head = self.kv_head * self.shared_by() + number % self.shared_by();
        self.heads.sinks.map(|sinks| sinks[head] * LOG2_E)
    }

    /// Where query `number` lies among those of the piece, in heads.
    pub(super) fn place(&self, number: usize) -> usize {
        let shared_by = self.shared_by();
        number / shared_by * self.heads.heads + self.kv_head * shared_by + number % shared_by
    }
}

/// Keys and values of one head in one block.
struct Cached<'a, K> {
    /// Absolute position where the block begins.
    start: usize,
    /// (`key_dim`, groups) lines.
    keys: &'a [K],
    /// (positions, `value_lines`) lines.
    values: &'a [K],
    /// Those of the next block, or these where there is none.
    ahead: (&'a [K], &'a [K]),
}

/// Computes the outputs of a span into its scratch: (queries, `value_lines`).
pub(super) fn attend_span(span: &mut Span<'_>) {
    let shape = span.cache.shape();
    prepare(span, &shape);
    let start = span.visible(span.numbers.start).start;
    let end = span.visible(span.numbers.end - 1).end;
    let blocks = start / POSITIONS_PER_BLOCK..end.div_ceil(POSITIONS_PER_BLOCK);
    match span.cache.blocks() {
        Blocks::Half(all) if span.numbers.len() >= UNPACKED_FROM => {
            attend_unpacked(span, &shape, all, blocks);
        }
        all => with_blocks!(all, all => {
            for number in blocks.clone() {
                let start = number * POSITIONS_PER_BLOCK;
                let (keys, values) = all[number].head(&shape, span.kv_head);
                let next = all.get(number + 1).filter(|_| number + 1 < blocks.end);
                let ahead = next.map_or((keys, values), |next| next.head(&shape, span.kv_head));
                take_block(span, &shape, &Cached { start, keys, values, ahead });
            }
        }),
    }
    let lines = shape.value_lines();
    let scratch = &mut *span.scratch;
    for (out, query) in scratch.out.chunks_exact_mut(lines).zip(&scratch.queries) {
        divide(span.isa, out, query.total);
    }
}

/// Tiles of `count` queries: the greatest powers of two that fit.
fn tiles(count: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let size = (count - at).min(most).checked_ilog2().map(|log| 1 << log)?;
        at += size;
        Some(at - size..at)
    })
}

/// Lays the queries ready and forgets what others have seen.
fn prepare(span: &mut Span<'_>, shape: &CacheShape) {
    let mut turned = std::mem::take(&mut span.scratch.turned);
    let mut queries = std::mem::take(&mut span.scratch.queries);
    turned.clear();
    queries.clear();
    for tile in tiles(span.numbers.len(), tile_max(span.isa)) {
        let mut rows = [&[][..]; TILE_MAX];
        for (row, number) in rows.iter_mut().zip(tile.clone()) {
            let number = span.numbers.start + number;
            *row = &span.queries[span.place(number) * shape.key_dim..][..shape.key_dim];
            queries.push(Weighing::new(span.visible(number), span.sink(number)));
        }
        match tile.len() {
            8 => turn::<8>(&rows, shape.key_dim, &mut turned),
            4 => turn::<4>(&rows, shape.key_dim, &mut turned),
            2 => turn::<2>(&rows, shape.key_dim, &mut turned),
            _ => turned.extend_from_slice(rows[0]),
        }
    }
    let scratch = &mut *span.scratch;
    scratch.turned = turned;
    scratch.queries = queries;
    scratch.out.clear();
    scratch.out.resize(span.numbers.len() * shape.value_lines(), FloatLine::ZERO);
    scratch.sums.resize(TILE_MAX * shape.value_lines(), FloatLine::ZERO);
    scratch.scores.resize(TILE_MAX, Scores([0.0; POSITIONS_PER_BLOCK]));
}

/// Adds the first `Q` of `rows` to `turned`, as (`dim`, `Q`).
fn turn<const Q: usize>(rows: &[&[f32]; TILE_MAX], dim: usize, turned: &mut Vec<f32>) {
    let start = turned.len();
    turned.resize(start + dim * Q, 0.0);
    let (to, _) = turned[start..].as_chunks_mut::<Q>();
    for (q, row) in rows.iter().take(Q).enumerate() {
        for (to, x) in to.iter_mut().zip(*row) {
            to[q] = *x;
        }
    }
}

/// As [`attend_span`], with each block unpacked to f32 first.
fn attend_unpacked<K: Line + Load>(
    span: &mut Span<'_>,
    shape: &CacheShape,
    all: &[Block<K>],
    blocks: Range<usize>,
) {
    let mut keys = std::mem::take(&mut span.scratch.keys);
    let mut values = std::mem::take(&mut span.scratch.values);
    keys.resize(POSITIONS_PER_BLOCK / WIDTH * shape.key_dim, FloatLine::ZERO);
    values.resize(POSITIONS_PER_BLOCK * shape.value_lines(), FloatLine::ZERO);
    for number in blocks {
        let (packed_keys, packed_values) = all[number].head(shape, span.kv_head);
        unpack(span.isa, packed_keys, &mut keys);
        unpack(span.isa, packed_values, &mut values);
        let start = number * POSITIONS_PER_BLOCK;
        take_block(
            span,
            shape,
            &Cached { start, keys: &keys, values: &values, ahead: (&keys, &values) },
        );
    }
    span.scratch.keys = keys;
    span.scratch.values = values;
}

/// Takes one block into account for every tile of the span.
fn take_block<K: Load>(span: &mut Span<'_>, shape: &CacheShape, cached: &Cached<'_, K>) {
    for tile in tiles(span.numbers.len(), tile_max(span.isa)) {
        take_tile(span, shape, tile, cached);
    }
}

/// As [`take_block`], for the queries of one tile.
fn take_tile<K: Load>(
    span: &mut Span<'_>,
    shape: &CacheShape,
    tile: Range<usize>,
    cached: &Cached<'_, K>,
) {
    let (isa, heads) = (span.isa, span.heads);
    let scratch = &mut *span.scratch;
    let queries = &mut scratch.queries[tile.clone()];
    let (mut whole, mut end) = (true, 0);
    for query in &mut *queries {
        let in_block = |at: usize| at.saturating_sub(cached.start).min(POSITIONS_PER_BLOCK);
        query.visible = in_block(query.seen.start)..in_block(query.seen.end);
        whole &= query.visible.len() == POSITIONS_PER_BLOCK;
        end = end.max(if query.visible.is_empty() { 0 } else { query.visible.end });
    }
    if end == 0 {
        return;
    }
    let (dim, lines, count) = (shape.key_dim, shape.value_lines(), tile.len());
    let turned = &scratch.turned[tile.start * dim..tile.end * dim];
    let scores = &mut scratch.scores[..count];
    // Powers of two are cheaper than those of e, so scores are in units of ln 2.
    let factor = if heads.soft_cap.is_some() { heads.scale } else { heads.scale * LOG2_E };
    score(isa, turned, cached.keys, cached.ahead.0, end.div_ceil(WIDTH), factor, scores);
    weigh(isa, heads.soft_cap, scores, queries);
    let out = &mut scratch.out[tile.start * lines..tile.end * lines];
    if whole {
        add_block(isa, cached.values, cached.ahead.1, scores, queries, out);
        return;
    }
    let sums = &mut scratch.sums[..count * lines];
    sums.fill(FloatLine::ZERO);
    add_visible(isa, cached.values, queries, scores, sums);
    let each = out.chunks_exact_mut(lines).zip(sums.chunks_exact(lines));
    for (query, (out, sums)) in queries.iter().zip(each) {
        // A query that sees nothing here is left alone: even `x * 1 + 0` may change a -0.
        if !query.visible.is_empty() {
            decay_and_add(isa, out, query.decay, sums);
        }
    }
}

/// Adds the weighed values of the positions that each query sees, in their order. Those that all
/// see are taken together; what some see before and after them, one query at a time.
fn add_visible<K: Load>(
    isa: Isa,
    values: &[K],
    queries: &[Weighing],
    weights: &[Scores],
    sums: &mut [FloatLine],
) {
    let lines = sums.len() / queries.len().max(1);
    let start = queries.iter().map(|query| query.visible.start).max().unwrap_or(0);
    let end = queries.iter().map(|query| query.visible.end).min().unwrap_or(0);
    let each = |sums: &mut [FloatLine], part: &dyn Fn(Range<usize>) -> Range<usize>| {
        let sums = sums.chunks_exact_mut(lines);
        for ((query, weights), sums) in queries.iter().zip(weights).zip(sums) {
            let range = part(query.visible.clone());
            if !range.is_empty() {
                add_values(isa, values, range, from_ref(weights), sums);
            }
        }
    };
    if start >= end {
        return each(sums, &|visible| visible);
    }
    each(sums, &|visible| visible.start..start);
    add_values(isa, values, start..end, weights, sums);
    each(sums, &|visible| end..visible.end);
}
