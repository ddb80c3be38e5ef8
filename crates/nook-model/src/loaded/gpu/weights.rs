//! Weights on a GPU, and the source that puts them there.
//!
//! Matrices keep the format of their file, none is widened. In models that compute in full precision
//! they are decoded to single precision once, while they are loaded.

use nook_gpu::{Buffer, Gpu, Matrix};
use nook_kernels::Format;

use crate::error::Fault;
use crate::file::ModelFile;
use crate::gguf::TensorInfo;
use crate::inventory::Rows;
use crate::weights::{MatrixSpec, Source, StackSpec, VectorSpec, Weights};

/// Weights on a GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OnGpu {}

impl Weights for OnGpu {
    type Matrix = Matrix;
    type Stack = Vec<Matrix>;
    type Vector = Buffer;
    type Numbers = Vec<f32>;
}

/// Puts the tensors of one file on a GPU.
#[derive(Debug)]
pub(crate) struct GpuLoading<'a> {
    pub(crate) file: &'a ModelFile,
    pub(crate) gpu: &'a Gpu,
    /// Whether everything is held in single precision.
    pub(crate) full: bool,
}

impl Source for GpuLoading<'_> {
    type Into = OnGpu;

    fn matrix(&mut self, spec: &MatrixSpec) -> Result<Matrix, Fault> {
        let rows = Rows::of_matrix(self.file, spec)?;
        let format = held_as(rows.format, self.full);
        let row_bytes = rows.format.row_bytes(rows.columns).ok_or_else(|| rows.impossible())?;
        let scale = Rows::scale(self.file, spec.scale.as_ref())?;
        let mut file = Vec::new();
        let matrix: Result<Matrix, Fault> =
            Matrix::load(self.gpu, format, rows.rows, rows.columns, |first, part: &mut [u8]| {
                let at = (first * row_bytes) as u64;
                if format == rows.format {
                    return rows.read(at, part);
                }
                let count = part.len() / (rows.columns * size_of::<f32>()).max(1);
                file.resize(count * row_bytes, 0);
                rows.read(at, &mut file)?;
                let mut numbers = vec![0.0; count * rows.columns];
                rows.format.decode(&file, &mut numbers);
                for (to, number) in part.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
                    *to = number.to_le_bytes();
                }
                Ok(())
            });
        Ok(matrix?.scaled(scale))
    }

    fn stack(&mut self, spec: &StackSpec) -> Result<Vec<Matrix>, Fault> {
        spec.matrices().map(|spec| self.matrix(&spec)).collect()
    }

    fn vector(&mut self, spec: &VectorSpec) -> Result<Buffer, Fault> {
        let numbers = self.numbers(spec)?;
        Ok(Buffer::of_floats(self.gpu, "weights", &numbers)?)
    }

    fn numbers(&mut self, spec: &VectorSpec) -> Result<Vec<f32>, Fault> {
        let rows = Rows::of_vector(self.file, spec)?;
        let length = usize::try_from(rows.bytes()).map_err(|_| rows.impossible())?;
        let mut bytes = vec![0; length];
        rows.read(0, &mut bytes)?;
        let mut numbers = vec![0.0; rows.columns];
        rows.format.decode(&bytes, &mut numbers);
        Ok(numbers)
    }
}

/// The format that weights in `format` have on a GPU.
fn held_as(format: Format, full: bool) -> Format {
    if full { Format::F32 } else { format }
}

/// Bytes that `tensor` takes on a GPU.
pub(super) fn bytes_on_gpu(tensor: &TensorInfo, full: bool) -> u64 {
    let numbers = tensor.dimensions.iter().fold(1, |product: u64, n| product.saturating_mul(*n));
    let columns = tensor.dimensions.first().copied().unwrap_or(1).max(1);
    let single = numbers.saturating_mul(size_of::<f32>() as u64);
    match tensor.kind.format() {
        Some(format) if tensor.dimensions.len() > 1 => {
            let rows = usize::try_from(numbers / columns).unwrap_or(usize::MAX);
            let columns = usize::try_from(columns).unwrap_or(usize::MAX);
            Matrix::bytes_of(held_as(format, full), rows, columns)
        }
        _ => single,
    }
}
