//! What travels between layers: rows of hidden state, as bytes.
//!
//! Three formats: `f32` is exact, `f16` half the bytes and the default, `q8` ([`q8`]) a quarter,
//! for slow links. Whoever writes finds out whether a number fits its format
//! ([`Activation::from_f32`]); whoever reads, whether all of them are finite
//! ([`Activation::check_finite`]).

pub mod q8;

use std::fmt;

use bytes::Bytes;
use half::f16;
use serde::{Deserialize, Serialize};

use crate::ErrorCode;

/// How the numbers of an activation are written, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum ActivationDtype {
    /// IEEE 754 binary16: half the bytes; the default.
    F16,
    /// IEEE 754 binary32: bit-exact.
    F32,
    /// Blocks of 32 eight-bit numbers with one f16 scale each: about half the bytes of f16; for
    /// slow links. See [`q8`].
    Q8,
}

/// Hidden state of `tokens` consecutive positions, each `hidden` numbers wide, row-major.
///
/// No tensor type crosses a crate wall; this does. The bytes are sensitive (invariant I-3): `Debug`
/// shows only the shape.
#[derive(Clone, PartialEq, Eq)]
pub struct Activation {
    tokens: u32,
    hidden: u32,
    dtype: ActivationDtype,
    bytes: Bytes,
}

/// Bytes that are not the activation they claim to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ActivationError {
    /// The shape and the number of bytes disagree.
    #[error("{tokens} x {hidden} {dtype:?} numbers do not take {bytes} bytes")]
    LengthMismatch {
        /// Rows claimed.
        tokens: u32,
        /// Width claimed.
        hidden: u32,
        /// Type claimed.
        dtype: ActivationDtype,
        /// Bytes present.
        bytes: usize,
    },
    /// A number is finite, but too large for how it is to be written.
    #[error("number {index} of the activation is too large for {dtype}")]
    Overflow {
        /// Index of the first such number, row-major.
        index: usize,
        /// Type wanted.
        dtype: ActivationDtype,
    },
    /// A number is NaN or infinite.
    #[error("number {index} of the activation is not finite")]
    NotFinite {
        /// Index of the first such number, row-major.
        index: usize,
    },
}

impl ActivationError {
    /// What to tell the other side: whether a wider type would help, or nothing does.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Overflow { .. } => ErrorCode::ActivationOverflow,
            Self::LengthMismatch { .. } | Self::NotFinite { .. } => ErrorCode::CorruptActivation,
        }
    }
}

impl ActivationDtype {
    /// Every format, in the order of their numbers on the wire: add at the end, never reorder.
    pub const ALL: [Self; 3] = [Self::F16, Self::F32, Self::Q8];

    /// Bytes of one row of `hidden` numbers.
    #[must_use]
    pub fn row_bytes(self, hidden: u32) -> usize {
        let hidden = hidden as usize;
        match self {
            Self::F16 => hidden.saturating_mul(2),
            Self::F32 => hidden.saturating_mul(4),
            Self::Q8 => q8::row_bytes(hidden),
        }
    }
}

impl fmt::Display for ActivationDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::Q8 => "q8",
        })
    }
}

impl std::str::FromStr for ActivationDtype {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "f16" | "fp16" => Ok(Self::F16),
            "f32" | "fp32" => Ok(Self::F32),
            "q8" => Ok(Self::Q8),
            other => Err(format!("`{other}` is no activation type: use f16, f32 or q8")),
        }
    }
}

impl Activation {
    /// Wraps `bytes`; fails when shape and length disagree (products are checked).
    pub fn new(
        tokens: u32,
        hidden: u32,
        dtype: ActivationDtype,
        bytes: Bytes,
    ) -> Result<Self, ActivationError> {
        if byte_len(tokens, hidden, dtype) == Some(bytes.len()) {
            Ok(Self { tokens, hidden, dtype, bytes })
        } else {
            Err(ActivationError::LengthMismatch { tokens, hidden, dtype, bytes: bytes.len() })
        }
    }

    /// Writes `rows` (row-major, a multiple of `hidden` numbers) as `dtype`.
    ///
    /// Fails when the length is no multiple of `hidden`, or a number is not finite, or too large
    /// for `dtype`: an overflow is found here, at the sender, and is told from a number that was
    /// wrong before.
    pub fn from_f32(
        rows: &[f32],
        hidden: u32,
        dtype: ActivationDtype,
    ) -> Result<Self, ActivationError> {
        let width = hidden as usize;
        let bytes = rows.len().saturating_mul(size_of::<f32>());
        let mismatch = ActivationError::LengthMismatch { tokens: 0, hidden, dtype, bytes };
        if width == 0 || !rows.len().is_multiple_of(width) {
            return Err(mismatch);
        }
        let tokens = u32::try_from(rows.len() / width).map_err(|_| mismatch)?;
        let mut bytes = Vec::with_capacity(dtype.row_bytes(hidden).saturating_mul(tokens as usize));
        match dtype {
            ActivationDtype::F32 => rows.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
            ActivationDtype::F16 => {
                rows.iter().for_each(|x| bytes.extend(f16::from_f32(*x).to_le_bytes()));
            }
            ActivationDtype::Q8 => {
                for (row, numbers) in rows.chunks_exact(width).enumerate() {
                    q8::write_row(numbers, &mut bytes)
                        .map_err(|error| error.in_tensor(row * width))?;
                }
            }
        }
        let activation = Self { tokens, hidden, dtype, bytes: bytes.into() };
        match activation.check_finite() {
            Err(ActivationError::NotFinite { index })
                if rows.get(index).is_some_and(|number| number.is_finite()) =>
            {
                Err(ActivationError::Overflow { index, dtype })
            }
            checked => checked.map(|()| activation),
        }
    }

