//! Vector registers as the packed kernels see them.
//!
//! A kernel is written once over [`Simd`] and compiled for each instruction set; what differs
//! between them is how wide a register is and how four products of bytes are summed. None of the
//! implementations fuses a multiplication with an addition, and integer sums are exact, so all give
//! the same bits. [`Plain`] is the oracle of the others, and what runs on a processor without any
//! of them.
//!
//! All functions are `unsafe` for one reason: an implementation may only be used on a processor
//! that has its instructions. [`dispatch`] is the one place that chooses for these kernels, by an
//! [`crate::Isa`]; plain kernels that are compiled several times are chosen by `isa::per_isa`, and
//! attention, whose registers hold no bytes, by a set of its own (`attention::lanes`).

#![allow(unsafe_code, reason = "the unsafe interface of vector instructions")]

#[cfg(target_arch = "aarch64")]
mod neon;
mod plain;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;
pub(crate) use plain::Plain;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512, AvxVnni};

/// One instruction set.
///
/// # Safety
///
/// Every function needs a processor with the instructions of the implementation; those that take a
/// pointer read or write as many bytes there as they say, at any alignment.
pub(crate) trait Simd: Copy + 'static {
    /// Numbers in a register.
    const LANES: usize;
    /// What [`Self::dot_signed`] adds to every byte of the weights before it multiplies.
    const SIGNED_OFFSET: i32;
    /// `LANES` f32.
    type F: Copy;
    /// `LANES` i32, or `4 * LANES` bytes.
    type I: Copy;

    /// All lanes `x`.
    unsafe fn splat(x: f32) -> Self::F;
    /// `LANES` f32 to `at`.
    unsafe fn store(at: *mut f32, x: Self::F);
    /// `LANES` half-precision numbers from `at` (two bytes each), as f32.
    unsafe fn load_f16(at: *const u8) -> Self::F;
    /// Sum.
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F;
    /// Difference.
    unsafe fn sub(a: Self::F, b: Self::F) -> Self::F;
    /// Product, rounded.
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;

    /// All lanes the i32 at `at`.
    unsafe fn broadcast(at: *const i32) -> Self::I;
    /// All lanes `x`.
    unsafe fn splat_int(x: i32) -> Self::I;
    /// All bytes `x`.
    unsafe fn splat_u8(x: u8) -> Self::I;
    /// `LANES` unsigned bytes from `at`, as i32.
    unsafe fn extend_u8(at: *const u8) -> Self::I;
    /// `LANES` signed bytes from `at`, as i32.
    unsafe fn extend_i8(at: *const u8) -> Self::I;
    /// `4 * LANES` bytes from `at`.
    unsafe fn load_bytes(at: *const u8) -> Self::I;
    /// Bits that both have.
    unsafe fn and(a: Self::I, b: Self::I) -> Self::I;
    /// Bits that either has.
    unsafe fn or(a: Self::I, b: Self::I) -> Self::I;
    /// Bits that one of both has.
    unsafe fn xor(a: Self::I, b: Self::I) -> Self::I;
    /// Each i32 shifted right by `BITS`, zeros coming in.
    unsafe fn shift_right<const BITS: i32>(x: Self::I) -> Self::I;
    /// Each i32 shifted left by `BITS`.
    unsafe fn shift_left<const BITS: i32>(x: Self::I) -> Self::I;
    /// Each byte of `index` (0 to 15) replaced by that entry of the 16 bytes at `table`.
    unsafe fn look_up(table: &[i8; 16], index: Self::I) -> Self::I;
    /// For each lane, entry `index` of a table with four bytes in each. There must be such entries.
    unsafe fn gather(table: *const [u8; 4], index: Self::I) -> Self::I;
    /// For each lane, the first and the last four bytes of entry `index` of a table with eight
    /// bytes in each. There must be such entries.
    unsafe fn gather_pairs(table: *const [u8; 8], index: Self::I) -> [Self::I; 2];
    /// Sum of i32, wrapping.
    unsafe fn add_int(a: Self::I, b: Self::I) -> Self::I;
    /// Difference of i32, wrapping.
    unsafe fn sub_int(a: Self::I, b: Self::I) -> Self::I;
    /// Product of i32, wrapping.
    unsafe fn mul_int(a: Self::I, b: Self::I) -> Self::I;
    /// For each lane: `sum` and the two products of its halves of `a` and `b`, as i16.
    unsafe fn dot_pairs(sum: Self::I, a: Self::I, b: Self::I) -> Self::I;
    /// The f32 whose bits each i32 is.
    unsafe fn from_bits(x: Self::I) -> Self::F;
    /// Each i32 as f32, rounded to the nearest, halves to even.
    unsafe fn to_f32(x: Self::I) -> Self::F;
    /// For each lane: `sum` and the four products of its bytes of `w` (0 to 127) and `x` (-127 to
    /// 127).
    unsafe fn dot(sum: Self::I, w: Self::I, x: Self::I) -> Self::I;
    /// As [`Self::dot`] with `w` from -128 to 127, to each of which [`Self::SIGNED_OFFSET`] is
    /// added.
    unsafe fn dot_signed(sum: Self::I, w: Self::I, x: Self::I) -> Self::I;
}

/// Calls `$kernel::<S, ...>(...)` compiled for the instruction set of an [`crate::Isa`]. `$kernel`
/// must be `#[inline(always)]`, so that the instruction set of the caller applies to it.
macro_rules! dispatch {
    (
        $(#[$meta:meta])*
        $vis:vis unsafe fn $name:ident <$packing:ident: $bound:path, const $n:ident: usize>
        ($($arg:ident: $ty:ty),* $(,)?) = $kernel:ident;
    ) => {
        $(#[$meta])*
        #[allow(unsafe_code, reason = "calls a kernel compiled for a detected instruction set")]
        $vis unsafe fn $name<$packing: $bound, const $n: usize>(
            isa: $crate::isa::Isa, $($arg: $ty),*
        ) {
            use $crate::isa::Kind;
            #[cfg(target_arch = "x86_64")]
            use $crate::simd::{Avx2, Avx512, AvxVnni};
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,f16c")]
            unsafe fn avx2<$packing: $bound, const $n: usize>($($arg: $ty),*) {
                // SAFETY: the caller's promise, passed on.
                unsafe { $kernel::<Avx2, $packing, $n>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,f16c,avxvnni")]
            unsafe fn avx_vnni<$packing: $bound, const $n: usize>($($arg: $ty),*) {
                // SAFETY: the caller's promise, passed on.
                unsafe { $kernel::<AvxVnni, $packing, $n>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c")]
            unsafe fn avx512<$packing: $bound, const $n: usize>($($arg: $ty),*) {
                // SAFETY: the caller's promise, passed on.
                unsafe { $kernel::<Avx512, $packing, $n>($($arg),*) }
            }
            // SAFETY: the caller promises what the kernel asks; and an `Isa` of a kind is only made
            // after the processor was seen to have its instructions (`Isa::available`).
            unsafe {
                match isa.kind() {
                    Kind::Plain => $kernel::<$crate::simd::Plain, $packing, $n>($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    Kind::Avx2 => avx2::<$packing, $n>($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    Kind::AvxVnni => avx_vnni::<$packing, $n>($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    Kind::Avx512 => avx512::<$packing, $n>($($arg),*),
                    #[cfg(target_arch = "aarch64")]
                    Kind::Neon => $kernel::<$crate::simd::Neon, $packing, $n>($($arg),*),
                }
            }
        }
    };
}
pub(crate) use dispatch;
