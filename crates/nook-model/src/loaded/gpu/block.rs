//! One transformer layer on a GPU: see [`crate::parts::Block`].

use std::f32::consts::FRAC_1_SQRT_2;
use std::sync::Arc;

use nook_gpu::{Buffer, Each};

use super::recorder::Recorder;
use super::step::{GpuLanes, GpuStep};
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::{AltUp, Block, FeedForward, Mixer, Norm};

impl Block<OnGpu> {
    /// Takes rows `x` (n, hidden), or (n, streams, hidden) in models with several, through the
    /// layer, in place. They have `width` numbers each.
    pub(super) fn on_gpu(
        &self,
        x: &Arc<Buffer>,
        width: usize,
        step: &GpuStep<'_>,
        lanes: &mut GpuLanes<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let count = step.rows() * width;
        match &self.streams {
            Some(streams) => self.through_streams(streams, x, step, lanes, recorder)?,
            None => {
                self.through(x, count, step, lanes, recorder)?;
                if let Some(made) = self.made_of_input(x, count, step, recorder)? {
                    recorder.commands.each(x, count, 1, Each::Add(&made, 1.0))?;
                }
            }
        }
        if let Some(scale) = self.output_scale.as_ref().and_then(|scale| scale.first()) {
            recorder.commands.each(x, count, 1, Each::Scale(*scale))?;
        }
        Ok(())
    }

    /// Rows `x` (n, streams, hidden): what goes through the layer is one hidden state of each.
    fn through_streams(
        &self,
        streams: &AltUp<OnGpu>,
        x: &Arc<Buffer>,
        step: &GpuStep<'_>,
        lanes: &mut GpuLanes<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let (n, count) = (step.rows(), step.rows() * streams.hidden);
        let active = streams.predict_on_gpu(x, n, recorder)?;
        self.through(&active, count, step, lanes, recorder)?;
        streams.correct_on_gpu(x, &active, n, recorder)?;
        let active = streams.scaled_on_gpu(x, n, recorder)?;
        match self.made_of_input(&active, count, step, recorder)? {
            Some(made) => streams.add_to_others_on_gpu(x, &made, n, recorder),
            None => Ok(()),
        }
    }

    /// Mixing of positions and feed-forward, of rows `x` (n, hidden), `count` numbers in all.
    fn through(
        &self,
        x: &Arc<Buffer>,
        count: usize,
        step: &GpuStep<'_>,
        lanes: &mut GpuLanes<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        match &self.mixer {
            Some(mixer) => self.mix(mixer, x, count, step, lanes, recorder)?,
            None => lanes.pass_by(step)?,
        }
        match &self.feed_forward {
            Some(feed_forward) => self.feed(feed_forward, x, count, step, recorder),
            None => Ok(()),
        }
    }

    /// What the layer makes of its input by token, with hidden states `x` of `count` numbers in all.
    fn made_of_input(
        &self,
        x: &Buffer,
        count: usize,
        step: &GpuStep<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Arc<Buffer>>, StepError> {
        let Some(input) = &self.layer_input else { return Ok(None) };
        let made = recorder.buffers.result.sized(recorder.gpu, count)?;
        input.on_gpu(x, &made, step, recorder)?;
        Ok(Some(made))
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
        let Some(laurel) = &self.laurel else {
            return self.join(self.post_attention_norm.as_ref(), x, &result, count, recorder);
        };
        let side = laurel.on_gpu(&input, step.rows(), recorder)?;
        self.join(self.post_attention_norm.as_ref(), x, &result, count, recorder)?;
        // Both ways count alike.
        recorder.commands.each(x, count, 1, Each::Add(&side, 1.0))?;
        Ok(recorder.commands.each(x, count, 1, Each::Scale(FRAC_1_SQRT_2))?)
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
