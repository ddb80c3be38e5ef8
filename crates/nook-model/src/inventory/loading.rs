//! Reads weights from a validated file, for the CPU.
//!
//! A matrix is read and packed by all threads at once, some rows each, so the file's bytes of a
//! matrix are never in memory as a whole, and a second copy of the model never exists.

use nook_kernels::{Arithmetic, Compute, Layout, Matrix, MatrixError, Room};

use super::Rows;
use crate::error::Fault;
use crate::file::ModelFile;
use crate::weights::{Held, MatrixSpec, Named, Part, Source, StackSpec, VectorSpec, Weights};

/// The tensors of one file.
#[derive(Debug)]
pub(crate) struct Loading<'a> {
    pub(crate) file: &'a ModelFile,
    pub(crate) compute: &'a Compute,
    /// What products with its matrices do.
    arithmetic: Arithmetic,
    /// Memory for the matrices that are read next.
    room: Room,
}

/// Adds up the memory of the matrices that a part names.
struct Measuring<'a> {
    file: &'a ModelFile,
    arithmetic: Arithmetic,
    bytes: usize,
}

/// Why a matrix could not be read.
enum Stopped {
    Fault(Fault),
    Matrix(MatrixError),
}

impl<'a> Loading<'a> {
    pub(crate) fn new(file: &'a ModelFile, compute: &'a Compute, arithmetic: Arithmetic) -> Self {
        Self { file, compute, arithmetic, room: Room::default() }
    }
}

/// Reads and packs `rows` into a part of `room`.
fn pack(
    compute: &Compute,
    room: &mut Room,
    arithmetic: Arithmetic,
    rows: &Rows<'_>,
) -> Result<Matrix, Fault> {
    let read = |at: usize, part: &mut [u8]| rows.read(at as u64, part).map_err(Stopped::Fault);
    Matrix::load(compute, room, layout(arithmetic, rows), &read).map_err(|stopped| match stopped {
        Stopped::Fault(fault) => fault,
        Stopped::Matrix(MatrixError::Memory { .. }) => Fault::OutOfMemory { bytes: rows.bytes() },
        Stopped::Matrix(_) => rows.impossible(),
    })
}

fn layout(arithmetic: Arithmetic, rows: &Rows<'_>) -> Layout {
    Layout { arithmetic, format: rows.format, rows: rows.rows, columns: rows.columns }
}

impl Source for Loading<'_> {
    type Into = Held;

    fn together(&mut self, part: &impl Part) {
        let mut measuring = Measuring { file: self.file, arithmetic: self.arithmetic, bytes: 0 };
        // What cannot be measured cannot be read either, and says why then.
        let measured = part.read(&mut measuring).is_ok();
        self.room = if measured { Room::with(measuring.bytes) } else { Room::default() };
    }

    fn matrix(&mut self, spec: &MatrixSpec) -> Result<<Held as Weights>::Matrix, Fault> {
        let rows = Rows::of_matrix(self.file, spec)?;
        let scale = Rows::scale(self.file, spec.scale.as_ref())?;
        Ok(pack(self.compute, &mut self.room, self.arithmetic, &rows)?.scaled(scale))
    }

    fn stack(&mut self, spec: &StackSpec) -> Result<<Held as Weights>::Stack, Fault> {
        spec.matrices().map(|spec| self.matrix(&spec)).collect()
    }

    fn vector(&mut self, spec: &VectorSpec) -> Result<<Held as Weights>::Vector, Fault> {
        let rows = Rows::of_vector(self.file, spec)?;
        // It is gone again in a moment: nothing to keep beside the matrices.
        let row = pack(self.compute, &mut Room::default(), self.arithmetic, &rows)?;
        let mut numbers = vec![0.0; row.columns()];
        row.decode(0, &mut numbers).map_err(|_| rows.impossible())?;
        Ok(numbers)
    }

    fn numbers(&mut self, spec: &VectorSpec) -> Result<<Held as Weights>::Numbers, Fault> {
        self.vector(spec)
    }
}

impl Source for Measuring<'_> {
    type Into = Named;

    fn matrix(&mut self, spec: &MatrixSpec) -> Result<<Named as Weights>::Matrix, Fault> {
        let rows = Rows::of_matrix(self.file, spec)?;
        let bytes = layout(self.arithmetic, &rows).room().map_err(|_| rows.impossible())?;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(spec.clone())
    }

    fn stack(&mut self, spec: &StackSpec) -> Result<<Named as Weights>::Stack, Fault> {
        for matrix in spec.matrices() {
            self.matrix(&matrix)?;
        }
        Ok(spec.clone())
    }

    fn vector(&mut self, spec: &VectorSpec) -> Result<<Named as Weights>::Vector, Fault> {
        Ok(spec.clone())
    }

    fn numbers(&mut self, spec: &VectorSpec) -> Result<<Named as Weights>::Numbers, Fault> {
        self.vector(spec)
    }
}

impl From<MatrixError> for Stopped {
    fn from(error: MatrixError) -> Self {
        Self::Matrix(error)
    }
}
