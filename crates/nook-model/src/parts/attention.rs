//! Causal self-attention with shared key-value heads (Ainslie et al. 2023), as most families have
//! it.
//!
//! Order of operations: projections and biases, norms of queries and keys, rotation, norms without
//! weights and temperature (Llama 4), the cache, scores, mixing, output projection. What a family
//! does not have is absent from the description.

use nook_kernels::attention::{Heads, Piece, attend};
use nook_kernels::{RopeLayout, Scratch, vector};

use super::linear::forward_all;
use super::{Broken, Buffers, Lanes, LayerState, Linear, Norm, StateShape, Step, sized};
use crate::error::Fault;
use crate::weights::{Held, Named, Part, Source, Weights};

/// Attention of one layer.
#[derive(Debug)]
pub(crate) struct Attention<W: Weights> {
    /// (heads * `head_dim`, hidden)
    pub(crate) query: Linear<W>,
    /// (`kv_heads` * `head_dim`, hidden)
    pub(crate) key: Linear<W>,
    /// (`kv_heads` * `head_dim`, hidden); absent where values are the keys before their norm and
    /// their turn (Gemma 4).
    pub(crate) value: Option<Linear<W>>,
    /// (heads * `head_dim`, hidden): what the mixed values are multiplied with, after a sigmoid.
    pub(crate) gate: Option<Linear<W>>,
    /// (hidden, heads * `head_dim`)
    pub(crate) output: Linear<W>,
    /// Norm of queries before they turn: of each head or of whole rows, by its width.
    pub(crate) query_norm: Option<Norm<W>>,
    /// As `query_norm`, of keys.
    pub(crate) key_norm: Option<Norm<W>>,
    /// Epsilon of the norm without weights of each value head (Gemma 4).
    pub(crate) value_norm: Option<f32>,
    /// Epsilon of the norm without weights that each head gets after it has turned.
    pub(crate) turned_norm: Option<f32>,
    /// Query heads.
    pub(crate) heads: usize,
    /// Key-value heads.
    pub(crate) kv_heads: usize,
    /// Numbers in a head.
    pub(crate) head_dim: usize,
    /// Factor of the scores.
    pub(crate) scale: f32,
    /// Cap of the scaled scores, `cap * tanh(score / cap)`.
    pub(crate) soft_cap: Option<f32>,
    /// Which positions are seen.
    pub(crate) reach: Reach,
    /// How queries and keys turn; absent in layers without positions.
    pub(crate) turn: Option<Turn>,
    /// What queries are multiplied with, by position.
    pub(crate) temperature: Option<Temperature>,
    /// (heads): scores that take their share of the weights and bring no value (gpt-oss).
    pub(crate) sinks: Option<W::Vector>,
}

/// Which earlier positions a position sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All.
    All,
    /// The last so many, itself among them.
    Window(u32),
    /// Those of its own chunk of so many.
    Chunk(u32),
}

/// Which of the model's ropes turns a layer, and how its pairs lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) rope: usize,
    pub(crate) layout: RopeLayout,
}

/// `ln(floor((position + offset) / floor) + 1) * scale + 1`: Llama 4 with an offset of 1 in layers
/// without positions, Ministral 3 with none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Temperature {
    pub(crate) floor: f32,
    pub(crate) scale: f32,
    pub(crate) offset: u32,
}

impl<W: Weights> Attention<W> {
    /// What a session remembers.
    pub(crate) fn state(&self) -> StateShape {
        let (key_dim, value_dim) = (self.head_dim, self.head_dim);
        StateShape::Keys { kv_heads: self.kv_heads, key_dim, value_dim }
    }

    /// What of it candle has no code for, in words.
    pub(super) fn needs_processor(&self) -> Option<&'static str> {
        match self {
            Self { sinks: Some(_), .. } => Some("attention sinks"),
            Self { value: None, .. } => Some("values that are made of keys"),
            Self { value_norm: Some(_), .. } => Some("a norm of values"),
            _ => None,
        }
    }
}

