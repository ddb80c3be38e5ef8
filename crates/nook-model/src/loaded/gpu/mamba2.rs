//! Mamba-2 on a GPU: see [`crate::parts::Mamba2`].

use nook_gpu::{Buffer, Convolution, Each, MambaInput, MambaShape};

use super::recorder::Recorder;
use super::step::{GpuLanes, GpuStep};
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::Mamba2;

impl Mamba2<OnGpu> {
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
        let (channels, inner) = (self.channels(), self.inner());
        let gates = recorder.buffers.gate.sized(gpu, n * inner)?;
        let inputs = recorder.buffers.query.sized(gpu, n * channels)?;
        let steps = recorder.buffers.key.sized(gpu, n * self.heads)?;
        let all = [(&self.gate, &*gates), (&self.mixed, &*inputs), (&self.step, &*steps)];
        recorder.forward_all(x, n, &all)?;
        let convolved = recorder.buffers.up.sized(gpu, n * channels)?;
        let read = recorder.buffers.mixed.sized(gpu, n * inner)?;
        let convolution = Convolution {
            channels,
            taps: self.kernel,
            weights: &self.convolution,
            bias: self.convolution_bias.as_ref(),
            silu: true,
        };
        let shape = MambaShape {
            heads: self.heads,
            dim: self.dim,
            groups: self.groups,
            places: self.places,
            state_at: convolution.history(),
        };
        let matrices = inner * self.places;
        for span in &step.spans {
            let rows = (span.rows.start, span.rows.len());
            let (before, after) = lanes.fading(span.lane)?.advance(span.first, rows.1 as u32)?;
            let commands = &mut recorder.commands;
            commands.convolve(convolution, &inputs, &before, rows, &convolved)?;
            commands.keep_inputs(convolution, &inputs, &before, rows, &after)?;
            commands.copy(&before, shape.state_at, &after, shape.state_at, matrices)?;
            let input = MambaInput {
                convolved: &convolved,
                steps: &steps,
                bias: &self.step_bias,
                decay: &self.decay,
                skip: &self.skip,
            };
            commands.mamba(shape, input, rows, &after, &read)?;
            recorder.count(2 * (rows.1 * matrices) as u64)?;
        }
        // The gate comes before the norm, whose groups are those of the heads.
        recorder.commands.each(&gates, n * inner, 1, Each::SiluTimes(&read))?;
        let (width, epsilon) = (inner / self.groups, self.epsilon);
        let norm = nook_gpu::Norm { width, epsilon, layer: false, weight: None, bias: None };
        recorder.commands.norm_in_place(&gates, norm, n * self.groups)?;
        recorder.commands.each(&gates, n * inner, inner, Each::TimesRow(&self.norm))?;
        recorder.forward_all(&gates, n, &[(&self.output, out)])
    }
}
