//! Moving rows and columns of activations between buffers.

use crate::buffer::Buffer;
use crate::commands::Commands;
use crate::error::GpuError;
use crate::kernel::Kernel;
use crate::product::check;
use crate::vector::lines;

/// Which columns of which rows are copied, and where to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    rows: usize,
    width: usize,
    from: (usize, usize),
    to: (usize, usize),
    repeat: usize,
}

impl Columns {
    /// All of `rows` rows of `width` numbers.
    #[must_use]
    pub fn new(rows: usize, width: usize) -> Self {
        Self { rows, width, from: (width, 0), to: (width, 0), repeat: 1 }
    }

    /// Out of rows of `stride` numbers, from number `at` on.
    #[must_use]
    pub fn cut(self, stride: usize, at: usize) -> Self {
        Self { from: (stride, at), ..self }
    }

    /// Into rows of `stride` numbers, from number `at` on.
    #[must_use]
    pub fn paste(self, stride: usize, at: usize) -> Self {
        Self { to: (stride, at), ..self }
    }

    /// Every row so many times, one after the other; `rows` counts them all.
    #[must_use]
    pub fn repeat(self, repeat: usize) -> Self {
        Self { repeat: repeat.max(1), ..self }
    }
}

impl Commands {
    /// Copies `columns` of `x` into `out`.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where a buffer is too short.
    pub fn copy_columns(
        &mut self,
        x: &Buffer,
        out: &Buffer,
        columns: Columns,
    ) -> Result<(), GpuError> {
        let Columns { rows, width, from, to, repeat } = columns;
        if rows == 0 || width == 0 {
            return Ok(());
        }
        let end = |rows: usize, (stride, at): (usize, usize)| (rows - 1) * stride + at + width;
        check("columns that are copied", x.len(), end(rows.div_ceil(repeat), from))?;
        check("columns that are written", out.len(), end(rows, to))?;
        let kernel = self.gpu().clone().kernel("columns", |gpu| {
            Kernel::build(gpu, "columns", include_str!("shaders/columns.wgsl").to_owned(), "rw")
        })?;
        let params = [rows, width, from.0, from.1, to.0, to.1, repeat].map(|n| n as u32);
        self.dispatch(kernel, &[x, out], lines(rows * width), &params);
        Ok(())
    }

    /// The rows `rows` (count) of `x`, each `width` numbers, into `out`. There must be such rows.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where a buffer is too short.
    pub fn gather(
        &mut self,
        x: &Buffer,
        width: usize,
        rows: &Buffer,
        count: usize,
        out: &Buffer,
    ) -> Result<(), GpuError> {
        check("row numbers", rows.len(), count)?;
        check("rows", out.len(), count.saturating_mul(width))?;
        let kernel = self.gpu().clone().kernel("gather", |gpu| {
            Kernel::build(gpu, "gather", include_str!("shaders/gather.wgsl").to_owned(), "rrw")
        })?;
        let params = [width as u32, count as u32];
        self.dispatch(kernel, &[x, rows, out], lines(count * width), &params);
        Ok(())
    }

    /// Adds the rows of `x` (count, width) to the rows `rows` of `out`, of which there must be as
    /// many as that, each named at most once.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where a buffer is too short.
    pub fn scatter_add(
        &mut self,
        x: &Buffer,
        width: usize,
        rows: &Buffer,
        count: usize,
        out: &Buffer,
    ) -> Result<(), GpuError> {
        check("row numbers", rows.len(), count)?;
        check("rows", x.len(), count.saturating_mul(width))?;
        let kernel = self.gpu().clone().kernel("scatter", |gpu| {
            Kernel::build(gpu, "scatter", include_str!("shaders/scatter.wgsl").to_owned(), "rrw")
        })?;
        let params = [width as u32, count as u32];
        self.dispatch(kernel, &[x, rows, out], lines(count * width), &params);
        Ok(())
    }
}
