//! Quantised weights in the order in which the kernels read them.
//!
//! Sixteen rows of a matrix form a **panel**; a lane of a vector register is a row of it. Within a
//! panel, block follows block along the columns, and in a block the bytes of the sixteen rows are
//! interleaved in groups of four columns, the unit of a byte dot product. A block is a head (scales
//! of the sixteen rows) and **units** of 32 columns ([`planes`]). Packing keeps every bit of the file
//! and spreads only the 6-bit scales of Q4_K and Q5_K to bytes: at most 2.8 % more than the file.
//!
//! One product is defined as ([`kernel`] computes it, sixteen rows and several activations at once):
//!
//! ```text
//! for each unit, or half of one where a scale counts for 16 numbers, in order:
//!     i  = sum of (q - zero) * x                       exact, i32
//!     sum = sum + (i as f32 * (a * dx)  -  b * sx)      f32, each operation rounded
//! ```
//!
//! with weights `a * (q - zero) - b` as the file defines them (`b` is left out where the format has
//! none), and activations `dx * x` with the sum `sx` ([`crate::activations`]). That order is the only
//! one: it does not depend on threads, instruction set, or on what else is computed.

#![allow(unsafe_code, reason = "the unsafe interface of the kernels")]

pub(crate) mod formats;
pub(crate) mod kernel;
pub(crate) mod planes;

use crate::block::Block;
use crate::simd::Simd;
use planes::Planes;

/// Calls a macro body with `$packing` standing for the packing of a [`crate::Format`], or another one
/// where the format has none.
macro_rules! with_packing {
    ($format:expr, $packing:ident => $body:expr, _ => $other:expr) => {
        $crate::packed::with_packing!($format, $packing => $body, _ => $other;
            legacy: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0;
            super_block: Q2K, Q3K, Q4K, Q5K, Q6K;
            uneven: Iq4Nl, Iq4Xs;
        )
    };
    (
        $format:expr, $packing:ident => $body:expr, _ => $other:expr;
        $($module:ident: $($name:ident),+;)+
    ) => {
        match $format {
            $($(
                $crate::block::Format::$name => {
                    type $packing = $crate::block::$module::$name;
                    $body
                }
            )+)+
            _ => $other,
        }
    };
}
pub(crate) use with_packing;

/// Rows of a panel.
pub(crate) const PANEL_ROWS: usize = 16;

/// Columns of a unit.
pub(crate) const UNIT: usize = 32;

/// Most units of a block.
const UNITS_MAX: usize = 8;

/// One block of one row, taken apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    /// Scale of the block, and scale of its minima (or its minimum), as they stand in the file.
    pub(crate) d: [u8; 2],
    pub(crate) m: [u8; 2],
    /// Scales of units or half units, and minima.
    pub(crate) scales: [u8; 2 * UNITS_MAX],
    pub(crate) minima: [u8; 2 * UNITS_MAX],
    /// Quantised numbers.
    pub(crate) q: [[u8; UNIT]; UNITS_MAX],
}

impl Parts {
    pub(crate) const ZERO: Self = Self {
        d: [0; 2],
        m: [0; 2],
        scales: [0; 2 * UNITS_MAX],
        minima: [0; 2 * UNITS_MAX],
        q: [[0; UNIT]; UNITS_MAX],
    };
}

/// How a quantised format lies in a panel.
pub(crate) trait Packing: Block {
    /// Units of a block.
    const UNITS: usize = Self::ELEMENTS / UNIT;
    /// Bytes of the head: sixteen rows of scales.
    const HEAD: usize;
    /// Scales of a unit: 1, or 2 for the formats with one for 16 numbers.
    const SCALES: usize;
    /// Whether weights have a minimum.
    const HAS_MINIMUM: bool;
    /// Whether quantised numbers are signed bytes.
    const SIGNED: bool;
    /// Where the quantised numbers lie.
    type Planes: Planes;

    /// Bytes of a block of a panel.
    const PANEL_BYTES: usize = Self::HEAD + Self::UNITS * Self::Planes::BYTES;

    /// Takes a block of the file apart.
    fn take_apart(block: &[u8]) -> Parts;

    /// Writes the scales of row `lane` into the head of a panel's block.
    fn put_head(parts: &Parts, lane: usize, head: &mut [u8]);

