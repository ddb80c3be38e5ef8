//! Causal self-attention on a card: see [`crate::parts::Attention`] for the order of operations.
//!
//! Query heads that share a key-value head are rows of one product, so keys and values are never
//! repeated. Scores of many positions are computed in pieces of at most [`SCORES_MAX`] numbers.

use candle_core::{D, Tensor};
use candle_nn::ops::{sigmoid, softmax_last_dim};

use super::block::unknown_part;
use super::step::{CardLanes, CardStep, heads_first, rows_first};
use super::weights::OnCard;
use crate::parts::{Attention, Broken, Reach, Span, Temperature};

/// Most scores that are in memory at once: 128 MiB, and a few copies. A longer prompt takes more
/// pieces, not more memory.
const SCORES_MAX: usize = 32 << 20;

/// What attention does with the scores of all heads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scoring {
    pub(super) scale: f32,
    pub(super) soft_cap: Option<f32>,
    pub(super) reach: Reach,
}

impl Attention<OnCard> {
    /// Rows `x` (n, hidden) to (n, hidden); their keys and values go into the caches.
    pub(super) fn on_card(
        &self,
        x: &Tensor,
        step: &CardStep<'_>,
        lanes: &mut CardLanes<'_>,
    ) -> Result<Tensor, Broken> {
        let mut queries = self.query.on_card(x)?;
        let mut keys = self.key.on_card(x)?;
        let value = self.value.as_ref().ok_or_else(unknown_part)?;
        let values = heads_first(&value.on_card(x)?, self.kv_heads)?;
        if let Some(norm) = &self.query_norm {
            queries = norm.on_card(&queries)?;
        }
        if let Some(norm) = &self.key_norm {
            keys = norm.on_card(&keys)?;
        }
        let mut queries = heads_first(&queries, self.heads)?; // (heads, n, head_dim)
        let mut keys = heads_first(&keys, self.kv_heads)?; // (kv_heads, n, head_dim)
        if let Some(turn) = self.turn {
            queries = step.turn(&queries, turn, 0)?;
            keys = step.turn(&keys, turn, 0)?;
        }
        if let Some(epsilon) = self.turned_norm {
            queries = unit_norm(&queries, epsilon)?;
            keys = unit_norm(&keys, epsilon)?;
        }
        if let Some(temperature) = self.temperature {
            queries = queries.broadcast_mul(&temperature.factors(step)?)?;
        }
        let scoring = Scoring { scale: self.scale, soft_cap: self.soft_cap, reach: self.reach };
        let mut mixed = rows_first(&attend(&queries, &keys, &values, scoring, step, lanes)?)?;
        if let Some(gate) = &self.gate {
            mixed = (mixed * sigmoid(&gate.on_card(x)?)?)?;
        }
        self.output.on_card(&mixed)
    }
}

impl Temperature {
    /// What the queries of each row are multiplied with, (n, 1).
    fn factors(self, step: &CardStep<'_>) -> Result<Tensor, Broken> {
        let positions = step.spans.iter().flat_map(|span| {
            let first = span.first;
            (0..span.rows.len() as u32).map(move |row| first + row)
        });
        let factors: Vec<f32> = positions.map(|position| self.factor(position)).collect();
        let rows = factors.len();
        Ok(Tensor::from_vec(factors, (rows, 1), step.device)?)
    }
}

/// Adds keys (`kv_heads`, n, `key_dim`) and values (`kv_heads`, n, `value_dim`) of all rows to the
/// caches of their sessions, and mixes for queries (heads, n, `key_dim`) what those hold: (heads,
/// n, `value_dim`).
pub(super) fn attend(
    queries: &Tensor,
    keys: &Tensor,
    values: &Tensor,
    scoring: Scoring,
    step: &CardStep<'_>,
    lanes: &mut CardLanes<'_>,
) -> Result<Tensor, Broken> {
    let mut mixed = Vec::with_capacity(step.spans.len());
    for span in &step.spans {
        let (start, count) = (span.rows.start, span.rows.len());
        let cache = lanes.keys(span.lane)?;
        if cache.positions() != span.first as usize {
            return Err(Broken::new("a cache that does not end where the step begins"));
        }
        cache.append(&keys.narrow(1, start, count)?, &values.narrow(1, start, count)?)?;
        let heads = queries.dim(0)?;
        let seen_by_last = span.first as usize + count;
        let at_once = (SCORES_MAX / (heads * seen_by_last).max(1)).clamp(1, count.max(1));
        for first in (0..count).step_by(at_once) {
            let rows = at_once.min(count - first);
            let piece = Span {
                first: span.first + first as u32,
                rows: start + first..start + first + rows,
                ..span.clone()
            };
            mixed.push(attend_piece(queries, &piece, scoring, step, lanes)?);
        }
    }
    match &mixed[..] {
        [only] => Ok(only.clone()),
        all => Ok(Tensor::cat(all, 1)?),
    }
}

