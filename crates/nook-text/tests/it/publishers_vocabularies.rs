//! Promise: text becomes the ids that the publishers' tokenizers give, for every vocabulary of the
//! fixtures, and the ids become the text again.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};

use crate::fixtures::{read_json, read_vocabulary};
use crate::places::{fixture, large_fixture};
use crate::vocabularies::byte_level;
use nook_base::Vocabulary;
use nook_base::vocabulary::TokenKind;
use nook_text::{EncodeOptions, Tokenizer};
use serde_json::Value;

const VOCABULARIES: &[&str] = &[
    "ggml-vocab-deepseek-coder.gguf",
    "ggml-vocab-deepseek-llm.gguf",
    "ggml-vocab-falcon.gguf",
    "ggml-vocab-gemma-4.gguf",
    "ggml-vocab-gpt-2.gguf",
    "ggml-vocab-llama-bpe.gguf",
    "ggml-vocab-llama-spm.gguf",
    "ggml-vocab-mpt.gguf",
    "ggml-vocab-phi-3.gguf",
    "ggml-vocab-qwen2.gguf",
    "ggml-vocab-refact.gguf",
    "ggml-vocab-starcoder.gguf",
    "vocab-gemma2-spm.gguf",
];

const PLAIN: EncodeOptions = EncodeOptions { add_special: false, parse_special: false };

