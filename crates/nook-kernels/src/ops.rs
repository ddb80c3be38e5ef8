//! The kernels as candle operations, on f32 tensors of rows.
//!
//! A model family is written on candle tensors and calls these functions. On the CPU device each is
//! a `CustomOp` over the kernels of this crate. On other devices candle says that the operation has
//! no implementation there; candle's own quantised kernels take their place in a later step.
//!
//! Inputs must be contiguous (they are, when they come from these functions); others are refused.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Error, Layout, Result, Shape, Tensor, bail};

use crate::attention::{Queries, attend};
use crate::cache::LayerCache;
use crate::compute::Compute;
use crate::matrix::Matrix;
use crate::rope::{RopeTable, rotate};
use crate::vector::{rms_normed, silu_times};

/// `(n, columns)` times the matrix: `(n, rows)`.
pub fn multiply(x: &Tensor, matrix: &Matrix, compute: &Compute) -> Result<Tensor> {
    x.apply_op1_no_bwd(&Multiply { matrix, compute })
}

/// Root mean square norm of each row of `(n, width)`.
pub fn rms_norm(x: &Tensor, weight: &[f32], epsilon: f32, compute: &Compute) -> Result<Tensor> {
    x.apply_op1_no_bwd(&RmsNorm { weight, epsilon, compute })
}

/// Turns the heads of `(n, heads * head_dim)` by the positions of `table`.
pub fn rope(x: &Tensor, table: &RopeTable, head_dim: usize, compute: &Compute) -> Result<Tensor> {
    x.apply_op1_no_bwd(&Turn { table, head_dim, compute })
}

/// `silu(gate) * up`.
pub fn silu_mul(gate: &Tensor, up: &Tensor, compute: &Compute) -> Result<Tensor> {
    gate.apply_op2_no_bwd(up, &SiluTimes { compute })
}

/// Attention of queries `(n, heads * head_dim)` over `cache`, which holds their keys and values.
pub fn attention(
    queries: &Tensor,
    cache: &LayerCache,
    shape: Queries,
    compute: &Compute,
) -> Result<Tensor> {
    queries.apply_op1_no_bwd(&Attend { cache, shape, compute })
}

/// The numbers of a contiguous f32 tensor on the CPU, without a copy, given to `read`.
pub fn with_numbers<R>(x: &Tensor, read: impl FnOnce(&[f32]) -> R) -> Result<R> {
    let (storage, layout) = x.storage_and_layout();
    match &*storage {
        candle_core::Storage::Cpu(storage) => Ok(read(numbers(storage, layout)?)),
        _ => bail!("a tensor on the CPU is needed here"),
    }
}

struct Multiply<'a> {
    matrix: &'a Matrix,
    compute: &'a Compute,
}

struct RmsNorm<'a> {
    weight: &'a [f32],
    epsilon: f32,
    compute: &'a Compute,
}

struct Turn<'a> {
    table: &'a RopeTable,
    head_dim: usize,
    compute: &'a Compute,
}

struct SiluTimes<'a> {
    compute: &'a Compute,
}

struct Attend<'a> {
    cache: &'a LayerCache,
    shape: Queries,
    compute: &'a Compute,
}

impl CustomOp1 for Multiply<'_> {
    fn name(&self) -> &'static str {
        "nook-multiply"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (n, _) = layout.shape().dims2()?;
        let out =
            self.matrix.multiply(self.compute, numbers(storage, layout)?).map_err(Error::wrap)?;
        Ok((CpuStorage::F32(out), (n, self.matrix.rows()).into()))
    }
}

impl CustomOp1 for RmsNorm<'_> {
    fn name(&self) -> &'static str {
        "nook-rms-norm"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (_, width) = layout.shape().dims2()?;
        if width != self.weight.len() {
            bail!("rows of {width} for a norm of {}", self.weight.len());
        }
        let x = numbers(storage, layout)?;
        let out = rms_normed(self.compute.isa(), x, self.weight, self.epsilon);
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }
}

impl CustomOp1 for Turn<'_> {
    fn name(&self) -> &'static str {
        "nook-rope"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (n, width) = layout.shape().dims2()?;
        if n != self.table.positions()
            || self.head_dim == 0
            || !width.is_multiple_of(self.head_dim)
            || 2 * self.table.pairs() > self.head_dim
        {
            bail!("rows of {width} do not fit the turns of heads of {}", self.head_dim);
        }
        let mut out = numbers(storage, layout)?.to_vec();
        let heads = width / self.head_dim;
        let (pairs, turns) = (self.table.pairs(), self.table.turns());
        rotate(self.compute.isa(), &mut out, heads, self.head_dim, pairs, turns);
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }
}

impl CustomOp2 for SiluTimes<'_> {
    fn name(&self) -> &'static str {
        "nook-silu-times"
    }

    fn cpu_fwd(
        &self,
        gate: &CpuStorage,
        gate_layout: &Layout,
        up: &CpuStorage,
        up_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        if gate_layout.shape() != up_layout.shape() {
            bail!("gate {:?} and up {:?}", gate_layout.shape(), up_layout.shape());
        }
        let mut out = numbers(gate, gate_layout)?.to_vec();
        silu_times(self.compute.isa(), &mut out, numbers(up, up_layout)?);
        Ok((CpuStorage::F32(out), gate_layout.shape().clone()))
    }
}

impl CustomOp1 for Attend<'_> {
    fn name(&self) -> &'static str {
        "nook-attention"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let queries = numbers(storage, layout)?;
        match attend(self.compute, self.cache, self.shape, queries) {
            Some(out) => Ok((CpuStorage::F32(out), layout.shape().clone())),
            None => bail!("queries {:?} do not fit {:?}", layout.shape(), self.cache),
        }
    }
}

fn numbers<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let Some((start, end)) = layout.contiguous_offsets() else {
        bail!("a contiguous tensor is needed here");
    };
    let all = storage.as_slice::<f32>()?;
    match all.get(start..end) {
        Some(numbers) => Ok(numbers),
        None => bail!("a tensor of {} numbers lies past the {}", end, all.len()),
    }
}
