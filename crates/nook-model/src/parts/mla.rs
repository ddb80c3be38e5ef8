//! Multi-head latent attention (DeepSeek-V2, 2024): keys and values come from one small vector for
//! each position, and a part of each key that turns and is shared by all heads.
//!
//! Files hold it in two forms. *Absorbed*: the cache has the small vector itself, as one key-value
//! head, and queries and results are brought to and from its space for each head. *Expanded*: the
//! older form, where keys and values of all heads are made from it and cached as usual.

use nook_kernels::attention::Heads;
use nook_kernels::{Compute, Matrix, Product, Scratch, multiply};

use super::attention::{mix, remember};
use super::linear::forward_all;
use super::{Broken, Buffers, Lanes, Linear, Norm, Reach, StateShape, Step, Turn, sized};
use crate::error::Fault;
use crate::weights::{Held, Named, Part, Source, Weights};

/// Latent attention of one layer.
#[derive(Debug)]
pub(crate) struct Mla<W: Weights> {
    /// Where queries are made in two steps: (`query_rank`, hidden) and the norm of what comes out.
    pub(crate) query_down: Option<(Linear<W>, Norm<W>)>,
    /// (heads * (`still_dim` + `turning_dim`), hidden or `query_rank`)
    pub(crate) query: Linear<W>,
    /// (rank + `turning_dim`, hidden)
    pub(crate) latent: Linear<W>,
    /// Of the first `rank` numbers.
    pub(crate) latent_norm: Norm<W>,
    pub(crate) form: LatentForm<W>,
    /// (hidden, heads * `value_dim`)
    pub(crate) output: Linear<W>,
    pub(crate) heads: usize,
    /// Numbers of a head's query and key that do not turn.
    pub(crate) still_dim: usize,
    /// Numbers that turn; they follow the others.
    pub(crate) turning_dim: usize,
    /// Numbers of a head's value.
    pub(crate) value_dim: usize,
    /// Numbers of the small vector.
    pub(crate) rank: usize,
    pub(crate) scale: f32,
    pub(crate) turn: Turn,
}

/// How keys and values come from the small vector.
#[derive(Debug)]
pub(crate) enum LatentForm<W: Weights> {
    Absorbed {
        /// For each head (rank, `still_dim`).
        key: W::Stack,
        /// For each head (`value_dim`, rank).
        value: W::Stack,
    },
    Expanded {
        /// (heads * `still_dim`, rank)
        key: Linear<W>,
        /// (heads * `value_dim`, rank)
        value: Linear<W>,
    },
}

impl<W: Weights> Mla<W> {
    /// What a session remembers.
    pub(crate) fn state(&self) -> StateShape {
        match self.form {
            LatentForm::Absorbed { .. } => StateShape::Keys {
                kv_heads: 1,
                key_dim: self.rank + self.turning_dim,
                value_dim: self.rank,
            },
            LatentForm::Expanded { .. } => StateShape::Keys {
                kv_heads: self.heads,
                key_dim: self.still_dim + self.turning_dim,
                value_dim: self.value_dim,
            },
        }
    }
}

impl Part for Mla<Named> {
    type With<W: Weights> = Mla<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<Mla<S::Into>, Fault> {
        let query_down = match &self.query_down {
            Some((down, norm)) => Some((down.read(source)?, norm.read(source)?)),
            None => None,
        };
        Ok(Mla {
            query_down,
            query: self.query.read(source)?,
            latent: self.latent.read(source)?,
            latent_norm: self.latent_norm.read(source)?,
            form: match &self.form {
                LatentForm::Absorbed { key, value } => {
                    LatentForm::Absorbed { key: source.stack(key)?, value: source.stack(value)? }
                }
                LatentForm::Expanded { key, value } => {
                    LatentForm::Expanded { key: key.read(source)?, value: value.read(source)? }
                }
            },
            output: self.output.read(source)?,
            heads: self.heads,
            still_dim: self.still_dim,
            turning_dim: self.turning_dim,
            value_dim: self.value_dim,
            rank: self.rank,
            scale: self.scale,
            turn: self.turn,
        })
    }
}

