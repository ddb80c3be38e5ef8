//! [`Simd`] in plain Rust: the oracle, and the fallback.

#![allow(unsafe_code, reason = "implements the unsafe interface of vector instructions")]

use super::Simd;
use crate::elementary::f16_to_f32;

/// Arrays in the place of registers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain;

const LANES: usize = 16;

/// Lane by lane, with the four bytes of each.
#[inline(always)]
fn by_bytes(a: [i32; LANES], b: [i32; LANES], f: impl Fn(u8, u8) -> i32) -> [[i32; 4]; LANES] {
    let bytes = |a: i32, b: i32| {
        let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
        std::array::from_fn(|j| f(a[j], b[j]))
    };
    std::array::from_fn(|l| bytes(a[l], b[l]))
}

#[inline(always)]
fn each<T: Copy, U>(a: [T; LANES], b: [T; LANES], f: impl Fn(T, T) -> U) -> [U; LANES] {
    std::array::from_fn(|l| f(a[l], b[l]))
}

/// `N` bytes from `at`.
///
/// # Safety
///
/// They must be readable.
#[inline(always)]
unsafe fn bytes<const N: usize>(at: *const u8) -> [u8; N] {
    // SAFETY: the caller's promise; an array of bytes has no alignment and no invalid values.
    unsafe { at.cast::<[u8; N]>().read() }
}

impl Simd for Plain {
    const LANES: usize = LANES;
    const SIGNED_OFFSET: i32 = 0;
    type F = [f32; LANES];
    type I = [i32; LANES];

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::F {
        [x; LANES]
    }

    #[inline(always)]
    unsafe fn store(at: *mut f32, x: Self::F) {
        // SAFETY: the caller promises room for `LANES` numbers there.
        unsafe { at.cast::<[f32; LANES]>().write_unaligned(x) }
    }

    #[inline(always)]
    unsafe fn load_f16(at: *const u8) -> Self::F {
        // SAFETY: the caller promises twice `LANES` bytes there.
        let bytes = unsafe { bytes::<{ 2 * LANES }>(at) };
        std::array::from_fn(|l| f16_to_f32(u16::from_le_bytes([bytes[2 * l], bytes[2 * l + 1]])))
    }

    #[inline(always)]
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a + b)
    }

    #[inline(always)]
    unsafe fn sub(a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a - b)
    }

    #[inline(always)]
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a * b)
    }

    #[inline(always)]
    unsafe fn broadcast(at: *const i32) -> Self::I {
        // SAFETY: the caller promises a number there.
        [unsafe { at.read_unaligned() }; LANES]
    }

    #[inline(always)]
    unsafe fn splat_int(x: i32) -> Self::I {
        [x; LANES]
    }

    #[inline(always)]
    unsafe fn splat_u8(x: u8) -> Self::I {
        [i32::from_le_bytes([x; 4]); LANES]
    }

    #[inline(always)]
    unsafe fn extend_u8(at: *const u8) -> Self::I {
        // SAFETY: the caller promises `LANES` bytes there.
        unsafe { bytes::<LANES>(at) }.map(i32::from)
    }

    #[inline(always)]
    unsafe fn extend_i8(at: *const u8) -> Self::I {
        // SAFETY: the caller promises `LANES` bytes there.
        unsafe { bytes::<LANES>(at) }.map(|byte| i32::from(byte as i8))
    }

    #[inline(always)]
    unsafe fn load_bytes(at: *const u8) -> Self::I {
        // SAFETY: the caller promises four times `LANES` bytes there.
        let bytes = unsafe { bytes::<{ 4 * LANES }>(at) };
        std::array::from_fn(|l| {
            i32::from_le_bytes([bytes[4 * l], bytes[4 * l + 1], bytes[4 * l + 2], bytes[4 * l + 3]])
        })
    }

    #[inline(always)]
    unsafe fn and(a: Self::I, b: Self::I) -> Self::I {
        each(a, b, |a, b| a & b)
    }

    #[inline(always)]
    unsafe fn or(a: Self::I, b: Self::I) -> Self::I {
        each(a, b, |a, b| a | b)
    }

    #[inline(always)]
    unsafe fn xor(a: Self::I, b: Self::I) -> Self::I {
        each(a, b, |a, b| a ^ b)
    }

    #[inline(always)]
    unsafe fn shift_right<const BITS: i32>(x: Self::I) -> Self::I {
        x.map(|x| (x as u32 >> BITS) as i32)
    }

    #[inline(always)]
    unsafe fn shift_left<const BITS: i32>(x: Self::I) -> Self::I {
        x.map(|x| x << BITS)
    }

    #[inline(always)]
    unsafe fn look_up(table: &[i8; 16], index: Self::I) -> Self::I {
        index.map(|index| {
            i32::from_le_bytes(index.to_le_bytes().map(|i| table[usize::from(i & 15)] as u8))
        })
    }

    #[inline(always)]
    unsafe fn gather(table: *const [u8; 4], index: Self::I) -> Self::I {
        // SAFETY: the caller promises such an entry.
        index.map(|index| i32::from_le_bytes(unsafe { table.add(index as usize).read() }))
    }

    #[inline(always)]
    unsafe fn gather_pairs(table: *const [u8; 8], index: Self::I) -> [Self::I; 2] {
        let table = table.cast::<[u8; 4]>();
        // SAFETY: an entry of eight bytes is two of four.
        [0, 1].map(|half| unsafe { Self::gather(table, index.map(|index| 2 * index + half)) })
    }

    #[inline(always)]
    unsafe fn add_int(a: Self::I, b: Self::I) -> Self::I {
        each(a, b, i32::wrapping_add)
    }

    #[inline(always)]
    unsafe fn sub_int(a: Self::I, b: Self::I) -> Self::I {
        each(a, b, i32::wrapping_sub)
    }

    #[inline(always)]
    unsafe fn mul_int(a: Self::I, b: Self::I) -> Self::I {
        each(a, b, i32::wrapping_mul)
    }

    #[inline(always)]
    unsafe fn dot_pairs(sum: Self::I, a: Self::I, b: Self::I) -> Self::I {
        let low = |x: i32| i32::from(x as i16);
        let high = |x: i32| x >> 16;
        let products = each(a, b, |a, b| low(a) * low(b) + high(a) * high(b));
        each(sum, products, |sum, product| sum + product)
    }

    #[inline(always)]
    unsafe fn from_bits(x: Self::I) -> Self::F {
        x.map(|bits| f32::from_bits(bits as u32))
    }

    #[inline(always)]
    unsafe fn to_f32(x: Self::I) -> Self::F {
        x.map(|x| x as f32)
    }

    #[inline(always)]
    unsafe fn dot(sum: Self::I, w: Self::I, x: Self::I) -> Self::I {
        let products = by_bytes(w, x, |w, x| i32::from(w) * i32::from(x as i8));
        std::array::from_fn(|l| sum[l] + products[l].iter().sum::<i32>())
    }

    #[inline(always)]
    unsafe fn dot_signed(sum: Self::I, w: Self::I, x: Self::I) -> Self::I {
        let products = by_bytes(w, x, |w, x| i32::from(w as i8) * i32::from(x as i8));
        std::array::from_fn(|l| sum[l] + products[l].iter().sum::<i32>())
    }
}
