//! Feed-forward layers on a GPU: see their namesakes in [`crate::parts`].

use nook_gpu::{Buffer, Each};

use super::block::unknown_part;
use super::recorder::Recorder;
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::{Activation, Gated, Plain, SWIGLU_LIMIT, SWIGLU_STEEPNESS};

impl Activation {
    /// `f(x) * up`, in the place of `x`.
    pub(super) fn times_on_gpu(self, up: &Buffer) -> Result<Each<'_>, StepError> {
        match self {
            Self::Silu => Ok(Each::SiluTimes(up)),
            Self::GeluTanh => Ok(Each::GeluTanhTimes(up)),
            Self::ClampedSwiglu => {
                let (limit, steepness) = (SWIGLU_LIMIT, SWIGLU_STEEPNESS);
                Ok(Each::ClampedGateTimes { y: up, limit, steepness })
            }
            Self::SquaredRelu => Err(unknown_part()),
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
        recorder.commands.each(&gates, count, 1, self.activation.times_on_gpu(&ups)?)?;
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
        let each = match self.activation {
            Activation::Silu => Each::Silu,
            Activation::GeluTanh => Each::GeluTanh,
            Activation::SquaredRelu | Activation::ClampedSwiglu => return Err(unknown_part()),
        };
        recorder.commands.each(&ups, count, 1, each)?;
        recorder.forward_all(&ups, n, &[(&self.down, out)])
    }
}