impl Mla<Held> {
    /// Rows `x` (n, hidden) into `out` (n, hidden); what the caches keep of them goes there.
    pub(crate) fn forward(
        &self,
        x: &[f32],
        out: &mut [f32],
        step: &Step<'_>,
        lanes: &mut Lanes<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        self.project(x, step, buffers)?;
        match &self.form {
            LatentForm::Absorbed { key, .. } => self.absorb(key, step, buffers)?,
            LatentForm::Expanded { key, value } => self.expand(key, value, step, buffers)?,
        }
        let n = step.rows();
        let StateShape::Keys { kv_heads, key_dim, value_dim } = self.state() else {
            return Err(Broken::new("latent attention without keys"));
        };
        let Buffers { scratch, query, key, value, mixed, spare, latent, .. } = buffers;
        let keys = sized(key, n * kv_heads * key_dim);
        let values = sized(value, n * kv_heads * value_dim);
        remember(step, lanes, keys, values)?;
        let (heads, scale) = (self.heads, self.scale);
        let heads = Heads { heads, scale, soft_cap: None, window: None, sinks: None };
        let queries = sized(query, n * self.heads * key_dim);
        let mut result = sized(mixed, n * self.heads * value_dim);
        mix(step, lanes, heads, Reach::All, queries, result)?;
        if let LatentForm::Absorbed { value, .. } = &self.form {
            let wide = sized(spare, n * self.heads * self.value_dim);
            let between = Between { from: self.rank, to: self.value_dim, heads: self.heads };
            between.each_head(step.compute, scratch, value, result, wide, latent)?;
            result = wide;
        }
        self.output.forward(step.compute, scratch, result, out)
    }

    /// Queries (n, heads, still + turning) into `query`, the normed small vectors (n, rank) into
    /// `latent`, the shared turning keys (n, turning) into `up`.
    fn project(&self, x: &[f32], step: &Step<'_>, buffers: &mut Buffers) -> Result<(), Broken> {
        let (n, compute) = (step.rows(), step.compute);
        let Buffers { scratch, query, gate, up, spare, latent, mixed, .. } = buffers;
        let queries = sized(query, n * self.query.rows());
        let both = sized(gate, n * self.latent.rows());
        match &self.query_down {
            Some((down, norm)) => {
                let small = sized(spare, n * down.rows());
                forward_all(
                    compute,
                    scratch,
                    x,
                    [(down, &mut *small), (&self.latent, &mut *both)],
                )?;
                let normed = sized(mixed, small.len());
                norm.forward(compute, small, normed);
                self.query.forward(compute, scratch, normed, queries)?;
            }
            None => {
                let all = [(&self.query, &mut *queries), (&self.latent, &mut *both)];
                forward_all(compute, scratch, x, all)?;
            }
        }
        let raw = sized(spare, n * self.rank);
        let turning = sized(up, n * self.turning_dim);
        let width = self.rank + self.turning_dim;
        for (row, both) in both.chunks_exact(width).enumerate() {
            raw[row * self.rank..][..self.rank].copy_from_slice(&both[..self.rank]);
            turning[row * self.turning_dim..][..self.turning_dim]
                .copy_from_slice(&both[self.rank..]);
        }
        self.latent_norm.forward(compute, raw, sized(latent, n * self.rank));
        let turns = step.turns.get(self.turn.rope).ok_or_else(|| Broken::new("no such rope"))?;
        let head_dim = self.still_dim + self.turning_dim;
        let layout = self.turn.layout;
        turns.turn(compute, queries, self.heads, head_dim, self.still_dim, layout);
        turns.turn(compute, turning, 1, self.turning_dim, 0, layout);
        Ok(())
    }

