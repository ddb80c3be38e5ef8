//! Grouped-query attention over the whole prompt (Vaswani et al.,
//! <https://arxiv.org/abs/1706.03762>; Ainslie et al., <https://arxiv.org/abs/2305.13245>).

use super::Rows;
use super::model::{Model, half};

/// Shape and constants of one attention layer.
#[derive(Clone, Copy)]
pub(super) struct Attention {
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) key_dim: usize,
    pub(super) value_dim: usize,
    /// What scores are multiplied by.
    pub(super) scale: f64,
    /// Scores are `cap * tanh(score / cap)`.
    pub(super) cap: Option<f64>,
    /// A position sees itself and as many before it as to make this.
    pub(super) window: Option<usize>,
}

impl Attention {
    /// The usual shape: heads as the file says, as wide as hidden states divided among them if it
    /// does not, scores over the root of the width.
    pub(super) fn of(model: &Model) -> Self {
        let kv_heads = model.number("attention.head_count_kv");
        Self::with_kv_heads(model, kv_heads.unwrap_or_else(|| model.size("attention.head_count")))
    }

    /// As [`Self::of`], in a layer with so many key-value heads.
    pub(super) fn with_kv_heads(model: &Model, kv_heads: usize) -> Self {
        let heads = model.size("attention.head_count");
        let share = model.size("embedding_length") / heads;
        let key_dim = model.number("attention.key_length").unwrap_or(share);
        Self {
            heads,
            kv_heads,
            key_dim,
            value_dim: model.number("attention.value_length").unwrap_or(share),
            scale: 1.0 / (key_dim as f64).sqrt(),
            cap: None,
            window: None,
        }
    }

    /// Mixes `values` for each head of each query: (positions, heads * value_dim).
    pub(super) fn mix(&self, model: &Model, queries: &Rows, keys: &Rows, values: &Rows) -> Rows {
        self.mix_beside(model, None, queries, keys, values)
    }

    /// As [`Self::mix`], where each head has a score that takes its share and brings no value.
    pub(super) fn mix_beside(
        &self,
        model: &Model,
        sinks: Option<&[f64]>,
        queries: &Rows,
        keys: &Rows,
        values: &Rows,
    ) -> Rows {
        let (keys, values) = match model.numerics.half_cache {
            true => (halved(keys), halved(values)),
            false => (keys.clone(), values.clone()),
        };
        let row = |(position, query): (usize, &Vec<f64>)| {
            assert_eq!(query.len(), self.heads * self.key_dim);
            let first = self.window.map_or(0, |window| (position + 1).saturating_sub(window));
            let mut out = Vec::new();
            for (head, query) in query.chunks_exact(self.key_dim).enumerate() {
                let group = head / (self.heads / self.kv_heads);
                out.extend(self.mix_head(
                    query,
                    group,
                    &keys[first..=position],
                    &values[first..=position],
                    sinks.map(|sinks| sinks[head]),
                ));
            }
            out
        };
        queries.iter().enumerate().map(row).collect()
    }

    fn mix_head(
        &self,
        query: &[f64],
        group: usize,
        keys: &[Vec<f64>],
        values: &[Vec<f64>],
        sink: Option<f64>,
    ) -> Vec<f64> {
        let score = |key: &Vec<f64>| {
            let key = &key[group * self.key_dim..][..self.key_dim];
            let score = key.iter().zip(query).map(|(k, q)| k * q).sum::<f64>() * self.scale;
            self.cap.map_or(score, |cap| cap * (score / cap).tanh())
        };
        let weights = softmax(&keys.iter().map(score).chain(sink).collect::<Vec<_>>());
        let mut out = vec![0.0; self.value_dim];
        for (weight, value) in weights.iter().zip(values) {
            let value = &value[group * self.value_dim..][..self.value_dim];
            out.iter_mut().zip(value).for_each(|(out, value)| *out += weight * value);
        }
        out
    }
}

pub(super) fn softmax(x: &[f64]) -> Vec<f64> {
    let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let parts: Vec<f64> = x.iter().map(|x| (x - most).exp()).collect();
    let total: f64 = parts.iter().sum();
    parts.iter().map(|part| part / total).collect()
}

fn halved(rows: &Rows) -> Rows {
    rows.iter().map(|row| row.iter().map(|x| half(*x)).collect()).collect()
}
