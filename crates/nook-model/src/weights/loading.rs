//! Reads weights from a validated file, for the CPU.
//!
//! A matrix is read and packed by all threads at once, some rows each, so the file's bytes of a matrix
//! are never in memory as a whole, and a second copy of the model never exists.

use nook_kernels::{Arithmetic, Compute, Matrix, MatrixError};

use super::{Held, MatrixSpec, Part, Source, StackSpec, VectorSpec, Weights};
use crate::error::Fault;
use crate::file::ModelFile;
use crate::gguf::TensorInfo;

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
    /// Reads all that `part` names.
    pub(crate) fn load<P: Part>(&mut self, part: &P) -> Result<P::With<Held>, Fault> {
        part.read(self)
    }

    fn info(&self, name: &str) -> Result<&TensorInfo, Fault> {
        let found = self.file.header().tensor(name);
        found.ok_or_else(|| Fault::MissingTensor { tensor: name.to_owned() })
    }

    /// `rows` rows of `columns` numbers, of which the tensor's own lie where `runs` say.
    fn rows(&self, info: &TensorInfo, columns: u64, runs: &[(u64, u64)]) -> Result<Matrix, Fault> {
        let impossible =
            || Fault::Dimensions { tensor: info.name.clone(), dimensions: info.dimensions.clone() };
        let Some(format) = info.kind.format() else {
            return Err(Fault::UnsupportedTensorType {
                tensor: info.name.clone(),
                type_name: info.kind.name(),
            });
        };
        let row_bytes = info.kind.bytes(columns, 1).ok_or_else(impossible)?;
        let inside = |(first, count): &(u64, u64)| {
            let end = first.checked_add(*count)?.checked_mul(row_bytes)?;
            (end <= info.bytes).then_some(*count)
        };
        let counts = runs.iter().map(inside).collect::<Option<Vec<u64>>>();
        let total: u64 = counts.ok_or_else(impossible)?.iter().sum();
        let places = Places { start: info.start, row_bytes, runs };
        let rows = usize::try_from(total).map_err(|_| impossible())?;
        let columns = usize::try_from(columns).map_err(|_| impossible())?;
        let read = |at: usize, part: &mut [u8]| {
            places.read(at as u64, part, |from, part| self.file.reader().read(from, part))
        };
        let wanted = total.saturating_mul(row_bytes);
        Matrix::load(self.compute, self.arithmetic, format, rows, columns, &read).map_err(
            |stopped| match stopped {
                Stopped::Fault(fault) => fault,
                Stopped::Matrix(MatrixError::Memory { .. }) => Fault::OutOfMemory { bytes: wanted },
                Stopped::Matrix(_) => impossible(),
            },
        )
    }
}

impl Source for Loading<'_> {
    type Into = Held;

    fn matrix(&mut self, spec: &MatrixSpec) -> Result<<Held as Weights>::Matrix, Fault> {
        self.rows(self.info(&spec.tensor)?, u64::from(spec.columns()), &spec.runs)
    }

    fn stack(&mut self, spec: &StackSpec) -> Result<<Held as Weights>::Stack, Fault> {
        spec.matrices().map(|spec| self.matrix(&spec)).collect()
    }

    fn vector(&mut self, spec: &VectorSpec) -> Result<<Held as Weights>::Vector, Fault> {
        let info = self.info(&spec.tensor)?;
        // One row of all numbers, whatever the dimensions were.
        let row = self.rows(info, spec.width(), &[(0, 1)])?;
        let mut numbers = vec![0.0; row.columns()];
        row.decode(0, &mut numbers).map_err(|_| Fault::Dimensions {
            tensor: info.name.clone(),
            dimensions: info.dimensions.clone(),
        })?;
        Ok(numbers)
    }
}

/// Where the rows of a matrix lie in the file.
struct Places<'a> {
    /// Byte where the tensor begins.
    start: u64,
    row_bytes: u64,
    /// First row and number of rows, in the order wanted.
    runs: &'a [(u64, u64)],
}

impl Places<'_> {
    /// Fills `part` from byte `at` of the matrix on, run by run.
    fn read(
        &self,
        mut at: u64,
        mut part: &mut [u8],
        read: impl Fn(u64, &mut [u8]) -> Result<(), Fault>,
    ) -> Result<(), Stopped> {
        for (first, count) in self.runs {
            let length = count * self.row_bytes;
            if at >= length {
                at -= length;
                continue;
            }
            let here = (length - at).min(part.len() as u64) as usize;
            let (filled, rest) = part.split_at_mut(here);
            read(self.start + first * self.row_bytes + at, filled).map_err(Stopped::Fault)?;
            (at, part) = (0, rest);
            if part.is_empty() {
                break;
            }
        }
        Ok(())
    }
}

impl From<MatrixError> for Stopped {
    fn from(error: MatrixError) -> Self {
        Self::Matrix(error)
    }
}
