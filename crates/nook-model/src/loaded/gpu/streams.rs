//! Several hidden states side by side on a GPU: see [`crate::parts::AltUp`].

use std::sync::Arc;

use nook_gpu::{Buffer, ByMean, Columns, Each, Mixing, Streams};

use super::recorder::Recorder;
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::{AltUp, MEAN_SQUARE_MIN, OtherStreams};

impl OtherStreams<OnGpu> {
    /// Embeddings `x` (n, hidden) into `out` (n, streams, hidden).
    pub(super) fn spread_on_gpu(
        &self,
        x: &Buffer,
        n: usize,
        out: &Buffer,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let (hidden, width) = (self.hidden, self.hidden * (self.projections.len() + 1));
        let projected = recorder.buffers.output.sized(recorder.gpu, n * hidden)?;
        let columns = Columns::new(n, hidden);
        recorder.commands.copy_columns(x, out, columns.paste(width, 0))?;
        for (index, matrix) in self.projections.iter().enumerate() {
            recorder.products(x, n, &[(matrix, &projected)])?;
            let change = ByMean::AsLongAs(x, MEAN_SQUARE_MIN);
            recorder.commands.by_mean(&projected, n, hidden, change)?;
            let columns = columns.paste(width, (index + 1) * hidden);
            recorder.commands.copy_columns(&projected, out, columns)?;
        }
        Ok(())
    }

    /// The mean of the streams of each row of `x` (n, streams, hidden).
    pub(super) fn merge_on_gpu(
        &self,
        x: &Buffer,
        n: usize,
        recorder: &mut Recorder<'_>,
    ) -> Result<Arc<Buffer>, StepError> {
        let (hidden, width) = (self.hidden, self.hidden * (self.projections.len() + 1));
        let [first, stream, merged] = &mut recorder.buffers.branches;
        let first = first.sized(recorder.gpu, n * hidden)?;
        let stream = stream.sized(recorder.gpu, n * hidden)?;
        let merged = merged.sized(recorder.gpu, n * hidden)?;
        let projected = recorder.buffers.output.sized(recorder.gpu, n * hidden)?;
        let columns = Columns::new(n, hidden);
        recorder.commands.copy_columns(x, &first, columns.cut(width, 0))?;
        recorder.commands.copy(&first, 0, &merged, 0, n * hidden)?;
        for (index, matrix) in self.projections.iter().enumerate() {
            let columns = columns.cut(width, (index + 1) * hidden);
            recorder.commands.copy_columns(x, &stream, columns)?;
            recorder.products(&stream, n, &[(matrix, &projected)])?;
            let change = ByMean::AsLongAs(&first, MEAN_SQUARE_MIN);
            recorder.commands.by_mean(&projected, n, hidden, change)?;
            recorder.commands.each(&merged, n * hidden, 1, Each::Add(&projected, 1.0))?;
        }
        let each = Each::Scale(1.0 / (self.projections.len() + 1) as f32);
        recorder.commands.each(&merged, n * hidden, 1, each)?;
        Ok(merged)
    }
}

impl AltUp<OnGpu> {
    /// Replaces the streams `x` (n, streams, hidden) by what the layer expects them to become, and
    /// gives the one that it computes (n, hidden).
    pub(super) fn predict_on_gpu(
        &self,
        x: &Buffer,
        n: usize,
        recorder: &mut Recorder<'_>,
    ) -> Result<Arc<Buffer>, StepError> {
        let active = self.active_on_gpu(x, n, recorder)?;
        let routed = self.route_on_gpu(&active, n, recorder)?;
        let count = n * self.count * self.count;
        let shares = recorder.buffers.gate.sized(recorder.gpu, count)?;
        recorder.forward_all(&routed, n, &[(&self.predict, &shares)])?;
        recorder.commands.mix_streams(x, n, self.streams(), Mixing::Predict(&shares))?;
        self.active_on_gpu(x, n, recorder)
    }

    /// Corrects the predicted streams `x` (n, streams, hidden) by what the computed one has become.
    pub(super) fn correct_on_gpu(
        &self,
        x: &Buffer,
        made: &Buffer,
        n: usize,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let routed = self.route_on_gpu(made, n, recorder)?;
        let shares = recorder.buffers.gate.sized(recorder.gpu, n * self.count)?;
        recorder.forward_all(&routed, n, &[(&self.correct, &shares)])?;
        let mixing = Mixing::Correct { made, shares: &shares, active: self.active };
        Ok(recorder.commands.mix_streams(x, n, self.streams(), mixing)?)
    }

    /// The computed stream of `x` as the layer's input by token meets it.
    pub(super) fn scaled_on_gpu(
        &self,
        x: &Buffer,
        n: usize,
        recorder: &mut Recorder<'_>,
    ) -> Result<Arc<Buffer>, StepError> {
        let active = self.active_on_gpu(x, n, recorder)?;
        let each = Each::TimesRow(&self.scale);
        recorder.commands.each(&active, n * self.hidden, self.hidden, each)?;
        Ok(active)
    }

    /// Adds `made` (n, hidden) to all streams of `x` (n, streams, hidden) but the first.
    pub(super) fn add_to_others_on_gpu(
        &self,
        x: &Buffer,
        made: &Buffer,
        n: usize,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let mixing = Mixing::AddToOthers(made);
        Ok(recorder.commands.mix_streams(x, n, self.streams(), mixing)?)
    }

    fn streams(&self) -> Streams {
        Streams { count: self.count, hidden: self.hidden }
    }

    fn active_on_gpu(
        &self,
        x: &Buffer,
        n: usize,
        recorder: &mut Recorder<'_>,
    ) -> Result<Arc<Buffer>, StepError> {
        let active = recorder.buffers.active.sized(recorder.gpu, n * self.hidden)?;
        let width = self.count * self.hidden;
        let columns = Columns::new(n, self.hidden).cut(width, self.active * self.hidden);
        recorder.commands.copy_columns(x, &active, columns)?;
        Ok(active)
    }

    /// What the router says of each row of the computed stream, between -1 and 1.
    fn route_on_gpu(
        &self,
        active: &Buffer,
        n: usize,
        recorder: &mut Recorder<'_>,
    ) -> Result<Arc<Buffer>, StepError> {
        let (count, gpu) = (n * self.hidden, recorder.gpu);
        let normed = recorder.buffers.spare.sized(gpu, count)?;
        recorder.norm(&self.norm, active, count, &normed)?;
        recorder.commands.each(&normed, count, 1, Each::Scale(1.0 / self.hidden as f32))?;
        let routed = recorder.buffers.up.sized(gpu, n * self.count)?;
        recorder.forward_all(&normed, n, &[(&self.router, &routed)])?;
        // A cap of 1 is the hyperbolic tangent.
        recorder.commands.each(&routed, n * self.count, 1, Each::SoftCap(1.0))?;
        Ok(routed)
    }
}
