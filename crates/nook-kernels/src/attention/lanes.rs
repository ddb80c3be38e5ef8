//! Sixteen f32 as the attention kernels see them, for each instruction set.
//!
//! The kernels are written once, over [`Lanes`], and compiled for each implementation
//! ([`per_lanes`] is the one place that chooses). An implementation is a token that can only be had
//! where its instructions are known to be there, so its methods are safe. None fuses a
//! multiplication with an addition.

#![allow(unsafe_code, reason = "vector instructions; each block says why they are there")]

use crate::cache::line::{FloatLine, HalfLine, WIDTH};

/// Operations on sixteen f32.
pub(super) trait Lanes: Copy {
    /// Sixteen f32, in as many registers as that takes.
    type F: Copy;
    /// How many such may be accumulated in at once: a tile of `q` queries by `n` lines has
    /// `q * n <= BUDGET`.
    const BUDGET: usize;

    fn splat(self, x: f32) -> Self::F;
    fn load(self, from: &[f32; WIDTH]) -> Self::F;
    fn store(self, x: Self::F, to: &mut [f32; WIDTH]);
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// The greater of each; `b` where one is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// Asks for the cache line at `at`, which may be anywhere: it is not read.
    fn prefetch(self, at: *const u8);
    /// Two to the power of the integer `n` for `x = n + 1.5 * 2^23`, `n` in -126..=127; 0
    /// for -127.
    fn power_of_two(self, x: Self::F) -> Self::F;
    /// The greatest of all; where one is NaN, any of them.
    fn greatest(self, x: Self::F) -> f32;
    /// The sum of all: lanes `l` and `l + 8`, then `l` and `l + 4`, and so on.
    fn sum(self, x: Self::F) -> f32;
    /// The values of sixteen half-precision numbers, exactly.
    fn load_half(self, from: &[u16; WIDTH]) -> Self::F;
}

/// A line of a cache that can be loaded.
pub(super) trait Load: Copy {
    fn load<L: Lanes>(&self, lanes: L) -> L::F;
}

impl Load for HalfLine {
    #[inline(always)]
    fn load<L: Lanes>(&self, lanes: L) -> L::F {
        lanes.load_half(&self.0)
    }
}

impl Load for FloatLine {
    #[inline(always)]
    fn load<L: Lanes>(&self, lanes: L) -> L::F {
        lanes.load(&self.0)
    }
}

/// Compiles `$inner` (which must be `#[inline(always)]`, so that the caller's instruction set
/// applies to it) for every implementation of [`Lanes`], and chooses by an [`crate::Isa`] at run
/// time.
macro_rules! per_lanes {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $(<$line:ident: $bound:path>)? ($($arg:ident: $ty:ty),* $(,)?)
        = $inner:ident;
    ) => {
        $(#[$meta])*
        #[allow(unsafe_code, reason = "calls a function compiled for a detected instruction set")]
        $vis fn $name $(<$line: $bound>)? (isa: $crate::isa::Isa, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::attention::lanes::{Avx2, Avx512};
                #[target_feature(enable = "avx2,f16c")]
                fn avx2 $(<$line: $bound>)? ($($arg: $ty),*) {
                    // SAFETY: this function is compiled for the instructions of the token.
                    let lanes = unsafe { Avx2::new() };
                    $inner(lanes, $($arg),*);
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512 $(<$line: $bound>)? ($($arg: $ty),*) {
                    // SAFETY: this function is compiled for the instructions of the token.
                    let lanes = unsafe { Avx512::new() };
                    $inner(lanes, $($arg),*);
                }
                match isa.kind() {
                    $crate::isa::Kind::Avx2 if is_x86_feature_detected!("f16c") => {
                        // SAFETY: an `Isa` of this kind is only made after the processor was seen
                        // to have AVX2 (`Isa::available`), and F16C has just been asked for.
                        return unsafe { avx2($($arg),*) };
                    }
                    // SAFETY: an `Isa` of this kind is only made after the processor was seen to
                    // have AVX-512 (`Isa::available`).
                    $crate::isa::Kind::Avx512 => return unsafe { avx512($($arg),*) },
                    _ => {}
                }
            }
            let _ = isa;
            $inner($crate::attention::lanes::Plain, $($arg),*);
        }
    };
}
pub(super) use per_lanes;

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

/// Plain Rust: the oracle of the others, and what the compiler turns into NEON on aarch64.
#[derive(Clone, Copy)]
pub(super) struct Plain;

