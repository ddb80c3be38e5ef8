//! What weights a description names, and what they become once they are read.
//!
//! The parts of a model ([`crate::parts`]) are generic over [`Weights`]: with [`Named`] they are a
//! plain description of tensors, made from metadata alone; with [`Held`] they are ready to compute
//! on the CPU. A [`Source`] turns one into the other, tensor by tensor, always in the same order;
//! another device brings its own source and weights and uses the same descriptions.

mod listing;
mod scaling;

use std::fmt;

use nook_kernels::Matrix;

use crate::error::Fault;

pub(crate) use listing::list;
pub(crate) use scaling::Scaling;

/// In what form weights are.
pub(crate) trait Weights: fmt::Debug {
    /// A matrix.
    type Matrix: fmt::Debug + Send + Sync;
    /// Matrices of one shape, as the experts of a layer are.
    type Stack: fmt::Debug + Send + Sync;
    /// A vector of numbers.
    type Vector: fmt::Debug + Send + Sync;
    /// Numbers that the processor itself needs, whatever device computes with the others.
    type Numbers: fmt::Debug + Send + Sync;
}

/// Weights by name: where they lie in the file, not their numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Named {}

/// Weights in memory, for the CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Held {}

impl Weights for Named {
    type Matrix = MatrixSpec;
    type Stack = StackSpec;
    type Vector = VectorSpec;
    type Numbers = VectorSpec;
}

impl Weights for Held {
    type Matrix = Matrix;
    type Stack = Vec<Matrix>;
    type Vector = Vec<f32>;
    type Numbers = Vec<f32>;
}

/// A matrix, or some rows of one: fused projections and stacked experts are cut apart when they are
/// read, so that nothing that computes knows of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MatrixSpec {
    /// The tensor's name.
    pub(crate) tensor: String,
    /// The whole tensor's dimensions, fastest first; every one after the first counts rows.
    pub(crate) dimensions: Vec<u32>,
    /// Which of its rows, in the order wanted: first row and number of rows.
    pub(crate) runs: Vec<(u64, u64)>,
    /// What all its numbers are multiplied with, where the file says.
    pub(crate) scale: Option<ScaleSpec>,
}

/// One number of a tensor beside a matrix, that all of the matrix is multiplied with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScaleSpec {
    /// The tensor: one number, or one for each matrix of a stack.
    pub(crate) all: VectorSpec,
    /// Which of its numbers.
    pub(crate) at: u32,
}

/// Matrices of one shape in one tensor, columns x rows x count; or the same rows of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StackSpec {
    /// The tensor's name.
    pub(crate) tensor: String,
    /// Its dimensions, fastest first.
    pub(crate) dimensions: [u32; 3],
    /// Which rows of each matrix: the first, and how many.
    pub(crate) rows: (u32, u32),
    /// What each matrix is multiplied with, where the file says.
    pub(crate) scales: Option<VectorSpec>,
}

/// A vector of `width` numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VectorSpec {
    /// The tensor's name.
    pub(crate) tensor: String,
    /// Its dimensions: one, or several of which only the numbers count.
    pub(crate) dimensions: Vec<u32>,
}

/// A part of a description: something that names weights.
pub(crate) trait Part {
    /// The same part with weights in another form.
    type With<W: Weights>;

    /// Asks `source` for every weight, always in the same order.
    fn read<S: Source>(&self, source: &mut S) -> Result<Self::With<S::Into>, Fault>;
}

/// Turns named weights into weights of another form.
pub(crate) trait Source {
    /// The form that comes out.
    type Into: Weights;

    /// What `part` names is read next, and computed with together.
    fn together(&mut self, part: &impl Part) {
        let _ = part;
    }

    /// The matrix `spec`.
    fn matrix(&mut self, spec: &MatrixSpec) -> Result<<Self::Into as Weights>::Matrix, Fault>;

