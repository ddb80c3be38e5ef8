//! Promise: `nook debug` shows what is inside a file, computes what answers are computed from, and
//! says in a sentence what is wrong with anything else.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::places::{fixture, large_fixture};

use serde_json::{Value, json};

const EMBER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../nook-store/ember/ember-q8_0.gguf");

/// Runs `nook debug` with `words`; `input` goes to its standard input.
fn debug(words: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nook"))
        .arg("debug")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read it may have closed it.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// The JSON that it prints, and whether it succeeded. A failure is always a sentence.
fn look(words: &[&str], input: &[u8]) -> (Value, bool) {
    let output = debug(&[words, &["--json"]].concat(), input);
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1)), "{words:?} ended with {code:?}: {said}");
    assert!(!said.contains("panicked"), "{words:?}: {said}");
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{words:?}: {error}: {said}"));
    if code == Some(1) {
        assert!(value["error"]["sentence"].is_string(), "{words:?}: {value}");
        assert!(said.starts_with("error: "), "{words:?}: {said}");
    }
    (value, code == Some(0))
}

#[track_caller]
fn shown(words: &[&str], input: &[u8]) -> Value {
    let (value, well) = look(words, input);
    assert!(well, "{words:?}: {value}");
    value
}

#[track_caller]
fn refused(words: &[&str], input: &[u8]) -> String {
    let (value, well) = look(words, input);
    assert!(!well, "{words:?}: {value}");
    value["error"]["sentence"].as_str().unwrap().to_owned()
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn words(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_file_is_shown_whole_to_programs_and_in_short_to_people() {
    let view = shown(&["gguf", EMBER], b"");
    assert_eq!(view["verdict"]["model"], "accepted");
    let metadata = &view["metadata"];
    let tokens = metadata["tokenizer.ggml.tokens"].as_array().unwrap().len();
    let tensors = view["tensors"].as_array().unwrap();
    assert_eq!(view["verdict"]["architecture"], metadata["general.architecture"]);
    assert!(tokens > 1000 && tensors.len() > 20);
    let embedding = tensors.iter().find(|tensor| tensor["name"] == "token_embd.weight").unwrap();
    assert_eq!(embedding["dimensions"][1], tokens);
    assert_eq!(embedding["type"], "Q8_0");
    assert_eq!(view["file_bytes"], fs::metadata(EMBER).unwrap().len());

    let output = debug(&["gguf", EMBER], b"");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("usable as a model"), "{text}");
    assert!(text.contains(&format!("{tokens} entries: [")), "{text}");
    assert!(text.lines().all(|line| line.chars().count() < 1000), "{text}");
}

#[test]
fn text_becomes_ids_as_the_vocabulary_says() {
    let tokenize = |more: &[&str], text: &str| {
        let view = shown(&[&["tokenize", "--model", EMBER], more].concat(), text.as_bytes());
        let ids = view["ids"].as_array().unwrap().clone();
        assert_eq!(ids.len(), view["pieces"].as_array().unwrap().len());
        ids
    };
    let plain = tokenize(&[], "Hello <|im_end|>!\n");
    let special = tokenize(&["--add-special"], "Hello <|im_end|>!\n");
    assert_eq!(special[special.len() - plain.len()..], plain);
    assert!(tokenize(&[], "").is_empty());
    let output = debug(&["tokenize", "--model", EMBER], b"Hello!");
    let ids: Vec<String> = tokenize(&[], "Hello!").iter().map(Value::to_string).collect();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}\n", ids.join(" ")));
    let sentence = refused(&["tokenize", "--model", EMBER], b"ok \xff");
    assert!(sentence.contains("not UTF-8 from byte 3"), "{sentence}");
}

#[test]
fn a_conversation_is_rendered_or_the_templates_own_words_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        words(&path).to_owned()
    };
    let chat = json!({
        "messages": [{"role": "user", "content": "hi"}],
        "add_generation_prompt": true,
        "bos_token": "<B>",
        "eos_token": "<E>",
        "now": "2025-01-02 03:04:05",
        "mood": "calm",
    });
    let chat = write("chat.json", &chat.to_string());
    let template = |source: &str| {
        let source = write("template.jinja", source);
        look(&["template", "--template", &source, "--conversation", &chat], b"")
    };
    let source = "{{ bos_token }}{{ strftime_now('%d %b %Y') }} {{ mood }} \
                  {{ messages[0].content }}{{ eos_token }}{% if tools is none %}.{% endif %}";
    let (view, _) = template(source);
    assert_eq!(view["text"], "<B>02 Jan 2025 calm hi<E>.");
    assert_eq!(view["user_text_lost"], false);
    assert_eq!(template("void").0["user_text_lost"], true);
    let (view, well) = template("{{ raise_exception('not today') }}");
    assert!(!well);
    assert_eq!(view["error"]["raised"], "not today");
    let (view, well) = template("\n{% if %}");
    assert!(!well && view["error"]["sentence"].as_str().unwrap().contains("line 2"), "{view}");
    let (view, _) = look(&["template", "--model", EMBER, "--conversation", &chat], b"");
    assert!(view["text"].as_str().unwrap().contains("hi"), "{view}");

    let broken = write("broken.json", "{\"messages\": 1}");
    let sentence = refused(&["template", "--model", EMBER, "--conversation", &broken], b"");
    assert!(sentence.contains("broken.json is no conversation"), "{sentence}");
    let odd = write("odd.json", "{\"messages\": [], \"now\": \"tomorrow\"}");
    let sentence = refused(&["template", "--model", EMBER, "--conversation", &odd], b"");
    assert!(sentence.contains("`now`"), "{sentence}");
}

