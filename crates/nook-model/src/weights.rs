//! Reading the weights of a validated file, tensor by tensor.

use nook_kernels::Matrix;

use crate::error::{Fault, ModelError};
use crate::file::ModelFile;
use crate::gguf::TensorInfo;

/// The tensors of one file, to be read by name. Shapes were checked when the file was opened.
#[derive(Debug)]
pub(crate) struct Weights<'a> {
    pub(crate) file: &'a ModelFile,
}

impl Weights<'_> {
    /// The matrix `name`, in its packed form.
    pub(crate) fn matrix(&self, name: &str) -> Result<Matrix, ModelError> {
        self.packed(self.info(name)?).map_err(|fault| self.file.error(fault))
    }

    /// The vector `name`, decoded.
    pub(crate) fn vector(&self, name: &str) -> Result<Vec<f32>, ModelError> {
        let matrix = self.matrix(name)?;
        let mut numbers = vec![0.0; matrix.columns()];
        match matrix.decode(0, &mut numbers) {
            Ok(()) => Ok(numbers),
            Err(_) => Err(self.file.error(missing(name))),
        }
    }

    /// The vector `name`, if the file has it.
    pub(crate) fn optional_vector(&self, name: &str) -> Result<Option<Vec<f32>>, ModelError> {
        match self.file.header().tensor(name) {
            Some(_) => self.vector(name).map(Some),
            None => Ok(None),
        }
    }

    fn info(&self, name: &str) -> Result<&TensorInfo, ModelError> {
        let found = self.file.header().tensor(name);
        found.ok_or_else(|| self.file.error(missing(name)))
    }

    fn packed(&self, info: &TensorInfo) -> Result<Matrix, Fault> {
        let impossible =
            || Fault::Dimensions { tensor: info.name.clone(), dimensions: info.dimensions.clone() };
        let Some(format) = info.kind.format() else {
            return Err(Fault::UnsupportedTensorType {
                tensor: info.name.clone(),
                type_name: info.kind.name(),
            });
        };
        let (columns, rows) = match info.dimensions[..] {
            [columns] => (columns, 1),
            [columns, rows] => (columns, rows),
            _ => return Err(impossible()),
        };
        let columns = usize::try_from(columns).map_err(|_| impossible())?;
        let rows = usize::try_from(rows).map_err(|_| impossible())?;
        let bytes = self.file.reader().take(info.start, info.bytes)?;
        Matrix::new(format, rows, columns, bytes).map_err(|_| impossible())
    }
}

fn missing(name: &str) -> Fault {
    Fault::MissingTensor { tensor: name.to_owned() }
}
