//! Causal attention of a step's queries over everything in the cache.
//!
//! For each query head: scores over the absolute positions `0..=p` in order, the greatest of them,
//! their exponentials and the sum of those (accumulator `position % 32`), then the values, weighed,
//! added in the order of positions. Nothing depends on where a step or a block begins.

use crate::cache::{LayerCache, POSITIONS_PER_BLOCK};
use crate::compute::Compute;
use crate::dot::{dot, sum};
use crate::elementary::exp;
use crate::isa::per_isa;

/// What attention needs to know besides the cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Queries {
    /// Query heads; a multiple of the key-value heads, which they share in order.
    pub heads: usize,
    /// Absolute position of the first row.
    pub first: usize,
    /// Factor of the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
}

/// The outputs for `queries` (positions, heads, `head_dim`): the same shape. The keys and values of
/// these positions must be in the cache already. `None` when the shapes do not fit each other.
#[must_use]
pub fn attend(
    compute: &Compute,
    cache: &LayerCache,
    shape: Queries,
    queries: &[f32],
) -> Option<Vec<f32>> {
    let head_dim = cache.head_dim();
    let row = shape.heads.checked_mul(head_dim)?;
    if row == 0
        || cache.kv_heads() == 0
        || !shape.heads.is_multiple_of(cache.kv_heads())
        || !queries.len().is_multiple_of(row)
        || shape.first + queries.len() / row > cache.room()
    {
        return None;
    }
    let mut out = vec![0.0; queries.len()];
    let work = queries.len().saturating_mul(2 * shape.first + queries.len() / row);
    compute.rows(&mut out, head_dim, work, |first_head, out| {
        let length = out.len();
        let queries = &queries[first_head * head_dim..][..length];
        attend_heads(compute.isa(), cache, shape, first_head, queries, out);
    });
    Some(out)
}

per_isa! {
    /// Consecutive heads, from number `first_head` of the step on (row by row, heads in order).
    fn attend_heads(
        cache: &LayerCache,
        shape: Queries,
        first_head: usize,
        queries: &[f32],
        out: &mut [f32],
    ) = attend_heads_in_order;
}

#[inline(always)]
fn attend_heads_in_order<const WIDE: bool>(
    cache: &LayerCache,
    shape: Queries,
    first_head: usize,
    queries: &[f32],
    out: &mut [f32],
) {
    let head_dim = cache.head_dim();
    let shared_by = shape.heads / cache.kv_heads();
    let mut scores: Vec<f32> = Vec::new();
    let each = queries.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim));
    for (index, (query, out)) in each.enumerate() {
        let number = first_head + index;
        let positions = shape.first + number / shape.heads + 1;
        let kv_head = number % shape.heads / shared_by;
        scores.clear();
        scores.resize(positions, 0.0);
        attend_one(cache, kv_head, shape.scale, query, &mut scores, out);
    }
}

/// One query over as many positions as there is room in `scores`.
#[inline(always)]
fn attend_one(
    cache: &LayerCache,
    kv_head: usize,
    scale: f32,
    query: &[f32],
    scores: &mut [f32],
    out: &mut [f32],
) {
    let head_dim = query.len();
    let mut greatest = f32::NEG_INFINITY;
    let blocks = cache.head(kv_head);
    for (scores, (keys, _)) in scores.chunks_mut(POSITIONS_PER_BLOCK).zip(blocks) {
        for (score, key) in scores.iter_mut().zip(keys.chunks_exact(head_dim)) {
            *score = dot(query, key) * scale;
            greatest = greatest.max(*score);
        }
    }
    for score in scores.iter_mut() {
        *score = exp(*score - greatest);
    }
    let total = sum(scores);
    out.fill(0.0);
    let blocks = cache.head(kv_head);
    for (scores, (_, values)) in scores.chunks(POSITIONS_PER_BLOCK).zip(blocks) {
        for (weight, value) in scores.iter().zip(values.chunks_exact(head_dim)) {
            for (out, value) in out.iter_mut().zip(value) {
                *out += weight * value;
            }
        }
    }
    for out in out.iter_mut() {
        *out /= total;
    }
}
