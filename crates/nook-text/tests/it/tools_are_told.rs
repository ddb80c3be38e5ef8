//! Promise: every template is told of tools, calls and results: in its own form where it has one
//! that we know, else in plain messages.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use crate::fixtures::read_json;
use crate::places::{fixture, large_fixture};
use nook_base::{Sensitive, Vocabulary};
use nook_text::{ChatTemplate, Moment, PastCall, RenderOptions, Role, Tool, ToolForm, Turn};
use serde_json::{Map, json};

/// A template without tools; turns must alternate.
const PLAIN: &str = "{% for m in messages %}{% if not loop.first and m.role == loop.previtem.role %}\
{{ raise_exception('turns') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}";

/// A template that writes everything itself, and minds what it is given.
const NATIVE: &str = "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}\
<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}MARK{{ c.id }}:{{ c.function.name }}\
{{ c.function.arguments | tojson }}{% endfor %}{% if m.tool_call_id %}={{ m.tool_call_id }}\
{% endif %}{% endfor %}";

fn template(source: &str) -> ChatTemplate {
    let tokens = vec!["<s>".to_owned(), "</s>".to_owned()];
    let chat_template = Some(source.to_owned());
    let vocabulary = Vocabulary { tokens, chat_template, ..Vocabulary::default() };
    ChatTemplate::for_vocabulary(&vocabulary).unwrap()
}

/// Two calls in one reply, and their results.
fn turns() -> Vec<Turn> {
    let call = |id: &str, name: &str, arguments: &str| PastCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: Sensitive(arguments.to_owned()),
    };
    let result = |id: &str, text: &str| Turn {
        answers: Some(id.to_owned()),
        ..Turn::new(Role::tool(), text)
    };
    vec![
        Turn::new(Role::system(), "S"),
        Turn::new(Role::user(), "U"),
        Turn {
            calls: vec![call("call_1", "look", "{\"at\": 1}"), call("call_2", "rest", "{}")],
            ..Turn::new(Role::assistant(), "")
        },
        result("call_2", "slept"),
        result("call_1", "sky"),
        Turn::new(Role::user(), "V"),
    ]
}

fn render(source: &str, tools: &[Tool]) -> String {
    let options = RenderOptions::default();
    let prompt = template(source).render_turns(&turns(), tools, options, &Map::new());
    prompt.unwrap().text().to_owned()
}

fn tool() -> Tool {
    let parameters = json!({"type": "object", "properties": {"at": {"type": "integer"}}});
    Tool::new("look".to_owned(), Some("Looks.".to_owned()), Some(parameters)).unwrap()
}

const TOLD: &str = r#"{"type":"function","function":{"name":"look","description":"Looks.","parameters":{"type":"object","properties":{"at":{"type":"integer"}}}}}"#;

#[test]
fn a_template_without_tools_gets_plain_messages() {
    let prompt = render(PLAIN, &[tool()]);
    assert!(prompt.starts_with("<system>S\n\nYou can call"), "{prompt}");
    assert!(prompt.contains(TOLD), "{prompt}");
    let rest = prompt.split("<user>").skip(1).collect::<Vec<_>>().join("<user>");
    assert_eq!(
        rest,
        "U<assistant><tool_call>\n{\"name\":\"look\",\"arguments\":{\"at\":1}}\n</tool_call>\n\
         <tool_call>\n{\"name\":\"rest\",\"arguments\":{}}\n</tool_call>\
         <user><tool_response>\nslept\n</tool_response>\n<tool_response>\nsky\n</tool_response>\nV"
    );
    assert!(render(PLAIN, &[]).starts_with("<system>S<user>"), "nothing is told of no tools");
}

#[test]
fn a_form_is_known_by_its_mark() {
    for (marks, form) in [
        ("<tool_call> \"arguments\"", ToolForm::Hermes),
        ("[TOOL_CALLS]", ToolForm::Mistral),
        ("[TOOL_CALLS] [ARGS]", ToolForm::MistralNamed),
        ("<|start_header_id|> \"parameters\"", ToolForm::Llama),
        ("<tool_call><function=<parameter=", ToolForm::Functions),
        ("<tool_call><arg_key>", ToolForm::Keys),
        ("<|tool_call>call:", ToolForm::Gemma),
        ("<|tool_call_start|>", ToolForm::Python),
        ("<|channel|>commentary functions.", ToolForm::Harmony),
        // Its own form is not known: the default.
        ("<|tool_calls_section_begin|>", ToolForm::Hermes),
        ("", ToolForm::Hermes),
    ] {
        let source = NATIVE.replace("MARK", &marks.replace('"', "\\\""));
        assert_eq!(template(&format!("{source}{{# {marks} #}}")).tool_form(), form, "{marks}");
    }
}

#[test]
fn a_template_with_tools_gets_values() {
    let source = NATIVE.replace("MARK", "<tool_call>") + "{# \"arguments\" #}";
    let hermes = render(&source, &[tool()]);
    let told = TOLD.replace("\":", "\": ").replace(",\"", ", \"");
    assert_eq!(
        hermes,
        format!(
            "{told}<system>S<user>U<assistant><tool_call>call_1:look{{\"at\": 1}}\
             <tool_call>call_2:rest{{}}<tool>slept=call_2<tool>sky=call_1<user>V"
        )
    );
}