impl Part for Attention<Named> {
    type With<W: Weights> = Attention<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<Attention<S::Into>, Fault> {
        Ok(Attention {
            query: self.query.read(source)?,
            key: self.key.read(source)?,
            value: self.value.read(source)?,
            gate: self.gate.read(source)?,
            output: self.output.read(source)?,
            query_norm: self.query_norm.read(source)?,
            key_norm: self.key_norm.read(source)?,
            value_norm: self.value_norm,
            turned_norm: self.turned_norm,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            scale: self.scale,
            soft_cap: self.soft_cap,
            reach: self.reach,
            turn: self.turn,
            temperature: self.temperature,
            sinks: source.optional_vector(self.sinks.as_ref())?,
        })
    }
}

impl Attention<Held> {
    /// Rows `x` (n, hidden) into `out` (n, hidden); their keys and values go into the caches.
    pub(crate) fn forward(
        &self,
        x: &[f32],
        out: &mut [f32],
        step: &Step<'_>,
        lanes: &mut Lanes<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        let (n, compute) = (step.rows(), step.compute);
        let Buffers { scratch, query, key, value, mixed, gate, spare, .. } = buffers;
        let queries = sized(query, n * self.query.rows());
        let keys = sized(key, n * self.key.rows());
        let values = sized(value, keys.len());
        self.project(step, scratch, x, [&mut *queries, &mut *keys, &mut *values])?;
        if let Some(norm) = &self.query_norm {
            norm.forward_in_place(compute, queries, spare);
        }
        if let Some(norm) = &self.key_norm {
            norm.forward_in_place(compute, keys, spare);
        }
        if let Some(turn) = self.turn {
            let turns = step.turns.get(turn.rope).ok_or_else(|| Broken::new("no such rope"))?;
            turns.turn(compute, queries, self.heads, self.head_dim, 0, turn.layout);
            turns.turn(compute, keys, self.kv_heads, self.head_dim, 0, turn.layout);
        }
        if let Some(epsilon) = self.turned_norm {
            vector::rms_norm_in_place(compute, queries, None, self.head_dim, epsilon);
            vector::rms_norm_in_place(compute, keys, None, self.head_dim, epsilon);
        }
        if let Some(temperature) = self.temperature {
            temperature.warm(step, queries);
        }
        remember(step, lanes, keys, values)?;
        let mixed = sized(mixed, n * self.heads * self.head_dim);
        let heads = Heads {
            heads: self.heads,
            scale: self.scale,
            soft_cap: self.soft_cap,
            window: None,
            sinks: self.sinks.as_deref(),
        };
        mix(step, lanes, heads, self.reach, queries, mixed)?;
        if let Some(linear) = &self.gate {
            let gate = sized(gate, mixed.len());
            linear.forward(compute, scratch, x, gate)?;
            vector::sigmoid(compute, gate);
            mixed.iter_mut().zip(gate).for_each(|(mixed, gate)| *mixed *= *gate);
        }
        self.output.forward(compute, scratch, mixed, out)
    }
}

impl Attention<Held> {
    /// Queries, keys and values of rows `x`, before norms of queries and keys.
    fn project(
        &self,
        step: &Step<'_>,
        scratch: &mut Scratch,
        x: &[f32],
        [queries, keys, values]: [&mut [f32]; 3],
    ) -> Result<(), Broken> {
        let (to_queries, to_keys) = ((&self.query, queries), (&self.key, &mut *keys));
        match &self.value {
            Some(value) => {
                forward_all(
                    step.compute,
                    scratch,
                    x,
                    [to_queries, to_keys, (value, &mut *values)],
                )?;
            }
            None => {
                forward_all(step.compute, scratch, x, [to_queries, to_keys])?;
                values.copy_from_slice(keys);
            }
        }
        if let Some(epsilon) = self.value_norm {
            vector::rms_norm_in_place(step.compute, values, None, self.head_dim, epsilon);
        }
        Ok(())
    }
}

