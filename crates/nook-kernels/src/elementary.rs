//! Elementary functions with one result on every machine.
//!
//! The platform's `exp` differs between C libraries, and the compiler may not vectorise it. This one
//! is plain arithmetic, so it is equal everywhere and vectorises with whatever surrounds it.

/// `e` to the power of `x`, within 2 units in the last place.
///
/// Cody-Waite reduction `x = n ln 2 + r`, `|r| <= ln 2 / 2`, then a polynomial of degree 6 (Cephes
/// `expf`). Below -87.33 the result is 0 (no subnormals), above 88.72 it is infinity; NaN stays NaN.
#[inline(always)]
#[must_use]
pub fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    const LOWEST: f32 = -87.336_54;
    const HIGHEST: f32 = 88.722_83;

    // Clamped so that the scale below stays a normal number; `clamp` keeps NaN.
    let clamped = x.clamp(LOWEST, HIGHEST);
    let shifted = clamped * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (clamped - n * LN2_HIGH) - n * LN2_LOW;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let e = p * (r * r) + r + 1.0;
    // n is in -126..=128, and stands in the low bits of `shifted`; 2^128 is made in two factors.
    let integer = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let half = integer >> 1;
    let rest = integer.wrapping_sub(half);
    let scaled = e * power_of_two(half) * power_of_two(rest);
    if x < LOWEST {
        0.0
    } else if x > HIGHEST {
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
