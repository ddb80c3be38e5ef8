//! The rows of one matrix in its file: checked against the tensor, then read by position.
//!
//! Every source of weights reads through here, so a matrix lies in the same place for each of them.

use nook_kernels::Format;

use crate::error::Fault;
use crate::file::ModelFile;
use crate::gguf::TensorInfo;
use crate::weights::{MatrixSpec, ScaleSpec, VectorSpec};

/// The rows of one matrix, whose bytes are known to lie within their tensor.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    file: &'a ModelFile,
    info: &'a TensorInfo,
    /// First row and number of rows, in the order wanted.
    runs: Vec<(u64, u64)>,
    row_bytes: u64,
    pub(crate) format: Format,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl<'a> Rows<'a> {
    /// The rows of `spec`.
    pub(crate) fn of_matrix(file: &'a ModelFile, spec: &MatrixSpec) -> Result<Self, Fault> {
        Self::new(file, &spec.tensor, u64::from(spec.columns()), spec.runs.clone())
    }

    /// All numbers of `spec` as one row, whatever its dimensions.
    pub(crate) fn of_vector(file: &'a ModelFile, spec: &VectorSpec) -> Result<Self, Fault> {
        Self::new(file, &spec.tensor, spec.width(), vec![(0, 1)])
    }

    /// The one number of `spec`; 1 where there is none.
    pub(crate) fn scale(file: &'a ModelFile, spec: Option<&ScaleSpec>) -> Result<f32, Fault> {
        let Some(ScaleSpec { all, at }) = spec else { return Ok(1.0) };
        let rows = Self::of_vector(file, all)?;
        let length = usize::try_from(rows.bytes()).map_err(|_| rows.impossible())?;
        let (mut bytes, mut numbers) = (vec![0; length], vec![0.0; rows.columns]);
        rows.read(0, &mut bytes)?;
        rows.format.decode(&bytes, &mut numbers);
        numbers.get(*at as usize).copied().ok_or_else(|| rows.impossible())
    }

    /// `columns` numbers in each row of the tensor `name`, of which those lie here that `runs` say.
    fn new(
        file: &'a ModelFile,
        name: &str,
        columns: u64,
        runs: Vec<(u64, u64)>,
    ) -> Result<Self, Fault> {
        let found = file.header().tensor(name);
        let info = found.ok_or_else(|| Fault::MissingTensor { tensor: name.to_owned() })?;
        let Some(format) = info.kind.format() else {
            return Err(Fault::UnsupportedTensorType {
                tensor: info.name.clone(),
                type_name: info.kind.name(),
            });
        };
        let impossible = || impossible(info);
        let row_bytes = info.kind.bytes(columns, 1).ok_or_else(impossible)?;
        let inside = |(first, count): &(u64, u64)| {
            let end = first.checked_add(*count)?.checked_mul(row_bytes)?;
            (end <= info.bytes).then_some(*count)
        };
        let counts = runs.iter().map(inside).collect::<Option<Vec<u64>>>();
        let total: u64 = counts.ok_or_else(impossible)?.iter().sum();
        let rows = usize::try_from(total).map_err(|_| impossible())?;
        let columns = usize::try_from(columns).map_err(|_| impossible())?;
        Ok(Self { file, info, runs, row_bytes, format, rows, columns })
    }

    /// Bytes of all rows.
    pub(crate) fn bytes(&self) -> u64 {
        (self.rows as u64).saturating_mul(self.row_bytes)
    }

    /// The fault of a matrix that cannot be what it says.
    pub(crate) fn impossible(&self) -> Fault {
        impossible(self.info)
    }

    /// Fills `part` from byte `at` of the matrix on, run by run.
    pub(crate) fn read(&self, mut at: u64, mut part: &mut [u8]) -> Result<(), Fault> {
        for (first, count) in &self.runs {
            let length = count * self.row_bytes;
            if at >= length {
                at -= length;
                continue;
            }
            let here = (length - at).min(part.len() as u64) as usize;
            let (filled, rest) = part.split_at_mut(here);
            let start = self.info.start + first * self.row_bytes + at;
            self.file.reader().read(start, filled)?;
            (at, part) = (0, rest);
            if part.is_empty() {
                break;
            }
        }
        Ok(())
    }
}

fn impossible(info: &TensorInfo) -> Fault {
    Fault::Dimensions { tensor: info.name.clone(), dimensions: info.dimensions.clone() }
}
