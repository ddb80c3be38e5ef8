//! [`Simd`] for x86-64: AVX2, AVX2 with VNNI, AVX-512 with VNNI.
//!
//! Sources: Intel Intrinsics Guide. `vpdpbusd` sums four products of an unsigned and a signed byte
//! into an i32 without saturation; without VNNI `vpmaddubsw` sums two into an i16, which cannot
//! overflow for weights below 128 (`2 * 127 * 127 < 2^15`), and `vpmaddwd` the two pairs.

#![allow(unsafe_code, reason = "vector instructions")]

use std::arch::x86_64::*;

use super::Simd;

/// AVX2 and F16C.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2;

/// [`Avx2`] with the byte products of AVX-VNNI.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AvxVnni;

/// AVX-512 (F, BW, DQ, VL, VNNI).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512;

/// Implements [`Simd`] for a type with 256-bit registers; the byte products are given.
macro_rules! simd_256 {
    ($name:ident, $dot:expr) => {
        impl Simd for $name {
            const LANES: usize = 8;
            const SIGNED_OFFSET: i32 = 0;
            type F = __m256;
            type I = __m256i;

            // SAFETY, for every block below: the caller promises a processor with these
            // instructions, and memory as the trait's documentation says; loads and stores are
            // unaligned ones.
            #[inline(always)]
            unsafe fn splat(x: f32) -> __m256 {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_set1_ps(x) }
            }

            #[inline(always)]
            unsafe fn store(at: *mut f32, x: __m256) {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_storeu_ps(at, x) }
            }

            #[inline(always)]
            unsafe fn load_f16(at: *const u8) -> __m256 {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_cvtph_ps(_mm_loadu_si128(at.cast())) }
            }

            #[inline(always)]
            unsafe fn add(a: __m256, b: __m256) -> __m256 {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_add_ps(a, b) }
            }

            #[inline(always)]
            unsafe fn sub(a: __m256, b: __m256) -> __m256 {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_sub_ps(a, b) }
            }

            #[inline(always)]
            unsafe fn mul(a: __m256, b: __m256) -> __m256 {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_mul_ps(a, b) }
            }

            #[inline(always)]
            unsafe fn broadcast(at: *const i32) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_set1_epi32(at.read_unaligned()) }
            }

            #[inline(always)]
            unsafe fn splat_int(x: i32) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_set1_epi32(x) }
            }

            #[inline(always)]
            unsafe fn splat_u8(x: u8) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_set1_epi8(x as i8) }
            }

            #[inline(always)]
            unsafe fn extend_u8(at: *const u8) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(at.cast())) }
            }

            #[inline(always)]
            unsafe fn extend_i8(at: *const u8) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_cvtepi8_epi32(_mm_loadl_epi64(at.cast())) }
            }

            #[inline(always)]
            unsafe fn load_bytes(at: *const u8) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_loadu_si256(at.cast()) }
            }

            #[inline(always)]
            unsafe fn and(a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_and_si256(a, b) }
            }

            #[inline(always)]
            unsafe fn or(a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_or_si256(a, b) }
            }

            #[inline(always)]
            unsafe fn xor(a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_xor_si256(a, b) }
            }

            #[inline(always)]
            unsafe fn shift_right<const BITS: i32>(x: __m256i) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_srli_epi32::<BITS>(x) }
            }

            #[inline(always)]
            unsafe fn shift_left<const BITS: i32>(x: __m256i) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_slli_epi32::<BITS>(x) }
            }

            #[inline(always)]
            unsafe fn look_up(table: &[i8; 16], index: __m256i) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe {
                    let table = _mm_loadu_si128(table.as_ptr().cast());
                    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), index)
                }
            }

            #[inline(always)]
            unsafe fn gather(table: *const [u8; 4], index: __m256i) -> __m256i {
                let mut at = [0u32; 8];
                // SAFETY: see the top of this implementation.
                unsafe {
                    _mm256_storeu_si256(at.as_mut_ptr().cast(), index);
                    let e = at.map(|at| table.add(at as usize).cast::<i32>().read_unaligned());
                    _mm256_setr_epi32(e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7])
                }
            }

            #[inline(always)]
            unsafe fn gather_pairs(table: *const [u8; 8], index: __m256i) -> [__m256i; 2] {
                let mut at = [0u32; 8];
                // SAFETY: see the top of this implementation.
                unsafe {
                    _mm256_storeu_si256(at.as_mut_ptr().cast(), index);
                    let e = at.map(|at| table.add(at as usize).cast::<i64>().read_unaligned());
                    let low = _mm256_castsi256_ps(_mm256_setr_epi64x(e[0], e[1], e[2], e[3]));
                    let high = _mm256_castsi256_ps(_mm256_setr_epi64x(e[4], e[5], e[6], e[7]));
                    // Of each half of a register, two entries of `low`, then two of `high`.
                    let first = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
                    let last = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
                    [
                        _mm256_permute4x64_epi64::<0b11_01_10_00>(first),
                        _mm256_permute4x64_epi64::<0b11_01_10_00>(last),
                    ]
                }
            }

            #[inline(always)]
            unsafe fn add_int(a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_add_epi32(a, b) }
            }

            #[inline(always)]
            unsafe fn sub_int(a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_sub_epi32(a, b) }
            }

            #[inline(always)]
            unsafe fn mul_int(a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_mullo_epi32(a, b) }
            }

            #[inline(always)]
            unsafe fn dot_pairs(sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)) }
            }

            #[inline(always)]
            unsafe fn from_bits(x: __m256i) -> __m256 {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_castsi256_ps(x) }
            }

            #[inline(always)]
            unsafe fn to_f32(x: __m256i) -> __m256 {
                // SAFETY: see the top of this implementation.
                unsafe { _mm256_cvtepi32_ps(x) }
            }

            #[inline(always)]
            unsafe fn dot(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
                // SAFETY: see the top of this implementation.
                unsafe { $dot(sum, w, x) }
            }

            #[inline(always)]
            unsafe fn dot_signed(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
                // The sign of the weight goes to the activation, which is never -128; |-128| is
                // 128, whose products with two activations stay below 2^15 (2 * 128 * 127). SAFETY:
                // see the top of this implementation.
                unsafe { $dot(sum, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w)) }
            }
        }
    };
}

