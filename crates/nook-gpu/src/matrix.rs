//! A weight matrix on a GPU, in pieces of rows that a device can bind.

use std::fmt;
use std::sync::Arc;

use nook_kernels::Format;

use crate::buffer::Buffer;
use crate::device::Gpu;
use crate::error::GpuError;
use crate::layout::{Layout, repack};

/// Bytes of a file that are read and laid out together. One piece of a matrix may be uploaded in
/// several.
const STAGE_BYTES: usize = 16 << 20;

/// Rows that are staged together are a multiple of this: so many fill whole words of every section,
/// which begin at multiples of four words.
const STAGE_ROWS: usize = 64;

/// Most rows of a piece: the workgroups that a dispatch may count in one axis, each with as many
/// rows as a tile.
const PIECE_ROWS_MAX: usize = 65_535 * crate::product::TILE;

/// `rows` x `columns` weights on a GPU.
pub struct Matrix {
    pub(crate) layout: Layout,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) pieces: Vec<Piece>,
    /// The rows that its codes choose from.
    pub(crate) table: Option<Arc<Buffer>>,
    /// What every weight is multiplied with.
    pub(crate) scale: f32,
}

/// Rows of a matrix in one buffer.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) first: usize,
    pub(crate) rows: usize,
    pub(crate) buffer: Buffer,
}

impl Matrix {
    /// Bytes that `rows` x `columns` weights in `format` take on a GPU. (A codebook, of 4 KB at most,
    /// is there once for all of a format.)
    #[must_use]
    pub fn bytes_of(format: Format, rows: usize, columns: usize) -> u64 {
        Layout::of(format).bytes_of(rows, columns)
    }

    /// Uploads a matrix that `read` brings row by row: `read(at, part)` fills `part`, whole rows in
    /// the blocks of `format`, from row `at` on. Memory is booked for all of it before the first
    /// row is read.
    ///
    /// # Errors
    ///
    /// A [`GpuError`] of size or memory, or the first error of `read`.
    pub fn load<E: From<GpuError>>(
        gpu: &Gpu,
        format: Format,
        rows: usize,
        columns: usize,
        mut read: impl FnMut(usize, &mut [u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let layout = Layout::of(format);
        let size = |got, expected| GpuError::Size { what: "columns of a matrix", got, expected };
        let row_bytes = format.row_bytes(columns).filter(|bytes| *bytes > 0);
        let row_bytes = row_bytes.ok_or_else(|| size(columns, format.elements()))?;
        let limit = gpu.inner().binding_bytes;
        // Sections are rounded up, so a piece is a little more than the sum of its rows.
        let row_held = layout.bytes_of(16, columns).div_ceil(16).max(1);
        let fits = (limit.saturating_sub(256) / row_held) as usize;
        let at_once = fits.min(PIECE_ROWS_MAX);
        if at_once == 0 {
            return Err(size(columns, (limit / 4) as usize).into());
        }
        let table = gpu.table(&layout)?;
        let mut pieces = Vec::new();
        for first in (0..rows).step_by(at_once) {
            let rows = at_once.min(rows - first);
            let words = layout.sections(rows, columns).end;
            let buffer = Buffer::new(gpu, "weights", words)?;
            pieces.push(Piece { first, rows, buffer });
        }
        let stage_rows = (STAGE_BYTES / row_bytes).max(STAGE_ROWS) / STAGE_ROWS * STAGE_ROWS;
        let mut file = Vec::new();
        for piece in &pieces {
            let whole = piece.rows <= stage_rows;
            let mut words = Vec::new();
            for first in (0..piece.rows).step_by(stage_rows) {
                let count = stage_rows.min(piece.rows - first);
                file.resize(count * row_bytes, 0);
                read(piece.first + first, &mut file)?;
                let part = repack(&layout, count, columns, &file);
                if whole {
                    words = part;
                } else {
                    place(&layout, piece, columns, first, count, &part, gpu);
                }
            }
            piece.buffer.write_words(gpu, 0, &words);
            // Uploads are staged in RAM until they are submitted: one piece at a time, not all.
            gpu.inner().queue.submit([]);
            gpu.wait()?;
        }
        Ok(Self { layout, rows, columns, pieces, table, scale: 1.0 })
    }

    /// The same weights, each multiplied with `scale`.
    #[must_use]
    pub fn scaled(self, scale: f32) -> Self {
        Self { scale: self.scale * scale, ..self }
    }

    /// A matrix of these bytes: row after row in blocks of `format`.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub fn new(
        gpu: &Gpu,
        format: Format,
        rows: usize,
        columns: usize,
        bytes: &[u8],
    ) -> Result<Self, GpuError> {
        let row_bytes = format.row_bytes(columns).unwrap_or(0);
        if bytes.len() != row_bytes.saturating_mul(rows) {
            let (what, expected) = ("bytes of a matrix", row_bytes.saturating_mul(rows));
            return Err(GpuError::Size { what, got: bytes.len(), expected });
        }
        Self::load(gpu, format, rows, columns, |at, part| {
            part.copy_from_slice(&bytes[at * row_bytes..][..part.len()]);
            Ok(())
        })
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

    /// Format of the weights.
    #[must_use]
    pub fn format(&self) -> Format {
        self.layout.format
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.buffer.bytes()).sum()
    }

    /// Buffers that it lies in.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }
}

/// Writes `part`, rows `first..first + count` laid out by themselves, into the sections of their
/// piece. `first` is a multiple of [`STAGE_ROWS`].
fn place(
    layout: &Layout,
    piece: &Piece,
    columns: usize,
    first: usize,
    count: usize,
    part: &[u32],
    gpu: &Gpu,
) {
    let own = layout.sections(count, columns);
    let whole = layout.sections(piece.rows, columns);
    let before = layout.sections(first, columns);
    let spans = [
        (0, own.bits, 0, before.bits),
        (own.bits, own.scales, whole.bits, before.scales - before.bits),
        (own.scales, own.heads, whole.scales, before.heads - before.scales),
        (own.heads, own.end, whole.heads, before.end - before.heads),
    ];
    for (from, to, section, at) in spans {
        piece.buffer.write_words(gpu, section + at, &part[from..to]);
    }
}

impl fmt::Debug for Matrix {
    /// Shape and format; never numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{} {:?} on a GPU", self.rows, self.columns, self.layout.format)
    }
}
