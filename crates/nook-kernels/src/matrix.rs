//! A weight matrix in its file form, and its product with rows of activations.
//!
//! The packed blocks of the file are kept as they are: there is no f32 copy. A few rows of weights
//! at a time are decoded into a small buffer and multiplied with every row of activations, so a long
//! prompt decodes each weight once per step; each product keeps the order that [`crate::dot`] names.

use crate::block::{Block, Format, decode_row, with_block};
use crate::compute::Compute;
use crate::dot::{dot, dot_2, dot_4};
use crate::isa::per_isa;

/// Rows of weights that are decoded together.
const TILE_ROWS: usize = 4;

/// `rows` x `columns` weights, row after row, in the blocks of `format`.
pub struct Matrix {
    format: Format,
    rows: usize,
    columns: usize,
    row_bytes: usize,
    bytes: Vec<u8>,
}

/// Numbers that are no matrix, or do not fit one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MatrixError {
    /// A row does not fill whole blocks.
    #[error("rows of {columns} numbers do not fill blocks of {block}")]
    Columns {
        /// Numbers in a row.
        columns: usize,
        /// Numbers in a block.
        block: usize,
    },
    /// The bytes are not as many as the shape says.
    #[error("the matrix has {got} bytes instead of {expected}")]
    Bytes {
        /// Bytes the shape needs.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// The activations are not whole rows.
    #[error("{got} activations are not rows of {columns}")]
    Activations {
        /// Numbers in a row.
        columns: usize,
        /// Numbers given.
        got: usize,
    },
    /// There is no such row.
    #[error("row {row} of {rows}")]
    Row {
        /// The row asked for.
        row: usize,
        /// Rows there are.
        rows: usize,
    },
}

impl Matrix {
    /// A matrix over the bytes of its file.
    pub fn new(
        format: Format,
        rows: usize,
        columns: usize,
        bytes: Vec<u8>,
    ) -> Result<Self, MatrixError> {
        let row_bytes = format
            .row_bytes(columns)
            .ok_or(MatrixError::Columns { columns, block: format.elements() })?;
        let expected = row_bytes.saturating_mul(rows);
        if bytes.len() != expected {
            return Err(MatrixError::Bytes { expected, got: bytes.len() });
        }
        Ok(Self { format, rows, columns, row_bytes, bytes })
    }

    /// Rows: numbers that come out for each row of activations.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns: numbers in a row of activations.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes held in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Format of the blocks.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Decodes row `row` into `out` (`columns` numbers), as an embedding does.
    pub fn decode(&self, row: usize, out: &mut [f32]) -> Result<(), MatrixError> {
        if row >= self.rows {
            return Err(MatrixError::Row { row, rows: self.rows });
        }
        if out.len() != self.columns {
            return Err(MatrixError::Activations { columns: self.columns, got: out.len() });
        }
        let at = row * self.row_bytes;
        self.format.decode(&self.bytes[at..at + self.row_bytes], out);
        Ok(())
    }

    /// The products of all weight rows with each row of activations: `(n, columns)` in,
    /// `(n, rows)` out.
    pub fn multiply(&self, compute: &Compute, input: &[f32]) -> Result<Vec<f32>, MatrixError> {
        let fault = MatrixError::Activations { columns: self.columns, got: input.len() };
        if self.columns == 0 || !input.len().is_multiple_of(self.columns) {
            return Err(fault);
        }
        let n = input.len() / self.columns;
        // By weight row first, so that each thread writes one contiguous piece: (rows, n).
        let mut turned = vec![0.0; self.rows.checked_mul(n).ok_or(fault)?];
        let work = turned.len().saturating_mul(self.columns);
        compute.rows(&mut turned, n, work, |first, out| {
            let bytes = &self.bytes[first * self.row_bytes..];
            let mut scratch = vec![0.0; TILE_ROWS * self.columns];
            with_block!(self.format, B => multiply_piece_of::<B>(
                compute.isa(), bytes, self.columns, input, &mut scratch, out,
            ));
        });
        if n <= 1 {
            return Ok(turned);
        }
        Ok(transpose(&turned, self.rows, n))
    }
}

