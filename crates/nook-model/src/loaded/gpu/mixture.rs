//! Mixtures of experts on a GPU: see [`crate::parts::Mixture`].
//!
//! The router's numbers come to the CPU, which chooses as it does for itself; experts then run on
//! the GPU, each with the rows that chose it. Each mixture is a submission of its own.

use std::sync::Arc;

use nook_gpu::{Buffer, Each, Matrix};

use super::recorder::Recorder;
use super::step::GpuStep;
use super::weights::OnGpu;
use crate::loaded::session::StepError;
use crate::parts::{Broken, Choice, Dense, LatentSpace, Mixture, SharedExpert};

impl Mixture<OnGpu> {
    /// Rows `x` (n, hidden) into `out` (n, hidden).
    pub(super) fn on_gpu(
        &self,
        x: &Buffer,
        out: &Buffer,
        step: &GpuStep<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        self.on_gpu_chosen(x, x, out, step, recorder)
    }

    /// As [`Self::on_gpu`], where the router looks at `routed` (n, hidden).
    pub(super) fn on_gpu_chosen(
        &self,
        routed: &Buffer,
        x: &Buffer,
        out: &Buffer,
        step: &GpuStep<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), StepError> {
        let (n, experts) = (step.rows(), self.router.matrix.rows());
        let hidden = self.router.matrix.columns();
        let router = recorder.buffers.spare.sized(recorder.gpu, n * experts)?;
        recorder.forward_all(routed, n, &[(&self.router, &router)])?;
        let latent = match &self.latent {
            Some(latent) => Some(latent.on_gpu(x, n, recorder)?),
            None => None,
        };
        let (input, sum, width) = match &latent {
            Some(LatentRows { input, sum, width }) => (&**input, &**sum, *width),
            None => (x, out, hidden),
        };
        // What is added up below begins as nothing.
        recorder.commands.each(sum, n * width, 1, Each::Clear)?;
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
            self.expert(same, input, sum, [&own_rows, &own_weights], recorder)?;
        }
        if let Some(latent) = &self.latent {
            recorder.forward_all(sum, n, &[(&latent.up, out)])?;
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
        let (Some(up), Some(down)) = (self.up.get(expert), self.down.get(expert)) else {
            return Err(missing_expert());
        };
        let (n, hidden) = (choices.len(), up.columns());
        let gpu = recorder.gpu;
        let input = recorder.buffers.input.sized(gpu, n * hidden)?;
        let output = recorder.buffers.output.sized(gpu, n * hidden)?;
        recorder.commands.gather(x, hidden, rows, n, &input)?;
        if self.routing.weigh_input {
            recorder.commands.each(&input, n * hidden, hidden, Each::ScaleRows(weights))?;
        }
        let inner = self.inner(expert, up, &input, n, recorder)?;
        recorder.products(&inner, n, &[(down, &output)])?;
        if let Some(biases) = &self.biases {
            let each = Each::AddRow(&biases.down, expert);
            recorder.commands.each(&output, n * hidden, hidden, each)?;
        }
        if !self.routing.weigh_input {
            recorder.commands.each(&output, n * hidden, hidden, Each::ScaleRows(weights))?;
        }
        Ok(recorder.commands.scatter_add(&output, hidden, rows, n, out)?)
    }

    /// What goes into the last matrix of an expert: (n, wide).
    fn inner(
        &self,
        expert: usize,
        up: &Matrix,
        input: &Buffer,
        n: usize,
        recorder: &mut Recorder<'_>,
    ) -> Result<Arc<Buffer>, StepError> {
        let wide = up.rows();
        let ups = recorder.buffers.up.sized(recorder.gpu, n * wide)?;
        let Some(stack) = &self.gate else {
            recorder.products(input, n, &[(up, &ups)])?;
            if let Some(biases) = &self.biases {
                recorder.commands.each(&ups, n * wide, wide, Each::AddRow(&biases.up, expert))?;
            }
            recorder.commands.each(&ups, n * wide, 1, self.activation.alone_on_gpu()?)?;
            return Ok(ups);
        };
        let gate = stack.get(expert).ok_or_else(missing_expert)?;
        let gates = recorder.buffers.gate.sized(recorder.gpu, n * wide)?;
        recorder.products(input, n, &[(gate, &gates), (up, &ups)])?;
        if let Some(biases) = &self.biases {
            recorder.commands.each(&gates, n * wide, wide, Each::AddRow(&biases.gate, expert))?;
            recorder.commands.each(&ups, n * wide, wide, Each::AddRow(&biases.up, expert))?;
        }
        recorder.commands.each(&gates, n * wide, 1, self.activation.times_on_gpu(&ups))?;
        Ok(gates)
    }
}

/// What experts in a latent space compute with, on a GPU.
struct LatentRows {
    /// (n, width)
    input: Arc<Buffer>,
    /// (n, width): for the weighed sum of the experts.
    sum: Arc<Buffer>,
    width: usize,
}

impl LatentSpace<OnGpu> {
    /// Rows `x` (n, hidden) in the latent space, and room for what experts make of them.
    fn on_gpu(
        &self,
        x: &Buffer,
        n: usize,
        recorder: &mut Recorder<'_>,
    ) -> Result<LatentRows, StepError> {
        let width = self.down.matrix.rows();
        let input = recorder.buffers.latent.sized(recorder.gpu, n * width)?;
        let sum = recorder.buffers.mixed.sized(recorder.gpu, n * width)?;
        recorder.forward_all(x, n, &[(&self.down, &input)])?;
        Ok(LatentRows { input, sum, width })
    }
}

/// What a router that chooses among fewer experts than it has numbers leads to.
fn missing_expert() -> StepError {
    Broken::new("an expert that is not there").into()
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
