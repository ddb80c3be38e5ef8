//! Weights on a graphics card, and the source that puts them there.
//!
//! Quantised matrices that candle has kernels for are uploaded as they lie in the file. In models
//! that compute in full precision, and where there is no kernel, numbers are decoded once while
//! loading: to single precision in the first case, else to half. A matrix passes through the host's
//! memory in pieces where it is decoded, and as a whole where it is not.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{D, DType, Device, Tensor};
use half::f16;
use nook_kernels::Format;

use crate::error::Fault;
use crate::file::ModelFile;
use crate::gguf::TensorInfo;
use crate::inventory::Rows;
use crate::parts::Broken;
use crate::weights::{MatrixSpec, Source, StackSpec, VectorSpec, Weights};

/// Bytes that are read and decoded together.
const PIECE_BYTES: usize = 4 << 20;

/// What candle's blocks of quantised weights must be aligned to, generously.
const ALIGNMENT: usize = 64;

/// Weights on a graphics card.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OnCard {}

impl Weights for OnCard {
    type Matrix = CardMatrix;
    type Stack = Vec<CardMatrix>;
    type Vector = Tensor;
    type Numbers = Vec<f32>;
}

/// A matrix (out, in) on a graphics card.
#[derive(Debug)]
pub(crate) enum CardMatrix {
    /// In the file's own blocks.
    Quantised(Arc<QTensor>),
    /// In single precision.
    Float(Tensor),
    /// In half precision.
    Half(Tensor),
}

/// Puts the tensors of one file on a device.
#[derive(Debug)]
pub(crate) struct CardLoading<'a> {
    pub(crate) file: &'a ModelFile,
    pub(crate) device: &'a Device,
    /// Whether everything is held in single precision.
    pub(crate) full: bool,
}

/// In what form a matrix is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Quantised(GgmlDType),
    Float,
    Half,
}

impl CardMatrix {
    /// Rows `x` (n, in) to (n, out), both in single precision.
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor, Broken> {
        Ok(match self {
            Self::Quantised(matrix) => x.contiguous()?.apply_op1_no_bwd(matrix.as_ref())?,
            Self::Float(matrix) => x.matmul(&matrix.t()?)?,
            Self::Half(matrix) => {
                // Rows are brought to at most 1 first: activations beyond the range of half
                // precision, which deep layers have, would come out infinite.
                let largest = x.abs()?.max_keepdim(D::Minus1)?.maximum(f32::MIN_POSITIVE)?;
                let rows = x.broadcast_div(&largest)?.to_dtype(DType::F16)?;
                rows.matmul(&matrix.t()?)?.to_dtype(DType::F32)?.broadcast_mul(&largest)?
            }
        })
    }

    /// The rows `ids` (n) of the matrix, (n, in), in single precision.
    pub(crate) fn lookup(&self, ids: &Tensor) -> Result<Tensor, Broken> {
        Ok(match self {
            Self::Quantised(matrix) => matrix.embedding(ids)?,
            Self::Float(matrix) => matrix.index_select(ids, 0)?,
            Self::Half(matrix) => matrix.index_select(ids, 0)?.to_dtype(DType::F32)?,
        })
    }
}

