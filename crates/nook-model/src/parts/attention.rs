//! Causal self-attention with rotary positions and shared key-value heads (Ainslie et al. 2023).

use candle_core::{Result, Tensor, bail};
use nook_kernels::attention::Queries;
use nook_kernels::{LayerCache, Matrix, ops};

use crate::family::Step;

/// Attention of one layer.
#[derive(Debug)]
pub(crate) struct Attention {
    /// (heads * `head_dim`, hidden)
    pub(crate) query: Matrix,
    /// (`kv_heads` * `head_dim`, hidden)
    pub(crate) key: Matrix,
    /// (`kv_heads` * `head_dim`, hidden)
    pub(crate) value: Matrix,
    /// (hidden, heads * `head_dim`)
    pub(crate) output: Matrix,
    /// Query heads.
    pub(crate) heads: usize,
    /// Numbers in a head.
    pub(crate) head_dim: usize,
    /// Factor of the scores.
    pub(crate) scale: f32,
    /// Which of the step's rope tables turns queries and keys.
    pub(crate) rope: usize,
}

impl Attention {
    /// `(n, hidden)` to `(n, hidden)`; keys and values of the `n` positions go into `cache`.
    pub(crate) fn forward(
        &self,
        x: &Tensor,
        step: &Step<'_>,
        cache: &mut LayerCache,
    ) -> Result<Tensor> {
        let compute = step.compute;
        let Some(table) = step.tables.get(self.rope) else {
            bail!("a step without the rope table {}", self.rope);
        };
        let query = ops::multiply(x, &self.query, compute)?; // (n, heads * head_dim)
        let key = ops::multiply(x, &self.key, compute)?; // (n, kv_heads * head_dim)
        let value = ops::multiply(x, &self.value, compute)?; // (n, kv_heads * head_dim)
        let query = ops::rope(&query, table, self.head_dim, compute)?;
        let key = ops::rope(&key, table, self.head_dim, compute)?;
        let written = ops::with_numbers(&key, |key| {
            ops::with_numbers(&value, |value| cache.write(step.first, key, value))
        })??;
        if !written {
            bail!("a cache without room for the step");
        }
        let shape = Queries { heads: self.heads, first: step.first, scale: self.scale };
        let mixed = ops::attention(&query, cache, shape, compute)?; // (n, heads * head_dim)
        ops::multiply(&mixed, &self.output, compute)
    }
}
