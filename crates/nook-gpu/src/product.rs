//! Products of activations with weight matrices, and rows of an embedding.
//!
//! Activations (n, columns) are multiplied in bytes with quantised weights: [`Commands::quantise`]
//! prepares them once for all matrices that take them. Few rows go through a kernel that reads each
//! weight once for them all (decode steps), many through one that computes tiles of 64 by 64
//! (prompts).

use crate::buffer::Buffer;
use crate::commands::{Commands, GROUPS_MAX};
use crate::device::{Gpu, KernelSet};
use crate::error::GpuError;
use crate::kernel::Kernel;
use crate::layout::{Layout, UNIT};
use crate::matrix::{Matrix, Piece};
use crate::template::{Values, expand};
use crate::vector::Each;

/// Rows of activations from which on tiles are computed. Below it, a tile would be mostly empty.
const TILED_ROWS: usize = 17;

/// Rows of a tile.
pub(crate) const TILE: usize = 64;

/// Lanes of a workgroup of the kernels for few rows.
const LANES: u32 = 64;

/// Rows of weights that a workgroup takes with so many rows of activations.
const FEW: [(u32, u32); 4] = [(1, 4), (2, 4), (4, 4), (8, 2)];

/// Least lanes of a subgroup, of any device.
const SUBGROUP_MIN: u32 = 4;

/// Activations in bytes: (n, columns), with a scale for each span.
#[derive(Debug)]
pub struct Quantised {
    /// Four bytes in a word.
    words: Buffer,
    /// A scale for each span.
    scales: Buffer,
    /// Sums of both halves of each unit.
    sums: Buffer,
    /// Room, in numbers.
    room: usize,
    /// Columns of a span of what it holds.
    span: usize,
}

impl Quantised {
    /// Room for `numbers` activations.
    ///
    /// # Errors
    ///
    /// [`GpuError::OutOfMemory`].
    pub fn new(gpu: &Gpu, numbers: usize) -> Result<Self, GpuError> {
        let units = numbers.div_ceil(UNIT);
        Ok(Self {
            words: Buffer::new(gpu, "activations", units * UNIT / 4)?,
            scales: Buffer::new(gpu, "activations", units)?,
            sums: Buffer::new(gpu, "activations", units)?,
            room: numbers,
            span: 0,
        })
    }

    /// Numbers that it has room for.
    #[must_use]
    pub fn room(&self) -> usize {
        self.room
    }
}

impl Matrix {
    /// Columns of activations that must share a scale, where it is multiplied in bytes.
    #[must_use]
    pub fn span(&self) -> Option<usize> {
        self.layout.bytes.then(|| self.layout.span())
    }

    /// What a kernel of it binds, where it is `in_bytes` if the matrix is multiplied in bytes: the
    /// codebook comes last.
    fn bindings(&self, in_bytes: &str) -> String {
        let bindings = if self.layout.bytes { in_bytes } else { "rrrw" };
        format!("{bindings}{}", if self.table.is_some() { "r" } else { "" })
    }
}

impl Commands {
    /// Rounds activations `x` (n, columns) to bytes, for matrices whose [`Matrix::span`] is `span`.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where `out` has too little room or rows are no whole spans.
    pub fn quantise(
        &mut self,
        x: &Buffer,
        n: usize,
        columns: usize,
        span: usize,
        out: &mut Quantised,
    ) -> Result<(), GpuError> {
        let numbers = n.saturating_mul(columns);
        if span == 0 || !columns.is_multiple_of(span) {
            return Err(GpuError::Size { what: "columns of a span", got: columns, expected: span });
        }
        check("activations", x.len(), numbers)?;
        check("quantised activations", out.room, numbers)?;
        out.span = span;
        let kernel = self.gpu().clone().kernel(&format!("quantise {span}"), |gpu| {
            let lanes = (span / 4) as u32;
            let values = Values::new(&[
                ("SPAN", span as u32),
                ("SPAN_LANES", lanes),
                ("STEPS", lanes.ilog2()),
            ]);
            let source = expand(include_str!("shaders/quantise.wgsl"), &values);
            Kernel::build(gpu, "quantise", source, "rwww")
        })?;
        let rows = n as u32;
        let groups =
            [columns.div_ceil(256) as u32, rows.min(GROUPS_MAX), rows.div_ceil(GROUPS_MAX)];
        let buffers = [x, &out.words, &out.scales, &out.sums];
        self.dispatch(kernel, &buffers, groups, &[columns as u32, rows]);
        Ok(())
    }