impl CardLoading<'_> {
    /// A matrix in the file's own blocks.
    fn quantised(&self, rows: &Rows<'_>, kind: GgmlDType) -> Result<CardMatrix, Fault> {
        let full = || Fault::OutOfMemory { bytes: rows.bytes() };
        let length = usize::try_from(rows.bytes()).map_err(|_| full())?;
        let mut buffer: Vec<u8> = Vec::new();
        let room = length.checked_add(ALIGNMENT).ok_or_else(full)?;
        buffer.try_reserve_exact(room).map_err(|_| full())?;
        buffer.resize(room, 0);
        // candle looks at the bytes as blocks and insists that they are aligned.
        let skipped = buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let bytes = &mut buffer[skipped..skipped + length];
        rows.read(0, bytes)?;
        let storage = QStorage::from_data((&*bytes).into(), self.device, kind);
        let matrix = storage.and_then(|storage| QTensor::new(storage, (rows.rows, rows.columns)));
        Ok(CardMatrix::Quantised(Arc::new(matrix.map_err(fault)?)))
    }

    /// A matrix in single precision.
    fn float(&self, rows: &Rows<'_>, scale: f32) -> Result<CardMatrix, Fault> {
        let numbers = decoded(rows, |number| number * scale)?;
        let matrix = Tensor::from_vec(numbers, (rows.rows, rows.columns), self.device);
        Ok(CardMatrix::Float(matrix.map_err(fault)?))
    }

    /// A matrix in half precision, unless it holds numbers that half precision does not.
    fn half(&self, rows: &Rows<'_>, scale: f32) -> Result<CardMatrix, Fault> {
        let numbers = decoded(rows, |number| f16::from_f32(number * scale))?;
        if numbers.iter().any(|number| !number.is_finite()) {
            return self.float(rows, scale);
        }
        let matrix = Tensor::from_vec(numbers, (rows.rows, rows.columns), self.device);
        Ok(CardMatrix::Half(matrix.map_err(fault)?))
    }
}

impl Source for CardLoading<'_> {
    type Into = OnCard;

    fn matrix(&mut self, spec: &MatrixSpec) -> Result<CardMatrix, Fault> {
        let rows = Rows::of_matrix(self.file, spec)?;
        let scale = Rows::scale(self.file, spec.scale.as_ref())?;
        match form(rows.format, self.full) {
            Form::Quantised(kind) if scale == 1.0 => self.quantised(&rows, kind),
            Form::Float => self.float(&rows, scale),
            Form::Quantised(_) | Form::Half => self.half(&rows, scale),
        }
    }

    fn stack(&mut self, spec: &StackSpec) -> Result<Vec<CardMatrix>, Fault> {
        spec.matrices().map(|spec| self.matrix(&spec)).collect()
    }

    fn vector(&mut self, spec: &VectorSpec) -> Result<Tensor, Fault> {
        let numbers = self.numbers(spec)?;
        let width = numbers.len();
        Tensor::from_vec(numbers, width, self.device).map_err(fault)
    }

    fn numbers(&mut self, spec: &VectorSpec) -> Result<Vec<f32>, Fault> {
        decoded(&Rows::of_vector(self.file, spec)?, |number| number)
    }
}

/// Bytes that `tensor` takes on a device.
pub(super) fn bytes_on_card(tensor: &TensorInfo, full: bool) -> u64 {
    let numbers = tensor.dimensions.iter().fold(1, |product: u64, n| product.saturating_mul(*n));
    let form = match tensor.kind.format() {
        Some(format) if tensor.dimensions.len() > 1 => form(format, full),
        _ => Form::Float,
    };
    match form {
        Form::Quantised(_) => tensor.bytes,
        Form::Float => numbers.saturating_mul(size_of::<f32>() as u64),
        Form::Half => numbers.saturating_mul(size_of::<f16>() as u64),
    }
}

/// Quantised matrices of a model that candle has no kernels for, and what that costs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Widened {
    /// Names of their formats.
    formats: BTreeSet<&'static str>,
    /// Bytes that they take in the file.
    in_file: u64,
    /// Bytes that they take when they are loaded.
    loaded: u64,
}

impl fmt::Display for Widened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let formats: Vec<_> = self.formats.iter().copied().collect();
        let (formats, from, to) = (formats.join(", "), self.in_file >> 20, self.loaded >> 20);
        write!(f, "candle has no kernels for {formats}: these weights are held as f16, ")?;
        write!(f, "all of them in {to} MB instead of {from} MB")
    }
}

/// What of `file` is widened in a model that does not compute in full precision, if anything is.
pub(super) fn widened(file: &ModelFile) -> Option<Widened> {
    let has_none = |format: Format| format.elements() > 1 && kernel(format).is_none();
    let is_widened = |tensor: &&TensorInfo| {
        tensor.dimensions.len() > 1 && tensor.kind.format().is_some_and(has_none)
    };
    let mut all = Widened { formats: BTreeSet::new(), in_file: 0, loaded: 0 };
    for tensor in file.header().tensors().iter().filter(is_widened) {
        all.formats.insert(tensor.kind.name());
        all.in_file = all.in_file.saturating_add(tensor.bytes);
        all.loaded = all.loaded.saturating_add(bytes_on_card(tensor, false));
    }
    (!all.formats.is_empty()).then_some(all)
}

