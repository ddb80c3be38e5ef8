//! Norms of rows: root mean square (Zhang and Sennrich 2019) and layer norm (Ba et al. 2016).

use nook_kernels::{Compute, vector};

use super::sized;
use crate::error::Fault;
use crate::weights::{Held, Named, Part, Source, VectorSpec, Weights};

/// Which norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NormKind {
    /// By the root of the mean square.
    RootMeanSquare,
    /// By mean and deviation.
    Layer,
}

/// One norm, with a weight for each number.
#[derive(Debug)]
pub(crate) struct Norm<W: Weights> {
    pub(crate) kind: NormKind,
    pub(crate) epsilon: f32,
    /// Numbers that are normed together.
    pub(crate) width: u32,
    pub(crate) weight: W::Vector,
    pub(crate) bias: Option<W::Vector>,
}

impl Norm<Named> {
    /// A root mean square norm.
    pub(crate) fn rms(tensor: impl Into<String>, width: u32, epsilon: f32) -> Self {
        let weight = VectorSpec::new(tensor, width);
        Self { kind: NormKind::RootMeanSquare, epsilon, width, weight, bias: None }
    }
}

impl Part for Norm<Named> {
    type With<W: Weights> = Norm<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<Norm<S::Into>, Fault> {
        Ok(Norm {
            kind: self.kind,
            epsilon: self.epsilon,
            width: self.width,
            weight: source.vector(&self.weight)?,
            bias: source.optional_vector(self.bias.as_ref())?,
        })
    }
}

impl Norm<Held> {
    /// As [`Self::forward`], in place, by way of `spare` where there must be one.
    pub(crate) fn forward_in_place(&self, compute: &Compute, x: &mut [f32], spare: &mut Vec<f32>) {
        match self.kind {
            NormKind::RootMeanSquare => {
                let weight = Some(&self.weight[..]);
                let width = self.width as usize;
                vector::rms_norm_in_place(compute, x, weight, width, self.epsilon);
            }
            NormKind::Layer => {
                let normed = sized(spare, x.len());
                self.forward(compute, x, normed);
                x.copy_from_slice(normed);
            }
        }
    }

    /// Whole rows of `width` numbers of `x`, into `out`.
    pub(crate) fn forward(&self, compute: &Compute, x: &[f32], out: &mut [f32]) {
        let width = self.width as usize;
        match self.kind {
            NormKind::RootMeanSquare => {
                vector::rms_norm(compute, x, Some(&self.weight), width, self.epsilon, out);
            }
            NormKind::Layer => {
                let bias = self.bias.as_deref();
                let weight = Some(&self.weight[..]);
                vector::layer_norm(compute, x, weight, bias, width, self.epsilon, out);
            }
        }
    }
}