    /// Brings queries to the space of the small vectors: queries (n, heads, rank + turning), keys
    /// (n, rank + turning), values (n, rank).
    fn absorb(
        &self,
        matrices: &[Matrix],
        step: &Step<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        let n = step.rows();
        let Buffers { scratch, query, key, value, gate, up, spare, latent, mixed, .. } = buffers;
        let (still, turning, rank) = (self.still_dim, self.turning_dim, self.rank);
        let head_dim = still + turning;
        let own = sized(query, n * self.heads * head_dim);
        let still_only = sized(gate, n * self.heads * still);
        for (from, to) in own.chunks_exact(head_dim).zip(still_only.chunks_exact_mut(still)) {
            to.copy_from_slice(&from[..still]);
        }
        let absorbed = sized(mixed, n * self.heads * rank);
        let between = Between { from: still, to: rank, heads: self.heads };
        between.each_head(step.compute, scratch, matrices, still_only, absorbed, spare)?;
        let joined = sized(spare, n * self.heads * (rank + turning));
        let heads = own.chunks_exact(head_dim).zip(absorbed.chunks_exact(rank));
        for ((own, absorbed), to) in heads.zip(joined.chunks_exact_mut(rank + turning)) {
            to[..rank].copy_from_slice(absorbed);
            to[rank..].copy_from_slice(&own[still..]);
        }
        std::mem::swap(query, spare);
        let small = sized(latent, n * rank);
        let turned = sized(up, n * turning);
        let rows = small.chunks_exact(rank).zip(turned.chunks_exact(turning));
        let keys = sized(key, n * (rank + turning)).chunks_exact_mut(rank + turning);
        for ((small, turned), to) in rows.zip(keys) {
            to[..rank].copy_from_slice(small);
            to[rank..].copy_from_slice(turned);
        }
        sized(value, n * rank).copy_from_slice(small);
        Ok(())
    }

    /// Makes keys (n, heads, still + turning) and values (n, heads, value) of the small vectors.
    fn expand(
        &self,
        key_part: &Linear<Held>,
        value_part: &Linear<Held>,
        step: &Step<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        let n = step.rows();
        let Buffers { scratch, key, value, up, spare, latent, .. } = buffers;
        let (still, turning) = (self.still_dim, self.turning_dim);
        let small = sized(latent, n * self.rank);
        let stills = sized(spare, n * key_part.rows());
        let values = sized(value, n * value_part.rows());
        let all = [(key_part, &mut *stills), (value_part, values)];
        forward_all(step.compute, scratch, small, all)?;
        let keys = sized(key, n * self.heads * (still + turning));
        let turned = sized(up, n * turning);
        let heads = stills.chunks_exact(still).zip(keys.chunks_exact_mut(still + turning));
        for (index, (from, to)) in heads.enumerate() {
            let row = index / self.heads;
            to[..still].copy_from_slice(from);
            to[still..].copy_from_slice(&turned[row * turning..(row + 1) * turning]);
        }
        Ok(())
    }
}

/// A matrix for each head, from heads of one width to heads of another.
struct Between {
    from: usize,
    to: usize,
    heads: usize,
}

impl Between {
    /// `x` (n, heads, from) into `out` (n, heads, to), by way of `buffer`.
    fn each_head(
        &self,
        compute: &Compute,
        scratch: &mut Scratch,
        matrices: &[Matrix],
        x: &[f32],
        out: &mut [f32],
        buffer: &mut Vec<f32>,
    ) -> Result<(), Broken> {
        let n = x.len() / (self.heads * self.from);
        let (input, output) = sized(buffer, n * (self.from + self.to)).split_at_mut(n * self.from);
        for (head, matrix) in matrices.iter().enumerate() {
            for (row, input) in input.chunks_exact_mut(self.from).enumerate() {
                let at = (row * self.heads + head) * self.from;
                input.copy_from_slice(&x[at..at + self.from]);
            }
            multiply(compute, scratch, input, &mut [Product { matrix, out: &mut *output }])?;
            for (row, output) in output.chunks_exact(self.to).enumerate() {
                let at = (row * self.heads + head) * self.to;
                out[at..at + self.to].copy_from_slice(output);
            }
        }
        Ok(())
    }
}
