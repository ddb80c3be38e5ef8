//! The gated short convolution on a GPU: see [`crate::parts::ShortConv`].

use nook_gpu::{Buffer, Convolution, Each};

use super::recorder::Recorder;
use super::step::{GpuLanes, GpuStep};
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::ShortConv;

impl ShortConv<OnGpu> {
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
        let count = n * self.hidden;
        let inputs = recorder.buffers.query.sized(gpu, count)?;
        let entry = recorder.buffers.key.sized(gpu, count)?;
        let exit = recorder.buffers.value.sized(gpu, count)?;
        let all = [(&self.entry_gate, &*entry), (&self.exit_gate, &*exit), (&self.input, &*inputs)];
        recorder.forward_all(x, n, &all)?;
        recorder.commands.each(&inputs, count, 1, Each::Times(&entry))?;
        let convolved = recorder.buffers.mixed.sized(gpu, count)?;
        let convolution = Convolution {
            channels: self.hidden,
            taps: self.kernel,
            weights: &self.convolution,
            bias: None,
            silu: false,
        };
        for span in &step.spans {
            let rows = (span.rows.start, span.rows.len());
            let (before, after) = lanes.fading(span.lane)?.advance(span.first, rows.1 as u32)?;
            let commands = &mut recorder.commands;
            commands.convolve(convolution, &inputs, &before, rows, &convolved)?;
            commands.keep_inputs(convolution, &inputs, &before, rows, &after)?;
        }
        recorder.commands.each(&convolved, count, 1, Each::Times(&exit))?;
        recorder.forward_all(&convolved, n, &[(&self.output, out)])
    }
}
