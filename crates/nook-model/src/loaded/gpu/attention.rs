//! Causal self-attention on a GPU: see [`crate::parts::Attention`] for the order of operations.

use std::sync::Arc;

use nook_gpu::{Attend, Buffer, Each, Norm, spare_numbers};

use super::recorder::Recorder;
use super::step::{GpuLanes, GpuStep, Turned};
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::{Attention, Broken, Reach, Temperature};

/// What attention does with the scores of all heads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scoring<'a> {
    pub(super) heads: usize,
    pub(super) value_dim: usize,
    pub(super) scale: f32,
    pub(super) soft_cap: Option<f32>,
    pub(super) reach: Reach,
    /// See [`Attention::sinks`].
    pub(super) sinks: Option<&'a Buffer>,
}

impl Attention<OnGpu> {
    /// Rows `x` (n, hidden) into `out` (n, hidden); their keys and values go into the caches.
    pub(super) fn on_gpu(
        &self,
        x: &Buffer,
        out: &Buffer,
        step: &GpuStep<'_>,
        lanes: &mut GpuLanes<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let (n, gpu) = (step.rows(), recorder.gpu);
        let (query_width, key_width) = (self.query.matrix.rows(), self.key.matrix.rows());
        let queries = recorder.buffers.query.sized(gpu, n * query_width)?;
        let keys = recorder.buffers.key.sized(gpu, n * key_width)?;
        let values = recorder.buffers.value.sized(gpu, n * key_width)?;
        self.project(x, n, [&queries, &keys, &values], recorder)?;
        if let Some(norm) = &self.query_norm {
            recorder.norm_in_place(norm, &queries, n * query_width)?;
        }
        if let Some(norm) = &self.key_norm {
            recorder.norm_in_place(norm, &keys, n * key_width)?;
        }
        let head_dim = self.head_dim;
        if let Some(turn) = self.turn {
            for (x, heads) in [(&queries, self.heads), (&keys, self.kv_heads)] {
                step.turn(recorder, x, turn, Turned { heads, head_dim, offset: 0 })?;
            }
        }
        if let Some(epsilon) = self.turned_norm {
            let norm = self.plain_norm(epsilon);
            recorder.commands.norm_in_place(&queries, norm, n * self.heads)?;
            recorder.commands.norm_in_place(&keys, norm, n * self.kv_heads)?;
        }
        if let Some(temperature) = self.temperature {
            let factors =
                Buffer::of_floats(gpu, "temperatures", &temperature.factors_on_gpu(step))?;
            let each = Each::ScaleRows(&factors);
            recorder.commands.each(&queries, n * query_width, query_width, each)?;
        }
        let scoring = Scoring {
            heads: self.heads,
            value_dim: head_dim,
            scale: self.scale,
            soft_cap: self.soft_cap,
            reach: self.reach,
            sinks: self.sinks.as_ref(),
        };
        let mixed = attend(&queries, &keys, &values, scoring, step, lanes, recorder)?;
        if let Some(gate) = &self.gate {
            let gates = recorder.buffers.gate.sized(gpu, n * gate.matrix.rows())?;
            recorder.forward_all(x, n, &[(gate, &gates)])?;
            let count = n * self.heads * head_dim;
            recorder.commands.each(&mixed, count, 1, Each::SigmoidTimes(&gates))?;
        }
        recorder.forward_all(&mixed, n, &[(&self.output, out)])
    }
}

impl Attention<OnGpu> {
    /// Queries, keys and values of rows `x`, before norms of queries and keys.
    fn project(
        &self,
        x: &Buffer,
        n: usize,
        [queries, keys, values]: [&Buffer; 3],
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let (to_queries, to_keys) = ((&self.query, queries), (&self.key, keys));
        match &self.value {
            Some(value) => {
                recorder.forward_all(x, n, &[to_queries, to_keys, (value, values)])?;
            }
            None => {
                recorder.forward_all(x, n, &[to_queries, to_keys])?;
                recorder.commands.copy(keys, 0, values, 0, n * self.key.matrix.rows())?;
            }
        }
        if let Some(epsilon) = self.value_norm {
            let norm = self.plain_norm(epsilon);
            recorder.commands.norm_in_place(values, norm, n * self.kv_heads)?;
        }
        Ok(())
    }

    /// A norm of each head without weights.
    fn plain_norm(&self, epsilon: f32) -> Norm<'static> {
        Norm { width: self.head_dim, epsilon, layer: false, weight: None, bias: None }
    }
}

impl Temperature {
    /// What the queries of each row are multiplied with.
    fn factors_on_gpu(self, step: &GpuStep<'_>) -> Vec<f32> {
        let positions = step.spans.iter().flat_map(|span| {
            let first = span.first;
            (0..span.rows.len() as u32).map(move |row| first + row)
        });
        positions.map(|position| self.factor(position)).collect()
    }
}

/// Adds keys and values of all rows to the caches of their sessions, and mixes for the queries what
/// those hold: (n, heads, `value_dim`).
pub(super) fn attend(
    queries: &Buffer,
    keys: &Buffer,
    values: &Buffer,
    scoring: Scoring<'_>,
    step: &GpuStep<'_>,
    lanes: &mut GpuLanes<'_>,
    recorder: &mut Recorder<'_>,
) -> Result<Arc<Buffer>, StepError> {
    for span in &step.spans {
        let (first, row, rows) = (span.first as usize, span.rows.start, span.rows.len());
        let cache = lanes.keys(span.lane)?;
        if cache.positions() != first {
            return Err(Broken::new("a cache that does not end where the step begins").into());
        }
        recorder.commands.append(cache.cache()?, first, keys, values, row, rows)?;
        cache.advance(rows);
    }
    mix(queries, scoring, step, lanes, recorder)
}

/// Mixes for the queries of all rows what the caches of their sessions hold, which end with these
/// rows: (n, heads, `value_dim`).
pub(super) fn mix(
    queries: &Buffer,
    scoring: Scoring<'_>,
    step: &GpuStep<'_>,
    lanes: &mut GpuLanes<'_>,
    recorder: &mut Recorder<'_>,
) -> Result<Arc<Buffer>, StepError> {
    let Scoring { heads, value_dim, scale, soft_cap, reach, sinks } = scoring;
    let mixed = recorder.buffers.mixed.sized(recorder.gpu, step.rows() * heads * value_dim)?;
    let shares = recorder.buffers.shares.sized(recorder.gpu, spare_numbers(value_dim))?;
    let reach = match reach {
        Reach::All => nook_gpu::Reach::All,
        Reach::Window(size) => nook_gpu::Reach::Window(size),
        Reach::Chunk(size) => nook_gpu::Reach::Chunk(size),
    };
    for span in &step.spans {
        let (first, row, rows) = (span.first as usize, span.rows.start, span.rows.len());
        let cache = lanes.keys(span.lane)?;
        if cache.positions() != first + rows {
            return Err(Broken::new("a cache that does not end where the step does").into());
        }
        let room = cache.cache()?;
        let attend = Attend { heads, scale, soft_cap, reach, first, row, rows, sinks };
        recorder.commands.attend(queries, room, attend, &shares, &mixed)?;
        let key_dim = room.shape().key_dim;
        let seen = (first + rows) as u64;
        recorder.count((rows * heads * (key_dim + value_dim)) as u64 * seen)?;
    }
    Ok(mixed)
}
