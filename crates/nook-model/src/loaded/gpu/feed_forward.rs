//! Feed-forward layers on a GPU: see their namesakes in [`crate::parts`].

use nook_gpu::{Buffer, ByMean, Each};

use super::recorder::Recorder;
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::{Activation, Broken, Cutoff, Gated, Plain, SWIGLU_LIMIT, SWIGLU_STEEPNESS};

impl Activation {
    /// `f(x) * up`, in the place of `x`.
    pub(super) fn times_on_gpu(self, up: &Buffer) -> Each<'_> {
        match self {
            Self::Silu => Each::SiluTimes(up),
            Self::GeluTanh => Each::GeluTanhTimes(up),
            Self::ClampedSwiglu => {
                let (limit, steepness) = (SWIGLU_LIMIT, SWIGLU_STEEPNESS);
                Each::ClampedGateTimes { y: up, limit, steepness }
            }
            Self::SquaredRelu => Each::SquaredReluTimes(up),
        }
    }

    /// `f(x)` in its place, as feed-forward layers without a gate have it.
    pub(super) fn alone_on_gpu(self) -> Result<Each<'static>, StepError> {
        match self {
            Self::Silu => Ok(Each::Silu),
            Self::GeluTanh => Ok(Each::GeluTanh),
            Self::SquaredRelu => Ok(Each::SquaredRelu),
            Self::ClampedSwiglu => Err(Broken::new("a clamped gate without a second input").into()),
        }
    }
}

impl Gated<OnGpu> {
    /// Rows `x` (n, hidden) into `out` (n, hidden).
    pub(super) fn on_gpu(
        &self,
        x: &Buffer,
        n: usize,
        out: &Buffer,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let count = n * self.gate.matrix.rows();
        let gates = recorder.buffers.gate.sized(recorder.gpu, count)?;
        let ups = recorder.buffers.up.sized(recorder.gpu, count)?;
        recorder.forward_all(x, n, &[(&self.gate, &gates), (&self.up, &ups)])?;
        if let Some(Cutoff { deviations }) = self.cutoff {
            let change = ByMean::CutOff(deviations);
            recorder.commands.by_mean(&gates, n, self.gate.matrix.rows(), change)?;
        }
        recorder.commands.each(&gates, count, 1, self.activation.times_on_gpu(&ups))?;
        recorder.forward_all(&gates, n, &[(&self.down, out)])
    }
}

impl Plain<OnGpu> {
    /// Rows `x` (n, hidden) into `out` (n, hidden).
    pub(super) fn on_gpu(
        &self,
        x: &Buffer,
        n: usize,
        out: &Buffer,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let count = n * self.up.matrix.rows();
        let ups = recorder.buffers.up.sized(recorder.gpu, count)?;
        recorder.forward_all(x, n, &[(&self.up, &ups)])?;
        recorder.commands.each(&ups, count, 1, self.activation.alone_on_gpu()?)?;
        recorder.forward_all(&ups, n, &[(&self.down, out)])
    }
}
