//! The narrow way beside the mixer on a GPU: see [`crate::parts::Laurel`].

use std::sync::Arc;

use nook_gpu::{Buffer, Each};

use super::recorder::Recorder;
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::Laurel;

impl Laurel<OnGpu> {
    /// What comes of rows `x` (n, hidden): (n, hidden).
    pub(super) fn on_gpu(
        &self,
        x: &Buffer,
        n: usize,
        recorder: &mut Recorder<'_>,
    ) -> Result<Arc<Buffer>, StepError> {
        let (rank, hidden) = (self.left.matrix.rows(), self.right.matrix.rows());
        let inner = recorder.buffers.spare.sized(recorder.gpu, n * rank)?;
        let out = recorder.buffers.side.sized(recorder.gpu, n * hidden)?;
        recorder.forward_all(x, n, &[(&self.left, &inner)])?;
        recorder.forward_all(&inner, n, &[(&self.right, &out)])?;
        recorder.norm_in_place(&self.norm, &out, n * hidden)?;
        recorder.commands.each(&out, n * hidden, 1, Each::Add(x, 1.0))?;
        Ok(out)
    }
}