impl std::fmt::Debug for Matrix {
    /// Shape and format only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} x {}", self.format, self.rows, self.columns)
    }
}

per_isa! {
    /// Multiplies the weight rows that start at `bytes` with all of `input`, into `out` (weight rows,
    /// activations). `scratch` holds [`TILE_ROWS`] decoded rows.
    fn multiply_piece_of<B: Block>(
        bytes: &[u8],
        columns: usize,
        input: &[f32],
        scratch: &mut [f32],
        out: &mut [f32],
    ) = multiply_piece;
}

#[inline(always)]
fn multiply_piece<B: Block, const WIDE: bool>(
    bytes: &[u8],
    columns: usize,
    input: &[f32],
    scratch: &mut [f32],
    out: &mut [f32],
) {
    let n = input.len() / columns;
    let row_bytes = columns / B::ELEMENTS * B::BYTES;
    for (bytes, out) in bytes.chunks(TILE_ROWS * row_bytes).zip(out.chunks_mut(TILE_ROWS * n)) {
        let rows = out.len() / n;
        for (bytes, scratch) in
            bytes.chunks_exact(row_bytes).zip(scratch.chunks_exact_mut(columns)).take(rows)
        {
            decode_row::<B>(bytes, scratch);
        }
        let mut scratch = &scratch[..rows * columns];
        let mut out = out;
        if n > 1 && WIDE && rows == TILE_ROWS {
            four_by_one(scratch, columns, input, out);
            continue;
        }
        while n > 1 && scratch.len() >= 2 * columns {
            let (pair, rest) = scratch.split_at(2 * columns);
            let (products, rest_out) = out.split_at_mut(2 * n);
            two_by_one(pair, columns, input, products);
            (scratch, out) = (rest, rest_out);
        }
        one_by_one(scratch, columns, input, out);
    }
}

/// Products of decoded `weights` with `input`, one at a time.
#[inline(always)]
fn one_by_one(weights: &[f32], columns: usize, input: &[f32], out: &mut [f32]) {
    let n = input.len() / columns;
    for (weights, out) in weights.chunks_exact(columns).zip(out.chunks_exact_mut(n)) {
        for (input, out) in input.chunks_exact(columns).zip(out) {
            *out = dot(weights, input);
        }
    }
}

/// As [`one_by_one`], for two rows of weights at once.
#[inline(always)]
fn two_by_one(weights: &[f32], columns: usize, input: &[f32], out: &mut [f32]) {
    let n = input.len() / columns;
    let (a, b) = weights.split_at(columns);
    for (i, input) in input.chunks_exact(columns).enumerate() {
        [out[i], out[n + i]] = dot_2([a, b], input);
    }
}

/// As [`one_by_one`], for four rows of weights at once.
#[inline(always)]
fn four_by_one(weights: &[f32], columns: usize, input: &[f32], out: &mut [f32]) {
    let n = input.len() / columns;
    let (ab, cd) = weights.split_at(2 * columns);
    let ((a, b), (c, d)) = (ab.split_at(columns), cd.split_at(columns));
    for (i, input) in input.chunks_exact(columns).enumerate() {
        [out[i], out[n + i], out[2 * n + i], out[3 * n + i]] = dot_4([a, b, c, d], input);
    }
}

/// `(rows, n)` to `(n, rows)`, in squares that stay in the cache.
fn transpose(from: &[f32], rows: usize, n: usize) -> Vec<f32> {
    const SIDE: usize = 16;
    let mut to = vec![0.0; from.len()];
    for row0 in (0..rows).step_by(SIDE) {
        for i in 0..n {
            for row in row0..rows.min(row0 + SIDE) {
                to[i * rows + row] = from[row * n + i];
            }
        }
    }
    to
}
