//! Tensor formats of GGUF files: how many numbers a block holds, in how many bytes, and how it
//! decodes to f32.
//!
//! Layouts and arithmetic follow `ggml-common.h` and `ggml-quants.c` of llama.cpp, so that decoding
//! agrees with the reference to the last bit. Everything is little-endian. Each format is one type
//! that implements [`Block`]; kernels are generic over it. [`legacy`] has plain numbers and the
//! formats with one scale for 32 numbers, [`super_block`] those with 256 numbers and scales of
//! scales, [`uneven`] those whose four bits choose one of 16 uneven values, [`ternary`] those of
//! -1, 0 and 1, and [`codebook`] those that choose whole rows of numbers from the tables in
//! [`grids`].
//!
//! The formats that only activations have (Q8_1, Q8_K) are not here.

pub mod codebook;
pub(crate) mod grids;
pub mod legacy;
pub mod super_block;
pub mod ternary;
pub mod uneven;

/// A format that weights can have and the kernels can compute with.
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
    /// 2 bits, 4-bit scales and minima for 16 of 256.
    Q2K,
    /// 3 bits, 6-bit scales for 16 of 256.
    Q3K,
    /// 4 bits, 6-bit scales and minima for 32 of 256.
    Q4K,
    /// 5 bits, 6-bit scales and minima for 32 of 256.
    Q5K,
    /// 6 bits, 8-bit scales for 16 of 256.
    Q6K,
    /// 4 bits that choose one of 16 uneven values, one scale for 32.
    Iq4Nl,
    /// 4 bits as in `Iq4Nl`, 6-bit scales for 32 of 256.
    Iq4Xs,
    /// 4-bit floating point, one power of two for 32 (OCP microscaling).
    Mxfp4,
    /// 4-bit floating point, one 8-bit floating-point scale for 16.
    Nvfp4,
    /// -1, 0 or 1, five in a byte, one scale for 256.
    Tq1_0,
    /// -1, 0 or 1, four in a byte, one scale for 256.
    Tq2_0,
    /// 1.56 bits: rows of 8 from a codebook, 3-bit scales for 32 of 256.
    Iq1S,
    /// 1.75 bits: rows of 8 from a codebook, 3-bit scales for 16 of 256.
    Iq1M,
    /// 2.06 bits: rows of 8 from a codebook, 4-bit scales for 32 of 256.
    Iq2Xxs,
    /// 2.31 bits: rows of 8 from a codebook, 4-bit scales for 16 of 256.
    Iq2Xs,
    /// 2.56 bits: rows of 8 from a codebook, 4-bit scales for 16 of 256.
    Iq2S,
    /// 3.06 bits: rows of 4 from a codebook, 4-bit scales for 32 of 256.
    Iq3Xxs,
    /// 3.44 bits: rows of 4 from a codebook, 4-bit scales for 32 of 256.
    Iq3S,
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
    ($format:expr, $block:ident => $body:expr) => {
        $crate::block::with_block!($format, $block => $body;
            legacy: F32, F16, Bf16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0;
            super_block: Q2K, Q3K, Q4K, Q5K, Q6K;
            uneven: Iq4Nl, Iq4Xs, Mxfp4, Nvfp4;
            ternary: Tq1_0, Tq2_0;
            codebook: Iq1S, Iq1M, Iq2Xxs, Iq2Xs, Iq2S, Iq3Xxs, Iq3S;
        )
    };
    ($format:expr, $block:ident => $body:expr; $($module:ident: $($name:ident),+;)+) => {
        match $format {
            $($(
                $crate::block::Format::$name => {
                    type $block = $crate::block::$module::$name;
                    $body
                }
            )+)+
        }
    };
}
pub(crate) use with_block;

impl Format {
    /// Every format.
    pub const ALL: [Self; 26] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q2K,
        Self::Q3K,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
        Self::Iq4Nl,
        Self::Iq4Xs,
        Self::Mxfp4,
        Self::Nvfp4,
        Self::Tq1_0,
        Self::Tq2_0,
        Self::Iq1S,
        Self::Iq1M,
        Self::Iq2Xxs,
        Self::Iq2Xs,
        Self::Iq2S,
        Self::Iq3Xxs,
        Self::Iq3S,
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

    /// Whether it has a packing, and products in bytes ([`crate::Arithmetic::Bytes`]): every format of
    /// blocks has. F32, F16 and BF16 are multiplied as they are.
    #[must_use]
    pub fn is_packed(self) -> bool {
        crate::packed::with_packing!(
            self,
            P => <P as crate::packed::Packing>::UNITS > 0,
            _ => false
        )
    }

    /// The rows of the codebook that it chooses from, where it has one, packed as they are kept: of
    /// each number its choice among the values of the format (`(choice - 1)` of IQ1; 8, 25, 43 of
    /// IQ2; eight of IQ3), the first in the lowest bits. Rows of IQ1 and IQ2 have eight numbers of
    /// two bits, those of IQ3 four of three.
    #[must_use]
    pub fn codebook(self) -> Option<&'static [u16]> {
        grids::packed(self)
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
