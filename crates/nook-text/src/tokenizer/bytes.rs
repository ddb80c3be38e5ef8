//! The two ways in which a vocabulary spells raw bytes.
//!
//! Owns the GPT-2 byte alphabet (every byte is one printable character) and the `<0xAB>` spelling
//! of SentencePiece byte tokens. The merge code and the decoder both ask here.

use std::sync::LazyLock;

/// The character that stands for each byte in a byte-level BPE vocabulary, as in OpenAI's GPT-2
/// `bytes_to_unicode`: printable Latin-1 stays itself, the other 68 bytes follow from U+0100.
static CHAR_OF_BYTE: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut table = ['\0'; 256];
    let mut next = 0x100;
    for (byte, slot) in (0_u8..=255).zip(table.iter_mut()) {
        *slot = if matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF) {
            char::from(byte)
        } else {
            next += 1;
            char::from_u32(next - 1).expect("U+0100 to U+0143 are all characters")
        };
    }
    table
});

/// The character that stands for `byte` in a byte-level vocabulary.
pub(super) fn char_of_byte(byte: u8) -> char {
    CHAR_OF_BYTE[usize::from(byte)]
}

/// The other direction; index is the code point, which ends at U+0143.
static BYTE_OF_CHAR: LazyLock<[Option<u8>; 0x144]> = LazyLock::new(|| {
    let mut table = [None; 0x144];
    for byte in 0_u8..=255 {
        table[char_of_byte(byte) as usize] = Some(byte);
    }
    table
});

/// The byte that `c` stands for in a byte-level vocabulary, if it is in the alphabet.
pub(super) fn byte_of_char(c: char) -> Option<u8> {
    BYTE_OF_CHAR.get(c as usize).copied().flatten()
}

/// The byte that a SentencePiece byte token such as `<0x0A>` stands for.
pub(super) fn byte_of_token(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let two_digits = hex.len() == 2 && hex.bytes().all(|digit| digit.is_ascii_hexdigit());
    two_digits.then(|| u8::from_str_radix(hex, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character() {
        for byte in 0..=255 {
            assert_eq!(byte_of_char(char_of_byte(byte)), Some(byte));
        }
        assert_eq!(char_of_byte(b' '), 'Ġ');
        assert_eq!(char_of_byte(b'\n'), 'Ċ');
        assert_eq!(byte_of_char('日'), None);
        assert_eq!(byte_of_char(' '), None);
    }

    #[test]
    fn byte_tokens_are_read_and_nothing_else() {
        assert_eq!(byte_of_token("<0x0A>"), Some(10));
        assert_eq!(byte_of_token("<0xff>"), Some(255));
        assert_eq!(byte_of_token("<0x+A>"), None);
        assert_eq!(byte_of_token("<0x0AB>"), None);
        assert_eq!(byte_of_token("0x0A"), None);
    }
}