/// # Safety
///
/// Needs AVX2.
#[inline(always)]
unsafe fn dot_in_pairs(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let pairs = _mm256_maddubs_epi16(w, x);
        _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
    }
}

/// # Safety
///
/// Needs AVX-VNNI.
#[inline(always)]
unsafe fn dot_vnni(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_dpbusd_avx_epi32(sum, w, x) }
}

simd_256!(Avx2, dot_in_pairs);
simd_256!(AvxVnni, dot_vnni);

impl Simd for Avx512 {
    const LANES: usize = 16;
    const SIGNED_OFFSET: i32 = 128;
    type F = __m512;
    type I = __m512i;

    // SAFETY, for every block below: the caller promises a processor with these instructions, and
    // memory as the trait's documentation says; loads and stores are unaligned ones.
    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn store(at: *mut f32, x: __m512) {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_storeu_ps(at, x) }
    }

    #[inline(always)]
    unsafe fn load_f16(at: *const u8) -> __m512 {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(at.cast())) }
    }

    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn broadcast(at: *const i32) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_set1_epi32(at.read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn splat_int(x: i32) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_set1_epi32(x) }
    }

    #[inline(always)]
    unsafe fn splat_u8(x: u8) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_set1_epi8(x as i8) }
    }

    #[inline(always)]
    unsafe fn extend_u8(at: *const u8) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(at.cast())) }
    }

    #[inline(always)]
    unsafe fn extend_i8(at: *const u8) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_cvtepi8_epi32(_mm_loadu_si128(at.cast())) }
    }

    #[inline(always)]
    unsafe fn load_bytes(at: *const u8) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_loadu_si512(at.cast()) }
    }

    #[inline(always)]
    unsafe fn and(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn xor(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn shift_right<const BITS: i32>(x: __m512i) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_srl_epi32(x, _mm_cvtsi32_si128(BITS)) }
    }

    #[inline(always)]
    unsafe fn shift_left<const BITS: i32>(x: __m512i) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_sll_epi32(x, _mm_cvtsi32_si128(BITS)) }
    }

    #[inline(always)]
    unsafe fn look_up(table: &[i8; 16], index: __m512i) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), index)
        }
    }

    #[inline(always)]
    unsafe fn gather(table: *const [u8; 4], index: __m512i) -> __m512i {
        let mut at = [0u32; 16];
        // SAFETY: see the top of this implementation.
        unsafe {
            _mm512_storeu_si512(at.as_mut_ptr().cast(), index);
            let e = at.map(|at| table.add(at as usize).cast::<i32>().read_unaligned());
            _mm512_setr_epi32(
                e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7], e[8], e[9], e[10], e[11], e[12],
                e[13], e[14], e[15],
            )
        }
    }

    #[inline(always)]
    unsafe fn gather_pairs(table: *const [u8; 8], index: __m512i) -> [__m512i; 2] {
        let mut at = [0u32; 16];
        // SAFETY: see the top of this implementation.
        unsafe {
            _mm512_storeu_si512(at.as_mut_ptr().cast(), index);
            let e = at.map(|at| table.add(at as usize).cast::<i64>().read_unaligned());
            let low = _mm512_setr_epi64(e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7]);
            let high = _mm512_setr_epi64(e[8], e[9], e[10], e[11], e[12], e[13], e[14], e[15]);
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
            [_mm512_permutex2var_epi32(low, even, high), _mm512_permutex2var_epi32(low, odd, high)]
        }
    }

    #[inline(always)]
    unsafe fn add_int(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn sub_int(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_sub_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn mul_int(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_mullo_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn dot_pairs(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_dpwssd_epi32(sum, a, b) }
    }

    #[inline(always)]
    unsafe fn from_bits(x: __m512i) -> __m512 {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_castsi512_ps(x) }
    }

    #[inline(always)]
    unsafe fn to_f32(x: __m512i) -> __m512 {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_cvtepi32_ps(x) }
    }

    #[inline(always)]
    unsafe fn dot(sum: __m512i, w: __m512i, x: __m512i) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_dpbusd_epi32(sum, w, x) }
    }

    #[inline(always)]
    unsafe fn dot_signed(sum: __m512i, w: __m512i, x: __m512i) -> __m512i {
        // SAFETY: see the top of this implementation.
        unsafe { _mm512_dpbusd_epi32(sum, _mm512_xor_si512(w, _mm512_set1_epi8(-128)), x) }
    }
}