    /// The matrices `spec`.
    fn stack(&mut self, spec: &StackSpec) -> Result<<Self::Into as Weights>::Stack, Fault>;

    /// The vector `spec`.
    fn vector(&mut self, spec: &VectorSpec) -> Result<<Self::Into as Weights>::Vector, Fault>;

    /// The numbers `spec`.
    fn numbers(&mut self, spec: &VectorSpec) -> Result<<Self::Into as Weights>::Numbers, Fault>;

    /// A vector that the description may be without.
    fn optional_vector(
        &mut self,
        spec: Option<&VectorSpec>,
    ) -> Result<Option<<Self::Into as Weights>::Vector>, Fault> {
        spec.map(|spec| self.vector(spec)).transpose()
    }
}

impl MatrixSpec {
    /// The whole tensor, `columns` x `rows`.
    pub(crate) fn new(tensor: impl Into<String>, columns: u32, rows: u32) -> Self {
        Self {
            tensor: tensor.into(),
            dimensions: vec![columns, rows],
            runs: vec![(0, u64::from(rows))],
            scale: None,
        }
    }

    /// A matrix of one row, whose tensor is a vector.
    pub(crate) fn row(tensor: impl Into<String>, columns: u32) -> Self {
        let (tensor, dimensions) = (tensor.into(), vec![columns]);
        Self { tensor, dimensions, runs: vec![(0, 1)], scale: None }
    }

    /// `count` rows of a matrix, from `first` on.
    pub(crate) fn part(&self, first: u32, count: u32) -> Self {
        Self { runs: vec![(u64::from(first), u64::from(count))], ..self.clone() }
    }

    /// Of each `period` rows, `count` from `first` on: what one head's share of a projection is
    /// made of, where several are interleaved.
    pub(crate) fn interleaved(&self, period: u32, first: u32, count: u32) -> Self {
        let total = self.dimensions.iter().skip(1).copied().fold(1, u32::saturating_mul);
        let periods = (0..total / period.max(1)).map(|index| u64::from(index * period + first));
        Self { runs: periods.map(|at| (at, u64::from(count))).collect(), ..self.clone() }
    }

    /// Numbers in a row.
    pub(crate) fn columns(&self) -> u32 {
        self.dimensions.first().copied().unwrap_or(0)
    }
}

impl StackSpec {
    /// `count` matrices, each `columns` x `rows`.
    pub(crate) fn new(tensor: impl Into<String>, columns: u32, rows: u32, count: u32) -> Self {
        let (tensor, dimensions) = (tensor.into(), [columns, rows, count]);
        Self { tensor, dimensions, rows: (0, rows), scales: None }
    }

    /// `count` rows of each matrix, from `first` on.
    pub(crate) fn part(&self, first: u32, count: u32) -> Self {
        Self { rows: (first, count), ..self.clone() }
    }

    /// The matrices, one by one.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = MatrixSpec> {
        let ([_, rows, count], (first, taken)) = (self.dimensions, self.rows);
        (0..count).map(move |index| MatrixSpec {
            tensor: self.tensor.clone(),
            dimensions: self.dimensions.to_vec(),
            runs: vec![(u64::from(index) * u64::from(rows) + u64::from(first), u64::from(taken))],
            scale: self.scales.clone().map(|all| ScaleSpec { all, at: index }),
        })
    }
}

impl VectorSpec {
    /// A tensor of one dimension.
    pub(crate) fn new(tensor: impl Into<String>, width: u32) -> Self {
        Self { tensor: tensor.into(), dimensions: vec![width] }
    }

    /// How many numbers.
    pub(crate) fn width(&self) -> u64 {
        self.dimensions.iter().copied().map(u64::from).product()
    }
}

impl<P: Part> Part for Option<P> {
    type With<W: Weights> = Option<P::With<W>>;

    fn read<S: Source>(&self, source: &mut S) -> Result<Self::With<S::Into>, Fault> {
        self.as_ref().map(|part| part.read(source)).transpose()
    }
}