    /// Multiplies activations (n, columns) with `matrix`: (n, rows) into `out`. A matrix that is
    /// multiplied in bytes takes `quantised`, every other one `x`.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where sizes do not fit.
    pub fn product(
        &mut self,
        matrix: &Matrix,
        x: &Buffer,
        quantised: &Quantised,
        n: usize,
        out: &Buffer,
    ) -> Result<(), GpuError> {
        let layout = &matrix.layout;
        check("products", out.len(), n.saturating_mul(matrix.rows))?;
        let numbers = n.saturating_mul(matrix.columns);
        if layout.bytes {
            check("quantised activations", quantised.room, numbers)?;
            if quantised.span != layout.span() {
                let (got, expected) = (quantised.span, layout.span());
                return Err(GpuError::Size { what: "columns of a span", got, expected });
            }
        } else {
            check("activations", x.len(), numbers)?;
        }
        for piece in &matrix.pieces {
            self.piece_product(matrix, piece, x, quantised, n, out)?;
        }
        if matrix.scale != 1.0 {
            let count = n.saturating_mul(matrix.rows);
            self.each(out, count, matrix.rows, Each::Scale(matrix.scale))?;
        }
        Ok(())
    }

    fn piece_product(
        &mut self,
        matrix: &Matrix,
        piece: &Piece,
        x: &Buffer,
        quantised: &Quantised,
        n: usize,
        out: &Buffer,
    ) -> Result<(), GpuError> {
        let layout = matrix.layout;
        let set = self.gpu().kernels();
        let rows = piece.rows as u32;
        let (form, groups) = match set {
            KernelSet::Exact => (Form::Exact, spread(rows, n as u32)),
            _ if n >= TILED_ROWS => {
                let tiles = |count: usize| count.div_ceil(TILE) as u32;
                (Form::Tile, [tiles(piece.rows), tiles(n), 1])
            }
            _ => {
                let (together, each) = FEW
                    .into_iter()
                    .find(|(together, _)| n as u32 <= *together)
                    .unwrap_or(FEW[FEW.len() - 1]);
                let groups = spread(rows.div_ceil(each), (n as u32).div_ceil(together));
                (Form::Few { together, each }, groups)
            }
        };
        let aligned = matrix.columns.is_multiple_of(8);
        let name = format!("{:?} {form:?} {set:?} {aligned}", layout.format);
        let kernel = self.gpu().clone().kernel(&name, |gpu| {
            let source = source(&layout, form, set == KernelSet::Subgroup, aligned);
            Kernel::build(gpu, &name, source, &matrix.bindings("rrrrrw"))
        })?;
        let params = params(matrix, piece, n as u32);
        let weights = &piece.buffer;
        let mut buffers = if layout.bytes {
            let Quantised { words, scales, sums, .. } = quantised;
            vec![weights, weights, words, scales, sums, out]
        } else {
            vec![weights, weights, x, out]
        };
        buffers.extend(matrix.table.as_deref());
        self.dispatch(kernel, &buffers, groups, &params);
        Ok(())
    }

    /// The rows `ids` (n) of `matrix`, times `factor`: (n, columns) into `out`. There must be such
    /// rows.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where `out` has too little room.
    pub fn lookup(
        &mut self,
        matrix: &Matrix,
        ids: &Buffer,
        n: usize,
        factor: f32,
        out: &Buffer,
    ) -> Result<(), GpuError> {
        check("row numbers", ids.len(), n)?;
        check("rows", out.len(), n.saturating_mul(matrix.columns))?;
        check("rows at once", GROUPS_MAX as usize, n)?;
        let layout = matrix.layout;
        let name = format!("lookup {:?}", layout.format);
        let kernel = self.gpu().clone().kernel(&name, |gpu| {
            Kernel::build(gpu, &name, lookup_source(&layout), &matrix.bindings("rrrw"))
        })?;
        let units = layout.units(matrix.columns).div_ceil(64) as u32;
        for piece in &matrix.pieces {
            let mut params = params(matrix, piece, n as u32);
            params[2] = (factor * matrix.scale).to_bits();
            let mut buffers = vec![&piece.buffer, &piece.buffer, ids, out];
            buffers.extend(matrix.table.as_deref());
            self.dispatch(kernel.clone(), &buffers, [units, n as u32, 1], &params);
        }
        Ok(())
    }
}

