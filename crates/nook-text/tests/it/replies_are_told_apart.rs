//! Promise: text, thinking and calls are told apart the same way however the reply was cut into
//! pieces, and nothing of it is lost.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use nook_text::{ReplyForm, Said, SaidParser, Thought, ToolForm};
use proptest::prelude::*;

pub(crate) fn form(calls: Option<ToolForm>, thought: Thought) -> ReplyForm {
    let names = vec!["look".to_owned(), "rest".to_owned()];
    ReplyForm { calls, names, texts: Vec::new(), calls_max: 8, thought }
}

/// What a reply is, put together: `text|thought|name(arguments)…`.
pub(crate) fn told(form: ReplyForm, pieces: &[&str]) -> String {
    let mut parser = SaidParser::new(form);
    let mut said: Vec<Said> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
    said.extend(parser.finish());
    joined(said)
}

fn joined(said: Vec<Said>) -> String {
    let (mut text, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    for piece in said {
        match piece {
            Said::Text(more) => text.push_str(&more),
            Said::Thought(more) => thought.push_str(&more),
            Said::Call { index, name } => {
                assert_eq!(index, calls.len());
                calls.push(format!("{name}("));
            }
            Said::Arguments { index, text } => calls[index].push_str(&text),
        }
    }
    let calls: String = calls.into_iter().map(|call| call + ")").collect();
    format!("{text}|{thought}|{calls}")
}

/// Whole, byte by byte, and cut in two everywhere.
#[track_caller]
pub(crate) fn check(form: &ReplyForm, reply: &str, expected: &str) {
    assert_eq!(told(form.clone(), &[reply]), expected, "whole: {reply}");
    let letters: Vec<String> = reply.chars().map(String::from).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    assert_eq!(told(form.clone(), &letters), expected, "letter by letter: {reply}");
    for (at, _) in reply.char_indices() {
        let (a, b) = reply.split_at(at);
        assert_eq!(told(form.clone(), &[a, b]), expected, "{a:?} + {b:?}");
    }
}

#[test]
fn plain_replies_are_text() {
    let plain = ReplyForm::plain();
    check(&plain, " <think>a</think> <tool_call>{}", " <think>a</think> <tool_call>{}||");
    let offered = form(Some(ToolForm::Hermes), Thought::None);
    check(&offered, " Hello.\n\n<b> {x} ", " Hello.\n\n<b> {x} ||");
    check(&offered, "", "||");
}

#[test]
fn thinking_stands_apart() {
    let thinks = form(None, Thought::Perhaps);
    check(&thinks, "\n<think>\nHm </thin\n</think>\n\nYes.", "Yes.|Hm </thin\n|");
    check(&thinks, "<think></think>Yes.", "Yes.||");
    check(&thinks, "[THINK]Hm[/THINK]Yes.", "Yes.|Hm|");
    check(&thinks, "No <think>x</think>", "No <think>x</think>||");
    check(&thinks, "<think>for ever", "|for ever|");
    let open = Thought::Open { end: "</think>" };
    check(&form(None, open), " Hm.</think> Yes.", "Yes.|Hm.|");
    let other = Thought::Open { end: "[/THINK]" };
    check(&form(None, other), "</think>Hm.[/THINK] Yes.", "Yes.|</think>Hm.|");
    // The first half of the thought was said earlier: its white space joins the halves.
    let within = Thought::Within { end: "</think>" };
    check(&form(None, within), " and so.\n</think>\n\nYes.", "Yes.| and so.\n|");
}

#[test]
fn hermes_calls_are_read() {
    let hermes = form(Some(ToolForm::Hermes), Thought::Perhaps);
    let one = "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"}</tool_call>\"}}\n</tool_call>";
    check(&hermes, one, "||look({\"at\": \"}</tool_call>\"})");
    let two = "I look. <tool_call>{\"name\":\"look\",\"arguments\":{}}</tool_call>\n<tool_call>\n\
               {\"arguments\": {\"x\": [1, {}]}, \"name\": \"rest\"}</tool_call>\n";
    check(&hermes, two, "I look.||look({})rest({\"x\":[1,{}]})");
    let thought = "<think>\nA call.\n</think>\n\n<tool_call>{\"name\": \"rest\"}</tool_call>";
    check(&hermes, thought, "|A call.\n|rest({})");
}

#[test]
fn what_models_get_wrong_is_forgiven() {
    let hermes = form(Some(ToolForm::Hermes), Thought::None);
    let check =
        |call: &str, expected: &str| check(&hermes, &format!("<tool_call>{call}"), expected);
    check("{\"name\": \"look\", \"parameters\": {\"a\": 1}}</tool_call>", "||look({\"a\": 1})");
    check(
        "{\"name\": \"look\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
        "||look({\"a\": 1})",
    );
    check("{\"name\": \"look\", \"arguments\": null}</tool_call>", "||look({})");
    check("{\"function\": {\"name\": \"look\", \"arguments\": {}}}</tool_call>", "||look({})");
    check("{\"name\": \"look\", \"arguments\": {\"a\": 1}</tool_call>ok", "ok||look({\"a\": 1})");
    check("{\"name\": \"look\", \"arguments\": {\"a\": 1}}}</tool_call>", "||look({\"a\": 1})");
    check("{\"name\": \"look\", \"arguments\": {\"a\": 1}}", "||look({\"a\": 1})");
    check("{\"name\": \"rest\"}</tool_call>}</tool_call>ok", "ok||rest({})");
    check("{\"name\": \"look\", \"arguments\": {\"a\": \"cut", "||look({\"a\": \"cut)");
    // White space where it breaks off is nobody's, however the reply was cut.
    check("{\"name\": \"look\", \"arguments\": {\"a\": 1, </tool_call>", "||look({\"a\": 1,)");
    check("{\"name\": \"look\", \"arguments\": {\"a\": 1, ", "||look({\"a\": 1,)");
    // What is no call of ours stays text.
    check(
        "{\"name\": \"other\", \"arguments\": {}}",
        "<tool_call>{\"name\": \"other\", \"arguments\": {}}||",
    );
    check("not json</tool_call>", "<tool_call>not json</tool_call>||");
    check("{\"name\": 5}", "<tool_call>{\"name\": 5}||");
    check("", "<tool_call>||");
}

