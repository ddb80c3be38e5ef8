//! Promise: a reply that must have a form has it, whatever the model would rather say, greedy or
//! drawn by chance; and a form that cannot be kept to is refused by name.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::vocabularies;
use std::sync::LazyLock;

use nook_base::Sensitive;
use nook_base::vocabulary::TokenKind;
use nook_text::grammar::SCHEMA_BYTES_MAX;
use nook_text::said::Channel;
use nook_text::{
    Allowed, CallRule, GrammarError, Grammars, ReplyForm, ReplyShape, Said, SaidParser, Sampler,
    SamplerSettings, SamplingParameters, Thought, Tokenizer, Tool, ToolChoice, ToolForm,
};
use serde_json::{Value, json};

/// A model's text and what holds it.
struct Bench {
    tokenizer: Tokenizer,
    grammars: Grammars,
}

static BYTE_LEVEL: LazyLock<Bench> = LazyLock::new(|| bench(&vocabularies::byte_level()));
static SENTENCE_PIECE: LazyLock<Bench> = LazyLock::new(|| bench(&vocabularies::sentence_piece()));
/// With Mistral's marks as control tokens.
static MISTRAL: LazyLock<Bench> = LazyLock::new(|| {
    let mut vocabulary = vocabularies::byte_level();
    for mark in ["[TOOL_CALLS]", "[ARGS]"] {
        vocabulary.tokens.push(mark.to_owned());
        vocabulary.kinds.push(TokenKind::Control);
    }
    bench(&vocabulary)
});

fn bench(vocabulary: &nook_base::Vocabulary) -> Bench {
    let tokenizer = Tokenizer::new(vocabulary).unwrap();
    Bench { grammars: Grammars::new(&tokenizer).unwrap(), tokenizer }
}

/// Logits that mean nothing but an inclination to close and to end, so that replies do.
fn babble(bench: &Bench, random: &mut u64) -> Vec<f32> {
    let mut next = || {
        *random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        f32::from(u16::try_from(*random >> 48).unwrap()) / 8192.0
    };
    let ids = 0..u32::try_from(bench.tokenizer.vocabulary_len()).unwrap();
    let logit = |id: u32| match bench.tokenizer.decode_bytes(id) {
        _ if bench.tokenizer.is_end_of_turn(id) => 7.0,
        [b'"' | b'}' | b']', ..] => 6.0,
        _ => 0.0,
    };
    ids.map(|id| logit(id) + next()).collect()
}

