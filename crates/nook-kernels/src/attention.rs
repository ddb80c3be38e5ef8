//! Causal attention of rows of queries over what is in the caches.
//!
//! A call takes pieces of several sessions at once; each piece brings its cache. Threads share the
//! work by piece, key-value head and some dozens of queries. Query heads that share a key-value
//! head are computed together, so that keys and values are read once for all of them.
//!
//! # Order of operations
//!
//! The bits of an output depend on nothing but its query and the keys and values that it sees. For
//! each query, blocks of 64 absolute positions are taken in turn (Milakov and Gimelshein 2018,
//! "Online normalizer calculation for softmax"; Dao 2022, "FlashAttention"), whatever rows came
//! with it:
//!
//! 1. scores in units of `ln 2`: products of query and key added in the order of the dimensions,
//!    times `scale * log2 e`; with a soft cap, `cap * tanh(products * scale / cap) * log2 e`.
//!    Positions that are not seen have none.
//! 2. `greatest`: the greatest score up to here; `decay = 2^(greatest before - greatest)`.
//! 3. weights `2^(score - greatest)`; `total = total * decay + sum`, where the sum goes over the
//!    four groups of sixteen positions lane by lane, then by halves.
//! 4. values of the positions that are seen, weighed, added in their order, beginning with 0 in
//!    each block; `out = out * decay + sum`.
//!
//! At the end `out / total`. A head with a sink begins with `greatest = sink * log2 e` and `total = 1`,
//! as if it had seen a position of that score and a value of zeros; a head without one, with nothing
//! seen. Blocks of which nothing is seen are skipped, which changes nothing.
//! NaN and infinity in positions that are not seen do no harm; in those that are, the output is
//! NaN.

mod kernels;
mod lanes;
mod span;

use std::cell::RefCell;

use crate::cache::LayerCache;
use crate::cache::line::WIDTH;
use crate::compute::Compute;
use crate::shared::SharedOut;
use span::{Scratch, Span, attend_span};

/// Queries of one span, roughly: enough to share the cost of unpacking a block, and few enough that
/// their sums stay in the second cache.
const SPAN_QUERIES: usize = 128;

/// How the query heads look at the cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Heads<'a> {
    /// Query heads: a multiple of the key-value heads, which share them in order.
    pub heads: usize,
    /// Factor of the scores, usually `1 / sqrt(key_dim)`.
    pub scale: f32,
    /// Scores become `cap * tanh(score / cap)` (Gemma 2).
    pub soft_cap: Option<f32>,
    /// Sliding window `w`: position `p` sees `p - w + 1 ..= p`. 0 counts as 1. `None`: all before
    /// it.
    pub window: Option<usize>,
    /// Of each query head, a score that takes its share of the weights and brings no value
    /// (attention sinks, Xiao et al. 2023).
    pub sinks: Option<&'a [f32]>,
}

/// Rows of one session.
pub struct Piece<'a> {
    /// Its cache, which holds the keys and values of these rows already.
    pub cache: &'a LayerCache,
    /// Absolute position of the first row.
    pub first: usize,
    /// (rows, heads * `key_dim`).
    pub queries: &'a [f32],
    /// (rows, heads * `value_dim`), overwritten.
    pub out: &'a mut [f32],
}

impl std::fmt::Debug for Piece<'_> {
    /// Where it is; never the numbers.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Piece").field("cache", self.cache).field("first", &self.first).finish()
    }
}

