//! Quantised weights in the order in which the kernels read them.
//!
//! Sixteen rows of a matrix form a **panel**; a lane of a vector register is a row of it. Within a
//! panel, block follows block along the columns, and in a block the bytes of the sixteen rows are
//! interleaved in groups of four columns, the unit of a byte dot product. A block is a head (scales
//! of the sixteen rows) and **units** of 32 columns ([`planes`], and [`codes`] where the numbers are
//! rows of a codebook). Packing spreads only the 6-bit scales of Q4_K and Q5_K to bytes and the
//! 3-bit ones of IQ1_M to four bits, at most 3.6 % more than the file, and the ternary digits of
//! TQ1_0 to two bits: 22 % more.
//!
//! A weight is `d * scale * (q - zero) - m * minimum`: `d` and `m` are the f16 numbers of a block
//! (`d` of MXFP4 is a power of two, that of IQ1, IQ2 and IQ3 a fraction of the f16), and `scale`
//! and `minimum` small integers of a **piece** of it (16 or 32 numbers; both are 1 where a block
//! has no scales of pieces). In NVFP4, each 16 numbers have a floating-point number `s` in place of
//! `d * scale`. One product is defined as ([`kernel`] computes it, sixteen rows and several
//! activations at once):
//!
//! ```text
//! for each block, in order:
//!     i = sum over its pieces of scale * sum of (q - zero) * x     exact, i32
//!     j = sum over its pieces of minimum * sum of x                 exact, i32
//!     sum = sum + (i as f32 * d - j as f32 * m) * dx                super-blocks
//!     sum = sum + (i as f32 * (d * dx) - m * (j as f32 * dx))       blocks of one piece
//! for each 32 columns of NVFP4, in order:
//!     sum = sum + (i0 as f32 * s0 + i1 as f32 * s1) * dx            i0, i1: sums of 16, exact
//! ```
//!
//! in f32, each operation rounded, with activations `dx * x` of the span that the block covers
//! ([`crate::activations`]); where the format has no minima, the product with `m` is left out. That
//! order is the only one: it does not depend on threads, instruction set, or on what else is
//! computed.

#![allow(unsafe_code, reason = "the unsafe interface of the kernels")]

pub(crate) mod codes;
pub(crate) mod formats;
pub(crate) mod kernel;
pub(crate) mod planes;

use crate::activations::Grain;
use crate::block::Block;
use crate::simd::Simd;
use planes::Planes;

/// Calls a macro body with `$packing` standing for the packing of a [`crate::Format`], or another
/// one where the format has none: numbers that are no blocks.
macro_rules! with_packing {
    ($format:expr, $packing:ident => $body:expr, _ => $other:expr) => {
        $crate::packed::with_packing!($format, $packing => $body, _ => $other;
            legacy: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0;
            super_block: Q2K, Q3K, Q4K, Q5K, Q6K;
            uneven: Iq4Nl, Iq4Xs, Mxfp4, Nvfp4;
            ternary: Tq1_0, Tq2_0;
            codebook: Iq1S, Iq1M, Iq2Xxs, Iq2Xs, Iq2S, Iq3Xxs, Iq3S;
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
            $crate::block::Format::F32 | $crate::block::Format::F16 | $crate::block::Format::Bf16 => $other,
        }
    };
}
pub(crate) use with_packing;

/// Rows of a panel.
pub(crate) const PANEL_ROWS: usize = 16;

/// Columns of a unit.
pub(crate) const UNIT: usize = 32;

/// Bytes of sixteen f16.
const HALVES: usize = 2 * PANEL_ROWS;

/// Most units of a block.
const UNITS_MAX: usize = 8;

