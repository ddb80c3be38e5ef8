//! How long the numbers of a reply get.
//!
//! A grammar lets digits go on for ever, and a small model may write nines without end, or an
//! exponent that no double has, which programs read as infinity. So numbers are read along, and
//! tokens that would lengthen one too far are left out where the form has others.

use llguidance::toktrie::SimpleVob;

/// Most digits of a number one behind the other, where the form lets it end: no double has more,
/// and a small model may write nines for ever. llama.cpp has the same limit.
const DIGITS_MAX: usize = 16;

/// Most digits of an exponent: with those before it, the number is far within what a double holds.
const EXPONENT_DIGITS_MAX: usize = 2;

/// Where in JSON a reply is, as far as the length of its numbers needs it.
#[derive(Default)]
pub(super) struct Number {
    in_string: bool,
    escaped: bool,
    in_exponent: bool,
    /// Digits since anything else was written.
    digits: usize,
}

/// Tokens that lengthen a number.
pub(super) struct DigitTokens {
    /// Those that begin with at least one digit, with two, with more than an exponent may have.
    leading: [SimpleVob; EXPONENT_DIGITS_MAX + 1],
    /// Those that bring too long an exponent with them.
    exponents: SimpleVob,
}

impl DigitTokens {
    /// Of the words of a vocabulary; `none` is its empty set.
    pub(super) fn of(none: &SimpleVob, words: &[Vec<u8>]) -> Self {
        let mut tokens =
            Self { leading: std::array::from_fn(|_| none.clone()), exponents: none.clone() };
        for (id, word) in (0..).zip(words) {
            let count = leading_digits(word);
            tokens.leading.iter_mut().take(count).for_each(|set| set.allow_token(id));
            if brings_long_exponent(word) {
                tokens.exponents.allow_token(id);
            }
        }
        tokens
    }
}

impl Number {
    /// These bytes are written.
    pub(super) fn go_on(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match (self.in_string, self.escaped, byte) {
                (true, true, _) => self.escaped = false,
                (true, false, b'\\') => self.escaped = true,
                (_, _, b'"') => self.in_string = !self.in_string,
                _ => {}
            }
            match byte {
                _ if self.in_string => (self.in_exponent, self.digits) = (false, 0),
                b'0'..=b'9' => self.digits += 1,
                b'e' | b'E' if self.digits > 0 => (self.in_exponent, self.digits) = (true, 0),
                b'+' | b'-' if self.in_exponent && self.digits == 0 => {}
                _ => (self.in_exponent, self.digits) = (false, 0),
            }
        }
    }

    /// The tokens of `mask` that make no number too long; all of them where there are no others.
    pub(super) fn shortened(&self, mask: SimpleVob, tokens: &DigitTokens) -> SimpleVob {
        if self.in_string {
            return mask;
        }
        let mut shortened = mask.clone();
        shortened.sub(&tokens.exponents);
        if self.in_exponent {
            shortened.sub(&tokens.leading[EXPONENT_DIGITS_MAX.saturating_sub(self.digits)]);
        } else if self.digits >= DIGITS_MAX {
            shortened.sub(&tokens.leading[0]);
        }
        if shortened.is_zero() { mask } else { shortened }
    }
}

fn leading_digits(word: &[u8]) -> usize {
    word.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn brings_long_exponent(word: &[u8]) -> bool {
    let before = word.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'.')).count();
    let [b'e' | b'E', behind @ ..] = &word[before..] else { return false };
    let signed = behind.strip_prefix(b"+").or(behind.strip_prefix(b"-"));
    leading_digits(signed.unwrap_or(behind)) > EXPONENT_DIGITS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_tokens_make_no_long_numbers() {
        let words = ["1", "12", "123", "e", "5e-999", "E+99", "e1234", ".5", ","];
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_owned()).collect();
        let none = SimpleVob::alloc(words.len());
        let tokens = DigitTokens::of(&none, &words);
        let mut all = none.clone();
        (0..).zip(&words).for_each(|(id, _)| all.allow_token(id));
        let left = |written: &str| {
            let mut number = Number::default();
            number.go_on(written.as_bytes());
            let left = number.shortened(all.clone(), &tokens);
            let ids = (0..).zip(&words).filter(|(id, _)| left.is_allowed(*id));
            ids.map(|(_, word)| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>()
        };
        let usual = ["1", "12", "123", "e", "E+99", ".5", ","];
        assert_eq!(left("[1"), usual);
        assert_eq!(left("[1e"), ["1", "12", "e", "E+99", ".5", ","]);
        assert_eq!(left("[1.5E-"), ["1", "12", "e", "E+99", ".5", ","]);
        assert_eq!(left("[1e+7"), ["1", "e", "E+99", ".5", ","]);
        assert_eq!(left("[1e77"), ["e", "E+99", ".5", ","]);
        assert_eq!(left("[1e77, 2"), usual);
        assert_eq!(left("[1234567890123456"), ["e", "E+99", ".5", ","]);
        // What stands in a text is no number, and `true` has no exponent.
        assert_eq!(left("[\"1e77").len(), words.len());
        assert_eq!(left("[true"), usual);
        // Where nothing else may come, it comes.
        let mut number = Number::default();
        number.go_on(b"1e77");
        let mut only = none.clone();
        only.allow_token(0);
        assert!(number.shortened(only, &tokens).is_allowed(0));
    }
}
