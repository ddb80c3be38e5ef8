//! Promise: the orders of messages in which programs send a conversation become prompts with every
//! word of it, also where the template refuses that order.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use crate::fixtures::read_json;
use crate::places::{fixture, large_fixture};
use crate::rendering::template;
use nook_base::Sensitive;
use nook_text::{Moment, PastCall, RenderOptions, Role, TemplateError, Tool, Turn};
use serde_json::{Map, Value};

/// Conversations of programs as the port reads them, a letter for each message: system, user,
/// assistant, `C` for an assistant that calls a tool, and the tool. The first ones are those of
/// `nook-openai/tests/recorded`, the others go on from there.
const SENT: &[(&str, &[&str])] = &[
    ("Claude Code", &["sus", "susCt", "susaus", "susCtaus", "susCtus", "susCts"]),
    ("Codex", &["suu", "ssuu", "suuCt", "suuau", "ssuuCtau", "suuCtCtu"]),
    ("opencode", &["suu", "su", "suCt", "suuCtau", "suCtu"]),
];

/// Turns have to alternate, calls and results aside; the system message stands at the beginning.
const STRICT: &str = "{% set ns = namespace(n=0) %}{% for m in messages %}\
{% if m.role == 'system' and not loop.first %}{{ raise_exception('late') }}{% endif %}\
{% if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}\
{% if (m.role == 'user') != (ns.n % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}\
{% set ns.n = ns.n + 1 %}{% endif %}<{{ m.role }}>{{ m.content }}\
{% for c in m.tool_calls or [] %}[TOOL_CALLS]{{ c.function.name }}{% endfor %}{% endfor %}\
{# tools #}";

fn turns(roles: &str) -> Vec<Turn> {
    let one = |(at, letter): (usize, char)| {
        let text = said(at, letter);
        let call = |at: usize| format!("call{at:05}");
        match letter {
            's' => Turn::new(Role::system(), text),
            'u' => Turn::new(Role::user(), text),
            't' => Turn { answers: Some(call(at - 1)), ..Turn::new(Role::tool(), text) },
            'C' => {
                let arguments = Sensitive("{\"path\": \"a.txt\"}".to_owned());
                let call = PastCall { id: call(at), name: "read_file".to_owned(), arguments };
                Turn { calls: vec![call], ..Turn::new(Role::assistant(), text) }
            }
            _ => Turn::new(Role::assistant(), text),
        }
    };
    roles.chars().enumerate().map(one).collect()
}

/// Words that stand nowhere else. An assistant that calls says nothing else: some templates leave
/// that out.
fn said(at: usize, letter: char) -> String {
    if letter == 'C' { String::new() } else { format!("word{at}{letter} here") }
}

fn rendered(source: &str, roles: &str) -> Result<String, TemplateError> {
    let tool = Tool::new("read_file".to_owned(), Some("Reads a file.".to_owned()), None).unwrap();
    let now = Some(Moment { unix_seconds: 1_735_787_045, utc_offset_seconds: 0 });
    let options = RenderOptions { add_generation_prompt: true, now, tools: None };
    let prompt = template(source)?.render_turns(&turns(roles), &[tool], options, &Map::new());
    prompt.map(|prompt| prompt.text().to_owned())
}

/// Words of the conversation that the prompt lacks.
fn missing(prompt: &str, roles: &str) -> Vec<String> {
    let words = roles.chars().enumerate().map(|(at, letter)| said(at, letter));
    words.filter(|word| !prompt.contains(word.as_str())).collect()
}

#[test]
fn a_strict_template_takes_what_programs_send() {
    for (roles, expected) in [
        ("sus", "<system>0s<user>1u+2s"),
        ("ssuu", "<system>0s+1s<user>2u+3u"),
        ("susaus", "<system>0s<user>1u+2s<assistant>3a<user>4u+5s"),
        ("suCtu", "<system>0s<user>1u<assistant>[TOOL_CALLS]read_file<tool>3t+4u"),
        ("susCts", "<system>0s<user>1u+2s<assistant>[TOOL_CALLS]read_file<tool>4t+5s"),
        (
            "suCtau",
            "<system>0s<user>1u<assistant>[TOOL_CALLS]read_file<tool>3t<assistant>4a<user>5u",
        ),
    ] {
        let prompt = rendered(STRICT, roles).unwrap();
        let plain = prompt.replace("\n\n", "+").replace("word", "").replace(" here", "");
        assert_eq!(plain, expected, "{roles}");
    }
}

#[test]
fn a_template_that_takes_the_order_keeps_it() {
    let taking = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    assert_eq!(
        rendered(&format!("{taking}{{# tools [TOOL_CALLS] #}}"), "susu").unwrap(),
        "<system>word0s here<user>word1u here<system>word2s here<user>word3u here"
    );
}

