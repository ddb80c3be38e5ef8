//! Token ids to text while they arrive.
//!
//! A token may end inside a character. [`TextStream`] holds such a tail back until the rest comes,
//! so that what it hands out is always whole; bytes that can never become a character turn into
//! U+FFFD, exactly where `String::from_utf8_lossy` over the whole reply would put it.

use std::sync::Arc;

use crate::tokenizer::Tokenizer;

/// What to do with the one space that SentencePiece puts before the first word of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// The text goes on after a prompt: keep it.
    Continues,
    /// The text stands alone, as a chat reply does: drop one leading space.
    Fresh,
}

/// Decodes one reply token by token.
#[derive(Debug)]
pub struct TextStream {
    tokenizer: Arc<Tokenizer>,
    /// Bytes of a character that has begun; at most 3.
    tail: nook_base::Sensitive<Vec<u8>>,
    drop_space: bool,
    /// Control tokens that the reader wants to see, ascending.
    spelt: Vec<u32>,
}

impl TextStream {
    /// A stream for one reply.
    #[must_use]
    pub fn new(tokenizer: Arc<Tokenizer>, opening: Opening) -> Self {
        let drop_space = opening == Opening::Fresh;
        Self { tokenizer, tail: Vec::new().into(), drop_space, spelt: Vec::new() }
    }

    /// The stream with some control tokens spelt out, where others decode to nothing: the marks of
    /// calls and of thinking. `ids` ascend.
    #[must_use]
    pub fn spelling_out(self, ids: Vec<u32>) -> Self {
        Self { spelt: ids, ..self }
    }

    /// Takes the next token and returns the text that is now complete (often nothing).
    pub fn push(&mut self, id: u32) -> String {
        let mut piece = match self.spelt.binary_search(&id) {
            Ok(_) => self.tokenizer.decode_bytes_with_control(id),
            Err(_) => self.tokenizer.decode_bytes(id),
        };
        if self.drop_space && !piece.is_empty() {
            piece = piece.strip_prefix(b" ").unwrap_or(piece);
            self.drop_space = false;
        }
        self.tail.0.extend_from_slice(piece);
        let (text, kept) = whole_text(&self.tail);
        self.tail.0.drain(..self.tail.len() - kept);
        text
    }

    /// Ends the reply: a character that never became whole is one U+FFFD.
    #[must_use]
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.tail).into_owned()
    }
}

/// The text of `bytes` without an unfinished character at the end, and that character's length.
fn whole_text(bytes: &[u8]) -> (String, usize) {
    let mut text = String::new();
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        text.push_str(chunk.valid());
        let broken = chunk.invalid();
        if broken.is_empty() {
            continue;
        }
        let unfinished = chunks.peek().is_none()
            && std::str::from_utf8(broken).is_err_and(|error| error.error_len().is_none());
        if unfinished {
            return (text, broken.len());
        }
        text.push(char::REPLACEMENT_CHARACTER);
    }
    (text, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_character_is_held_back_and_a_broken_one_is_not() {
        assert_eq!(whole_text("añ".as_bytes()), ("añ".to_owned(), 0));
        assert_eq!(whole_text(b"a\xC3"), ("a".to_owned(), 1));
        assert_eq!(whole_text(b"a\xF0\x9F\x9A"), ("a".to_owned(), 3));
        assert_eq!(whole_text(b"\xC3a\xFFb"), ("\u{FFFD}a\u{FFFD}b".to_owned(), 0));
        assert_eq!(whole_text(b"\xFF"), ("\u{FFFD}".to_owned(), 0));
        assert_eq!(whole_text(b""), (String::new(), 0));
    }
}