fn tokenizer(path: &Path) -> Tokenizer {
    let vocabulary = read_vocabulary(path);
    Tokenizer::new(&vocabulary).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn ember() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../nook-store/ember/ember-q8_0.gguf")
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// llama.cpp's own cases (`.inp`, `.out`): texts without special tokens.
fn check_own_cases(tokenizer: &Tokenizer, folder: &Path, name: &str, wrong: &mut Vec<String>) {
    if name == "vocab-gemma2-spm.gguf" {
        return; // It has none.
    }
    let read = |ending: &str| std::fs::read_to_string(folder.join(format!("{name}.{ending}")));
    let (texts, lines) = (read("inp").unwrap(), read("out").unwrap());
    let cases: Vec<&str> = texts.split("\n__ggml_vocab_test__\n").collect();
    assert!(cases.len() >= 46 && lines.lines().count() >= 46, "{name}");
    for (text, line) in cases.iter().zip(lines.lines()) {
        let expected: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
        let encoded = tokenizer.encode(text, PLAIN).unwrap();
        if encoded != expected {
            wrong.push(format!("{name}: {text:?}\n  {encoded:?}\n  {expected:?}"));
        }
        let decoded: Vec<u8> =
            encoded.iter().flat_map(|id| tokenizer.decode_bytes(*id)).copied().collect();
        let decoded = String::from_utf8(decoded).unwrap();
        // SentencePiece puts one space before the text.
        if decoded != *text && decoded.strip_prefix(' ') != Some(*text) {
            wrong.push(format!("{name}: {text:?} came back as {decoded:?}"));
        }
    }
}

/// Texts with special tokens in them, in all four ways of encoding, and the bytes of each piece.
fn check_reference(tokenizer: &Tokenizer, name: &str, case: &Value, wrong: &mut Vec<String>) {
    let text = case["text"].as_str().unwrap();
    for (add_special, parse_special) in [(false, false), (false, true), (true, false), (true, true)]
    {
        let key =
            format!("add_special={},parse_special={}", add_special as u8, parse_special as u8);
        let options = EncodeOptions { add_special, parse_special };
        let encoded = tokenizer.encode(text, options).unwrap();
        let expected = ids(&case[&key]);
        if encoded != expected {
            wrong.push(format!("{name}: {text:?} {key}\n  {encoded:?}\n  {expected:?}"));
        }
    }
    let hex = |id: &u32| -> String {
        let piece = tokenizer.decode_bytes_with_control(*id);
        piece.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let pieces: Vec<String> = ids(&case["add_special=0,parse_special=1"]).iter().map(hex).collect();
    if pieces.join("|") != case["pieces_hex"].as_str().unwrap() {
        wrong.push(format!("{name}: {text:?} has pieces {pieces:?}"));
    }
}

#[test]
fn every_vocabulary_of_the_fixtures_is_exact() {
    let test = "every_vocabulary_of_the_fixtures_is_exact";
    let Some(folder) = large_fixture(test, "fixtures/vocab") else { return };
    let reference = read_json(&folder.join("extended-reference.json"));
    let mut wrong = Vec::new();
    for name in VOCABULARIES {
        let tokenizer = tokenizer(&folder.join(name));
        check_own_cases(&tokenizer, &folder, name, &mut wrong);
        let cases = reference["vocabs"][name]["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 14, "{name}");
        for case in cases {
            check_reference(&tokenizer, name, case, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// One small vocabulary whose tokens cross the borders of words, digits and lines, cut in the ways
/// of several publishers: where a text is cut elsewhere, its ids differ.
#[test]
fn texts_are_cut_as_publishers_cut_them() {
    let reference = read_json(&fixture("splitting/splitting.json"));
    let list = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let (tokens, texts) = (list(&reference["tokens"]), list(&reference["texts"]));
    let ways = reference["ids"].as_object().unwrap();
    assert_eq!((ways.len(), texts.len()), (6, 20));
    for (name, expected) in ways {
        let tokenizer = Tokenizer::new(&Vocabulary {
            model: "gpt2".to_owned(),
            pre: Some(name.clone()),
            kinds: vec![TokenKind::Normal; tokens.len()],
            tokens: tokens.clone(),
            merges: list(&reference["merges"]),
            ..Vocabulary::default()
        })
        .unwrap();
        for (text, expected) in texts.iter().zip(expected.as_array().unwrap()) {
            let encoded = tokenizer.encode(text, PLAIN).unwrap();
            assert_eq!(encoded, ids(expected), "{name}: {text:?}");
            let decoded: Vec<u8> =
                encoded.iter().flat_map(|id| tokenizer.decode_bytes(*id)).copied().collect();
            assert_eq!(decoded, text.as_bytes(), "{name}");
        }
    }
}

/// The text before and behind a gap, which the model is to fill.
const GAP: (&str, &str) = ("def area(r):\n    return ", " * r ** 2  # <fim_middle>\n");

#[test]
fn a_gap_is_asked_for_with_the_marks_of_the_vocabulary_and_texts_cannot_speak_them() {
    let marks = ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"];
    let mut vocabulary = byte_level();
    let without = Tokenizer::new(&vocabulary).unwrap();
    check_gap(&without, None, "without marks");
    for mark in marks {
        vocabulary.tokens.push(mark.to_owned());
        vocabulary.kinds.push(TokenKind::Control);
    }
    check_gap(&Tokenizer::new(&vocabulary).unwrap(), Some(marks), "with marks");
}

#[test]
fn a_gap_is_asked_for_with_the_publishers_marks_and_texts_cannot_speak_them() {
    let test = "a_gap_is_asked_for_with_the_publishers_marks_and_texts_cannot_speak_them";
    let Some(folder) = large_fixture(test, "fixtures/vocab") else { return };
    for (name, marks) in [
        ("ggml-vocab-starcoder.gguf", Some(["<fim_prefix>", "<fim_suffix>", "<fim_middle>"])),
        (
            "ggml-vocab-deepseek-coder.gguf",
            Some(["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"]),
        ),
        // Qwen's marks came with Qwen2.5.
        ("ggml-vocab-qwen2.gguf", None),
        ("ggml-vocab-gpt-2.gguf", None),
    ] {
        check_gap(&tokenizer(&folder.join(name)), marks, name);
    }
}

#[track_caller]
fn check_gap(tokenizer: &Tokenizer, marks: Option<[&str; 3]>, name: &str) {
    let (before, behind) = GAP;
    let found = tokenizer.encode_gap(GAP, usize::MAX).unwrap();
    let special = EncodeOptions { add_special: true, parse_special: false };
    let expected = marks.map(|marks| {
        let mark = |spelling: &str| tokenizer.control_tokens(&[spelling]);
        let plain = |text| tokenizer.encode(text, PLAIN).unwrap();
        // Nothing but BOS where the vocabulary wants it.
        let begin = tokenizer.encode("", special).unwrap();
        let parts = [begin, mark(marks[0]), plain(before), mark(marks[1]), plain(behind)];
        [parts.concat(), mark(marks[2])].concat()
    });
    assert_eq!(found, expected, "{name}");
    assert!(found.is_none_or(|ids| ids.len() > 12), "{name}");
}

#[test]
fn embers_texts_are_exact() {
    let reference = read_json(&fixture("ember/ember-tokenizer.json"));
    let tokenizer = tokenizer(&ember());
    let cases = reference["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 32);
    for case in cases {
        let text = case["text"].as_str().unwrap();
        assert_eq!(tokenizer.encode(text, PLAIN).unwrap(), ids(&case["ids"]), "{text:?}");
        let parsed = EncodeOptions { add_special: false, parse_special: true };
        let expected = ids(&case["ids_with_control_tokens_parsed"]);
        assert_eq!(tokenizer.encode(text, parsed).unwrap(), expected, "{text:?}");
    }
}

#[test]
fn stories260k_prompts_are_exact() {
    let reference = read_json(&fixture("stories260K/greedy-f32.json"));
    let tokenizer = tokenizer(&fixture("stories260K/stories260K-f32.gguf"));
    let options = EncodeOptions { add_special: true, parse_special: false };
    for case in reference["cases"].as_array().unwrap() {
        let prompt = case["prompt"].as_str().unwrap();
        assert_eq!(tokenizer.encode(prompt, options).unwrap(), ids(&case["prompt_ids"]));
        let stream: Vec<u8> =
            ids(&case["ids"]).iter().flat_map(|id| tokenizer.decode_bytes(*id).to_vec()).collect();
        assert_eq!(stream, case["continuation"].as_str().unwrap().as_bytes(), "{prompt:?}");
    }
}