/// The bytes of Ember's logits, computed as `more` says.
fn logits(more: &[&str]) -> (Vec<u8>, Value) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("logits.f32");
    let wish = ["logits", "--model", EMBER, "--ids", "1,5,9,200,31,7,12", "--out", words(&out)];
    let view = shown(&[&wish, more].concat(), b"");
    let bytes = fs::read(&out).unwrap();
    let numbers = view["positions"].as_u64().unwrap() * view["vocabulary"].as_u64().unwrap();
    assert_eq!(bytes.len() as u64, numbers * 4);
    (bytes, view)
}

#[test]
fn logits_are_the_same_bits_however_they_are_computed() {
    let (whole, view) = logits(&[]);
    assert_eq!(view["positions"], 7);
    assert_eq!(view["parts"].as_array().unwrap().len(), 1);
    for more in [
        &["--split", "2,4"][..],
        &["--split", "1", "--chunk", "3"],
        &["--chunk", "1", "--threads", "1"],
        &["--threads", "3", "--isa", "plain"],
        &["--split", "1,2,3", "--isa", "plain", "--chunk", "2"],
    ] {
        let (bytes, view) = logits(more);
        assert!(bytes == whole, "{more:?}");
        let parts = view["parts"].as_array().unwrap();
        assert!(parts[0]["embedding"] == true && parts[parts.len() - 1]["head"] == true);
    }
}

#[test]
fn wishes_that_cannot_be_fulfilled_are_told_and_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("logits.f32");
    let wish = |more: &[&str]| {
        let start = ["logits", "--model", EMBER, "--out", words(&out)];
        refused(&[&start, more].concat(), b"")
    };
    let check = |more: &[&str], part: &str| {
        let sentence = wish(more);
        assert!(sentence.contains(part), "{more:?}: {sentence}");
        assert!(!out.exists(), "{more:?}");
    };
    check(&["--ids", "1,4000000000"], "number 1 of the token ids");
    check(&["--ids", "1", "--split", "0"], "--split needs rising layer numbers");
    check(&["--ids", "1", "--split", "3,2"], "not 3,2");
    check(&["--ids", "1", "--split", "999"], "--split needs");
    check(&["--ids", "1", "--chunk", "0"], "--chunk must be");
    let many = vec!["1"; 30_000].join(",");
    check(&["--ids", &many], "positions");
    let nowhere = words(folder.path());
    let sentence = refused(&["logits", "--model", EMBER, "--ids", "1", "--out", nowhere], b"");
    assert!(sentence.contains("cannot be written"), "{sentence}");
    for subject in [
        &["gguf", "absent.gguf"][..],
        &["tokenize", "--model", "absent.gguf"],
        &["logits", "--model", "absent.gguf", "--ids", "1", "--out", words(&out)],
    ] {
        assert!(refused(subject, b"").contains("absent.gguf"), "{subject:?}");
    }
}

#[test]
fn damaged_files_are_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.gguf");
    let sound = fs::read(EMBER).unwrap();
    for length in [0, 3, 20, 1000, sound.len() / 2, sound.len() - 1] {
        fs::write(&path, &sound[..length]).unwrap();
        assert!(refused(&["gguf", words(&path)], b"").contains("damaged.gguf"));
    }
    fs::write(&path, b"GGUF but not really").unwrap();
    let sentence = refused(&["tokenize", "--model", words(&path)], b"text");
    assert!(sentence.contains("damaged.gguf"), "{sentence}");
}

/// `ok-*` and `bad-*` are about the header, `model-*` about loading and computing.
#[test]
fn every_edge_file_has_the_outcome_that_its_manifest_demands() {
    let edge = fixture("edge");
    let manifest = read_json(&edge.join("manifest.json"));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("logits.f32");
    let chat = folder.path().join("chat.json");
    fs::write(&chat, "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}").unwrap();
    let cases = manifest["cases"].as_object().unwrap();
    assert_eq!(cases.len(), 68);
    for (name, case) in cases {
        let path = edge.join(case["file"].as_str().unwrap());
        let file = words(&path);
        let header = look(&["gguf", file], b"");
        let computed =
            look(&["logits", "--model", file, "--ids", "1,2", "--out", words(&out)], b"");
        let outcome = if name.starts_with("model-") { &computed } else { &header };
        match case["expect"].as_str().unwrap() {
            "accept" => assert!(outcome.1, "{name}: {}", outcome.0),
            "reject" => assert!(!outcome.1, "{name}: {}", outcome.0),
            _ => {}
        }
        // Neither do the others panic.
        look(&["tokenize", "--model", file, "--add-special"], b"some text");
        look(&["template", "--model", file, "--conversation", words(&chat)], b"");
        look(&["logits", "--model", file, "--ids", "1", "--split", "1", "--out", words(&out)], b"");
        assert!(debug(&["gguf", file], b"").status.code().is_some(), "{name}");
    }
}

