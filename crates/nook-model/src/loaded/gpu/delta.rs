//! The gated delta net on a GPU: see [`crate::parts::GatedDelta`].

use nook_gpu::{Buffer, Convolution, DeltaInput, DeltaShape, Each};

use super::recorder::Recorder;
use super::step::{GpuLanes, GpuStep};
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::{GatedDelta, KeyHeads};

impl GatedDelta<OnGpu> {
    /// Rows `x` (n, hidden) into `out` (n, hidden); the states of their sessions advance.
    pub(super) fn on_gpu(
        &self,
        x: &Buffer,
        out: &Buffer,
        step: &GpuStep<'_>,
        lanes: &mut GpuLanes<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let (n, gpu) = (step.rows(), recorder.gpu);
        let (heads, values) = (self.value_heads, self.value_heads * self.dim);
        let shape = DeltaShape {
            key_heads: self.key_heads,
            value_heads: heads,
            grouped: self.sharing == KeyHeads::Grouped,
            dim: self.dim,
            taps: self.kernel,
        };
        let inputs = recorder.buffers.query.sized(gpu, n * shape.channels())?;
        let gates = recorder.buffers.gate.sized(gpu, n * values)?;
        let betas = recorder.buffers.key.sized(gpu, n * heads)?;
        let alphas = recorder.buffers.value.sized(gpu, n * heads)?;
        let all = [
            (&self.mixed, &*inputs),
            (&self.gate, &*gates),
            (&self.beta, &*betas),
            (&self.alpha, &*alphas),
        ];
        recorder.forward_all(x, n, &all)?;
        let convolved = recorder.buffers.up.sized(gpu, n * shape.channels())?;
        let read = recorder.buffers.mixed.sized(gpu, n * values)?;
        let convolution = Convolution {
            channels: shape.channels(),
            taps: self.kernel,
            weights: &self.convolution,
            bias: None,
            silu: true,
        };
        for span in &step.spans {
            let rows = (span.rows.start, span.rows.len());
            let (before, after) = lanes.fading(span.lane)?.advance(span.first, rows.1 as u32)?;
            let commands = &mut recorder.commands;
            commands.convolve(convolution, &inputs, &before, rows, &convolved)?;
            commands.keep_inputs(convolution, &inputs, &before, rows, &after)?;
            let (history, state) = (shape.history(), shape.state());
            commands.copy(&before, history, &after, history, state - history)?;
            let input = DeltaInput {
                convolved: &convolved,
                betas: &betas,
                alphas: &alphas,
                bias: &self.step_bias,
                decay: &self.decay,
                epsilon: self.epsilon,
            };
            commands.delta(shape, input, rows, &after, &read)?;
            recorder.count(2 * (rows.1 * (state - history)) as u64)?;
        }
        recorder.norm_in_place(&self.norm, &read, n * values)?;
        recorder.commands.each(&gates, n * values, 1, Each::SiluTimes(&read))?;
        recorder.forward_all(&gates, n, &[(&self.output, out)])
    }
}
