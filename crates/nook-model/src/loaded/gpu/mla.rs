//! Multi-head latent attention on a GPU: see [`crate::parts::Mla`].

use std::sync::Arc;

use nook_gpu::{Buffer, Columns, Matrix};

use super::attention::{Scoring, attend};
use super::recorder::Recorder;
use super::step::{GpuLanes, GpuStep, Turned};
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::{LatentForm, Linear, Mla, Reach};

impl Mla<OnGpu> {
    /// Rows `x` (n, hidden) into `out` (n, hidden); what the caches keep of them goes there.
    pub(super) fn on_gpu(
        &self,
        x: &Buffer,
        out: &Buffer,
        step: &GpuStep<'_>,
        lanes: &mut GpuLanes<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let n = step.rows();
        let queries = self.queries(x, step, recorder)?;
        let (small, turned) = self.latents(x, step, recorder)?;
        let scoring = Scoring {
            heads: self.heads,
            value_dim: self.value_dim,
            scale: self.scale,
            soft_cap: None,
            reach: Reach::All,
            sinks: None,
        };
        match &self.form {
            LatentForm::Absorbed { key, value } => {
                let (queries, keys) = self.absorbed(key, &queries, &small, &turned, n, recorder)?;
                let scoring = Scoring { value_dim: self.rank, ..scoring };
                let mixed = attend(&queries, &keys, &small, scoring, step, lanes, recorder)?;
                let wide = n * self.heads * self.value_dim;
                let wide = recorder.buffers.heads.sized(recorder.gpu, wide)?;
                each_head(value, &mixed, self.rank, &wide, self.value_dim, n, recorder)?;
                recorder.forward_all(&wide, n, &[(&self.output, out)])
            }
            LatentForm::Expanded { key, value } => {
                let (keys, values) = self.expanded(key, value, &small, &turned, n, recorder)?;
                let mixed = attend(&queries, &keys, &values, scoring, step, lanes, recorder)?;
                recorder.forward_all(&mixed, n, &[(&self.output, out)])
            }
        }
    }

