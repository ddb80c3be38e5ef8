//! The tokenizer data of a header: lists that agree with each other, or no vocabulary.

use nook_base::vocabulary::TokenKind;
use nook_model::Fault;
use nook_model::gguf::Header;

const TOKENS: &str = "tokenizer.ggml.tokens";
const SCORES: &str = "tokenizer.ggml.scores";
const KINDS: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";

/// Keys, each with its type and the bytes of its value.
type Keys<'a> = &'a [(&'a str, u32, Vec<u8>)];

fn read(keys: Keys<'_>) -> Result<nook_base::Vocabulary, Fault> {
    let mut bytes = [&b"GGUF"[..], &3_u32.to_le_bytes(), &0_u64.to_le_bytes()].concat();
    bytes.extend((keys.len() as u64).to_le_bytes());
    for (key, kind, value) in keys {
        bytes.extend(text(key));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(value);
    }
    Header::read(&bytes[..], bytes.len() as u64).unwrap().into_vocabulary()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A list of this type, of entries with these bytes.
fn list(kind: u32, entries: &[Vec<u8>]) -> Vec<u8> {
    let start = [&kind.to_le_bytes()[..], &(entries.len() as u64).to_le_bytes()].concat();
    [start, entries.concat()].concat()
}

fn numbers(kind: u32, numbers: &[u32]) -> Vec<u8> {
    let entries: Vec<_> = numbers.iter().map(|number| number.to_le_bytes().to_vec()).collect();
    list(kind, &entries)
}

fn texts(entries: &[&str]) -> Vec<u8> {
    let entries: Vec<_> = entries.iter().map(|entry| text(entry)).collect();
    list(8, &entries)
}

fn fractions(count: usize) -> Vec<u8> {
    list(6, &vec![(-0.5_f32).to_le_bytes().to_vec(); count])
}

/// Three tokens.
fn tokens() -> (&'static str, u32, Vec<u8>) {
    (TOKENS, 9, texts(&["a", "b", "c"]))
}

/// Which key is refused.
fn refused(keys: Keys<'_>) -> String {
    match read(keys) {
        Err(Fault::BadValue { key, .. }) => key,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_vocabulary_is_what_its_keys_say() {
    let id = |key: &'static str, id: u32| (key, 4, id.to_le_bytes().to_vec());
    let vocabulary = read(&[
        ("tokenizer.ggml.model", 8, text("gpt2")),
        ("tokenizer.ggml.pre", 8, text("llama-bpe")),
        ("tokenizer.chat_template", 8, text("{{ x }}")),
        tokens(),
        (SCORES, 9, fractions(3)),
        (KINDS, 9, numbers(5, &[1, 3, 6])),
        (MERGES, 9, texts(&["a b"])),
        id("tokenizer.ggml.bos_token_id", 0),
        id("tokenizer.ggml.eos_token_id", 1),
        // The last that is one, and the first that is none.
        id("tokenizer.ggml.eot_token_id", 2),
        id("tokenizer.ggml.unknown_token_id", 3),
        ("tokenizer.ggml.add_bos_token", 7, vec![1]),
        ("tokenizer.ggml.add_eos_token", 7, vec![0]),
    ])
    .unwrap();
    assert_eq!(vocabulary.model, "gpt2");
    assert_eq!(vocabulary.pre.as_deref(), Some("llama-bpe"));
    assert_eq!(vocabulary.chat_template.as_deref(), Some("{{ x }}"));
    assert_eq!(vocabulary.tokens, ["a", "b", "c"]);
    assert_eq!(vocabulary.scores, [-0.5; 3]);
    assert_eq!(vocabulary.kinds, [TokenKind::Normal, TokenKind::Control, TokenKind::Byte]);
    assert_eq!(vocabulary.merges, ["a b"]);
    let ids = [vocabulary.bos, vocabulary.eos, vocabulary.eot, vocabulary.unk];
    assert_eq!(ids, [Some(0), Some(1), Some(2), None]);
    assert_eq!((vocabulary.add_bos, vocabulary.add_eos), (Some(true), Some(false)));
    assert_eq!(vocabulary.add_space_prefix, None);
}

#[test]
fn a_file_without_tokenizer_has_an_empty_vocabulary() {
    let vocabulary = read(&[]).unwrap();
    assert!(vocabulary.model.is_empty() && vocabulary.pre.is_none());
    assert!(vocabulary.tokens.is_empty() && vocabulary.scores.is_empty());
    assert!(vocabulary.kinds.is_empty() && vocabulary.merges.is_empty());
    assert!(vocabulary.bos.is_none() && vocabulary.unk.is_none());
}

#[test]
fn kinds_of_tokens_are_those_of_ggml() {
    use TokenKind::{Byte, Control, Normal, Unknown, Unused, UserDefined};
    let of = |list_kind, number| {
        let kinds = (KINDS, 9, numbers(list_kind, &[number; 3]));
        read(&[tokens(), kinds]).map(|vocabulary| vocabulary.kinds)
    };
    let known = [Normal, Normal, Unknown, Control, UserDefined, Unused, Byte];
    for (number, kind) in (0..).zip(known) {
        assert_eq!(of(5, number), Ok(vec![kind; 3]), "{number}");
        assert_eq!(of(4, number), Ok(vec![kind; 3]), "{number}");
    }
    for number in [7, u32::MAX] {
        assert!(of(5, number).is_err() && of(4, number).is_err(), "{number}");
    }
}

#[test]
fn lists_that_do_not_agree_are_refused() {
    for count in [1, 2, 4] {
        assert_eq!(refused(&[tokens(), (SCORES, 9, fractions(count))]), SCORES);
        let kinds = numbers(5, &vec![1; count]);
        assert_eq!(refused(&[tokens(), (KINDS, 9, kinds)]), KINDS);
    }
    assert_eq!(refused(&[(SCORES, 9, fractions(1))]), SCORES);
    // Empty ones say nothing.
    assert!(read(&[tokens(), (SCORES, 9, fractions(0)), (KINDS, 9, numbers(5, &[]))]).is_ok());
    // Lists of something else.
    assert_eq!(refused(&[(TOKENS, 9, fractions(3))]), TOKENS);
    assert_eq!(refused(&[tokens(), (MERGES, 9, fractions(3))]), MERGES);
    assert_eq!(refused(&[tokens(), (SCORES, 9, numbers(5, &[1; 3]))]), SCORES);
    assert_eq!(refused(&[tokens(), (KINDS, 9, fractions(3))]), KINDS);
    let id = "tokenizer.ggml.bos_token_id";
    assert_eq!(refused(&[tokens(), (id, 8, text("first"))]), id);
}

#[test]
fn tokens_that_are_never_to_be_chosen_are_read_and_others_left_out() {
    const SUPPRESSED: &str = "tokenizer.ggml.suppress_tokens";
    let (signed, unsigned) = (5, 4);
    for kind in [signed, unsigned] {
        let listed = (SUPPRESSED, 9, numbers(kind, &[2, 0, 3, u32::MAX]));
        assert_eq!(read(&[tokens(), listed]).unwrap().suppressed, [2, 0]);
    }
    assert!(read(&[tokens()]).unwrap().suppressed.is_empty());
    assert_eq!(refused(&[tokens(), (SUPPRESSED, 9, texts(&["a"]))]), SUPPRESSED);
}
