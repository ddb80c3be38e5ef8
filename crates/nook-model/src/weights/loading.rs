//! Reads weights from a validated file, for the CPU.
//!
//! A matrix is read and packed by all threads at once, some rows each, so the file's bytes of a matrix
//! are never in memory as a whole, and a second copy of the model never exists.

use nook_kernels::{Arithmetic, Compute, Matrix, MatrixError};

use super::{Held, MatrixSpec, Rows, Source, StackSpec, VectorSpec, Weights};
use crate::error::Fault;
use crate::file::ModelFile;

/// The tensors of one file.
#[derive(Debug)]
pub(crate) struct Loading<'a> {
    pub(crate) file: &'a ModelFile,
    pub(crate) compute: &'a Compute,
    /// What products with its matrices do.
    pub(crate) arithmetic: Arithmetic,
}

/// Why a matrix could not be read.
enum Stopped {
    Fault(Fault),
    Matrix(MatrixError),
}

impl Loading<'_> {
    fn pack(&self, rows: &Rows<'_>) -> Result<Matrix, Fault> {
        let read = |at: usize, part: &mut [u8]| rows.read(at as u64, part).map_err(Stopped::Fault);
        let (format, count, columns) = (rows.format, rows.rows, rows.columns);
        Matrix::load(self.compute, self.arithmetic, format, count, columns, &read).map_err(
            |stopped| match stopped {
                Stopped::Fault(fault) => fault,
                Stopped::Matrix(MatrixError::Memory { .. }) => {
                    Fault::OutOfMemory { bytes: rows.bytes() }
                }
                Stopped::Matrix(_) => rows.impossible(),
            },
        )
    }
}

impl Source for Loading<'_> {
    type Into = Held;

    fn matrix(&mut self, spec: &MatrixSpec) -> Result<<Held as Weights>::Matrix, Fault> {
        self.pack(&Rows::of_matrix(self.file, spec)?)
    }

    fn stack(&mut self, spec: &StackSpec) -> Result<<Held as Weights>::Stack, Fault> {
        spec.matrices().map(|spec| self.matrix(&spec)).collect()
    }

    fn vector(&mut self, spec: &VectorSpec) -> Result<<Held as Weights>::Vector, Fault> {
        let rows = Rows::of_vector(self.file, spec)?;
        let row = self.pack(&rows)?;
        let mut numbers = vec![0.0; row.columns()];
        row.decode(0, &mut numbers).map_err(|_| rows.impossible())?;
        Ok(numbers)
    }

    fn numbers(&mut self, spec: &VectorSpec) -> Result<<Held as Weights>::Numbers, Fault> {
        self.vector(spec)
    }
}

impl From<MatrixError> for Stopped {
    fn from(error: MatrixError) -> Self {
        Self::Matrix(error)
    }
}