    /// What the head says for unit `unit` and half `half`: `a` and `b` for `LANES` rows from lane
    /// `LANES * part` on.
    ///
    /// # Safety
    ///
    /// `block` is a whole block of a panel, and the processor has the instructions of `S`.
    unsafe fn scales<S: Simd>(
        block: *const u8,
        unit: usize,
        half: usize,
        part: usize,
    ) -> (S::F, S::F);

    /// The quantised numbers as the byte product takes them, from those of the planes.
    ///
    /// # Safety
    ///
    /// The processor has the instructions of `S`.
    #[inline(always)]
    unsafe fn value<S: Simd>(q: S::I) -> S::I {
        q
    }

    /// Where the exact sum begins: `-zero * sum of x`, of the negative sum of the activations.
    ///
    /// # Safety
    ///
    /// The processor has the instructions of `S`.
    unsafe fn start<S: Simd>(negative_sum: *const i32) -> S::I;
}

/// Packs whole rows of file blocks, `blocks` to a row, into panels of zeros. The last panel may have
/// room for more rows.
pub(crate) fn pack<P: Packing>(rows: &[u8], blocks: usize, panels: &mut [u8]) {
    let panels = panels.chunks_exact_mut(blocks * P::PANEL_BYTES);
    for (rows, panel) in rows.chunks(PANEL_ROWS * blocks * P::BYTES).zip(panels) {
        for (lane, row) in rows.chunks_exact(blocks * P::BYTES).enumerate() {
            pack_row::<P>(row, lane, panel);
        }
    }
}

/// Packs a row into lane `lane` of a panel.
fn pack_row<P: Packing>(row: &[u8], lane: usize, panel: &mut [u8]) {
    let panel = panel.chunks_exact_mut(P::PANEL_BYTES);
    for (block, packed) in row.chunks_exact(P::BYTES).zip(panel) {
        let parts = P::take_apart(block);
        let (head, units) = packed.split_at_mut(P::HEAD);
        P::put_head(&parts, lane, head);
        for (q, unit) in parts.q.iter().zip(units.chunks_exact_mut(P::Planes::BYTES)) {
            P::Planes::put(q, lane, unit);
        }
    }
}

/// Decodes row `lane` of a panel: the very numbers that the file's blocks decode to.
pub(crate) fn decode_lane<P: Packing>(panel: &[u8], lane: usize, out: &mut [f32]) {
    let blocks = panel.chunks_exact(P::PANEL_BYTES);
    for (block, out) in blocks.zip(out.chunks_exact_mut(P::ELEMENTS)) {
        for (unit, out) in out.chunks_exact_mut(UNIT).enumerate() {
            let planes = &block[P::HEAD + unit * P::Planes::BYTES..][..P::Planes::BYTES];
            let q = P::Planes::get(planes, lane);
            let each = UNIT / P::SCALES;
            for half in 0..P::SCALES {
                let (a, b) = lane_scales::<P>(block, unit, half, lane);
                let numbers = half * each..(half + 1) * each;
                for (out, q) in out[numbers.clone()].iter_mut().zip(&q[numbers]) {
                    let value = lane_value::<P>(*q);
                    *out = if P::HAS_MINIMUM { a * value - b } else { a * value };
                }
            }
        }
    }
}

/// `a` and `b` of one row, as the kernels read them.
#[allow(unsafe_code, reason = "shares the readers of the kernels")]
fn lane_scales<P: Packing>(block: &[u8], unit: usize, half: usize, lane: usize) -> (f32, f32) {
    use crate::simd::Plain;
    assert_eq!(block.len(), P::PANEL_BYTES, "the caller cuts panels into whole blocks");
    // SAFETY: `block` is a whole block, and plain code needs no instructions.
    let (a, b) = unsafe { P::scales::<Plain>(block.as_ptr(), unit, half, 0) };
    (a[lane], b[lane])
}

/// `q - zero` of one quantised number.
#[allow(unsafe_code, reason = "shares the readers of the kernels")]
fn lane_value<P: Packing>(q: u8) -> f32 {
    use crate::simd::Plain;
    // SAFETY: plain code needs no instructions; a number is readable where it is.
    let (value, zero) = unsafe {
        let value = P::value::<Plain>([i32::from(q); 16])[0] as u8;
        (value, P::start::<Plain>(&-1)[0])
    };
    let value = if P::SIGNED { i32::from(value as i8) } else { i32::from(value) };
    (value + zero) as f32
}
