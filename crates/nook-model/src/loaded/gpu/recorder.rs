//! A step while it is recorded: its commands, its buffers, and how much work was submitted.
//!
//! Work is counted in multiplications and submitted in pieces of [`Gpu::submission_work`]: a driver
//! resets a card that one submission keeps busy for seconds, and nothing else gets in between.
//! After each piece the caller may cancel.

use std::sync::Arc;

use nook_gpu::{Buffer, Commands, Each, Gpu};

use super::weights::OnGpu;
use super::workspace::Workspace;
use crate::loaded::session::StepError;
use crate::parts::{Linear, Norm, NormKind};

/// One step on a GPU.
pub(super) struct Recorder<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) commands: Commands,
    pub(super) buffers: &'a mut Workspace,
    cancelled: &'a (dyn Fn() -> bool + Sync),
    work: u64,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        gpu: &'a Gpu,
        buffers: &'a mut Workspace,
        cancelled: &'a (dyn Fn() -> bool + Sync),
    ) -> Self {
        Self { gpu, commands: Commands::new(gpu), buffers, cancelled, work: 0 }
    }

    /// Stops where the caller wants to.
    pub(super) fn go_on(&self) -> Result<(), StepError> {
        if (self.cancelled)() { Err(StepError::Cancelled) } else { Ok(()) }
    }

    /// Counts work, and submits what was recorded when there is much of it.
    pub(super) fn count(&mut self, work: u64) -> Result<(), StepError> {
        self.work = self.work.saturating_add(work);
        if self.work >= self.gpu.submission_work() {
            self.work = 0;
            self.commands.finish()?;
            self.go_on()?;
        }
        Ok(())
    }

    /// Rows `x` (n, in) through all of `linears`, each into its buffer (n, out).
    pub(super) fn forward_all(
        &mut self,
        x: &Buffer,
        n: usize,
        linears: &[(&Linear<OnGpu>, &Buffer)],
    ) -> Result<(), StepError> {
        let products: Vec<_> = linears.iter().map(|(linear, out)| (&linear.matrix, *out)).collect();
        self.products(x, n, &products)?;
        for (linear, out) in linears {
            if let Some(bias) = &linear.bias {
                let rows = linear.matrix.rows();
                self.commands.each(out, n * rows, rows, Each::AddRow(bias, 0))?;
            }
        }
        Ok(())
    }

    /// As [`Self::forward_all`], without biases: activations are rounded once for each length of
    /// span.
    pub(super) fn products(
        &mut self,
        x: &Buffer,
        n: usize,
        products: &[(&nook_gpu::Matrix, &Buffer)],
    ) -> Result<(), StepError> {
        let mut spans: Vec<Option<usize>> = products.iter().map(|(m, _)| m.span()).collect();
        spans.sort_unstable();
        spans.dedup();
        for span in spans {
            for (index, (matrix, out)) in
                products.iter().filter(|(matrix, _)| matrix.span() == span).enumerate()
            {
                let columns = matrix.columns();
                let quantised = self.buffers.quantised(self.gpu, n * columns)?;
                if let Some(span) = span.filter(|_| index == 0) {
                    self.commands.quantise(x, n, columns, span, quantised)?;
                }
                self.commands.product(matrix, x, quantised, n, out)?;
                let work = (n as u64) * (matrix.rows() as u64) * (columns as u64);
                self.count(work)?;
            }
        }
        Ok(())
    }

    /// `x`, of which each `width` numbers are normed together, `count` numbers in all.
    pub(super) fn norm(
        &mut self,
        norm: &Norm<OnGpu>,
        x: &Buffer,
        count: usize,
        out: &Buffer,
    ) -> Result<(), StepError> {
        let rows = count / (norm.width as usize).max(1);
        Ok(self.commands.norm(x, described(norm), rows, out)?)
    }

    /// As [`Self::norm`], in place.
    pub(super) fn norm_in_place(
        &mut self,
        norm: &Norm<OnGpu>,
        x: &Buffer,
        count: usize,
    ) -> Result<(), StepError> {
        let rows = count / (norm.width as usize).max(1);
        Ok(self.commands.norm_in_place(x, described(norm), rows)?)
    }

    /// `x`, normed where there is a norm.
    pub(super) fn entry(
        &mut self,
        norm: Option<&Norm<OnGpu>>,
        x: &Arc<Buffer>,
        count: usize,
    ) -> Result<Arc<Buffer>, StepError> {
        let Some(norm) = norm else { return Ok(Arc::clone(x)) };
        let normed = self.buffers.normed.sized(self.gpu, count)?;
        self.norm(norm, x, count, &normed)?;
        Ok(normed)
    }
}

fn described(norm: &Norm<OnGpu>) -> nook_gpu::Norm<'_> {
    nook_gpu::Norm {
        width: norm.width as usize,
        epsilon: norm.epsilon,
        layer: norm.kind == NormKind::Layer,
        weight: Some(&norm.weight),
        bias: norm.bias.as_ref(),
    }
}