impl Temperature {
    /// What the queries of `position` are multiplied with.
    pub(crate) fn factor(self, position: u32) -> f32 {
        let steps = ((position + self.offset) as f32 / self.floor).floor();
        libm::logf(steps + 1.0) * self.scale + 1.0
    }

    fn warm(self, step: &Step<'_>, queries: &mut [f32]) {
        let width = queries.len().checked_div(step.rows()).unwrap_or(0);
        for span in &step.spans {
            for (position, row) in (span.first..).zip(span.rows.clone()) {
                let factor = self.factor(position);
                for number in &mut queries[row * width..(row + 1) * width] {
                    *number *= factor;
                }
            }
        }
    }
}

/// Appends the keys and values of all rows to the caches of their sessions.
pub(super) fn remember(
    step: &Step<'_>,
    lanes: &mut Lanes<'_>,
    keys: &[f32],
    values: &[f32],
) -> Result<(), Broken> {
    let n = step.rows().max(1);
    let (key_width, value_width) = (keys.len() / n, values.len() / n);
    for span in &step.spans {
        let LayerState::Keys(cache) = lanes.state(span.lane)? else {
            return Err(Broken::new("a session without a cache for a layer"));
        };
        if cache.positions() != span.first as usize {
            return Err(Broken::new("a cache that does not end where the step begins"));
        }
        let rows = &span.rows;
        cache.append(
            &keys[rows.start * key_width..rows.end * key_width],
            &values[rows.start * value_width..rows.end * value_width],
        );
    }
    Ok(())
}

/// Attention of all rows over the caches of their sessions.
pub(super) fn mix(
    step: &Step<'_>,
    lanes: &Lanes<'_>,
    heads: Heads<'_>,
    reach: Reach,
    queries: &[f32],
    out: &mut [f32],
) -> Result<(), Broken> {
    let n = step.rows().max(1);
    let (query_width, out_width) = (queries.len() / n, out.len() / n);
    let mut pieces = Vec::with_capacity(step.spans.len());
    // Rows of later chunks, each with a window of its own.
    let mut alone = Vec::new();
    let mut rest = out;
    for span in &step.spans {
        let cache = cache_of(lanes, span.lane)?;
        let (first, mut rows) = (span.first as usize, span.rows.clone());
        let (mut here, after) = rest.split_at_mut(rows.len() * out_width);
        rest = after;
        if let Reach::Chunk(chunk) = reach {
            let chunk = chunk as usize;
            while first + rows.len() > chunk && !rows.is_empty() {
                // From the last row back, down to those that see everything before them.
                let row = rows.end - 1;
                let position = first + rows.len() - 1;
                let (before, out) = here.split_at_mut((rows.len() - 1) * out_width);
                let queries = &queries[row * query_width..(row + 1) * query_width];
                alone.push((position % chunk + 1, Piece { cache, first: position, queries, out }));
                (here, rows) = (before, rows.start..row);
            }
        }
        if !rows.is_empty() {
            let queries = &queries[rows.start * query_width..rows.end * query_width];
            pieces.push(Piece { cache, first, queries, out: here });
        }
    }
    let window = match reach {
        Reach::Window(window) => Some(window as usize),
        Reach::All | Reach::Chunk(_) => None,
    };
    attend(step.compute, Heads { window, ..heads }, &mut pieces);
    for (window, piece) in alone {
        attend(step.compute, Heads { window: Some(window), ..heads }, &mut [piece]);
    }
    Ok(())
}

fn cache_of<'a>(lanes: &'a Lanes<'_>, lane: usize) -> Result<&'a nook_kernels::LayerCache, Broken> {
    let state = lanes.sessions.get(lane).and_then(|states| states.get(lanes.slot));
    match state {
        Some(LayerState::Keys(cache)) => Ok(cache),
        _ => Err(Broken::new("a session without a cache for a layer")),
    }
}

#[cfg(test)]
mod tests {
    use nook_kernels::{CacheKind, CacheShape, Compute, LayerCache};

    use super::*;
    use crate::parts::Span;

    const DIM: usize = 16;
    const CHUNK: u32 = 8;