/// Many templates know one system message, the first or the last one.
#[test]
fn a_template_that_leaves_system_messages_out_gets_them_elsewhere() {
    let rest = "{% for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}\
        {% endfor %}{# tools [TOOL_CALLS] #}";
    let first = format!("{{{{ messages[0].content }}}}{rest}");
    let last = format!(
        "{{% set ns = namespace(s='') %}}{{% for m in messages if m.role == 'system' %}}\
         {{% set ns.s = m.content %}}{{% endfor %}}{{{{ ns.s }}}}{rest}"
    );
    for source in [&first, &last] {
        for (roles, expected) in
            [("sus", "0s<user>1u+2s"), ("ssu", "0s+1s<user>2u"), ("su", "0s<user>1u")]
        {
            let prompt = rendered(source, roles).unwrap().replace("\n\n", "+");
            assert_eq!(prompt.replace("word", "").replace(" here", ""), expected, "{source}");
        }
    }
    // One that knows none at all, and one that refuses what would be needed.
    let none = rendered(rest, "sua").unwrap().replace("\n\n", "+");
    assert_eq!(none, "<user>word0s here+word1u here<assistant>word2a here");
    let stubborn = format!(
        "{rest}{{% if messages[0].role == 'user' %}}{{{{ raise_exception('') }}}}{{% endif %}}"
    );
    assert_eq!(rendered(&stubborn, "su").unwrap(), "<user>word1u here");
}

/// Thinking is switched by a word in the system message, which such templates take out.
#[test]
fn a_template_that_takes_a_switch_out_of_a_system_message_is_left_alone() {
    let source = "{% for m in messages %}<{{ m.role }}>{{ m.content.replace('/no_think', '') }}\
        {% endfor %}";
    let prompt = |system: &str| {
        let turns = [Turn::new(Role::system(), system), Turn::new(Role::user(), "U")];
        let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
        let prompt = template(source).unwrap().render_turns(&turns, &[], options, &Map::new());
        prompt.unwrap().text().to_owned()
    };
    assert_eq!(prompt("Answer briefly. /no_think"), "<system>Answer briefly. <user>U");
    assert_eq!(prompt("/no_think"), "<system><user>U");
}

#[test]
fn a_refusal_of_every_order_is_the_templates_own_sentence() {
    let refused = rendered("{{ raise_exception('never') }}", "ssusuCtu").unwrap_err();
    assert_eq!(refused.refusal(), Some("never"));
}

/// Control tokens in words that moved stay text.
#[test]
fn words_that_moved_cannot_speak_structure() {
    let turns = [
        Turn::new(Role::user(), "a<s>"),
        Turn::new(Role::system(), "</s>b"),
        Turn::new(Role::user(), "c"),
    ];
    let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
    let template = template(STRICT).unwrap();
    let prompt = template.render_turns(&turns, &[], options, &Map::new()).unwrap();
    assert_eq!(prompt.text(), "<user>a<s>\n\n</s>b\n\nc");
}

#[test]
fn templates_take_what_programs_send() {
    check_folder(&fixture("templates"));
    let test = "templates_take_what_programs_send";
    if let Some(folder) = large_fixture(test, "fixtures/templates") {
        check_folder(&folder);
        for name in [
            "Qwen3.5-4B",
            "mistralai-Ministral-3-14B-Reasoning-2512",
            "Mistral-Small-3.2-24B-Instruct-2506",
            "mistralai-Mistral-Nemo-Instruct-2407",
            "google-gemma-2-2b-it",
        ] {
            assert!(folder.join(format!("{name}.jinja")).exists(), "{name}");
        }
    }
}

#[track_caller]
fn check_folder(folder: &Path) {
    let reference = read_json(&folder.join("rendered.json"));
    let mut wrong = Vec::new();
    for (name, outcomes) in reference["templates"].as_object().unwrap() {
        // Two need variables of their own, and render nothing in the reference either.
        let is_mute = |outcome: &Value| outcome["output"].is_null();
        if outcomes.as_object().unwrap().values().all(is_mute) {
            continue;
        }
        let source = std::fs::read_to_string(folder.join(name)).unwrap();
        for (program, orders) in SENT {
            for roles in *orders {
                match rendered(&source, roles) {
                    Ok(prompt) => {
                        let missing = missing(&prompt, roles);
                        if !missing.is_empty() {
                            wrong.push(format!("{name}, {program} {roles}: lacks {missing:?}"));
                        }
                    }
                    Err(error) => wrong.push(format!(
                        "{name}, {program} {roles}: {error:?} {:?}",
                        error.refusal()
                    )),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
