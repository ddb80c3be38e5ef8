//! A weight matrix as the kernels want it, and its product with rows of activations.
//!
//! Quantised formats are packed in panels of sixteen rows and multiplied in integers with quantised
//! activations ([`crate::packed`]). F32, F16 and BF16, and every format where activations are not to
//! be rounded, keep the blocks of their file: a few rows at a time are decoded into a small buffer
//! and multiplied with f32 activations in the order that [`crate::dot`] names. There is no second
//! copy of a matrix.
//!
//! Several products with the same activations (Q, K and V; gate and up) are one job for the
//! threads.

#![allow(unsafe_code, reason = "threads write disjoint pieces of the outputs")]

mod layout;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::activations::{Activations, Grain};
use crate::block::{Block, Format, decode_row, with_block};
use crate::buffer::{Buffer, Room};
use crate::compute::Compute;
use crate::dot::{dot, dot_2, dot_4};
use crate::isa::per_isa;
use crate::packed::kernel::Out;
use crate::packed::{self, PANEL_ROWS, Packing, with_packing};
use crate::shared::SharedOut;
use layout::Pieces;

pub use layout::Layout;

/// Rows of weights that are decoded together.
const TILE_ROWS: usize = 4;

/// Rows that one thread reads and packs at a time.
const LOAD_ROWS: usize = 64;

/// Jobs for each thread, so that a thread that is held up by another program does not hold up all
/// others.
const PIECES_PER_THREAD: usize = 8;

/// `rows` x `columns` weights.
pub struct Matrix {
    format: Format,
    rows: usize,
    columns: usize,
    store: Store,
    /// What every weight is multiplied with.
    scale: f32,
}

/// How the weights lie in memory.
enum Store {
    /// Row after row, in the blocks of the file.
    Rows { row_bytes: usize, bytes: Buffer },
    /// Panel after panel ([`crate::packed`]).
    Panels { panel_bytes: usize, bytes: Buffer },
}

/// Fills a part of a matrix from some byte of it on. Called from several threads at once.
pub type Read<'a, E> = dyn Fn(usize, &mut [u8]) -> Result<(), E> + Sync + 'a;

/// What a product with quantised weights does with its activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arithmetic {
    /// Quantises them to bytes: several times faster, for all formats of blocks. The rounding moves
    /// a product by some thousandths of its size.
    #[default]
    Bytes,
    /// Leaves them as they are, and decodes the weights.
    Floats,
}

/// One product of [`multiply`].
#[derive(Debug)]
pub struct Product<'a> {
    /// The weights, `(rows, columns)`.
    pub matrix: &'a Matrix,
    /// Where it goes: `(n, rows)`.
    pub out: &'a mut [f32],
}