#[test]
fn mistral_gets_ids_that_it_accepts() {
    let prompt = render(&NATIVE.replace("MARK", "[TOOL_CALLS]"), &[]);
    let id = |before: &str| prompt.split(before).nth(1).unwrap()[..9].to_owned();
    let (first, second) = (id("<assistant>[TOOL_CALLS]"), id("slept="));
    assert_ne!(first, second);
    assert!(first.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{prompt}");
    assert!(prompt.contains(&format!("sky={first}")), "{prompt}");
    assert!(prompt.contains(&format!("{second}:rest")), "{prompt}");
}

#[test]
fn llama_gets_one_call_a_message_with_its_result_behind_it() {
    let source = NATIVE.replace("MARK", "!") + "{# <|start_header_id|> \"parameters\" #}";
    assert_eq!(
        render(&source, &[]),
        "<system>S<user>U<assistant>!call_1:look{\"at\": 1}<tool>sky=call_1\
         <assistant>!call_2:rest{}<tool>slept=call_2<user>V"
    );
}

#[test]
fn bad_tools_are_refused() {
    for name in ["", "a b", "a\"b", &"x".repeat(129)] {
        assert!(Tool::new(name.to_owned(), None, None).is_err(), "{name}");
    }
    assert!(Tool::new("a-B_9".to_owned(), None, None).is_ok());
    assert!(Tool::new("a".to_owned(), None, Some(json!([]))).is_err());
}

/// Templates whose own form we know: ours, then publishers'; all others get the default.
const KNOWN: &[(&str, ToolForm)] = &[
    ("marks", ToolForm::Hermes),
    ("brackets", ToolForm::Mistral),
    ("headers", ToolForm::Llama),
    ("Bielik-11B-v3.0-Instruct", ToolForm::Hermes),
    ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", ToolForm::Hermes),
    ("NousResearch-Hermes-3-Llama-3.1-8B-tool_use", ToolForm::Hermes),
    ("Qwen-QwQ-32B", ToolForm::Hermes),
    ("Qwen-Qwen2.5-7B-Instruct", ToolForm::Hermes),
    ("Qwen-Qwen3-0.6B", ToolForm::Hermes),
    ("Reka-Edge", ToolForm::Hermes),
    ("ibm-granite-granite-4.0", ToolForm::Hermes),
    ("Mistral-Small-3.2-24B-Instruct-2506", ToolForm::MistralNamed),
    ("meta-llama-Llama-3.1-8B-Instruct", ToolForm::Llama),
    ("meta-llama-Llama-3.3-70B-Instruct", ToolForm::Llama),
    ("mistralai-Ministral-3-14B-Reasoning-2512", ToolForm::MistralNamed),
    ("mistralai-Mistral-Nemo-Instruct-2407", ToolForm::Mistral),
    ("unsloth-mistral-Devstral-Small-2507", ToolForm::MistralNamed),
    ("ByteDance-Seed-OSS", ToolForm::Functions),
    ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", ToolForm::Functions),
    ("Qwen3.5-4B", ToolForm::Functions),
    ("StepFun3.5-Flash", ToolForm::Functions),
    ("GLM-4.6", ToolForm::Keys),
    ("GLM-4.7-Flash", ToolForm::Keys),
    ("Spark2.5", ToolForm::Keys),
    ("inclusionai-ling-3.0-flash", ToolForm::Keys),
    ("poolside-Laguna-S-2.1", ToolForm::Keys),
    ("google-gemma-4-31B-it", ToolForm::Gemma),
    ("google-gemma-4-31B-it-interleaved", ToolForm::Gemma),
    ("LFM2.5-8B-A1B", ToolForm::Python),
    ("openai-gpt-oss-120b", ToolForm::Harmony),
];

#[test]
fn every_publishers_template_tells_tools_calls_and_results() {
    let test = "every_publishers_template_tells_tools_calls_and_results";
    check_templates(&fixture("templates"), 4);
    if let Some(folder) = large_fixture(test, "fixtures/templates") {
        check_templates(&folder, 50);
    }
}

/// Every template of a folder, and how many of them render anything at all.
#[track_caller]
fn check_templates(folder: &Path, count: usize) {
    let rendered = read_json(&folder.join("rendered.json"));
    let (mut told, mut wrong) = (0, Vec::new());
    for (name, outcomes) in rendered["templates"].as_object().unwrap() {
        // One needs variables of its own, and renders nothing in the reference either.
        if outcomes.as_object().unwrap().values().all(|outcome| outcome["output"].is_null()) {
            continue;
        }
        let source = std::fs::read_to_string(folder.join(name)).unwrap();
        let template = template(&source);
        let short = name.trim_end_matches(".jinja");
        let known = KNOWN.iter().find(|(known, _)| *known == short).map(|(_, form)| *form);
        let now = Some(Moment { unix_seconds: 1_735_787_045, utc_offset_seconds: 0 });
        let options = RenderOptions { add_generation_prompt: true, now, tools: None };
        // Many templates refuse a person's word right behind a result.
        let mut turns = turns();
        turns.insert(5, Turn::new(Role::assistant(), "A"));
        let prompt = match template.render_turns(&turns, &[tool()], options, &Map::new()) {
            Ok(prompt) => prompt.text().to_owned(),
            Err(error) => {
                wrong.push(format!("{short}: {error:?} {:?}", error.refusal()));
                continue;
            }
        };
        let is_default = prompt.contains("You can call these tools.");
        if is_default == known.is_some() || known.is_some_and(|form| form != template.tool_form()) {
            wrong.push(format!("{short}: default {is_default}, {:?}", template.tool_form()));
        }
        told += 1;
        for part in ["look", "Looks.", "rest", "slept", "sky", "V"] {
            if !prompt.contains(part) {
                wrong.push(format!("{short}: {part} is missing"));
            }
        }
    }
    assert!(wrong.is_empty() && told == count, "{told} told: {}", wrong.join("\n"));
}