fn form(format: Format, full: bool) -> Form {
    match kernel(format) {
        _ if full || format == Format::F32 => Form::Float,
        Some(kind) => Form::Quantised(kind),
        None => Form::Half,
    }
}

/// The format in candle's terms, where candle has kernels for it on every device.
fn kernel(format: Format) -> Option<GgmlDType> {
    Some(match format {
        Format::Q4_0 => GgmlDType::Q4_0,
        Format::Q4_1 => GgmlDType::Q4_1,
        Format::Q5_0 => GgmlDType::Q5_0,
        Format::Q5_1 => GgmlDType::Q5_1,
        Format::Q8_0 => GgmlDType::Q8_0,
        Format::Q2K => GgmlDType::Q2K,
        Format::Q3K => GgmlDType::Q3K,
        Format::Q4K => GgmlDType::Q4K,
        Format::Q5K => GgmlDType::Q5K,
        Format::Q6K => GgmlDType::Q6K,
        _ => return None,
    })
}

/// The numbers of `rows`, read and decoded piece by piece.
fn decoded<T>(rows: &Rows<'_>, convert: impl Fn(f32) -> T) -> Result<Vec<T>, Fault> {
    let total = rows.rows.checked_mul(rows.columns).ok_or_else(|| rows.impossible())?;
    let mut numbers = Vec::new();
    let bytes = (total as u64).saturating_mul(size_of::<T>() as u64);
    numbers.try_reserve_exact(total).map_err(|_| Fault::OutOfMemory { bytes })?;
    let row_bytes = rows.format.row_bytes(rows.columns).ok_or_else(|| rows.impossible())?;
    let at_once = (PIECE_BYTES / row_bytes.max(1)).max(1);
    let mut raw = Vec::new();
    let mut plain = Vec::new();
    for first in (0..rows.rows).step_by(at_once) {
        let count = at_once.min(rows.rows - first);
        raw.resize(count * row_bytes, 0);
        plain.resize(count * rows.columns, 0.0);
        rows.read((first * row_bytes) as u64, &mut raw)?;
        rows.format.decode(&raw, &mut plain);
        numbers.extend(plain.iter().map(|number| convert(*number)));
    }
    Ok(numbers)
}

/// What CUDA, Metal and candle say where memory is short, in small letters.
const OUT_OF_MEMORY: [&str; 3] =
    ["out_of_memory", "out of memory", "failed to create metal resource: buffer"];

fn fault(error: candle_core::Error) -> Fault {
    let reason = error.to_string();
    let small = reason.to_ascii_lowercase();
    match OUT_OF_MEMORY.iter().any(|words| small.contains(words)) {
        true => Fault::CardOutOfMemory { reason },
        false => Fault::Card { reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_are_widened_are_named_with_the_memory_that_it_costs() {
        let all = Widened {
            formats: BTreeSet::from(["IQ4_XS", "IQ3_S"]),
            in_file: 4_300 << 20,
            loaded: 16_000 << 20,
        };
        assert_eq!(
            all.to_string(),
            "candle has no kernels for IQ3_S, IQ4_XS: these weights are held as f16, all of them in \
             16000 MB instead of 4300 MB"
        );
    }

    #[test]
    fn a_card_that_is_full_is_told_from_one_that_fails() {
        let said = |text: &str| fault(candle_core::Error::Msg(text.to_owned()));
        let full = "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")";
        assert_eq!(said(full), Fault::CardOutOfMemory { reason: full.to_owned() });
        assert!(said(full).is_out_of_memory());
        let broken = "DriverError(CUDA_ERROR_ILLEGAL_ADDRESS)";
        assert_eq!(said(broken), Fault::Card { reason: broken.to_owned() });
    }
}
