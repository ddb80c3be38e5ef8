//! Mixtures of experts on a GPU: see [`crate::parts::Mixture`].
//!
//! The router's numbers come to the CPU, which chooses as it does for itself; experts then run on
//! the GPU, each with the rows that chose it. Each mixture is a submission of its own.

use nook_gpu::{Buffer, Each};

use super::recorder::Recorder;
use super::step::GpuStep;
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::{Broken, Choice, Dense, Mixture, SharedExpert};

impl Mixture<OnGpu> {
    /// Rows `x` (n, hidden) into `out` (n, hidden).
    pub(super) fn on_gpu(
        &self,
        x: &Buffer,
        out: &Buffer,
        step: &GpuStep<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let (n, experts) = (step.rows(), self.router.matrix.rows());
        let hidden = self.router.matrix.columns();
        let router = recorder.buffers.spare.sized(recorder.gpu, n * experts)?;
        recorder.forward_all(x, n, &[(&self.router, &router)])?;
        // What is added up below begins as nothing.
        recorder.commands.each(out, n * hidden, 1, Each::Clear)?;
        let mut scores = recorder.commands.read_floats(&router, 0, n * experts)?;
        recorder.go_on()?;
        let numbers = self.numbers();
        let (mut ranking, mut choices) = (Vec::new(), Vec::new());
        let routing = self.routing;
        routing.choose(step.compute, &mut scores, experts, numbers, &mut ranking, &mut choices);
        let rows: Vec<u32> = choices.iter().map(|choice| choice.row as u32).collect();
        let weights: Vec<f32> = choices.iter().map(|choice| choice.weight).collect();
        let rows = Buffer::of_words(recorder.gpu, "rows of experts", &rows)?;
        let weights = Buffer::of_floats(recorder.gpu, "weights of experts", &weights)?;
        let mut at = 0;
        for same in choices.chunk_by(|a, b| a.expert == b.expert) {
            let own_rows = recorder.buffers.expert_rows.sized(recorder.gpu, choices.len())?;
            let own_weights = recorder.buffers.expert_weights.sized(recorder.gpu, choices.len())?;
            recorder.commands.copy(&rows, at, &own_rows, 0, same.len())?;
            recorder.commands.copy(&weights, at, &own_weights, 0, same.len())?;
            at += same.len();
            self.expert(same, x, out, [&own_rows, &own_weights], recorder)?;
        }
        match &self.shared {
            Some(shared) => shared.on_gpu(x, n, hidden, out, recorder),
            None => Ok(()),
        }
    }

    /// Adds what one expert makes of the rows that chose it.
    fn expert(
        &self,
        choices: &[Choice],
        x: &Buffer,
        out: &Buffer,
        [rows, weights]: [&Buffer; 2],
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let Some(expert) = choices.first().map(|choice| choice.expert) else { return Ok(()) };
        let matrices = (
            self.gate.as_ref().and_then(|gate| gate.get(expert)),
            self.up.get(expert),
            self.down.get(expert),
        );
        let (Some(gate), Some(up), Some(down)) = matrices else {
            return Err(Broken::new("an expert that is not there").into());
        };
        let (n, hidden, wide) = (choices.len(), gate.columns(), gate.rows());
        let gpu = recorder.gpu;
        let input = recorder.buffers.input.sized(gpu, n * hidden)?;
        let gates = recorder.buffers.gate.sized(gpu, n * wide)?;
        let ups = recorder.buffers.up.sized(gpu, n * wide)?;
        let output = recorder.buffers.output.sized(gpu, n * hidden)?;
        recorder.commands.gather(x, hidden, rows, n, &input)?;
        if self.routing.weigh_input {
            recorder.commands.each(&input, n * hidden, hidden, Each::ScaleRows(weights))?;
        }
        recorder.products(&input, n, &[(gate, &gates), (up, &ups)])?;
        if let Some(biases) = &self.biases {
            recorder.commands.each(&gates, n * wide, wide, Each::AddRow(&biases.gate, expert))?;
            recorder.commands.each(&ups, n * wide, wide, Each::AddRow(&biases.up, expert))?;
        }
        let each = self.activation.times_on_gpu(&ups)?;
        recorder.commands.each(&gates, n * wide, 1, each)?;
        recorder.products(&gates, n, &[(down, &output)])?;
        if let Some(biases) = &self.biases {
            let each = Each::AddRow(&biases.down, expert);
            recorder.commands.each(&output, n * hidden, hidden, each)?;
        }
        if !self.routing.weigh_input {
            recorder.commands.each(&output, n * hidden, hidden, Each::ScaleRows(weights))?;
        }
        Ok(recorder.commands.scatter_add(&output, hidden, rows, n, out)?)
    }
}

impl SharedExpert<OnGpu> {
    /// Adds what it makes of rows `x` (n, hidden) to `out`.
    fn on_gpu(
        &self,
        x: &Buffer,
        n: usize,
        hidden: usize,
        out: &Buffer,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let output = recorder.buffers.output.sized(recorder.gpu, n * hidden)?;
        match &self.expert {
            Dense::Gated(expert) => expert.on_gpu(x, n, &output, recorder)?,
            Dense::Plain(expert) => expert.on_gpu(x, n, &output, recorder)?,
        }
        if let Some(gate) = &self.gate {
            let weights = recorder.buffers.gate.sized(recorder.gpu, n)?;
            recorder.forward_all(x, n, &[(gate, &weights)])?;
            let each = Each::SigmoidTimesRow(&weights);
            recorder.commands.each(&output, n * hidden, hidden, each)?;
        }
        Ok(recorder.commands.each(out, n * hidden, 1, Each::Add(&output, 1.0))?)
    }
}
