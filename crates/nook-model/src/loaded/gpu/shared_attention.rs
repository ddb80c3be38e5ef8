//! Attention over another layer's keys and values on a GPU: see [`crate::parts::SharedAttention`].

use nook_gpu::Buffer;

use super::attention::{Scoring, mix};
use super::recorder::Recorder;
use super::step::{GpuLanes, GpuStep, Turned};
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::{Broken, SharedAttention};

impl SharedAttention<OnGpu> {
    /// Rows `x` (n, hidden) into `out` (n, hidden).
    pub(super) fn on_gpu(
        &self,
        x: &Buffer,
        out: &Buffer,
        step: &GpuStep<'_>,
        lanes: &mut GpuLanes<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let (n, width) = (step.rows(), self.query.matrix.rows());
        let queries = recorder.buffers.query.sized(recorder.gpu, n * width)?;
        recorder.forward_all(x, n, &[(&self.query, &queries)])?;
        if let Some(norm) = &self.query_norm {
            recorder.norm_in_place(norm, &queries, n * width)?;
        }
        if let Some(turn) = self.turn {
            let turned = Turned { heads: self.heads, head_dim: self.head_dim, offset: 0 };
            step.turn(recorder, &queries, turn, turned)?;
        }
        lanes.pass_by(step)?;
        let scoring = Scoring {
            heads: self.heads,
            value_dim: self.head_dim,
            scale: self.scale,
            soft_cap: None,
            reach: self.reach,
            sinks: None,
        };
        let own = lanes.slot;
        let read = own.checked_sub(self.distance as usize);
        lanes.slot = read.ok_or_else(|| Broken::new("the layer to read is not of this part"))?;
        let done = mix(&queries, scoring, step, lanes, recorder);
        lanes.slot = own;
        let mixed = done?;
        recorder.forward_all(&mixed, n, &[(&self.output, out)])
    }
}
