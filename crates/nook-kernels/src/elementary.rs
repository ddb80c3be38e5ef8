//! Elementary functions with one result on every machine.
//!
//! The platform's `exp` differs between C libraries, and the compiler may not vectorise it. This
//! one is plain arithmetic, so it is equal everywhere and vectorises with whatever surrounds it:
//! every function here is free of branches (both sides are computed and one is chosen), and uses
//! only operations that IEEE 754 defines to the bit.

#![allow(clippy::excessive_precision, reason = "coefficients as their sources print them")]

pub(crate) const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// The natural logarithm of 2, in two parts: multiples of the first by small integers are exact.
const LN2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

/// Adding and subtracting 1.5 * 2^23 rounds to the nearest integer.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// Below this, the exponential is taken for 0.
const EXP_LOWEST: f32 = -87.336_54;

const EXP_HIGHEST: f32 = 88.722_83;

/// `(e^r - 1 - r) / r^2` for `|r| <= ln 2 / 2`, highest power first (Cephes `expf`).
const EXP_POLYNOMIAL: [f32; 6] =
    [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];

/// `e` to the power of `x`, within 2 units in the last place.
///
/// Cody-Waite reduction `x = n ln 2 + r`, `|r| <= ln 2 / 2`, then a polynomial of degree 6 (Cephes
/// `expf`). Below -87.33 the result is 0 (no subnormals), above 88.72 it is infinity; NaN stays
/// NaN.
#[inline(always)]
#[must_use]
pub fn exp(x: f32) -> f32 {
    // Clamped so that the scale below stays a normal number; `clamp` keeps NaN.
    let clamped = x.clamp(EXP_LOWEST, EXP_HIGHEST);
    let shifted = clamped * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (clamped - n * LN2[0]) - n * LN2[1];
    let [mut p, rest @ ..] = EXP_POLYNOMIAL;
    for coefficient in rest {
        p = p * r + coefficient;
    }
    let e = p * (r * r) + r + 1.0;
    // n is in -126..=128, and stands in the low bits of `shifted`; 2^128 is made in two factors.
    let integer = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let half = integer >> 1;
    let rest = integer.wrapping_sub(half);
    let scaled = e * power_of_two(half) * power_of_two(rest);
    if x < EXP_LOWEST {
        0.0
    } else if x > EXP_HIGHEST {
        f32::INFINITY
    } else {
        scaled
    }
}

/// `x * sigmoid(x)`, also called swish.
#[inline(always)]
#[must_use]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
#[must_use]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The hyperbolic tangent, within 3 units in the last place.
///
/// Near 0 an odd polynomial (Cephes `tanhf`), elsewhere `1 - 2 / (e^2x + 1)`.
#[inline(always)]
#[must_use]
pub fn tanh(x: f32) -> f32 {
    const NEAR: f32 = 0.625;
    let square = x * x;
    let mut p = -5.704_988_7e-3;
    p = p * square + 2.063_909e-2;
    p = p * square - 5.373_971_6e-2;
    p = p * square + 1.333_144_2e-1;
    p = p * square - 3.333_328e-1;
    let near = p * square * x + x;
    let magnitude = x.abs();
    let far = 1.0 - 2.0 / (exp(2.0 * magnitude) + 1.0);
    let chosen = if magnitude < NEAR { near } else { far };
    chosen.copysign(x)
}

/// GELU by its usual approximation (Hendrycks and Gimpel 2016), `gelu_pytorch_tanh`:
/// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`, which is
/// `x * sigmoid(2 sqrt(2 / pi) * (x + 0.044715 x^3))`.
#[inline(always)]
#[must_use]
pub fn gelu_tanh(x: f32) -> f32 {
    const TWICE_ROOT_OF_2_OVER_PI: f32 = 1.595_769;
    let inner = TWICE_ROOT_OF_2_OVER_PI * (x + 0.044_715 * (x * x * x));
    x / (1.0 + exp(-inner))
}

/// GELU as defined: `x` times the standard normal distribution function of `x`, within 1e-6 of the
/// greater of the result and 1e-6.
///
/// With `a = |x|` and `u = 1 / (1 + 0.3 a)`, the probability of more than `a` is `u / 2 * e^(P(u) -
/// a^2 / 2)`, where `P` is the polynomial of degree 8 that meets `ln(erfc(a / sqrt 2)) + a^2 / 2 -
/// ln u` at the Chebyshev nodes for `a` in 0..=13.5 (within 1.8e-7). There is no difference of
/// nearly equal numbers, so the negative tail keeps its relative precision.
#[inline(always)]
#[must_use]
pub fn gelu_erf(x: f32) -> f32 {
    let a = x.abs();
    let u = 1.0 / (1.0 + 0.3 * a);
    let mut p = -0.145_162_77;
    p = p * u + 0.550_057_5;
    p = p * u - 0.622_199_34;
    p = p * u + 0.051_757_153;
    p = p * u + 0.085_678_66;
    p = p * u + 0.079_926_94;
    p = p * u + 0.432_883_1;
    p = p * u + 0.996_628;
    p = p * u - 1.429_569_4;
    let tail = 0.5 * u * exp(p - 0.5 * (a * a));
    let below = if x < 0.0 { tail } else { 1.0 - tail };
    x * below
}