/// What the rows of `span` see in the cache, mixed: (heads, rows, `value_dim`).
fn attend_piece(
    queries: &Tensor,
    span: &Span,
    scoring: Scoring,
    step: &CardStep<'_>,
    lanes: &mut CardLanes<'_>,
) -> Result<Tensor, Broken> {
    let (first, rows) = (span.first as usize, span.rows.len());
    let seen = scoring.reach.first(first)..first + rows;
    let (keys, values) = lanes.keys(span.lane)?.seen(seen.clone())?;
    let (heads, _, key_dim) = queries.dims3()?;
    let (kv_heads, _, value_dim) = values.dims3()?;
    let shared = heads / kv_heads.max(1) * rows;
    let queries = queries.narrow(1, span.rows.start, rows)?.contiguous()?;
    // Of each key-value head, the rows of all its query heads.
    let queries = (queries * f64::from(scoring.scale))?.reshape((kv_heads, shared, key_dim))?;
    let mut scores = queries.matmul(&keys.t()?)?; // (kv_heads, shared, seen)
    if let Some(cap) = scoring.soft_cap {
        scores = ((scores / f64::from(cap))?.tanh()? * f64::from(cap))?;
    }
    if rows > 1 {
        let mask = mask(first, rows, seen.clone(), scoring.reach, step)?;
        let apart = scores.reshape((heads, rows, seen.len()))?.broadcast_add(&mask)?;
        scores = apart.reshape((kv_heads, shared, seen.len()))?;
    }
    let weights = softmax_last_dim(&scores)?;
    Ok(weights.matmul(&values)?.reshape((heads, rows, value_dim))?)
}

/// What is added to the scores of rows `first..first + rows` for the positions `seen`: nothing
/// where a row sees a position, minus infinity where it does not. (rows, seen)
fn mask(
    first: usize,
    rows: usize,
    seen: std::ops::Range<usize>,
    reach: Reach,
    step: &CardStep<'_>,
) -> Result<Tensor, Broken> {
    let mut numbers = Vec::with_capacity(rows * seen.len());
    for position in first..first + rows {
        let visible = reach.first(position)..=position;
        let number = |other| if visible.contains(&other) { 0.0 } else { f32::NEG_INFINITY };
        numbers.extend(seen.clone().map(number));
    }
    Ok(Tensor::from_vec(numbers, (rows, seen.len()), step.device)?)
}

impl Reach {
    /// The first position that `position` sees.
    fn first(self, position: usize) -> usize {
        match self {
            Self::All => 0,
            Self::Window(window) => (position + 1).saturating_sub(window as usize),
            Self::Chunk(chunk) => position - position % (chunk as usize).max(1),
        }
    }
}

/// Each head divided by the root of its mean square.
fn unit_norm(x: &Tensor, epsilon: f32) -> Result<Tensor, Broken> {
    let ones = Tensor::ones(x.dim(D::Minus1)?, x.dtype(), x.device())?;
    Ok(candle_nn::ops::rms_norm(&x.contiguous()?, &ones, epsilon)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_sees_from_where_its_reach_begins() {
        let firsts = |reach: Reach| [0, 7, 8, 9, 20].map(|position| reach.first(position));
        assert_eq!(firsts(Reach::All), [0; 5]);
        assert_eq!(firsts(Reach::Window(8)), [0, 0, 1, 2, 13]);
        assert_eq!(firsts(Reach::Chunk(8)), [0, 0, 8, 8, 16]);
    }
}