#[test]
fn llama_calls_are_the_whole_reply() {
    let llama = form(Some(ToolForm::Llama), Thought::None);
    check(&llama, "{\"name\": \"look\", \"parameters\": {\"a\": \"b\"}}", "||look({\"a\": \"b\"})");
    check(&llama, "<|python_tag|>{\"name\": \"rest\", \"parameters\": {}}", "||rest({})");
    let two = "{\"name\": \"look\", \"parameters\": {}}; {\"name\": \"rest\", \"parameters\": {}}";
    check(&llama, two, "||look({})rest({})");
    check(&llama, "{\"answer\": 42}", "{\"answer\": 42}||");
    check(&llama, "See {\"name\": \"look\"}", "See {\"name\": \"look\"}||");
}

#[test]
fn mistral_calls_come_in_lists_or_by_name() {
    let list = form(Some(ToolForm::Mistral), Thought::None);
    let two = "[TOOL_CALLS] [{\"name\": \"look\", \"arguments\": {\"a\": [1]}}, \
               {\"name\": \"rest\", \"arguments\": {}}]";
    check(&list, two, "||look({\"a\": [1]})rest({})");
    let named = form(Some(ToolForm::MistralNamed), Thought::None);
    let two = "Well.[TOOL_CALLS]look[CALL_ID]a1b2c3d4e[ARGS]{\"a\": {}}[TOOL_CALLS]rest{}";
    check(&named, two, "Well.||look({\"a\": {}})rest({})");
}

#[test]
fn calls_beyond_those_that_are_wanted_are_dropped() {
    let one = ReplyForm { calls_max: 1, ..form(Some(ToolForm::Hermes), Thought::None) };
    let two = "<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>".repeat(2);
    check(&one, &two, "||look({})");
}

/// What a reply is that its limit cut here, letter by letter.
#[track_caller]
pub(crate) fn check_cut(form: &ReplyForm, reply: &str, expected: &str) {
    let mut parser = SaidParser::new(form.clone());
    let mut said = Vec::new();
    for letter in reply.chars() {
        said.extend(parser.push(&letter.to_string()));
    }
    said.extend(parser.cut());
    assert_eq!(joined(said), expected, "{reply}");
}

#[test]
fn what_a_cut_leaves_of_a_mark_is_nobodys_text() {
    let hermes = form(Some(ToolForm::Hermes), Thought::Perhaps);
    check_cut(&hermes, "I look. <tool_c", "I look.||");
    check_cut(&hermes, "I look. <tool_call>", "I look.||");
    check_cut(&hermes, "<tool_call>{\"name\": \"lo", "||");
    check_cut(&hermes, "<tool_call>{\"name\": \"look\", \"arguments\": {\"a", "||look({\"a)");
    check_cut(&hermes, "<tool_call>{\"name\": \"rest\"}</tool_c", "||rest({})");
    check_cut(&hermes, "<thin", "||");
    check_cut(&hermes, "<think>Hm.</thin", "|Hm.|");
    check_cut(&hermes, "Half a word", "Half a word||");
    let mistral = form(Some(ToolForm::Mistral), Thought::None);
    check_cut(
        &mistral,
        "[TOOL_CALLS] [{\"name\": \"rest\", \"arguments\": {}}, {\"na",
        "||rest({})",
    );
    // Nothing says that this was to be a call.
    let llama = form(Some(ToolForm::Llama), Thought::None);
    check_cut(&llama, "{\"answer\": \"for", "{\"answer\": \"for||");
    check_cut(&ReplyForm::plain(), "a <tool_c", "a <tool_c||");
}

proptest! {
    #[test]
    fn noise_is_never_lost_and_never_panics(
        pieces in prop::collection::vec(
            prop_oneof![
                Just("<tool_call>".to_owned()), Just("</tool_call>".to_owned()),
                Just("[TOOL_CALLS]".to_owned()), Just("[ARGS]".to_owned()),
                Just("{\"name\": \"look\", ".to_owned()), Just("\"arguments\": ".to_owned()),
                Just("<think>".to_owned()), Just("{".to_owned()), Just("}".to_owned()),
                Just("\"".to_owned()), Just(" \n".to_owned()), ".{0,4}",
            ],
            0..12,
        ),
        form_of in prop_oneof![
            Just(ToolForm::Hermes), Just(ToolForm::Llama),
            Just(ToolForm::Mistral), Just(ToolForm::MistralNamed),
        ],
    ) {
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let cut = told(form(Some(form_of), Thought::Perhaps), &pieces);
        let whole = told(form(Some(form_of), Thought::Perhaps), &[&pieces.concat()]);
        prop_assert_eq!(cut, whole);
    }
}
