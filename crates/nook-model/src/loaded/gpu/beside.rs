//! A dense layer beside a mixture on a GPU: see [`crate::parts::DenseBesideMixture`].

use nook_gpu::{Buffer, Each};

use super::recorder::Recorder;
use super::step::GpuStep;
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::DenseBesideMixture;

impl DenseBesideMixture<OnGpu> {
    /// Rows `x` (n, hidden) into `out` (n, hidden).
    pub(super) fn on_gpu(
        &self,
        x: &Buffer,
        out: &Buffer,
        step: &GpuStep<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let (n, count) = (step.rows(), step.rows() * self.dense_norm.width as usize);
        let [input, routed, dense] = &mut recorder.buffers.branches;
        let input = input.sized(recorder.gpu, count)?;
        let routed = routed.sized(recorder.gpu, count)?;
        let dense = dense.sized(recorder.gpu, count)?;
        recorder.norm(&self.dense_norm, x, count, &input)?;
        self.dense.on_gpu(&input, n, &dense, recorder)?;
        recorder.norm_in_place(&self.dense_post_norm, &dense, count)?;
        recorder.norm(&self.router_norm, x, count, &routed)?;
        recorder.commands.each(&routed, count, 1, Each::Scale(self.router_scale))?;
        recorder.norm(&self.mixture_norm, x, count, &input)?;
        self.mixture.on_gpu_chosen(&routed, &input, out, step, recorder)?;
        recorder.norm_in_place(&self.mixture_post_norm, out, count)?;
        Ok(recorder.commands.each(out, count, 1, Each::Add(&dense, 1.0))?)
    }
}