const BYTES: &str = include_str!("shaders/bytes.wgsl");
const FLOATS: &str = include_str!("shaders/floats.wgsl");
const CODEBOOK: &str = include_str!("shaders/codebook.wgsl");

/// How weights of this layout are read.
fn head(layout: &Layout) -> &'static [&'static str] {
    match (layout.bytes, layout.format.codebook()) {
        (false, _) => &[FLOATS],
        (true, None) => &[BYTES],
        (true, Some(_)) => &[BYTES, CODEBOOK],
    }
}

/// Which of the kernels of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Exact,
    /// `together` rows of activations by `each` rows of weights in a workgroup.
    Few {
        together: u32,
        each: u32,
    },
    Tile,
}

/// The text of a kernel.
pub(crate) fn source(layout: &Layout, form: Form, subgroup: bool, aligned: bool) -> String {
    let (together, each) = match form {
        Form::Few { together, each } => (together, each),
        _ => (1, 1),
    };
    let sums = together * each;
    let partial = if subgroup { LANES / SUBGROUP_MIN * sums } else { LANES * sums };
    let values = Values::new(&[
        ("N", together),
        ("ROWS", each),
        ("LANES", LANES),
        ("SUMS_EACH", sums),
        ("PARTIAL", partial),
        ("SUBGROUP", u32::from(subgroup)),
        ("ALIGNED", u32::from(aligned)),
    ]);
    let values = layout.values().and(values);
    let reduce = expand(include_str!("shaders/reduce.wgsl"), &values);
    let values = values.with("REDUCE", reduce);
    let body = match (layout.bytes, form) {
        (true, Form::Exact) => include_str!("shaders/bytes_exact.wgsl"),
        (true, Form::Few { .. }) => include_str!("shaders/bytes_vector.wgsl"),
        (true, Form::Tile) => include_str!("shaders/bytes_tile.wgsl"),
        (false, Form::Exact) => include_str!("shaders/floats_exact.wgsl"),
        (false, Form::Few { .. }) => include_str!("shaders/floats_vector.wgsl"),
        (false, Form::Tile) => include_str!("shaders/floats_tile.wgsl"),
    };
    let input = if layout.bytes { "" } else { include_str!("shaders/floats_input.wgsl") };
    let values = values.and(Values::new(&[("TABLE_AT", 6)]));
    expand(&[&head(layout).concat(), input, body].concat(), &values)
}

/// The text of the kernel that looks rows up.
pub(crate) fn lookup_source(layout: &Layout) -> String {
    let values = layout.values().and(Values::new(&[("TABLE_AT", 4)]));
    expand(&[&head(layout).concat(), include_str!("shaders/lookup.wgsl")].concat(), &values)
}

fn params(matrix: &Matrix, piece: &Piece, n: u32) -> [u32; 10] {
    let sections = matrix.layout.sections(piece.rows, matrix.columns);
    [
        matrix.layout.units(matrix.columns) as u32,
        piece.rows as u32,
        n,
        matrix.rows as u32,
        piece.first as u32,
        sections.bits as u32,
        sections.scales as u32,
        sections.heads as u32,
        0,
        matrix.columns as u32,
    ]
}

/// `count` workgroups over two axes, `deep` of them over the third.
pub(crate) fn spread(count: u32, deep: u32) -> [u32; 3] {
    [count.min(GROUPS_MAX), count.div_ceil(GROUPS_MAX), deep]
}

/// That there is room for what is needed.
pub(crate) fn check(what: &'static str, room: usize, needed: usize) -> Result<(), GpuError> {
    if needed > room {
        return Err(GpuError::Size { what, got: room, expected: needed });
    }
    Ok(())
}
