//! Rows in blocks of eight-bit numbers: the format `q8` of activations.
//!
//! Every row is cut into blocks of [`BLOCK`] numbers, the last one as long as what is left. A block
//! is a scale `s` and a whole number `n` from -127 to 127 for each of its numbers, which stands for
//! `n · s`: the idea of GGML's Q8_0, with the blocks beginning anew at each row, so that rows can
//! be taken out of a tensor without being written again.
//!
//! **The scale is f16**: 34 bytes for 32 numbers, where f32 would take 36. Slow links are the only
//! reason for this format, so 6 % count. What f32 would buy is range: an f16 scale ends at 127 ·
//! 65,504, about eight million, and that is 127 times as far as f16 activations reach. Beyond it
//! the sender says [`ActivationError::Overflow`], as it does for f16, and everything is computed
//! again in f32. The scale is rounded *up*, never to the nearest: so no number is cut off at 127
//! steps, a block loses nothing to zero that f16 itself would keep, and writing a row again that
//! was read gives the same bytes (for scales of full precision), by which a host that only copies
//! is found out.

use half::f16;

use super::ActivationError;

/// Numbers in a block.
pub const BLOCK: usize = 32;

/// Bytes of a block's scale.
const SCALE_BYTES: usize = 2;

/// The largest magnitude in steps.
const STEPS: f32 = 127.0;

/// Bytes of a row of `width` numbers.
pub(super) fn row_bytes(width: usize) -> usize {
    width.div_ceil(BLOCK).saturating_mul(SCALE_BYTES).saturating_add(width)
}

/// Appends `row` to `bytes`. Fails on a number that is not finite, or too large for a scale, with
/// its place in the row.
pub(super) fn write_row(row: &[f32], bytes: &mut Vec<u8>) -> Result<(), WriteError> {
    for (number, block) in row.chunks(BLOCK).enumerate() {
        let at = |place: usize| number * BLOCK + place;
        if let Some(place) = block.iter().position(|x| !x.is_finite()) {
            return Err(WriteError::NotFinite(at(place)));
        }
        let largest = block.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
        let scale = at_least(largest / STEPS);
        if !scale.is_finite() {
            let place = block.iter().position(|x| x.abs() == largest);
            return Err(WriteError::TooLarge(at(place.unwrap_or(0))));
        }
        bytes.extend(scale.to_le_bytes());
        // A block of zeros has the scale 0, and nothing is divided by it.
        let step = if largest > 0.0 { scale.to_f32() } else { 1.0 };
        let steps = |x: &f32| (x / step).round_ties_even() as i8;
        bytes.extend(block.iter().map(|x| steps(x).to_le_bytes()[0]));
    }
    Ok(())
}

/// The numbers of rows of `width` numbers each; `bytes` holds whole rows.
pub(super) fn read(bytes: &[u8], width: usize) -> Vec<f32> {
    let mut numbers = Vec::with_capacity(bytes.len());
    for (scale, steps) in blocks(bytes, width) {
        let step = scale.to_f32();
        numbers.extend(steps.iter().map(|n| f32::from(i8::from_le_bytes([*n])) * step));
    }
    numbers
}

/// The place of the first number whose scale is NaN or infinite, over all rows.
pub(super) fn first_not_finite(bytes: &[u8], width: usize) -> Option<usize> {
    let mut place = 0;
    for (scale, steps) in blocks(bytes, width) {
        if !scale.is_finite() {
            return Some(place);
        }
        place += steps.len();
    }
    None
}

/// Whether a row of `width` numbers stands for zeros alone.
pub(super) fn is_zero(row: &[u8], width: usize) -> bool {
    blocks(row, width)
        .all(|(scale, steps)| scale.to_f32() == 0.0 || steps.iter().all(|step| *step == 0))
}

/// Why a row cannot be written, with the place of the number in its row.
pub(super) enum WriteError {
    NotFinite(usize),
    TooLarge(usize),
}

impl WriteError {
    /// The same in a tensor in which `before` numbers come before the row.
    pub(super) fn in_tensor(self, before: usize) -> ActivationError {
        match self {
            Self::NotFinite(at) => ActivationError::NotFinite { index: before + at },
            Self::TooLarge(at) => {
                ActivationError::Overflow { index: before + at, dtype: super::ActivationDtype::Q8 }
            }
        }
    }
}

/// Scale and steps of each block, row by row.
fn blocks(bytes: &[u8], width: usize) -> impl Iterator<Item = (f16, &[u8])> {
    // Rows of no numbers have no bytes either.
    let row = row_bytes(width).max(1);
    let block = SCALE_BYTES + BLOCK;
    bytes.chunks_exact(row).flat_map(move |row| row.chunks(block)).filter_map(|block| {
        let (scale, steps) = block.split_first_chunk::<SCALE_BYTES>()?;
        Some((f16::from_le_bytes(*scale), steps))
    })
}