    fn cache() -> LayerState {
        let shape = CacheShape { kv_heads: 1, key_dim: DIM, value_dim: DIM, kind: CacheKind::F32 };
        LayerState::Keys(LayerCache::new(shape))
    }

    fn numbers(seed: usize, positions: usize) -> Vec<f32> {
        (0..positions * DIM).map(|i| ((i * 37 + seed * 11) % 29) as f32 / 14.0 - 1.0).collect()
    }

    fn span(first: u32, rows: usize) -> Span {
        Span { lane: 0, first, window: 100, rows: 0..rows }
    }

    /// Rows `first..` of `count` over `state`, with the keys and values of those positions.
    fn attend_rows(state: &mut LayerState, first: u32, count: usize, reach: Reach) -> Vec<f32> {
        let compute = Compute::new(1).unwrap();
        let step = Step::new(&compute, &[], vec![span(first, count)]);
        let at = first as usize * DIM;
        let all = [1, 2, 3].map(|seed| numbers(seed, first as usize + count)[at..].to_vec());
        let [queries, keys, values] = all;
        assert!(state.reserve(first + count as u32));
        let mut states = [std::mem::replace(state, cache())];
        let mut lanes = Lanes { sessions: vec![&mut states], slot: 0 };
        remember(&step, &mut lanes, &keys, &values).unwrap();
        let mut out = vec![0.0; queries.len()];
        let heads = Heads { heads: 1, scale: 0.25, soft_cap: None, window: None, sinks: None };
        mix(&step, &lanes, heads, reach, &queries, &mut out).unwrap();
        let [held] = states;
        *state = held;
        out
    }

    #[test]
    fn a_chunk_sees_itself_alone() {
        let got = attend_rows(&mut cache(), 0, 21, Reach::Chunk(CHUNK));
        for start in (0..21).step_by(CHUNK as usize) {
            // The same positions in a cache that has nothing before them.
            let rows = (21 - start).min(CHUNK as usize);
            let compute = Compute::new(1).unwrap();
            let part = start * DIM..(start + rows) * DIM;
            let [queries, keys, values] = [1, 2, 3].map(|s| numbers(s, 21)[part.clone()].to_vec());
            let mut fresh = cache();
            assert!(fresh.reserve(rows as u32));
            let LayerState::Keys(fresh) = &mut fresh else { unreachable!("made so") };
            fresh.append(&keys, &values);
            let mut expected = vec![0.0; rows * DIM];
            let heads = Heads { heads: 1, scale: 0.25, soft_cap: None, window: None, sinks: None };
            let out = &mut expected;
            let piece = Piece { cache: fresh, first: 0, queries: &queries, out };
            attend(&compute, heads, &mut [piece]);
            for (got, expected) in got[part].iter().zip(&expected) {
                assert!((got - expected).abs() < 1e-5, "chunk from {start}: {got} {expected}");
            }
        }
    }

    #[test]
    fn chunks_of_positions_do_not_depend_on_chunks_of_the_prompt() {
        let whole = attend_rows(&mut cache(), 0, 21, Reach::Chunk(CHUNK));
        let mut state = cache();
        let mut parts = Vec::new();
        for (first, count) in [(0, 3), (3, 9), (12, 1), (13, 8)] {
            parts.extend(attend_rows(&mut state, first, count, Reach::Chunk(CHUNK)));
        }
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<u32>>();
        assert_eq!(bits(&parts), bits(&whole));
    }

    #[test]
    fn temperature_grows_by_steps_of_positions() {
        let compute = Compute::new(1).unwrap();
        let step = Step::new(&compute, &[], vec![span(2, 3)]);
        let mut queries = [1.0f32; 3];
        Temperature { floor: 4.0, scale: 0.1, offset: 1 }.warm(&step, &mut queries);
        let warm = 1.0 + 0.1 * 2f32.ln();
        assert_eq!(queries[0], 1.0);
        assert!((queries[1] - warm).abs() < 1e-6 && queries[1] == queries[2]);
    }
}