/// The IEEE half-precision number nearest to `x` (ties to even), as its bits. Above 65,519.99 it is
/// infinite; NaN becomes the quiet NaN of its sign.
#[inline(always)]
#[must_use]
pub fn f32_to_f16(x: f32) -> u16 {
    const SMALLEST_NORMAL: u32 = (127 - 14) << 23; // 2^-14
    const INFINITE: u32 = (127 + 16) << 23; // 2^16: past the greatest half number, however rounded
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // Half a unit of the ten bits that stay, less one where the last of them is even; a carry runs
    // on into the exponent, as it should.
    let rounded = magnitude.wrapping_add(0x0fff + ((magnitude >> 13) & 1));
    let normal = rounded.wrapping_sub((127 - 15) << 23) >> 13;
    // One half has the unit of the subnormal half numbers in its last place, so the addition
    // rounds.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let special = if magnitude > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    let finite = if magnitude < SMALLEST_NORMAL { subnormal } else { normal };
    let chosen = if rounded >= INFINITE { special } else { finite };
    (chosen | (bits >> 16 & 0x8000)) as u16
}

/// The value of the IEEE half-precision number with these bits; exact for every number. (NaNs keep
/// being NaN, not their payload.)
#[inline(always)]
#[must_use]
pub fn f16_to_f32(bits: u16) -> f32 {
    let sign = (u32::from(bits) & 0x8000) << 16;
    let rest = (u32::from(bits) & 0x7fff) << 13;
    // The exponent's bias differs by 112; multiplying also brings subnormals to their place.
    let magnitude = if rest >= 0x7c00 << 13 {
        rest | 0x7f80_0000
    } else {
        (f32::from_bits(rest) * f32::from_bits((112 + 127) << 23)).to_bits()
    };
    f32::from_bits(sign | magnitude)
}

/// The value of the bfloat16 number with these bits.
#[inline(always)]
#[must_use]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        let mut worst = 0.0f64;
        for step in -87_000..88_000 {
            let x = step as f32 / 1000.0;
            let exact = libm::exp(f64::from(x));
            let error = (f64::from(exp(x)) - exact).abs() / exact;
            worst = worst.max(error);
        }
        assert!(worst < 2.0 * f64::from(f32::EPSILON), "{worst:e}");
    }

    #[test]
    fn exp_keeps_its_edges() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-1e30), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(100.0), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(88.7).is_finite());
    }

    #[test]
    fn functions_are_near_their_exact_values() {
        let phi = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
        let cubic = |x: f64| (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
        type Case = (&'static str, fn(f32) -> f32, fn(f64, [f64; 2]) -> f64, f64);
        let cases: [Case; 5] = [
            ("tanh", tanh, |x, _| libm::tanh(x), 4e-7),
            ("sigmoid", sigmoid, |x, _| 1.0 / (1.0 + libm::exp(-x)), 4e-7),
            ("silu", silu, |x, _| x / (1.0 + libm::exp(-x)), 4e-7),
            ("gelu_tanh", gelu_tanh, |x, [_, cubic]| x / (1.0 + libm::exp(-2.0 * cubic)), 4e-6),
            ("gelu_erf", gelu_erf, |x, [phi, _]| x * phi, 3e-6),
        ];
        for (name, function, exact, tolerance) in cases {
            for step in -30_000..=30_000 {
                let x = step as f32 / 3000.0;
                let wide = f64::from(x);
                let expected = exact(wide, [phi(wide), cubic(wide)]);
                let error = (f64::from(function(x)) - expected).abs();
                assert!(error <= tolerance * expected.abs().max(1e-6), "{name}({x}): {error:e}");
            }
        }
    }

    #[test]
    fn functions_keep_their_edges() {
        assert_eq!(tanh(-0.0).to_bits(), (-0.0f32).to_bits());
        assert_eq!((tanh(f32::INFINITY), tanh(f32::NEG_INFINITY)), (1.0, -1.0));
        assert_eq!((gelu_erf(100.0), gelu_erf(-1e20)), (100.0, 0.0));
        assert_eq!((gelu_tanh(100.0), gelu_tanh(-1e20)), (100.0, 0.0));
        assert_eq!((sigmoid(f32::INFINITY), sigmoid(f32::NEG_INFINITY)), (1.0, 0.0));
        for function in [tanh, gelu_erf, gelu_tanh, sigmoid, silu] {
            assert!(function(f32::NAN).is_nan());
        }
    }

    #[test]
    fn numbers_are_rounded_to_half_precision_as_ieee_says() {
        let check = |x: f32| {
            let (got, expected) = (f32_to_f16(x), half::f16::from_f32_const(x));
            let none = x.is_nan() && half::f16::from_bits(got).is_nan();
            assert!(none || got == expected.to_bits(), "{x:e}: {got:04x} {expected:?}");
        };
        for bits in 0..=u16::MAX {
            let x = half::f16::from_bits(bits).to_f32();
            // The number itself, the middle between it and the next, and what lies close to either.
            for near in [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff] {
                check(f32::from_bits(x.to_bits().wrapping_add(near)));
            }
        }
        for bits in (0..=u32::MAX).step_by(9973) {
            check(f32::from_bits(bits));
        }
    }

    #[test]
    fn every_half_number_is_read_exactly() {
        for bits in 0..=u16::MAX {
            let expected = half::f16::from_bits(bits).to_f32();
            let got = f16_to_f32(bits);
            assert!(got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()));
            let expected = half::bf16::from_bits(bits).to_f32();
            let got = bf16_to_f32(bits);
            assert!(got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()));
        }
    }
}