#[test]
fn a_model_with_known_logits_is_reproduced() {
    let reference = read_json(&fixture("stories260K/logits-f32.json"));
    let model = fixture("stories260K/stories260K-f32.gguf");
    let expected = fs::read(fixture("stories260K/logits-f32.f32")).unwrap();
    let ids: Vec<String> =
        reference["prompt_ids"].as_array().unwrap().iter().map(Value::to_string).collect();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("logits.f32");
    let ids = ids.join(",");
    let wish = ["logits", "--model", words(&model), "--ids", &ids, "--split", "2,4"];
    let view = shown(&[&wish[..], &["--out", words(&out)]].concat(), b"");
    assert_eq!(view["argmax"], reference["argmax"]);
    let numbers = |bytes: &[u8]| -> Vec<f32> {
        bytes.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number)).collect()
    };
    let ours = numbers(&fs::read(&out).unwrap());
    let expected = numbers(&expected);
    assert_eq!(ours.len(), expected.len());
    assert!(ours.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-3));
}

/// Some texts in two ways; `nook-text` has all of them.
#[test]
fn files_that_hold_a_vocabulary_are_enough_to_tokenize() {
    let reference = read_json(&fixture("ember/ember-tokenizer.json"));
    for case in reference["cases"].as_array().unwrap().iter().step_by(4) {
        let text = case["text"].as_str().unwrap();
        let wish = ["tokenize", "--model", EMBER];
        assert_eq!(shown(&wish, text.as_bytes())["ids"], case["ids"], "{text:?}");
        let parsed = shown(&[&wish[..], &["--parse-special"]].concat(), text.as_bytes());
        assert_eq!(parsed["ids"], case["ids_with_control_tokens_parsed"], "{text:?}");
    }
    let reference = read_json(&fixture("stories260K/greedy-f32.json"));
    let model = fixture("stories260K/stories260K-f32.gguf");
    for case in reference["cases"].as_array().unwrap() {
        let wish = ["tokenize", "--model", words(&model), "--add-special"];
        let prompt = case["prompt"].as_str().unwrap();
        assert_eq!(shown(&wish, prompt.as_bytes())["ids"], case["prompt_ids"], "{prompt:?}");
    }
    let test = "files_that_hold_a_vocabulary_are_enough_to_tokenize";
    if let Some(folder) = large_fixture(test, "fixtures/vocab") {
        check_vocabularies(&folder);
    }
}

/// Files of publishers that hold nothing but a vocabulary: one text of each in two of the four
/// ways.
fn check_vocabularies(folder: &Path) {
    let reference = read_json(&folder.join("extended-reference.json"));
    let vocabularies = reference["vocabs"].as_object().unwrap();
    assert_eq!(vocabularies.len(), 13);
    for (index, (name, vocabulary)) in vocabularies.iter().enumerate() {
        let model = folder.join(name);
        let cases = vocabulary["cases"].as_array().unwrap();
        let case = &cases[index % cases.len()];
        let text = case["text"].as_str().unwrap();
        for (add, parse) in [(false, false), (true, true)] {
            let mut wish = vec!["tokenize", "--model", words(&model)];
            wish.extend(add.then_some("--add-special"));
            wish.extend(parse.then_some("--parse-special"));
            let key = format!("add_special={},parse_special={}", add as u8, parse as u8);
            assert_eq!(shown(&wish, text.as_bytes())["ids"], case[&key], "{name}: {text:?} {key}");
        }
    }
}

/// One chat through each template; `nook-text` has all of them.
#[test]
fn templates_render_as_the_reference() {
    check_templates(&fixture("templates"));
    if let Some(folder) = large_fixture("templates_render_as_the_reference", "fixtures/templates") {
        check_templates(&folder);
    }
}

fn check_templates(templates: &Path) {
    let rendered = read_json(&templates.join("rendered.json"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.json");
    let mut chat = rendered["cases"]["tools"].clone();
    chat["bos_token"] = "<s>".into();
    chat["eos_token"] = "</s>".into();
    chat["now"] = 1_735_787_045.into();
    fs::write(&path, chat.to_string()).unwrap();
    for (name, outcomes) in rendered["templates"].as_object().unwrap() {
        let template = templates.join(name);
        let wish = ["template", "--template", words(&template), "--conversation", words(&path)];
        let (view, well) = look(&wish, b"");
        match outcomes["tools"]["output"].as_str() {
            Some(expected) => assert_eq!(view["text"], expected, "{name}"),
            None => assert!(!well, "{name}: {view}"),
        }
    }
}
