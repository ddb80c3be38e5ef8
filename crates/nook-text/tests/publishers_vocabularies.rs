//! Promise: text becomes the ids that the publishers' tokenizers give, for every vocabulary of the
//! fixtures, and the ids become the text again.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/fixtures.rs"]
mod fixtures;

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

fn tokenizer(test: &str, path: &str) -> Option<Tokenizer> {
    let vocabulary = fixtures::read_vocabulary(test, path)?;
    Some(Tokenizer::new(&vocabulary).unwrap_or_else(|error| panic!("{path}: {error}")))
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// llama.cpp's own cases (`.inp`, `.out`): texts without special tokens.
fn check_own_cases(tokenizer: &Tokenizer, name: &str, wrong: &mut Vec<String>) {
    let path = format!("fixtures/vocab/{name}");
    let Some(texts) = fixtures::find(name, &format!("{path}.inp")) else {
        return; // vocab-gemma2-spm has none
    };
    let texts = std::fs::read_to_string(texts).unwrap();
    let lines = fixtures::find(name, &format!("{path}.out")).unwrap();
    let lines = std::fs::read_to_string(lines).unwrap();
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
    let Some(reference) = fixtures::read_json(test, "fixtures/vocab/extended-reference.json")
    else {
        return;
    };
    let mut wrong = Vec::new();
    for name in VOCABULARIES {
        let tokenizer = tokenizer(test, &format!("fixtures/vocab/{name}")).unwrap();
        check_own_cases(&tokenizer, name, &mut wrong);
        let cases = reference["vocabs"][name]["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 14, "{name}");
        for case in cases {
            check_reference(&tokenizer, name, case, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_gap_is_asked_for_with_the_publishers_marks_and_texts_cannot_speak_them() {
    let test = "a_gap_is_asked_for_with_the_publishers_marks_and_texts_cannot_speak_them";
    let (before, behind) = ("def area(r):\n    return ", " * r ** 2  # <fim_middle>\n");
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
        let Some(tokenizer) = tokenizer(test, &format!("fixtures/vocab/{name}")) else { return };
        let found = tokenizer.encode_gap(before, behind).unwrap();
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
}

#[test]
fn embers_texts_are_exact() {
    let test = "embers_texts_are_exact";
    let Some(reference) = fixtures::read_json(test, "ember/ember-tokenizer.json") else {
        return;
    };
    let Some(tokenizer) = tokenizer(test, "ember/ember-q8_0.gguf") else {
        return;
    };
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
    let test = "stories260k_prompts_are_exact";
    let Some(reference) = fixtures::read_json(test, "fixtures/stories260K/greedy-f32.json") else {
        return;
    };
    let path = "fixtures/stories260K/stories260K-f32.gguf";
    let Some(tokenizer) = tokenizer(test, path) else {
        return;
    };
    let options = EncodeOptions { add_special: true, parse_special: false };
    for case in reference["cases"].as_array().unwrap() {
        let prompt = case["prompt"].as_str().unwrap();
        assert_eq!(tokenizer.encode(prompt, options).unwrap(), ids(&case["prompt_ids"]));
        let stream: Vec<u8> =
            ids(&case["ids"]).iter().flat_map(|id| tokenizer.decode_bytes(*id).to_vec()).collect();
        assert_eq!(stream, case["continuation"].as_str().unwrap().as_bytes(), "{prompt:?}");
    }
}