/// Attention of all `pieces`.
///
/// # Panics
///
/// When a piece does not fit its cache: heads that are no multiple of its key-value heads, numbers
/// that are no whole rows, or rows whose keys are not there yet. These are mistakes of the caller,
/// which no input can bring about.
pub fn attend(compute: &Compute, heads: Heads<'_>, pieces: &mut [Piece<'_>]) {
    let mut starts = Vec::with_capacity(pieces.len()); // number of the first span of each piece
    let (mut spans, mut work) = (0usize, 0usize);
    let plans: Vec<Plan<'_>> = pieces.iter_mut().map(|piece| Plan::new(heads, piece)).collect();
    for plan in &plans {
        starts.push(spans);
        spans += plan.kv_heads() * plan.spans;
        work = work.saturating_add(plan.work());
    }
    compute.share(spans, work, &|number| {
        let index = starts.partition_point(|start| *start <= number) - 1;
        SCRATCH.with_borrow_mut(|scratch| {
            plans[index].attend(compute, number - starts[index], scratch);
        });
    });
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// A piece that was seen to fit its cache, and how it is cut.
struct Plan<'a> {
    heads: Heads<'a>,
    cache: &'a LayerCache,
    first: usize,
    queries: &'a [f32],
    out: SharedOut<'a, f32>,
    /// Queries for each key-value head.
    count: usize,
    /// Spans that they are cut into.
    spans: usize,
}

impl<'a> Plan<'a> {
    fn new(heads: Heads<'a>, piece: &'a mut Piece<'_>) -> Self {
        let shape = piece.cache.shape();
        assert!(
            shape.kv_heads > 0
                && shape.key_dim > 0
                && shape.value_dim > 0
                && heads.heads > 0
                && heads.heads.is_multiple_of(shape.kv_heads),
            "{} query heads share {shape:?}",
            heads.heads
        );
        let sinks = heads.sinks.map_or(heads.heads, <[f32]>::len);
        assert!(sinks == heads.heads, "{sinks} sinks for {} query heads", heads.heads);
        let rows = piece.queries.len() / (heads.heads * shape.key_dim);
        assert!(
            piece.queries.len() == rows * heads.heads * shape.key_dim
                && piece.out.len() == rows * heads.heads * shape.value_dim,
            "queries and outputs of whole rows, as many of one as of the other"
        );
        assert!(
            rows <= piece.cache.positions().saturating_sub(piece.first),
            "keys and values of {rows} rows from position {} on are in the cache",
            piece.first
        );
        let count = rows * (heads.heads / shape.kv_heads);
        Self {
            heads,
            cache: piece.cache,
            first: piece.first,
            queries: piece.queries,
            out: SharedOut::new(piece.out),
            count,
            spans: count.div_ceil(SPAN_QUERIES),
        }
    }

    fn kv_heads(&self) -> usize {
        self.cache.shape().kv_heads
    }

    /// Multiplications, roughly.
    fn work(&self) -> usize {
        let shape = self.cache.shape();
        let rows = self.queries.len() / (self.heads.heads * shape.key_dim);
        let seen = (self.first + rows.div_ceil(2)).min(self.heads.window.unwrap_or(usize::MAX));
        let products = seen.saturating_mul(shape.key_dim + shape.value_dim);
        products.saturating_mul(self.count).saturating_mul(shape.kv_heads)
    }

    /// Computes span `number` and writes its outputs. Each number may be computed once only.
    #[allow(unsafe_code, reason = "threads write disjoint parts of one output")]
    fn attend(&self, compute: &Compute, number: usize, scratch: &mut Scratch) {
        let shape = self.cache.shape();
        // The longest first, so that no thread begins one when the others are done.
        let start = (self.spans - 1 - number / shape.kv_heads) * SPAN_QUERIES;
        let mut span = Span {
            isa: compute.isa(),
            cache: self.cache,
            heads: self.heads,
            kv_head: number % shape.kv_heads,
            first: self.first,
            numbers: start..self.count.min(start + SPAN_QUERIES),
            queries: self.queries,
            scratch,
        };
        attend_span(&mut span);
        let rows = span.scratch.out.chunks_exact(shape.value_lines());
        for (number, row) in span.numbers.clone().zip(rows) {
            let at = span.place(number) * shape.value_dim;
            // SAFETY: each (row, head) belongs to one span, and each span is computed once.
            let out = unsafe { self.out.piece(at..at + shape.value_dim) };
            for (out, line) in out.chunks_mut(WIDTH).zip(row) {
                out.copy_from_slice(&line.0[..out.len()]);
            }
        }
    }
}
