//! One transformer layer on a GPU: see [`crate::parts::Block`].

use std::sync::Arc;

use nook_gpu::{Buffer, Each};

use super::recorder::Recorder;
use super::step::{GpuLanes, GpuStep};
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::{Block, Broken, FeedForward, Mixer, Norm};

impl Block<OnGpu> {
    /// Takes rows `x` (n, hidden) through the layer, in place.
    pub(super) fn on_gpu(
        &self,
        x: &Arc<Buffer>,
        hidden: usize,
        step: &GpuStep<'_>,
        lanes: &mut GpuLanes<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let count = step.rows() * hidden;
        match &self.mixer {
            Some(mixer) => self.mix(mixer, x, count, step, lanes, recorder)?,
            None => lanes.pass_by(step)?,
        }
        if let Some(feed_forward) = &self.feed_forward {
            self.feed(feed_forward, x, count, step, recorder)?;
        }
        if let Some(input) = &self.layer_input {
            let made = recorder.buffers.result.sized(recorder.gpu, count)?;
            input.on_gpu(x, &made, step, recorder)?;
            recorder.commands.each(x, count, 1, Each::Add(&made, 1.0))?;
        }
        if let Some(scale) = self.output_scale.as_ref().and_then(|scale| scale.first()) {
            recorder.commands.each(x, count, 1, Each::Scale(*scale))?;
        }
        Ok(())
    }

    /// Takes rows `x` (n, hidden), of `count` numbers in all, through the feed-forward part.
    fn feed(
        &self,
        feed_forward: &FeedForward<OnGpu>,
        x: &Arc<Buffer>,
        count: usize,
        step: &GpuStep<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let n = step.rows();
        let result = recorder.buffers.result.sized(recorder.gpu, count)?;
        let input = recorder.entry(self.feed_forward_norm.as_ref(), x, count)?;
        match feed_forward {
            FeedForward::Gated(part) => part.on_gpu(&input, n, &result, recorder)?,
            FeedForward::Plain(part) => part.on_gpu(&input, n, &result, recorder)?,
            FeedForward::Mixture(part) => part.on_gpu(&input, &result, step, recorder)?,
            FeedForward::Beside(part) => part.on_gpu(&input, &result, step, recorder)?,
        }
        self.join(self.post_feed_forward_norm.as_ref(), x, &result, count, recorder)
    }

    /// Mixes the positions of rows `x` (n, hidden), of `count` numbers in all, in place.
    fn mix(
        &self,
        mixer: &Mixer<OnGpu>,
        x: &Arc<Buffer>,
        count: usize,
        step: &GpuStep<'_>,
        lanes: &mut GpuLanes<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let result = recorder.buffers.result.sized(recorder.gpu, count)?;
        let input = recorder.entry(self.attention_norm.as_ref(), x, count)?;
        match mixer {
            Mixer::Attention(part) => part.on_gpu(&input, &result, step, lanes, recorder)?,
            Mixer::Latent(part) => part.on_gpu(&input, &result, step, lanes, recorder)?,
            Mixer::Delta(part) => part.on_gpu(&input, &result, step, lanes, recorder)?,
            Mixer::Mamba(part) => part.on_gpu(&input, &result, step, lanes, recorder)?,
            Mixer::Convolution(part) => part.on_gpu(&input, &result, step, lanes, recorder)?,
            Mixer::Shared(part) => part.on_gpu(&input, &result, step, lanes, recorder)?,
        }
        self.join(self.post_attention_norm.as_ref(), x, &result, count, recorder)
    }

    /// Adds what a part gave to the hidden states.
    fn join(
        &self,
        norm: Option<&Norm<OnGpu>>,
        x: &Buffer,
        result: &Buffer,
        count: usize,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        if let Some(norm) = norm {
            recorder.norm_in_place(norm, result, count)?;
        }
        let each = Each::Add(result, self.residual_scale);
        Ok(recorder.commands.each(x, count, 1, each)?)
    }
}

/// A part that no layer has that was let onto a GPU ([`Block::needs_processor`]).
pub(super) fn unknown_part() -> StepError {
    Broken::new("a part that only the processor computes").into()
}
