//! How many bytes a matrix takes, in its file and in memory: known before anything of it is read.

use super::{Arithmetic, MatrixError};
use crate::block::Format;
use crate::buffer::Room;
use crate::packed::{PANEL_ROWS, Packing, with_packing};

/// What a matrix is, but for its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// What products with it do.
    pub arithmetic: Arithmetic,
    /// Its blocks.
    pub format: Format,
    /// Rows: numbers that come out for each row of activations.
    pub rows: usize,
    /// Columns: numbers in a row of activations.
    pub columns: usize,
}

/// How rows are kept in memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pieces {
    /// One by one, in the blocks of the file.
    Rows {
        /// Bytes of each.
        row_bytes: usize,
    },
    /// Some together, in panels ([`crate::packed`]).
    Panels {
        /// Bytes of each.
        panel_bytes: usize,
    },
}

impl Layout {
    /// Bytes that the matrix takes of the [`Room`] that it is loaded into.
    ///
    /// # Errors
    ///
    /// When a row does not fill whole blocks.
    pub fn room(&self) -> Result<usize, MatrixError> {
        let length = self.held()?.unwrap_or(usize::MAX);
        Ok(Room::taken_by(length))
    }

    /// Bytes of a row in the file.
    pub(super) fn row_bytes(&self) -> Result<usize, MatrixError> {
        let block = self.format.elements();
        let fault = MatrixError::Columns { columns: self.columns, block };
        self.format.row_bytes(self.columns).ok_or(fault)
    }

    /// Blocks of a row.
    pub(super) fn blocks(&self) -> usize {
        self.columns / self.format.elements()
    }

    /// In which pieces rows are kept.
    pub(super) fn pieces(&self) -> Result<Pieces, MatrixError> {
        let row_bytes = self.row_bytes()?;
        let panel_bytes = match self.arithmetic {
            Arithmetic::Floats => None,
            Arithmetic::Bytes => {
                with_packing!(self.format, P => Some(self.blocks() * P::PANEL_BYTES), _ => None)
            }
        };
        Ok(match panel_bytes {
            Some(panel_bytes) => Pieces::Panels { panel_bytes },
            None => Pieces::Rows { row_bytes },
        })
    }

    /// Bytes in memory; `None` when they cannot be counted.
    pub(super) fn held(&self) -> Result<Option<usize>, MatrixError> {
        let pieces = self.pieces()?;
        Ok(self.rows.div_ceil(pieces.rows()).checked_mul(pieces.bytes()))
    }
}

impl Pieces {
    /// Rows of a piece.
    pub(super) fn rows(self) -> usize {
        match self {
            Self::Rows { .. } => 1,
            Self::Panels { .. } => PANEL_ROWS,
        }
    }

    /// Bytes of a piece.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Rows { row_bytes: bytes } | Self::Panels { panel_bytes: bytes } => bytes,
        }
    }
}