impl Lanes for Plain {
    type F = [f32; WIDTH];
    const BUDGET: usize = 4;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; WIDTH]
    }

    #[inline(always)]
    fn load(self, from: &[f32; WIDTH]) -> Self::F {
        *from
    }

    #[inline(always)]
    fn store(self, x: Self::F, to: &mut [f32; WIDTH]) {
        *to = x;
    }

    #[inline(always)]
    fn add(self, mut a: Self::F, b: Self::F) -> Self::F {
        for (a, b) in a.iter_mut().zip(b) {
            *a += b;
        }
        a
    }

    #[inline(always)]
    fn sub(self, mut a: Self::F, b: Self::F) -> Self::F {
        for (a, b) in a.iter_mut().zip(b) {
            *a -= b;
        }
        a
    }

    #[inline(always)]
    fn mul(self, mut a: Self::F, b: Self::F) -> Self::F {
        for (a, b) in a.iter_mut().zip(b) {
            *a *= b;
        }
        a
    }

    #[inline(always)]
    fn div(self, mut a: Self::F, b: Self::F) -> Self::F {
        for (a, b) in a.iter_mut().zip(b) {
            *a /= b;
        }
        a
    }

    #[inline(always)]
    fn prefetch(self, _: *const u8) {}

    #[inline(always)]
    fn max(self, mut a: Self::F, b: Self::F) -> Self::F {
        for (a, b) in a.iter_mut().zip(b) {
            *a = if *a > b { *a } else { b };
        }
        a
    }

    #[inline(always)]
    fn power_of_two(self, mut x: Self::F) -> Self::F {
        for x in &mut x {
            *x = f32::from_bits((x.to_bits() << 23).wrapping_add(0x3f80_0000));
        }
        x
    }

    #[inline(always)]
    fn greatest(self, x: Self::F) -> f32 {
        by_halves(x, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn sum(self, x: Self::F) -> f32 {
        by_halves(x, |a, b| a + b)
    }

    #[inline(always)]
    fn load_half(self, from: &[u16; WIDTH]) -> Self::F {
        let mut x = [0.0; WIDTH];
        for (x, bits) in x.iter_mut().zip(from) {
            *x = crate::elementary::f16_to_f32(*bits);
        }
        x
    }
}

/// Combines lanes `l` and `l + 8`, then `l` and `l + 4`, and so on.
#[inline(always)]
fn by_halves(mut lanes: [f32; WIDTH], combine: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = WIDTH / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = combine(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Lanes, WIDTH};

    /// An intrinsic whose instructions the token `self` proves.
    macro_rules! proven {
        ($($call:tt)*) => {
            // SAFETY: `self` proves that the processor has these instructions. Loads and stores go
            // through references to arrays of exactly the bytes that they touch, and need no
            // alignment.
            unsafe { $($call)* }
        };
    }

    /// Proof of AVX2 and F16C.
    #[derive(Clone, Copy)]
    pub(in crate::attention) struct Avx2(());

    /// Proof of AVX-512.
    #[derive(Clone, Copy)]
    pub(in crate::attention) struct Avx512(());

    impl Avx2 {
        /// # Safety
        ///
        /// The processor must have AVX2 and F16C.
        #[inline(always)]
        pub(in crate::attention) unsafe fn new() -> Self {
            Self(())
        }
    }

    impl Avx512 {
        /// Whoever has AVX-512 has AVX2 and F16C.
        #[inline(always)]
        fn narrow(self) -> Avx2 {
            Avx2(())
        }

        /// The lower and the upper eight lanes.
        #[inline(always)]
        fn halves(self, x: __m512) -> [__m256; 2] {
            proven!([_mm512_castps512_ps256(x), _mm512_extractf32x8_ps::<1>(x)])
        }

        /// # Safety
        ///
        /// The processor must have AVX-512 F, BW, DQ and VL.
        #[inline(always)]
        pub(in crate::attention) unsafe fn new() -> Self {
            Self(())
        }
    }

    impl Lanes for Avx2 {
        type F = [__m256; 2];
        const BUDGET: usize = 4;

        #[inline(always)]
        fn splat(self, x: f32) -> Self::F {
            [proven!(_mm256_set1_ps(x)); 2]
        }

        #[inline(always)]
        fn load(self, from: &[f32; WIDTH]) -> Self::F {
            let at = from.as_ptr();
            proven!([_mm256_loadu_ps(at), _mm256_loadu_ps(at.add(8))])
        }

        #[inline(always)]
        fn store(self, [low, high]: Self::F, to: &mut [f32; WIDTH]) {
            let at = to.as_mut_ptr();
            proven!({
                _mm256_storeu_ps(at, low);
                _mm256_storeu_ps(at.add(8), high);
            });
        }

        #[inline(always)]
        fn add(self, a: Self::F, b: Self::F) -> Self::F {
            proven!([_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])])
        }

        #[inline(always)]
        fn sub(self, a: Self::F, b: Self::F) -> Self::F {
            proven!([_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])])
        }

        #[inline(always)]
        fn mul(self, a: Self::F, b: Self::F) -> Self::F {
            proven!([_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])])
        }

        #[inline(always)]
        fn div(self, a: Self::F, b: Self::F) -> Self::F {
            proven!([_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])])
        }

        #[inline(always)]
        fn prefetch(self, at: *const u8) {
            proven!(_mm_prefetch::<_MM_HINT_T1>(at.cast()));
        }

        #[inline(always)]
        fn max(self, a: Self::F, b: Self::F) -> Self::F {
            proven!([_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])])
        }

        #[inline(always)]
        fn power_of_two(self, x: Self::F) -> Self::F {
            proven!({
                let one = _mm256_set1_epi32(0x3f80_0000);
                let low = _mm256_slli_epi32::<23>(_mm256_castps_si256(x[0]));
                let high = _mm256_slli_epi32::<23>(_mm256_castps_si256(x[1]));
                [
                    _mm256_castsi256_ps(_mm256_add_epi32(low, one)),
                    _mm256_castsi256_ps(_mm256_add_epi32(high, one)),
                ]
            })
        }

        #[inline(always)]
        fn greatest(self, x: Self::F) -> f32 {
            proven!({
                let eight = _mm256_max_ps(x[0], x[1]);
                let four =
                    _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
                let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
            })
        }

        #[inline(always)]
        fn sum(self, x: Self::F) -> f32 {
            proven!({
                let eight = _mm256_add_ps(x[0], x[1]);
                let four =
                    _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
                let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
            })
        }

        #[inline(always)]
        fn load_half(self, from: &[u16; WIDTH]) -> Self::F {
            let at = from.as_ptr();
            proven!([
                _mm256_cvtph_ps(_mm_loadu_si128(at.cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(at.add(8).cast())),
            ])
        }
    }

    impl Lanes for Avx512 {
        type F = __m512;
        const BUDGET: usize = 16;

        #[inline(always)]
        fn splat(self, x: f32) -> Self::F {
            proven!(_mm512_set1_ps(x))
        }

        #[inline(always)]
        fn load(self, from: &[f32; WIDTH]) -> Self::F {
            proven!(_mm512_loadu_ps(from.as_ptr()))
        }

        #[inline(always)]
        fn store(self, x: Self::F, to: &mut [f32; WIDTH]) {
            proven!(_mm512_storeu_ps(to.as_mut_ptr(), x));
        }

        #[inline(always)]
        fn add(self, a: Self::F, b: Self::F) -> Self::F {
            proven!(_mm512_add_ps(a, b))
        }

        #[inline(always)]
        fn sub(self, a: Self::F, b: Self::F) -> Self::F {
            proven!(_mm512_sub_ps(a, b))
        }

        #[inline(always)]
        fn mul(self, a: Self::F, b: Self::F) -> Self::F {
            proven!(_mm512_mul_ps(a, b))
        }

        #[inline(always)]
        fn div(self, a: Self::F, b: Self::F) -> Self::F {
            proven!(_mm512_div_ps(a, b))
        }

        #[inline(always)]
        fn prefetch(self, at: *const u8) {
            proven!(_mm_prefetch::<_MM_HINT_T1>(at.cast()));
        }

        #[inline(always)]
        fn max(self, a: Self::F, b: Self::F) -> Self::F {
            proven!(_mm512_max_ps(a, b))
        }

        #[inline(always)]
        fn power_of_two(self, x: Self::F) -> Self::F {
            proven!({
                let exponent = _mm512_slli_epi32::<23>(_mm512_castps_si512(x));
                _mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(0x3f80_0000)))
            })
        }

        #[inline(always)]
        fn greatest(self, x: Self::F) -> f32 {
            let halves = self.halves(x);
            self.narrow().greatest(halves)
        }

        #[inline(always)]
        fn sum(self, x: Self::F) -> f32 {
            let halves = self.halves(x);
            self.narrow().sum(halves)
        }

        #[inline(always)]
        fn load_half(self, from: &[u16; WIDTH]) -> Self::F {
            proven!(_mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())))
        }
    }
}