/// What such a model says under `shape`.
fn said(bench: &Bench, shape: &ReplyShape, after: Option<&str>, seed: u64) -> String {
    let raw = SamplingParameters {
        temperature: Some(if seed == 0 { 0.0 } else { 1.0 }),
        ..SamplingParameters::default()
    };
    let mut sampler = Sampler::new(SamplerSettings::new(raw, seed).unwrap());
    let mut constraint = bench.grammars.constrain(shape, after).unwrap();
    let (mut bytes, mut random) = (Vec::new(), seed.wrapping_add(1));
    for step in 0..4000 {
        let allowed = match constraint.allowed().unwrap() {
            Allowed::Nothing => break,
            Allowed::Anything => None,
            Allowed::These(mask) => Some(mask),
        };
        let mut logits = babble(bench, &mut random);
        if allowed.is_none() {
            // Thinking: three words and its end.
            let word = after.unwrap().as_bytes();
            logits = vec![0.0; logits.len()];
            let at = bytes.len().checked_sub(3).map_or(b'h', |at| word[at]);
            let token = (0..).find(|id| bench.tokenizer.decode_bytes(*id) == [at]).unwrap();
            logits[usize::try_from(token).unwrap()] = 50.0;
        }
        let id = sampler.sample_within(&logits, &[], allowed.as_ref()).unwrap();
        if bench.tokenizer.is_end_of_turn(id) && allowed.is_some() {
            break;
        }
        constraint.accept(id).unwrap();
        bytes.extend_from_slice(bench.tokenizer.decode_bytes_with_control(id));
        assert!(step < 3999, "it goes on for ever: {}", String::from_utf8_lossy(&bytes));
        if constraint.is_complete() {
            break;
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn each(mut check: impl FnMut(&Bench, u64)) {
    for bench in [&*BYTE_LEVEL, &*SENTENCE_PIECE] {
        for seed in 0..6 {
            check(bench, seed);
        }
    }
}

#[test]
fn any_object_is_json() {
    each(|bench, seed| {
        let text = said(bench, &ReplyShape::JsonObject, None, seed);
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        assert!(value.is_object(), "{text}");
    });
}

#[test]
fn a_schema_is_kept_to() {
    let schema = json!({
        "type": "object",
        "properties": {
            "mood": {"enum": ["calm", "wild"]},
            "count": {"type": "integer", "minimum": 3, "maximum": 9},
            "names": {"type": "array", "items": {"$ref": "#/$defs/name"}, "minItems": 1, "maxItems": 2},
        },
        "required": ["mood", "count", "names"],
        "additionalProperties": false,
        "$defs": {"name": {"type": "string", "maxLength": 4}},
    });
    let shape = ReplyShape::JsonSchema(Sensitive(schema));
    each(|bench, seed| {
        let text = said(bench, &shape, None, seed);
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        assert!(["calm", "wild"].contains(&value["mood"].as_str().unwrap()), "{text}");
        assert!((3..=9).contains(&value["count"].as_i64().unwrap()), "{text}");
        let names = value["names"].as_array().unwrap();
        assert!((1..=2).contains(&names.len()), "{text}");
        assert!(names.iter().all(|name| name.as_str().unwrap().chars().count() <= 4), "{text}");
    });
}

#[test]
fn a_form_may_begin_behind_thinking() {
    each(|bench, seed| {
        let text = said(bench, &ReplyShape::JsonObject, Some("end"), seed);
        let form = text.strip_prefix("hhhend").unwrap_or_else(|| panic!("{text}"));
        assert!(serde_json::from_str::<Value>(form).is_ok(), "{text}");
    });
}

fn tools() -> Vec<Tool> {
    let tool = |name: &str, property: Value| {
        let parameters = json!({"properties": {"way": property}, "required": ["way"]});
        Tool::new(name.to_owned(), None, Some(parameters)).unwrap()
    };
    vec![tool("go", json!({"enum": ["up", "down"]})), tool("go_on", json!({"type": "boolean"}))]
}

/// The calls that a reply must make, read back.
fn check_calls(bench: &Bench, form: ToolForm, choice: &ToolChoice, parallel: bool, seed: u64) {
    let tools = tools();
    let rule = CallRule { form, tools: &tools, choice, parallel, or_else: None };
    let shape = rule.shape(&bench.tokenizer).unwrap().unwrap();
    let text = said(bench, &shape, None, seed);
    let mut parser = SaidParser::new(ReplyForm {
        calls: Some(form),
        names: tools.iter().map(|tool| tool.name().to_owned()).collect(),
        texts: Vec::new(),
        calls_max: 99,
        thought: match form {
            ToolForm::Harmony => Thought::Channels(Channel::Head),
            _ => Thought::None,
        },
    });
    let mut pieces = parser.push(&text);
    pieces.extend(parser.finish());
    let mut calls: Vec<(String, String)> = Vec::new();
    for piece in pieces {
        match piece {
            Said::Call { name, .. } => calls.push((name, String::new())),
            Said::Arguments { text, index } => calls[index].1.push_str(&text),
            Said::Text(_) | Said::Thought(_) => panic!("{form:?}: {text}"),
        }
    }
    assert!(!calls.is_empty(), "{form:?}: {text}");
    assert!(parallel || calls.len() == 1, "{form:?}: {text}");
    for (name, arguments) in calls {
        let arguments: Value = serde_json::from_str(&arguments).unwrap();
        let fits = match name.as_str() {
            "go" => ["up", "down"].contains(&arguments["way"].as_str().unwrap()),
            "go_on" => arguments["way"].is_boolean(),
            _ => false,
        };
        assert!(fits && arguments.as_object().unwrap().len() == 1, "{form:?}: {text}");
        assert!(*choice == ToolChoice::Required || name == "go", "{form:?}: {text}");
    }
}

#[test]
fn calls_that_must_be_made_are_made_in_every_form() {
    for form in ToolForm::ALL {
        for bench in [&*BYTE_LEVEL, &*SENTENCE_PIECE, &*MISTRAL] {
            for seed in 0..2 {
                check_calls(bench, form, &ToolChoice::Required, true, seed);
                check_calls(bench, form, &ToolChoice::Required, false, seed);
                check_calls(bench, form, &ToolChoice::Named("go".to_owned()), false, seed);
            }
        }
    }
}

#[test]
fn where_calling_is_free_only_other_replies_have_a_form() {
    let (tools, bench) = (tools(), &*BYTE_LEVEL);
    let object = ReplyShape::JsonObject;
    let rule = |choice, or_else| CallRule {
        form: ToolForm::Hermes,
        tools: &tools,
        choice,
        parallel: true,
        or_else,
    };
    assert_eq!(rule(&ToolChoice::Auto, None).shape(&bench.tokenizer), Ok(None));
    let none = rule(&ToolChoice::None, Some(&object)).shape(&bench.tokenizer);
    assert_eq!(none, Ok(Some(ReplyShape::JsonObject)));
    let both = rule(&ToolChoice::Auto, Some(&object)).shape(&bench.tokenizer).unwrap().unwrap();
    for seed in 0..4 {
        let text = said(bench, &both, None, seed);
        let is_call = text.starts_with("<tool_call>");
        assert!(is_call || serde_json::from_str::<Value>(&text).is_ok(), "{text}");
    }
}

#[track_caller]
fn check_refused(schema: Value, part: &str) {
    let shape = ReplyShape::JsonSchema(Sensitive(schema));
    let error = BYTE_LEVEL.grammars.constrain(&shape, None).unwrap_err();
    assert!(error.to_string().contains(part), "{error}");
    assert!(!error.to_string().contains("backtrace"), "{error}");
}

/// What a reply of such a form is, for each vocabulary and some seeds.
fn each_said(schema: &Value, mut check: impl FnMut(&Value, &str)) {
    let shape = ReplyShape::JsonSchema(Sensitive(schema.clone()));
    each(|bench, seed| {
        let text = said(bench, &shape, None, seed);
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        check(&value, &text);
    });
}

#[test]
fn what_no_grammar_can_keep_to_is_left_to_the_client() {
    // As Pydantic writes `set[int]`, `Path`, `bytes`, `SecretStr`, and a pattern that looks ahead.
    let typed = json!({
        "properties": {
            "tags": {"items": {"type": "integer"}, "maxItems": 3, "type": "array", "uniqueItems": true},
            "path": {"format": "path", "maxLength": 4, "type": "string"},
            "raw": {"format": "binary", "maxLength": 4, "type": "string"},
            "secret": {"format": "password", "maxLength": 4, "type": "string", "writeOnly": true},
            "name": {"maxLength": 4, "pattern": "^(?!x)", "type": "string"},
            "is": {"oneOf": [{"const": "a"}, {"const": "b"}], "not": {"const": "b"}},
        },
        "required": ["tags", "path", "raw", "secret", "name", "is"],
        "title": "Typed",
        "type": "object",
    });
    each_said(&typed, |value, text| {
        assert!(value["tags"].as_array().unwrap().iter().all(Value::is_i64), "{text}");
        let texts = ["path", "raw", "secret", "name"];
        assert!(texts.iter().all(|key| value[key].is_string()), "{text}");
        assert!(["a", "b"].contains(&value["is"].as_str().unwrap()), "{text}");
        // Nothing was said of others: there are none.
        assert_eq!(value.as_object().unwrap().len(), 6, "{text}");
    });
    // As Zod writes `z.record(z.string(), z.number())`.
    let record = json!({
        "type": "object",
        "propertyNames": {"type": "string"},
        "additionalProperties": {"type": "number"},
    });
    each_said(&record, |value, text| {
        assert!(value.as_object().unwrap().values().all(Value::is_number), "{text}");
    });
}

#[test]
fn numbers_come_to_an_end() {
    let byte =
        |wanted: u8| (0..).find(|id| BYTE_LEVEL.tokenizer.decode_bytes(*id) == [wanted]).unwrap();
    let written = |schema: Value, wanted: &[u8]| {
        let shape = ReplyShape::JsonSchema(Sensitive(schema));
        let mut constraint = BYTE_LEVEL.grammars.constrain(&shape, None).unwrap();
        for written in 0..100 {
            let Allowed::These(mask) = constraint.allowed().unwrap() else { return written };
            let mut wanted = wanted.iter().map(|one| byte(*one));
            let Some(next) = wanted.find(|id| mask.allows(*id)) else { return written };
            constraint.accept(next).unwrap();
        }
        100
    };
    // Nothing but digits: what a small model falls into.
    assert_eq!(written(json!({"type": "integer"}), b"9"), 16);
    assert_eq!(written(json!({"type": "number"}), b"9."), 16 + 1 + 16);
    // No double has an exponent of many digits: programs would read infinity.
    assert_eq!(written(json!({"type": "number"}), b"e9"), 1 + 1 + 2);
    assert_eq!(written(json!({"type": "number"}), b"9.e-"), 16 + 1 + 16 + 1 + 2);
    // What the client asks for goes before, and texts are no numbers.
    assert_eq!(written(json!({"const": 11_111_111_111_111_111_111_u64}), b"0123456789"), 20);
    assert_eq!(written(json!({"type": "string"}), b"9\""), 100);
    assert_eq!(written(json!({"type": "object"}), b"{}9"), 2);
}

#[test]
fn what_cannot_be_kept_to_is_refused_by_name() {
    check_refused(json!({"$ref": "https://example.com/schema.json"}), "example.com");
    check_refused(json!({"type": "integer", "minimum": 5, "maximum": 2}), "nsatisfiable");
    let large = json!({"enum": ["x".repeat(SCHEMA_BYTES_MAX)]});
    check_refused(large, "bytes");
    let error =
        BYTE_LEVEL.grammars.constrain(&ReplyShape::JsonSchema(Sensitive(json!(true))), None);
    assert!(matches!(error, Err(GrammarError::Unsupported { .. })), "{error:?}");
}

#[test]
fn greedy_schemas_meet_a_limit() {
    let greedy = |schema: Value| {
        let shape = ReplyShape::JsonSchema(Sensitive(schema));
        // Refused, or small enough to be compiled and asked: never a hang, never a panic.
        if let Ok(mut constraint) = BYTE_LEVEL.grammars.constrain(&shape, None) {
            let _ = constraint.allowed();
        }
    };
    greedy(json!({"type": "string", "pattern": "^((((a{0,99}){0,99}){0,99}){0,99}){0,99}$"}));
    greedy(json!({"type": "string", "pattern": format!("^{}$", "(a|b)*".repeat(2000))}));
    greedy(json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}));
    greedy(json!({"type": "array", "minItems": 4_000_000_000_u32, "items": {"type": "integer"}}));
    for levels in [1, 15, 20, 60] {
        let mut deep = json!({"type": "integer"});
        for _ in 0..levels {
            deep = json!({"anyOf": [{"type": "array", "items": deep}, {"type": "null"}]});
        }
        greedy(deep);
    }
    for count in [400, 30_000] {
        let many: serde_json::Map<String, Value> =
            (0..count).map(|at| (format!("p{at}"), json!({}))).collect();
        greedy(json!({"type": "object", "properties": many}));
    }
    greedy(json!({"enum": (0..1_900).collect::<Vec<_>>()}));
    greedy(json!({"anyOf": vec![json!({"type": "integer"}); 600]}));
    greedy(json!({"type": "array", "prefixItems": vec![json!({"type": "integer"}); 600]}));
    let chain =
        |at: usize| (format!("a{at}"), json!({"items": {"$ref": format!("#/$defs/a{}", at + 1)}}));
    let chain: serde_json::Map<String, Value> = (0..600).map(chain).collect();
    greedy(json!({"$ref": "#/$defs/a0", "$defs": chain}));
}

#[test]
fn a_vocabulary_that_never_ends_is_refused() {
    let vocabulary = nook_base::Vocabulary { eos: None, ..vocabularies::byte_level() };
    let mut vocabulary = vocabulary;
    vocabulary.tokens[1] = "<|other|>".to_owned();
    let tokenizer = Tokenizer::new(&vocabulary).unwrap();
    assert!(matches!(Grammars::new(&tokenizer), Err(GrammarError::Vocabulary { .. })));
}
