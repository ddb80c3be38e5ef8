//! Inputs of layers by token on a GPU: see [`crate::parts::LayerInputs`].

use nook_gpu::{Buffer, Columns, Each};

use super::recorder::Recorder;
use super::step::GpuStep;
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::{Broken, LayerInput, LayerInputs};

impl LayerInputs<OnGpu> {
    /// The rows of the tokens `ids` (n), whose embeddings are `embedded` (n, hidden), into `out`
    /// (n, layers * width).
    pub(super) fn on_gpu(
        &self,
        ids: &Buffer,
        embedded: &Buffer,
        n: usize,
        out: &Buffer,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let count = n * self.projection.matrix.rows();
        recorder.forward_all(embedded, n, &[(&self.projection, out)])?;
        recorder.commands.each(out, count, 1, Each::Scale(self.scale))?;
        recorder.norm_in_place(&self.norm, out, count)?;
        let rows = recorder.buffers.spare.sized(recorder.gpu, count)?;
        recorder.commands.lookup(&self.table, ids, n, self.table_scale, &rows)?;
        recorder.commands.each(out, count, 1, Each::Add(&rows, 1.0))?;
        Ok(recorder.commands.each(out, count, 1, Each::Scale(self.sum_scale))?)
    }
}

impl LayerInput<OnGpu> {
    /// What the layer makes of its row of each position with hidden states `x` (n, hidden), into
    /// `result` (n, hidden).
    pub(super) fn on_gpu(
        &self,
        x: &Buffer,
        result: &Buffer,
        step: &GpuStep<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let (n, count) = (step.rows(), step.rows() * self.width);
        let (all, stride) =
            step.inputs.as_ref().ok_or_else(|| Broken::new("no input for a layer"))?;
        let gates = recorder.buffers.gate.sized(recorder.gpu, count)?;
        recorder.forward_all(x, n, &[(&self.gate, &gates)])?;
        let inputs = recorder.buffers.up.sized(recorder.gpu, count)?;
        let columns = Columns::new(n, self.width).cut(*stride, self.index * self.width);
        recorder.commands.copy_columns(all, &inputs, columns)?;
        recorder.commands.each(&gates, count, 1, self.activation.times_on_gpu(&inputs))?;
        recorder.forward_all(&gates, n, &[(&self.projection, result)])?;
        recorder.norm_in_place(&self.norm, result, n * self.norm.width as usize)
    }
}