    /// Queries (n, heads, still + turning), turned.
    fn queries(
        &self,
        x: &Buffer,
        step: &GpuStep<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<Arc<Buffer>, StepError> {
        let (n, gpu) = (step.rows(), recorder.gpu);
        let queries = recorder.buffers.query.sized(gpu, n * self.query.matrix.rows())?;
        match &self.query_down {
            Some((down, norm)) => {
                let count = n * down.matrix.rows();
                let small = recorder.buffers.spare.sized(gpu, count)?;
                recorder.forward_all(x, n, &[(down, &small)])?;
                recorder.norm_in_place(norm, &small, count)?;
                recorder.forward_all(&small, n, &[(&self.query, &queries)])?;
            }
            None => recorder.forward_all(x, n, &[(&self.query, &queries)])?,
        }
        let head_dim = self.still_dim + self.turning_dim;
        let turned = Turned { heads: self.heads, head_dim, offset: self.still_dim };
        step.turn(recorder, &queries, self.turn, turned)?;
        Ok(queries)
    }

    /// The normed small vectors (n, rank) and the shared turned keys (n, turning).
    fn latents(
        &self,
        x: &Buffer,
        step: &GpuStep<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(Arc<Buffer>, Arc<Buffer>), StepError> {
        let (n, gpu) = (step.rows(), recorder.gpu);
        let width = self.rank + self.turning_dim;
        let both = recorder.buffers.gate.sized(gpu, n * width)?;
        recorder.forward_all(x, n, &[(&self.latent, &both)])?;
        let small = recorder.buffers.latent.sized(gpu, n * self.rank)?;
        let turned = recorder.buffers.up.sized(gpu, n * self.turning_dim)?;
        let columns = Columns::new(n, self.rank).cut(width, 0);
        recorder.commands.copy_columns(&both, &small, columns)?;
        let columns = Columns::new(n, self.turning_dim).cut(width, self.rank);
        recorder.commands.copy_columns(&both, &turned, columns)?;
        recorder.norm_in_place(&self.latent_norm, &small, n * self.rank)?;
        let heads = Turned { heads: 1, head_dim: self.turning_dim, offset: 0 };
        step.turn(recorder, &turned, self.turn, heads)?;
        Ok((small, turned))
    }

    /// Queries (n, heads, rank + turning) and keys (n, rank + turning) in the space of the small
    /// vectors.
    fn absorbed(
        &self,
        matrices: &[Matrix],
        queries: &Buffer,
        small: &Buffer,
        turned: &Buffer,
        n: usize,
        recorder: &mut Recorder<'_>,
    ) -> Result<(Arc<Buffer>, Arc<Buffer>), StepError> {
        let (still, turning, rank) = (self.still_dim, self.turning_dim, self.rank);
        let (lines, wide, gpu) = (n * self.heads, rank + turning, recorder.gpu);
        let stills = recorder.buffers.spare.sized(gpu, lines * still)?;
        let columns = Columns::new(lines, still).cut(still + turning, 0);
        recorder.commands.copy_columns(queries, &stills, columns)?;
        let absorbed = recorder.buffers.mixed.sized(gpu, lines * rank)?;
        each_head(matrices, &stills, still, &absorbed, rank, n, recorder)?;
        let joined = recorder.buffers.heads.sized(gpu, lines * wide)?;
        let columns = Columns::new(lines, rank).paste(wide, 0);
        recorder.commands.copy_columns(&absorbed, &joined, columns)?;
        let columns = Columns::new(lines, turning).cut(still + turning, still).paste(wide, rank);
        recorder.commands.copy_columns(queries, &joined, columns)?;
        let keys = recorder.buffers.key.sized(gpu, n * wide)?;
        let columns = Columns::new(n, rank).paste(wide, 0);
        recorder.commands.copy_columns(small, &keys, columns)?;
        let columns = Columns::new(n, turning).paste(wide, rank);
        recorder.commands.copy_columns(turned, &keys, columns)?;
        Ok((joined, keys))
    }

    /// Keys (n, heads, still + turning) and values (n, heads, value) of the small vectors.
    fn expanded(
        &self,
        key: &Linear<OnGpu>,
        value: &Linear<OnGpu>,
        small: &Buffer,
        turned: &Buffer,
        n: usize,
        recorder: &mut Recorder<'_>,
    ) -> Result<(Arc<Buffer>, Arc<Buffer>), StepError> {
        let (still, turning, gpu) = (self.still_dim, self.turning_dim, recorder.gpu);
        let (lines, wide) = (n * self.heads, still + turning);
        let stills = recorder.buffers.spare.sized(gpu, lines * still)?;
        let values = recorder.buffers.value.sized(gpu, lines * self.value_dim)?;
        recorder.forward_all(small, n, &[(key, &stills), (value, &values)])?;
        let keys = recorder.buffers.key.sized(gpu, lines * wide)?;
        let columns = Columns::new(lines, still).paste(wide, 0);
        recorder.commands.copy_columns(&stills, &keys, columns)?;
        // All heads share the turned part of their row.
        let columns = Columns::new(lines, turning).paste(wide, still).repeat(self.heads);
        recorder.commands.copy_columns(turned, &keys, columns)?;
        Ok((keys, values))
    }
}

/// `x` (n, heads, from) into `out` (n, heads, to), each head by a matrix (to, from) of its own.
fn each_head(
    matrices: &[Matrix],
    x: &Buffer,
    from: usize,
    out: &Buffer,
    to: usize,
    n: usize,
    recorder: &mut Recorder<'_>,
) -> Result<(), StepError> {
    let heads = matrices.len();
    let input = recorder.buffers.input.sized(recorder.gpu, n * from)?;
    let output = recorder.buffers.output.sized(recorder.gpu, n * to)?;
    for (head, matrix) in matrices.iter().enumerate() {
        let columns = Columns::new(n, from).cut(heads * from, head * from);
        recorder.commands.copy_columns(x, &input, columns)?;
        recorder.products(&input, n, &[(matrix, &output)])?;
        let columns = Columns::new(n, to).paste(heads * to, head * to);
        recorder.commands.copy_columns(&output, out, columns)?;
    }
    Ok(())
}