    /// The numbers, row-major, widened to f32.
    #[must_use]
    pub fn to_f32(&self) -> Vec<f32> {
        match self.dtype {
            ActivationDtype::F32 => {
                self.bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
            }
            ActivationDtype::F16 => self
                .bytes
                .as_chunks::<2>()
                .0
                .iter()
                .map(|b| f16::from_le_bytes(*b).to_f32())
                .collect(),
            ActivationDtype::Q8 => q8::read(&self.bytes, self.hidden as usize),
        }
    }

    /// Fails on the first NaN or infinity; of `q8` on the first number of a block whose scale is
    /// one.
    pub fn check_finite(&self) -> Result<(), ActivationError> {
        let index = match self.dtype {
            ActivationDtype::F32 => self
                .bytes
                .as_chunks::<4>()
                .0
                .iter()
                .position(|b| !f32::from_le_bytes(*b).is_finite()),
            ActivationDtype::F16 => self
                .bytes
                .as_chunks::<2>()
                .0
                .iter()
                .position(|b| !f16::from_le_bytes(*b).is_finite()),
            ActivationDtype::Q8 => q8::first_not_finite(&self.bytes, self.hidden as usize),
        };
        index.map_or(Ok(()), |index| Err(ActivationError::NotFinite { index }))
    }

    /// Whether every number of some row is zero, of either sign.
    #[must_use]
    pub fn has_zero_row(&self) -> bool {
        let row = self.dtype.row_bytes(self.hidden);
        let is_zero = |number: &[u8]| {
            // Little-endian: the sign is the top bit of the last byte.
            number.split_last().is_none_or(|(sign_byte, low)| {
                sign_byte & 0x7f == 0 && low.iter().all(|byte| *byte == 0)
            })
        };
        let all_zero = |row: &[u8]| match self.dtype {
            ActivationDtype::F32 => row.chunks_exact(4).all(is_zero),
            ActivationDtype::F16 => row.chunks_exact(2).all(is_zero),
            ActivationDtype::Q8 => q8::is_zero(row, self.hidden as usize),
        };
        row > 0 && self.bytes.chunks_exact(row).any(all_zero)
    }

    /// Rows: positions.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Numbers in a row.
    #[must_use]
    pub fn hidden(&self) -> u32 {
        self.hidden
    }

    /// How a number is written.
    #[must_use]
    pub fn dtype(&self) -> ActivationDtype {
        self.dtype
    }

    /// The numbers, little-endian, row-major.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Rows `from..to` as an activation of its own, sharing the bytes. Clamped to what is there.
    #[must_use]
    pub fn rows(&self, from: u32, to: u32) -> Self {
        let to = to.min(self.tokens);
        let from = from.min(to);
        let row = self.dtype.row_bytes(self.hidden);
        Self {
            tokens: to - from,
            hidden: self.hidden,
            dtype: self.dtype,
            bytes: self.bytes.slice(from as usize * row..to as usize * row),
        }
    }
}

impl fmt::Debug for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Activation({} x {} {})", self.tokens, self.hidden, self.dtype)
    }
}

/// Bytes that `tokens x hidden` numbers take; `None` when the product overflows.
#[must_use]
pub fn byte_len(tokens: u32, hidden: u32, dtype: ActivationDtype) -> Option<usize> {
    (tokens as usize).checked_mul(dtype.row_bytes(hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_in_f32_survive_bit_for_bit() {
        let rows = [1.0_f32, -0.0, f32::MIN_POSITIVE / 2.0, f32::MAX];
        let activation = Activation::from_f32(&rows, 2, ActivationDtype::F32).unwrap();
        let back: Vec<u32> = activation.to_f32().iter().map(|x| x.to_bits()).collect();
        assert_eq!(back, rows.map(f32::to_bits));
    }

    #[test]
    fn an_f16_overflow_is_found_at_the_sender() {
        let overflow = Activation::from_f32(&[0.0, 70_000.0], 2, ActivationDtype::F16);
        let dtype = ActivationDtype::F16;
        assert_eq!(overflow, Err(ActivationError::Overflow { index: 1, dtype }));
        assert_eq!(overflow.unwrap_err().code(), ErrorCode::ActivationOverflow);
        for wrong in [f32::NAN, f32::INFINITY] {
            let wrong = Activation::from_f32(&[0.0, wrong], 2, dtype).unwrap_err();
            assert_eq!(wrong, ActivationError::NotFinite { index: 1 });
            assert_eq!(wrong.code(), ErrorCode::CorruptActivation);
        }
    }

    #[test]
    fn a_wrong_length_is_refused() {
        let wrong = Activation::new(2, 3, ActivationDtype::F32, Bytes::from_static(&[0; 20]));
        assert!(matches!(wrong, Err(ActivationError::LengthMismatch { bytes: 20, .. })));
        assert!(Activation::new(u32::MAX, u32::MAX, ActivationDtype::F32, Bytes::new()).is_err());
    }

    #[test]
    fn debug_output_shows_the_shape_and_no_bytes() {
        let activation = Activation::from_f32(&[1.5; 4], 2, ActivationDtype::F16).unwrap();
        assert_eq!(format!("{activation:?}"), "Activation(2 x 2 f16)");
    }

    #[test]
    fn rows_share_the_bytes() {
        let activation =
            Activation::from_f32(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2, ActivationDtype::F32).unwrap();
        assert_eq!(activation.rows(1, 3).to_f32(), [3.0, 4.0, 5.0, 6.0]);
        assert_eq!(activation.rows(2, 9).tokens(), 1);
    }
}