/// The smallest f16 that is not below `x`, which is not negative; infinite when there is none.
fn at_least(x: f32) -> f16 {
    let near = f16::from_f32(x);
    // The next larger number of a positive float has the next bits.
    if near.to_f32() < x { f16::from_bits(near.to_bits() + 1) } else { near }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Activation, ActivationDtype};
    use super::*;
    use crate::ErrorCode;

    const Q8: ActivationDtype = ActivationDtype::Q8;

    fn written(rows: &[f32], width: u32) -> Activation {
        Activation::from_f32(rows, width, Q8).unwrap()
    }

    /// Numbers of any size that hidden states have.
    fn number() -> impl Strategy<Value = f32> {
        (-1.0_f32..1.0, -6..7_i32).prop_map(|(x, exponent)| x * 10.0_f32.powi(exponent))
    }

    proptest! {
        #[test]
        fn every_number_comes_back_within_half_a_step_of_its_block(
            width in 1..100_usize, numbers in prop::collection::vec(number(), 300),
        ) {
            let rows = &numbers[..numbers.len() / width * width];
            let tensor = written(rows, width as u32);
            let back = tensor.to_f32();
            prop_assert_eq!(back.len(), rows.len());
            for (row, back) in rows.chunks(width).zip(back.chunks(width)) {
                for (block, back) in row.chunks(BLOCK).zip(back.chunks(BLOCK)) {
                    let largest = block.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                    // A scale is at most 1/1024 above what it must be, or one step of the smallest
                    // f16.
                    let step = (largest / STEPS * (1.0 + 1.0 / 1024.0)).max(largest / STEPS + 6e-8);
                    for (x, y) in block.iter().zip(back) {
                        prop_assert!((x - y).abs() <= step * 0.500_01, "{x} {y} {step}");
                    }
                }
            }
        }

        #[test]
        fn what_was_read_is_written_as_the_same_bytes(
            numbers in prop::collection::vec(-1e5_f32..1e5, 80),
        ) {
            let once = written(&numbers, 40);
            let again = written(&once.to_f32(), once.hidden());
            prop_assert_eq!(once.bytes(), again.bytes());
        }

        #[test]
        fn any_bytes_can_be_read_and_are_finite_unless_that_is_said(
            width in 1..70_u32, bytes in prop::collection::vec(any::<u8>(), 300),
        ) {
            let row = Q8.row_bytes(width);
            let tokens = bytes.len() / row;
            let bytes = bytes[..tokens * row].to_vec();
            let tensor = Activation::new(tokens as u32, width, Q8, bytes.into()).unwrap();
            let numbers = tensor.to_f32();
            prop_assert_eq!(numbers.len(), tokens * width as usize);
            if tensor.check_finite().is_ok() {
                prop_assert!(numbers.iter().all(|x| x.is_finite()));
            }
        }
    }

    #[test]
    fn a_block_is_a_scale_and_its_steps_and_each_row_begins_anew() {
        let tensor = written(&[127.0, -63.0, 0.0, 254.0, 2.0, -254.0], 3);
        let expected = [0x00, 0x3c, 127, 0xc1, 0, 0x00, 0x40, 127, 1, 0x81];
        assert_eq!(tensor.bytes().as_ref(), expected);
        assert_eq!(tensor.to_f32(), [127.0, -63.0, 0.0, 254.0, 2.0, -254.0]);
        assert_eq!(tensor.rows(1, 2).to_f32(), [254.0, 2.0, -254.0]);
        assert_eq!([32, 33, 2048].map(|width| Q8.row_bytes(width)), [34, 37, 2176]);
    }

    #[test]
    fn numbers_beyond_f16_fit_and_those_beyond_its_scales_are_an_overflow_at_the_sender() {
        let large = written(&[1.0, 8e6], 2);
        assert!((large.to_f32()[1] / 8e6 - 1.0).abs() < 1e-3);
        let overflow = Activation::from_f32(&[0.0, 1.0, 2.0, -9e6], 2, Q8);
        assert_eq!(overflow, Err(ActivationError::Overflow { index: 3, dtype: Q8 }));
        assert_eq!(overflow.unwrap_err().code(), ErrorCode::ActivationOverflow);
    }

    #[test]
    fn what_is_not_finite_was_wrong_before_and_is_found_in_what_arrives_too() {
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut rows = [1.0_f32; 80];
            rows[77] = wrong;
            let refused = Activation::from_f32(&rows, 40, Q8).unwrap_err();
            assert_eq!(refused, ActivationError::NotFinite { index: 77 });
            assert_eq!(refused.code(), ErrorCode::CorruptActivation);
        }
        for scale in [f16::NAN, f16::INFINITY, f16::NEG_INFINITY] {
            let mut bytes = written(&[1.0; 80], 40).bytes().to_vec();
            // The second block of the second row.
            let at = Q8.row_bytes(40) + 34;
            bytes[at..at + 2].copy_from_slice(&scale.to_le_bytes());
            let tensor = Activation::new(2, 40, Q8, bytes.into()).unwrap();
            assert_eq!(tensor.check_finite(), Err(ActivationError::NotFinite { index: 72 }));
        }
    }

    #[test]
    fn zeros_and_the_smallest_numbers_survive_as_in_f16() {
        assert_eq!(written(&[0.0, -0.0], 2).to_f32(), [0.0, 0.0]);
        let smallest = f16::from_bits(1).to_f32();
        assert_eq!(written(&[smallest, 0.0], 2).to_f32(), [smallest, 0.0]);
    }
}
