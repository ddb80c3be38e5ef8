//! The six digits that a person reads on one device and types on the other.

use std::fmt;

use nook_base::limits::PAIRING_CODE_DIGITS;
use rand::Rng;
use zeroize::Zeroizing;

/// A pairing code: six uniform decimal digits, in memory only. `Debug` shows nothing.
#[derive(Clone)]
pub struct PairingCode(Zeroizing<[u8; PAIRING_CODE_DIGITS]>);

/// A typed text that is no pairing code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// Something other than digits, spaces and dashes.
    #[error("a pairing code holds only digits")]
    NotDigits,
    /// Too few or too many digits.
    #[error("a pairing code has {PAIRING_CODE_DIGITS} digits, this one has {got}")]
    WrongLength {
        /// Digits found.
        got: usize,
    },
}

impl PairingCode {
    /// A fresh code; every one of the million is equally likely.
    #[must_use]
    pub fn draw() -> Self {
        let mut number: u32 = rand::rng().random_range(0..1_000_000);
        let mut digits = Zeroizing::new([b'0'; PAIRING_CODE_DIGITS]);
        for digit in digits.iter_mut().rev() {
            // The remainder of a division by ten is a single digit.
            *digit += (number % 10) as u8;
            number /= 10;
        }
        Self(digits)
    }

    /// Reads what a person typed: spaces and dashes anywhere are ignored.
    pub fn parse(typed: &str) -> Result<Self, CodeError> {
        let mut digits = Zeroizing::new([0; PAIRING_CODE_DIGITS]);
        let mut got = 0;
        let significant = typed.chars().filter(|c| !is_separator(*c));
        for c in significant {
            if !c.is_ascii_digit() {
                return Err(CodeError::NotDigits);
            }
            if let Some(slot) = digits.get_mut(got) {
                *slot = u32::from(c) as u8;
            }
            got += 1;
        }
        if got == PAIRING_CODE_DIGITS {
            Ok(Self(digits))
        } else {
            Err(CodeError::WrongLength { got })
        }
    }

    /// The code as shown to people: `427 901`. For the screen only, never for a log.
    #[must_use]
    pub fn shown(&self) -> String {
        let digits = self.0.map(char::from);
        let (left, right) = digits.split_at(PAIRING_CODE_DIGITS / 2);
        format!("{} {}", String::from_iter(left), String::from_iter(right))
    }

    /// The six ASCII digits.
    pub(super) fn as_bytes(&self) -> &[u8; PAIRING_CODE_DIGITS] {
        &self.0
    }
}

/// What people and message programs put between digits.
fn is_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, '-' | '.' | '\u{2010}'..='\u{2015}' | '\u{2212}')
}

impl fmt::Debug for PairingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<sensitive>")
    }
}
