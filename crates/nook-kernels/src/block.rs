//! Tensor formats of GGUF files: how many numbers a block holds, in how many bytes, and how it
//! decodes to f32.
//!
//! Layouts and arithmetic follow `ggml-common.h` and `ggml-quants.c` of llama.cpp, so that decoding
//! agrees with the reference to the last bit. Everything is little-endian. Each format is one type
//! that implements [`Block`]; kernels are generic over it. [`legacy`] has the formats with one scale
//! for 32 numbers, [`super_block`] those with 256 numbers and scales of scales.

pub mod legacy;
pub mod super_block;

/// A format that the kernels can compute with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// 4 bits, one scale for 32.
    Q4_0,
    /// 4 bits, one scale and one minimum for 32.
    Q4_1,
    /// 5 bits, one scale for 32.
    Q5_0,
    /// 5 bits, one scale and one minimum for 32.
    Q5_1,
    /// 8 bits, one scale for 32.
    Q8_0,
    /// 4 bits, 6-bit scales and minima for 32 of 256.
    Q4K,
    /// 5 bits, 6-bit scales and minima for 32 of 256.
    Q5K,
    /// 6 bits, 8-bit scales for 16 of 256.
    Q6K,
}

/// One block of a format.
pub trait Block {
    /// Numbers in a block.
    const ELEMENTS: usize;
    /// Bytes of a block.
    const BYTES: usize;

    /// Decodes one block: `bytes` has [`Self::BYTES`] bytes, `out` [`Self::ELEMENTS`] numbers.
    /// A shorter slice is a mistake of the caller and panics.
    fn decode(bytes: &[u8], out: &mut [f32]);
}

/// Calls a macro body with `$block` standing for the block type of a [`Format`].
macro_rules! with_block {
    ($format:expr, $block:ident => $body:expr) => {{
        use $crate::block::{Format, legacy, super_block};
        match $format {
            Format::F32 => {
                type $block = legacy::F32;
                $body
            }
            Format::F16 => {
                type $block = legacy::F16;
                $body
            }
            Format::Bf16 => {
                type $block = legacy::Bf16;
                $body
            }
            Format::Q4_0 => {
                type $block = legacy::Q4_0;
                $body
            }
            Format::Q4_1 => {
                type $block = legacy::Q4_1;
                $body
            }
            Format::Q5_0 => {
                type $block = legacy::Q5_0;
                $body
            }
            Format::Q5_1 => {
                type $block = legacy::Q5_1;
                $body
            }
            Format::Q8_0 => {
                type $block = legacy::Q8_0;
                $body
            }
            Format::Q4K => {
                type $block = super_block::Q4K;
                $body
            }
            Format::Q5K => {
                type $block = super_block::Q5K;
                $body
            }
            Format::Q6K => {
                type $block = super_block::Q6K;
                $body
            }
        }
    }};
}
pub(crate) use with_block;

impl Format {
    /// Every format.
    pub const ALL: [Self; 11] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// Numbers in a block.
    #[must_use]
    pub fn elements(self) -> usize {
        with_block!(self, B => B::ELEMENTS)
    }

    /// Bytes of a block.
    #[must_use]
    pub fn bytes(self) -> usize {
        with_block!(self, B => B::BYTES)
    }

    /// Bytes of a row of `columns` numbers; `None` when they do not fill whole blocks, or the
    /// product does not fit.
    #[must_use]
    pub fn row_bytes(self, columns: usize) -> Option<usize> {
        if !columns.is_multiple_of(self.elements()) {
            return None;
        }
        (columns / self.elements()).checked_mul(self.bytes())
    }

    /// Decodes as many whole blocks as `bytes` holds and `out` has room for.
    pub fn decode(self, bytes: &[u8], out: &mut [f32]) {
        with_block!(self, B => decode_row::<B>(bytes, out));
    }
}

/// Decodes one row: block after block.
#[inline(always)]
pub(crate) fn decode_row<B: Block>(bytes: &[u8], out: &mut [f32]) {
    let blocks = bytes.chunks_exact(B::BYTES);
    for (block, out) in blocks.zip(out.chunks_exact_mut(B::ELEMENTS)) {
        B::decode(block, out);
    }
}

/// `N` bytes at `at`, as an array: loops over it need no checks and become vector instructions.
#[inline(always)]
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    bytes[at..].first_chunk().expect("`Block::decode` is given whole blocks")
}

/// `N` numbers of `out` from `at` on, as an array.
#[inline(always)]
fn numbers_at<const N: usize>(out: &mut [f32], at: usize) -> &mut [f32; N] {
    out[at..].first_chunk_mut().expect("`Block::decode` is given room for whole blocks")
}

/// The little-endian u16 at `at`.
#[inline(always)]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The little-endian u32 at `at`.
#[inline(always)]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The half-precision number at `at`.
#[inline(always)]
fn f16_at(bytes: &[u8], at: usize) -> f32 {
    crate::elementary::f16_to_f32(u16_at(bytes, at))
}
