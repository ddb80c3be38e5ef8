//! A matrix with or without a bias.

use nook_kernels::{Compute, Product, Scratch, multiply, vector};

use super::Broken;
use crate::error::Fault;
use crate::weights::{Held, MatrixSpec, Named, Part, Source, Weights};

/// `matrix x + bias`.
#[derive(Debug)]
pub(crate) struct Linear<W: Weights> {
    /// (out, in)
    pub(crate) matrix: W::Matrix,
    /// (out)
    pub(crate) bias: Option<W::Vector>,
}

impl Linear<Named> {
    /// Without a bias.
    pub(crate) fn new(matrix: MatrixSpec) -> Self {
        Self { matrix, bias: None }
    }
}

impl Part for Linear<Named> {
    type With<W: Weights> = Linear<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<Linear<S::Into>, Fault> {
        Ok(Linear {
            matrix: source.matrix(&self.matrix)?,
            bias: source.optional_vector(self.bias.as_ref())?,
        })
    }
}

impl Linear<Held> {
    /// Numbers that come out for each row.
    pub(crate) fn rows(&self) -> usize {
        self.matrix.rows()
    }

    /// Rows `x` (n, in) into `out` (n, out).
    pub(crate) fn forward(
        &self,
        compute: &Compute,
        scratch: &mut Scratch,
        x: &[f32],
        out: &mut [f32],
    ) -> Result<(), Broken> {
        forward_all(compute, scratch, x, [(self, out)])
    }
}

/// Several matrices with the same rows `x` (n, in): the activations are prepared only once.
pub(crate) fn forward_all<const N: usize>(
    compute: &Compute,
    scratch: &mut Scratch,
    x: &[f32],
    mut all: [(&Linear<Held>, &mut [f32]); N],
) -> Result<(), Broken> {
    let mut products = all.each_mut().map(|(linear, out)| Product { matrix: &linear.matrix, out });
    multiply(compute, scratch, x, &mut products)?;
    for (linear, out) in all {
        if let Some(bias) = &linear.bias {
            vector::add_bias(compute, out, bias);
        }
    }
    Ok(())
}
