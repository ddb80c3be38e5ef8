//! The unit in which a cache stores numbers: sixteen of them, aligned so that loading one never
//! crosses a line of the processor's cache.

use crate::elementary::f32_to_f16;

/// Numbers in one line, on every machine: it is part of the layout, not of the instruction set.
pub(crate) const WIDTH: usize = 16;

/// Sixteen numbers of a cache.
pub(crate) trait Line: Copy + Send + Sync + 'static {
    /// Bytes of one number when it is handed over.
    const NUMBER_BYTES: usize;
    /// All numbers zero.
    const ZERO: Self;

    /// Puts `x`, rounded to what this line holds, at `lane`.
    fn set(&mut self, lane: usize, x: f32);
    /// Copies the number at `from_lane` of `from` to `lane`.
    fn copy(&mut self, lane: usize, from: &Self, from_lane: usize);
    /// The number at `lane` as its little-endian bytes, into [`Self::NUMBER_BYTES`] bytes of `to`.
    fn write_bytes(&self, lane: usize, to: &mut Vec<u8>);
    /// Reads [`Self::NUMBER_BYTES`] little-endian bytes into `lane`; fewer read as zeros.
    fn read_bytes(&mut self, lane: usize, from: &[u8]);
}

/// Sixteen half-precision numbers, as their bits.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct HalfLine(pub(crate) [u16; WIDTH]);

/// Sixteen single-precision numbers.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct FloatLine(pub(crate) [f32; WIDTH]);

impl Line for HalfLine {
    const NUMBER_BYTES: usize = 2;
    const ZERO: Self = Self([0; WIDTH]);

    #[inline(always)]
    fn set(&mut self, lane: usize, x: f32) {
        self.0[lane] = f32_to_f16(x);
    }

    #[inline(always)]
    fn copy(&mut self, lane: usize, from: &Self, from_lane: usize) {
        self.0[lane] = from.0[from_lane];
    }

    fn write_bytes(&self, lane: usize, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.0[lane].to_le_bytes());
    }

    fn read_bytes(&mut self, lane: usize, from: &[u8]) {
        self.0[lane] = u16::from_le_bytes(from.first_chunk().copied().unwrap_or_default());
    }
}

impl Line for FloatLine {
    const NUMBER_BYTES: usize = 4;
    const ZERO: Self = Self([0.0; WIDTH]);

    #[inline(always)]
    fn set(&mut self, lane: usize, x: f32) {
        self.0[lane] = x;
    }

    #[inline(always)]
    fn copy(&mut self, lane: usize, from: &Self, from_lane: usize) {
        self.0[lane] = from.0[from_lane];
    }

    fn write_bytes(&self, lane: usize, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.0[lane].to_le_bytes());
    }

    fn read_bytes(&mut self, lane: usize, from: &[u8]) {
        self.0[lane] = f32::from_le_bytes(from.first_chunk().copied().unwrap_or_default());
    }
}