/// One block of one row, taken apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    /// Scale of the block, and scale of its minima (or its minimum), as they stand in the file:
    /// f16, or an exponent in the first byte.
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
    /// Which activations it is multiplied with: a span is a block, or a unit of a block with
    /// floating-point scales.
    const GRAIN: Grain;
    /// Bytes of the head: sixteen rows of scales.
    const HEAD: usize;
    /// Pieces of a unit: 1, or 2 for the formats with a scale for 16 numbers.
    const SCALES: usize;
    /// Whether weights have a minimum.
    const HAS_MINIMUM: bool;
    /// Whether quantised numbers are signed bytes.
    const SIGNED: bool;
    /// What is subtracted from a quantised number.
    const ZERO: i32;
    /// Whether pieces have a floating-point scale of their own and blocks no `d`.
    const FLOAT_SCALES: bool = false;
    /// Where the quantised numbers lie.
    type Planes: Planes;

    /// Bytes of a block of a panel.
    const PANEL_BYTES: usize = Self::HEAD + Self::UNITS * Self::Planes::BYTES;

    /// Takes a block of the file apart.
    fn take_apart(block: &[u8]) -> Parts;

    /// Writes the scales of row `lane` into the head of a panel's block.
    fn put_head(parts: &Parts, lane: usize, head: &mut [u8]);

    /// `d` of a block, for `LANES` rows from lane `LANES * part` on.
    ///
    /// # Safety
    ///
    /// `block` is a whole block of a panel, and the processor has the instructions of `S`.
    #[inline(always)]
    unsafe fn d<S: Simd>(block: *const u8, part: usize) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { halves::<S>(block, 0, part) }
    }

    /// `scale` of piece `piece` of a block, for `LANES` rows from lane `LANES * part` on.
    ///
    /// # Safety
    ///
    /// `block` is a whole block of a panel, and the processor has the instructions of `S`.
    #[inline(always)]
    unsafe fn scale<S: Simd>(_block: *const u8, _piece: usize, _part: usize) -> S::I {
        // SAFETY: the caller's promise.
        unsafe { S::splat_int(1) }
    }

    /// `d * scale` of piece `piece`.
    ///
    /// # Safety
    ///
    /// As [`Self::scale`].
    #[inline(always)]
    unsafe fn piece_scale<S: Simd>(block: *const u8, piece: usize, part: usize) -> S::F {
        // SAFETY: the caller's promise.
        unsafe {
            let scale = S::to_f32(Self::scale::<S>(block, piece, part));
            S::mul(Self::d::<S>(block, part), scale)
        }
    }

    /// `minimum` of piece `piece`; meaningless where the format has none.
    ///
    /// # Safety
    ///
    /// As [`Self::scale`].
    #[inline(always)]
    unsafe fn minimum<S: Simd>(_block: *const u8, _piece: usize, _part: usize) -> S::I {
        // SAFETY: the caller's promise.
        unsafe { S::splat_int(1) }
    }

    /// The quantised numbers as the byte product takes them, from those of the planes.
    ///
    /// # Safety
    ///
    /// The processor has the instructions of `S`.
    #[inline(always)]
    unsafe fn value<S: Simd>(q: S::I) -> S::I {
        q
    }
}

/// f16 number `number` of the rows from `LANES * part` on: `d` (0) or `m` (1).
///
/// # Safety
///
/// The head at `block` has that number, and the processor has the instructions of `S`.
#[inline(always)]
unsafe fn halves<S: Simd>(block: *const u8, number: usize, part: usize) -> S::F {
    // SAFETY: the caller's promise; a part is `2 * LANES` bytes of the 32.
    unsafe { S::load_f16(block.add(number * HALVES + 2 * S::LANES * part)) }
}

/// Packs whole rows of file blocks, `blocks` to a row, into panels of zeros. The last panel may
/// have room for more rows.
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
                let (a, b) = lane_scales::<P>(block, unit * P::SCALES + half, lane);
                let numbers = half * each..(half + 1) * each;
                for (out, q) in out[numbers.clone()].iter_mut().zip(&q[numbers]) {
                    let value = lane_value::<P>(*q);
                    *out = if P::HAS_MINIMUM { a * value - b } else { a * value };
                }
            }
        }
    }
}

/// `d * scale` and `m * minimum` of one row, as the kernels read them.
#[allow(unsafe_code, reason = "shares the readers of the kernels")]
fn lane_scales<P: Packing>(block: &[u8], piece: usize, lane: usize) -> (f32, f32) {
    use crate::simd::Plain;
    assert_eq!(block.len(), P::PANEL_BYTES, "the caller cuts panels into whole blocks");
    // SAFETY: `block` is a whole block, and plain code needs no instructions.
    unsafe {
        let a = P::piece_scale::<Plain>(block.as_ptr(), piece, 0)[lane];
        if !P::HAS_MINIMUM {
            return (a, 0.0);
        }
        let m = halves::<Plain>(block.as_ptr(), 1, 0)[lane];
        (a, m * P::minimum::<Plain>(block.as_ptr(), piece, 0)[lane] as f32)
    }
}

/// `q - zero` of one quantised number.
#[allow(unsafe_code, reason = "shares the readers of the kernels")]
fn lane_value<P: Packing>(q: u8) -> f32 {
    use crate::simd::Plain;
    // SAFETY: plain code needs no instructions.
    let value = unsafe { P::value::<Plain>([i32::from(q); PANEL_ROWS])[0] as u8 };
    let value = if P::SIGNED { i32::from(value as i8) } else { i32::from(value) };
    (value - P::ZERO) as f32
}