/// Memory that [`multiply`] uses again and again.
#[derive(Default)]
pub struct Scratch {
    fine: Activations,
    coarse: Activations,
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
    /// There is no memory for it.
    #[error("no memory for a matrix of {bytes} bytes")]
    Memory {
        /// Bytes of its file.
        bytes: usize,
    },
    /// The activations are not whole rows.
    #[error("{got} activations are not rows of {columns}")]
    Activations {
        /// Numbers in a row.
        columns: usize,
        /// Numbers given.
        got: usize,
    },
    /// The output has not one number for each row of each activation.
    #[error("room for {got} products instead of {expected}")]
    Output {
        /// Numbers that come out.
        expected: usize,
        /// Room given.
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
    /// A matrix from the bytes of its file: row after row in blocks of `format`.
    pub fn new(
        arithmetic: Arithmetic,
        format: Format,
        rows: usize,
        columns: usize,
        bytes: &[u8],
    ) -> Result<Self, MatrixError> {
        let layout = Layout { arithmetic, format, rows, columns };
        let expected = layout.row_bytes()?.saturating_mul(rows);
        if bytes.len() != expected {
            return Err(MatrixError::Bytes { expected, got: bytes.len() });
        }
        let read = |at: usize, part: &mut [u8]| -> Result<(), MatrixError> {
            part.copy_from_slice(&bytes[at..at + part.len()]);
            Ok(())
        };
        Self::load(&Compute::single(), &mut Room::default(), layout, &read)
    }

    /// A matrix that `read` brings piece by piece, on several threads at once and in any order:
    /// `read(at, part)` fills `part` from byte `at` of the matrix on. Nothing is held twice. Its
    /// memory is taken from `room`, or from elsewhere where that has too little left.
    ///
    /// # Errors
    ///
    /// The first error of `read`, or a [`MatrixError`] of the sizes.
    pub fn load<E: From<MatrixError> + Send>(
        compute: &Compute,
        room: &mut Room,
        layout: Layout,
        read: &Read<'_, E>,
    ) -> Result<Self, E> {
        let Layout { format, rows, columns, .. } = layout;
        let row_bytes = layout.row_bytes()?;
        let too_big = MatrixError::Memory { bytes: row_bytes.saturating_mul(rows) };
        let pieces = layout.pieces()?;
        let length = layout.held()?.ok_or(too_big)?;
        let mut bytes = room.buffer(length).map_err(|_| too_big)?;
        let out = SharedOut::new(&mut bytes[..]);
        let step = LOAD_ROWS.next_multiple_of(pieces.rows());
        let failed = Mutex::new(None);
        compute.share(rows.div_ceil(step), length, &|index| {
            let rows = index * step..rows.min((index + 1) * step);
            let held = rows.start / pieces.rows()..rows.end.div_ceil(pieces.rows());
            // SAFETY: each index has its own rows, in whole pieces.
            let out = unsafe { out.piece(held.start * pieces.bytes()..held.end * pieces.bytes()) };
            let at = rows.start * row_bytes;
            let read = match pieces {
                Pieces::Rows { .. } => read(at, out),
                Pieces::Panels { .. } => {
                    let mut file = vec![0; rows.len() * row_bytes];
                    read(at, &mut file).map(|()| {
                        let blocks = layout.blocks();
                        with_packing!(format, P => packed::pack::<P>(&file, blocks, out), _ => ());
                    })
                }
            };
            if let Err(error) = read {
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let store = match pieces {
            Pieces::Panels { panel_bytes } => Store::Panels { panel_bytes, bytes },
            Pieces::Rows { row_bytes } => Store::Rows { row_bytes, bytes },
        };
        Ok(Self { format, rows, columns, store, scale: 1.0 })
    }

    /// The same weights, each multiplied with `scale`: files have one beside a matrix whose format
    /// has too little room for large and small scales (NVFP4).
    #[must_use]
    pub fn scaled(self, scale: f32) -> Self {
        Self { scale: self.scale * scale, ..self }
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
        match &self.store {
            Store::Rows { bytes, .. } | Store::Panels { bytes, .. } => bytes.len(),
        }
    }

    /// Format of the blocks.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Decodes row `row` into `out` (`columns` numbers), as an embedding does: the very numbers of
    /// the file, times its scale.
    pub fn decode(&self, row: usize, out: &mut [f32]) -> Result<(), MatrixError> {
        if row >= self.rows {
            return Err(MatrixError::Row { row, rows: self.rows });
        }
        if out.len() != self.columns {
            return Err(MatrixError::Activations { columns: self.columns, got: out.len() });
        }
        match &self.store {
            Store::Rows { row_bytes, bytes } => {
                self.format.decode(&bytes[row * row_bytes..][..*row_bytes], out);
            }
            Store::Panels { panel_bytes, bytes } => {
                let panel = &bytes[row / PANEL_ROWS * panel_bytes..][..*panel_bytes];
                with_packing!(self.format, P => {
                    packed::decode_lane::<P>(panel, row % PANEL_ROWS, out);
                }, _ => unreachable!("only formats with a packing are kept in panels"));
            }
        }
        scale_all(out, self.scale);
        Ok(())
    }

    fn is_packed(&self) -> bool {
        matches!(self.store, Store::Panels { .. })
    }

    /// Which activations it is multiplied with, if it is packed.
    fn grain(&self) -> Option<Grain> {
        if !self.is_packed() {
            return None;
        }
        with_packing!(self.format, P => Some(P::GRAIN), _ => None)
    }

    /// Steps in which its rows are given to threads: panels, or groups of rows.
    fn steps(&self) -> usize {
        self.rows.div_ceil(if self.is_packed() { PANEL_ROWS } else { TILE_ROWS })
    }
}

/// Multiplies the rows of `x`, `(n, columns)`, with each of the matrices, which all have as many
/// columns. `scratch` is memory to be used again; what it held does not matter.
///
/// # Errors
///
/// [`MatrixError`] when sizes do not fit each other; nothing is computed then.
pub fn multiply(
    compute: &Compute,
    scratch: &mut Scratch,
    x: &[f32],
    products: &mut [Product<'_>],
) -> Result<(), MatrixError> {
    let Some(first) = products.first() else {
        return Ok(());
    };
    let columns = first.matrix.columns;
    let n = check(columns, x, products)?;
    if n == 0 {
        return Ok(());
    }
    let Scratch { fine, coarse } = scratch;
    let largest = if compute.isa().is_wide() { 8 } else { 4 };
    for (grain, activations) in [(Grain::Fine, &mut *fine), (Grain::Coarse, &mut *coarse)] {
        if products.iter().any(|product| product.matrix.grain() == Some(grain)) {
            activations.set(compute, grain, x, columns, largest);
        }
    }
    let input = Input { x, n, columns, fine, coarse };
    let outs: Vec<(&Matrix, SharedOut<'_, f32>)> = products
        .iter_mut()
        .map(|product| (product.matrix, SharedOut::new(&mut *product.out)))
        .collect();
    let pieces = pieces(&outs, compute.threads());
    let rows: usize = outs.iter().map(|(matrix, _)| matrix.rows).sum();
    let work = rows.saturating_mul(n).saturating_mul(columns);
    compute.share(pieces.len(), work, &|index| {
        let piece = &pieces[index];
        let (matrix, out) = &outs[piece.product];
        // SAFETY: the steps of two pieces are different, so they write different columns of an
        // output.
        unsafe { multiply_steps(compute, matrix, piece.steps.clone(), &input, out) };
    });
    drop(outs);
    for product in products {
        scale_all(product.out, product.matrix.scale);
    }
    Ok(())
}

/// Nearly all matrices have none, and their numbers stay bit by bit what they are.
fn scale_all(numbers: &mut [f32], scale: f32) {
    if scale != 1.0 {
        numbers.iter_mut().for_each(|number| *number *= scale);
    }
}

/// Checks all sizes; how many rows of activations there are.
fn check(columns: usize, x: &[f32], products: &[Product<'_>]) -> Result<usize, MatrixError> {
    let fault = MatrixError::Activations { columns, got: x.len() };
    if columns == 0 || !x.len().is_multiple_of(columns) {
        return Err(fault);
    }
    let n = x.len() / columns;
    for Product { matrix, out } in products {
        if matrix.columns != columns {
            return Err(MatrixError::Activations { columns: matrix.columns, got: x.len() });
        }
        let expected = matrix.rows.checked_mul(n).ok_or(fault)?;
        if out.len() != expected {
            return Err(MatrixError::Output { expected, got: out.len() });
        }
    }
    Ok(n)
}

/// What all pieces read.
struct Input<'a> {
    x: &'a [f32],
    n: usize,
    columns: usize,
    fine: &'a Activations,
    coarse: &'a Activations,
}

/// Some steps of one product.
struct Piece {
    product: usize,
    steps: Range<usize>,
}

/// Cuts the steps of all products into pieces of about the same size.
fn pieces(products: &[(&Matrix, SharedOut<'_, f32>)], threads: usize) -> Vec<Piece> {
    let steps: usize = products.iter().map(|(matrix, _)| matrix.steps()).sum();
    let size = steps.div_ceil(threads * PIECES_PER_THREAD).max(1);
    let mut pieces = Vec::with_capacity(steps / size + products.len());
    for (product, (matrix, _)) in products.iter().enumerate() {
        let steps = matrix.steps();
        pieces.extend(
            (0..steps)
                .step_by(size)
                .map(|first| Piece { product, steps: first..steps.min(first + size) }),
        );
    }
    pieces
}

/// Computes some steps of a product.
///
/// # Safety
///
/// Nobody else writes the columns of `out` that belong to these steps.
unsafe fn multiply_steps(
    compute: &Compute,
    matrix: &Matrix,
    steps: Range<usize>,
    input: &Input<'_>,
    out: &SharedOut<'_, f32>,
) {
    match &matrix.store {
        Store::Panels { panel_bytes, bytes } => {
            let panels = &bytes[steps.start * panel_bytes..steps.end * panel_bytes];
            // SAFETY: the caller's promise.
            with_packing!(matrix.format, P => unsafe {
                multiply_panels::<P>(compute, matrix, steps, panels, input, out);
            }, _ => unreachable!("only formats with a packing are kept in panels"));
        }
        Store::Rows { row_bytes, bytes } => {
            let rows = steps.start * TILE_ROWS..matrix.rows.min(steps.end * TILE_ROWS);
            let bytes = &bytes[rows.start * row_bytes..rows.end * row_bytes];
            let mut turned = vec![0.0; rows.len() * input.n]; // (rows, n)
            let mut scratch = vec![0.0; TILE_ROWS * input.columns];
            with_block!(matrix.format, B => multiply_piece_of::<B>(
                compute.isa(), bytes, input.columns, input.x, &mut scratch, &mut turned,
            ));
            for token in 0..input.n {
                let at = token * matrix.rows;
                // SAFETY: the caller's promise.
                let out = unsafe { out.piece(at + rows.start..at + rows.end) };
                for (out, products) in out.iter_mut().zip(turned.chunks_exact(input.n)) {
                    *out = products[token];
                }
            }
        }
    }
}

/// Multiplies some panels with all tiles of the activations.
///
/// # Safety
///
/// Nobody else writes the columns of `out` that belong to these panels.
unsafe fn multiply_panels<P: Packing>(
    compute: &Compute,
    matrix: &Matrix,
    panels: Range<usize>,
    bytes: &[u8],
    input: &Input<'_>,
    out: &SharedOut<'_, f32>,
) {
    let activations = match P::GRAIN {
        Grain::Fine => input.fine,
        Grain::Coarse => input.coarse,
    };
    let blocks = matrix.columns / P::ELEMENTS;
    // A single tile goes over all panels; of several, each panel meets all while it is near.
    let count = if activations.tiles().len() == 1 { panels.len() } else { 1 };
    for (first, bytes) in panels.step_by(count).zip(bytes.chunks(count * blocks * P::PANEL_BYTES)) {
        let first = first * PANEL_ROWS;
        let held = bytes.len() / (blocks * P::PANEL_BYTES) * PANEL_ROWS;
        let rows = held.min(matrix.rows - first);
        for tile in activations.tiles() {
            let x = activations.tile(*tile);
            assert_eq!(
                x.len(),
                tile.rows * matrix.columns / P::GRAIN.columns() * P::GRAIN.row_bytes(),
                "a tile has a span for each block"
            );
            // SAFETY: the caller's promise, for the columns of these rows.
            let at = unsafe {
                let tokens = tile.first..tile.first + tile.rows;
                out.columns(tokens, matrix.rows, first..first + rows)
            };
            let out = Out { at, stride: matrix.rows, rows };
            let (isa, bytes, x) = (compute.isa(), bytes.as_ptr(), x.as_ptr());
            // SAFETY: there are panels for these rows, and the tile has as many columns; the rest
            // is the caller's promise.
            unsafe {
                match tile.rows {
                    8 => packed::kernel::multiply_panels::<P, 8>(isa, bytes, blocks, x, out),
                    4 => packed::kernel::multiply_panels::<P, 4>(isa, bytes, blocks, x, out),
                    2 => packed::kernel::multiply_panels::<P, 2>(isa, bytes, blocks, x, out),
                    _ => packed::kernel::multiply_panels::<P, 1>(isa, bytes, blocks, x, out),
                }
            }
        }
    }
}

impl std::fmt::Debug for Scratch {
    /// Nothing of what it holds.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Matrix {
    /// Shape and format only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} x {}", self.format, self.rows, self.columns)
    }
}

per_isa! {
    /// Multiplies the weight rows that start at `bytes` with all of `input`, into `out` (weight
    /// rows, activations). `scratch` holds [`TILE_ROWS`] decoded rows.
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
