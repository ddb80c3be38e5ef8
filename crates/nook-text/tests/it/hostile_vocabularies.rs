//! Vocabularies that would take much memory: refused by number and bytes, and no real one is.

use nook_base::vocabulary::TokenKind;
use nook_text::{EncodeOptions, SPECIAL_BYTES_MAX, SPECIALS_MAX, Tokenizer, TokenizerError};

use crate::vocabularies::byte_level;

/// A tokenizer with these special tokens beside its own.
fn with(kind: TokenKind, texts: impl Iterator<Item = String>) -> Result<Tokenizer, TokenizerError> {
    let mut vocabulary = byte_level();
    for text in texts {
        vocabulary.tokens.push(text);
        vocabulary.kinds.push(kind);
    }
    Tokenizer::new(&vocabulary)
}

#[test]
fn r3_a_vocabulary_of_many_long_special_tokens_is_refused() {
    for kind in [TokenKind::Control, TokenKind::UserDefined] {
        // Of each, hardly a byte is another one's beginning.
        let long = (0..20_000_u32).map(|number| format!("{number:05}{}", "x".repeat(595)));
        let refused = with(kind, long).unwrap_err();
        let TokenizerError::TooManySpecials { count, bytes } = refused else { panic!("{refused}") };
        assert!(count >= 20_000 && bytes > 11_000_000, "{count} with {bytes}");
        assert!(refused.to_string().contains("too many special tokens"), "{refused}");
        let many = (0..=SPECIALS_MAX).map(|number| format!("<{number}>"));
        assert!(matches!(with(kind, many), Err(TokenizerError::TooManySpecials { .. })));
        let one = std::iter::once("x".repeat(SPECIAL_BYTES_MAX + 1));
        assert!(matches!(with(kind, one), Err(TokenizerError::TooManySpecials { .. })));
    }
}

#[test]
fn a_model_that_speaks_has_a_token_for_each_of_65536_sounds() {
    let sounds = (0..65_536).map(|number| format!("<|s_{number}|>"));
    let tokenizer = with(TokenKind::UserDefined, sounds).unwrap();
    let options = EncodeOptions { add_special: false, parse_special: true };
    assert_eq!(tokenizer.encode("<|s_0|><|s_65535|>", options).unwrap().len(), 2);
}
