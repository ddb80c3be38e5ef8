//! A narrow way beside the mixer (Gemma 3n, "learned augmented residual"): what goes into the mixer,
//! and beside it what two thin matrices make of it.

use nook_kernels::vector;

use super::{Broken, Buffers, Linear, Norm, Step, sized};
use crate::error::Fault;
use crate::weights::{Held, Named, Part, Source, Weights};

/// `x + norm(right(left(x)))`.
#[derive(Debug)]
pub(crate) struct Laurel<W: Weights> {
    /// (rank, hidden)
    pub(crate) left: Linear<W>,
    /// (hidden, rank)
    pub(crate) right: Linear<W>,
    pub(crate) norm: Norm<W>,
}

impl Part for Laurel<Named> {
    type With<W: Weights> = Laurel<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<Laurel<S::Into>, Fault> {
        Ok(Laurel {
            left: self.left.read(source)?,
            right: self.right.read(source)?,
            norm: self.norm.read(source)?,
        })
    }
}

impl Laurel<Held> {
    /// Rows `x` (n, hidden) into `out` (n, hidden).
    pub(super) fn forward(
        &self,
        x: &[f32],
        out: &mut [f32],
        step: &Step<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        let Buffers { scratch, mixed, spare, .. } = buffers;
        let inner = sized(mixed, step.rows() * self.left.rows());
        self.left.forward(step.compute, scratch, x, inner)?;
        self.right.forward(step.compute, scratch, inner, out)?;
        self.norm.forward_in_place(step.compute, out, spare);
        vector::add(step.compute, out, x);
        Ok(())
    }
}
