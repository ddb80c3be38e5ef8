//! [`Simd`] for aarch64: NEON, which every such processor has.
//!
//! Products of bytes are summed in pairs of i16 (`smull`, `addp`), which cannot overflow for
//! weights of up to 128 and activations of up to 127, then in i32 (`sadalp`). The dot-product
//! extension would do it in one instruction; its intrinsics are not stable in Rust yet.

#![allow(unsafe_code, reason = "vector instructions")]

use std::arch::aarch64::*;

use super::Simd;
use crate::elementary::f16_to_f32;

/// NEON.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Neon;

impl Simd for Neon {
    const LANES: usize = 4;
    const SIGNED_OFFSET: i32 = 0;
    type F = float32x4_t;
    type I = int32x4_t;

    // SAFETY, for every block below: NEON is part of aarch64, and the caller promises memory as the
    // trait's documentation says.
    #[inline(always)]
    unsafe fn splat(x: f32) -> float32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vdupq_n_f32(x) }
    }

    #[inline(always)]
    unsafe fn store(at: *mut f32, x: float32x4_t) {
        // SAFETY: see the top of this implementation.
        unsafe { vst1q_f32(at, x) }
    }

    #[inline(always)]
    unsafe fn load_f16(at: *const u8) -> float32x4_t {
        // SAFETY: see the top of this implementation.
        let bits = unsafe { at.cast::<[u16; 4]>().read_unaligned() };
        let numbers = bits.map(f16_to_f32);
        // SAFETY: see the top of this implementation.
        unsafe { vld1q_f32(numbers.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn add(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vaddq_f32(a, b) }
    }

    #[inline(always)]
    unsafe fn sub(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vsubq_f32(a, b) }
    }

    #[inline(always)]
    unsafe fn mul(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vmulq_f32(a, b) }
    }

    #[inline(always)]
    unsafe fn broadcast(at: *const i32) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vdupq_n_s32(at.read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn splat_int(x: i32) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vdupq_n_s32(x) }
    }

    #[inline(always)]
    unsafe fn splat_u8(x: u8) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vreinterpretq_s32_u8(vdupq_n_u8(x)) }
    }

    #[inline(always)]
    unsafe fn extend_u8(at: *const u8) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        let numbers = unsafe { at.cast::<[u8; 4]>().read() }.map(i32::from);
        // SAFETY: see the top of this implementation.
        unsafe { vld1q_s32(numbers.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn extend_i8(at: *const u8) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        let numbers = unsafe { at.cast::<[i8; 4]>().read() }.map(i32::from);
        // SAFETY: see the top of this implementation.
        unsafe { vld1q_s32(numbers.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_bytes(at: *const u8) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vreinterpretq_s32_u8(vld1q_u8(at)) }
    }

    #[inline(always)]
    unsafe fn and(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vandq_s32(a, b) }
    }

    #[inline(always)]
    unsafe fn or(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vorrq_s32(a, b) }
    }

    #[inline(always)]
    unsafe fn xor(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { veorq_s32(a, b) }
    }

    #[inline(always)]
    unsafe fn shift_right<const BITS: i32>(x: int32x4_t) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x), vdupq_n_s32(-BITS))) }
    }

    #[inline(always)]
    unsafe fn shift_left<const BITS: i32>(x: int32x4_t) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vshlq_s32(x, vdupq_n_s32(BITS)) }
    }

    #[inline(always)]
    unsafe fn look_up(table: &[i8; 16], index: int32x4_t) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe {
            let table = vld1q_s8(table.as_ptr());
            vreinterpretq_s32_s8(vqtbl1q_s8(table, vreinterpretq_u8_s32(index)))
        }
    }

    #[inline(always)]
    unsafe fn gather(table: *const [u8; 4], index: int32x4_t) -> int32x4_t {
        let mut entries = [0i32; 4];
        // SAFETY: see the top of this implementation.
        unsafe { vst1q_s32(entries.as_mut_ptr(), index) };
        // SAFETY: see the top of this implementation.
        let entries =
            entries.map(|at| unsafe { table.add(at as usize).cast::<i32>().read_unaligned() });
        // SAFETY: see the top of this implementation.
        unsafe { vld1q_s32(entries.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn gather_pairs(table: *const [u8; 8], index: int32x4_t) -> [int32x4_t; 2] {
        let mut entries = [0i32; 4];
        // SAFETY: see the top of this implementation.
        unsafe { vst1q_s32(entries.as_mut_ptr(), index) };
        // SAFETY: see the top of this implementation.
        let entries =
            entries.map(|at| unsafe { table.add(at as usize).cast::<i64>().read_unaligned() });
        // SAFETY: see the top of this implementation.
        unsafe {
            let both = vld2q_s32(entries.as_ptr().cast());
            [both.0, both.1]
        }
    }

    #[inline(always)]
    unsafe fn add_int(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vaddq_s32(a, b) }
    }

    #[inline(always)]
    unsafe fn sub_int(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vsubq_s32(a, b) }
    }

    #[inline(always)]
    unsafe fn mul_int(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vmulq_s32(a, b) }
    }

    #[inline(always)]
    unsafe fn dot_pairs(sum: int32x4_t, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe {
            let (a, b) = (vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b));
            let low = vmull_s16(vget_low_s16(a), vget_low_s16(b));
            let high = vmull_high_s16(a, b);
            vaddq_s32(sum, vpaddq_s32(low, high))
        }
    }

    #[inline(always)]
    unsafe fn from_bits(x: int32x4_t) -> float32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vreinterpretq_f32_s32(x) }
    }

    #[inline(always)]
    unsafe fn to_f32(x: int32x4_t) -> float32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe { vcvtq_f32_s32(x) }
    }

    #[inline(always)]
    unsafe fn dot(sum: int32x4_t, w: int32x4_t, x: int32x4_t) -> int32x4_t {
        // Weights below 128 are the same signed and unsigned.
        // SAFETY: see the top of this implementation.
        unsafe { Self::dot_signed(sum, w, x) }
    }

    #[inline(always)]
    unsafe fn dot_signed(sum: int32x4_t, w: int32x4_t, x: int32x4_t) -> int32x4_t {
        // SAFETY: see the top of this implementation.
        unsafe {
            let (w, x) = (vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(x));
            let low = vmull_s8(vget_low_s8(w), vget_low_s8(x));
            let high = vmull_high_s8(w, x);
            vpadalq_s16(sum, vpaddq_s16(low, high))
        }
    }
}
