//! Promise: calls in the notations of Qwen3.5, GLM, Gemma 4, LFM2 and gpt-oss come out as JSON,
//! however the reply was cut into pieces, and JSON in their place is understood.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use nook_text::said::Channel;
use nook_text::{ReplyForm, Thought, ToolForm};
use proptest::prelude::*;

use crate::replies_are_told_apart::{check, check_cut, form, told};

/// A form whose parameter `at` of the tool `look` is text.
fn with_text(calls: ToolForm) -> ReplyForm {
    let texts = vec![("look".to_owned(), "at".to_owned())];
    ReplyForm { texts, ..form(Some(calls), Thought::None) }
}

fn channels(channel: Channel) -> ReplyForm {
    form(Some(ToolForm::Harmony), Thought::Channels(channel))
}

#[test]
fn calls_in_tags_named_as_functions_are_read() {
    let functions = with_text(ToolForm::Functions);
    let one = "I look.\n\n<tool_call>\n<function=look>\n<parameter=at>\nthe \"sky\"\n\nand <b>\n\
               </parameter>\n<parameter=n>\n5\n</parameter>\n<parameter=of>\n{\"a\": [1]}\n\
               </parameter>\n</function>\n</tool_call>";
    check(
        &functions,
        one,
        "I look.||look({\"at\": \"the \\\"sky\\\"\\n\\nand <b>\", \"n\": 5, \"of\": {\"a\": [1]}})",
    );
    let none = "<tool_call>\n<function=rest>\n</function>\n</tool_call>";
    check(&functions, none, "||rest({})");
    check(&functions, &format!("{none}\n{none}\nDone."), "Done.||rest({})rest({})");
    // Text that looks like a number, and what is neither text nor JSON.
    let look = |at: &str, of: &str| {
        format!(
            "<function=look><parameter=at>{at}</parameter><parameter=of>{of}</parameter></function>"
        )
    };
    check(&functions, &look("5", "up there"), "||look({\"at\": \"5\", \"of\": \"up there\"})");
    check(&functions, &look("", "True"), "||look({\"at\": \"\", \"of\": true})");
    let seed = format!("<seed:tool_call>\n{}\n</seed:tool_call>ok", look("a", "null"));
    check(&functions, &seed, "ok||look({\"at\": \"a\", \"of\": null})");
    check(
        &functions,
        "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"</function>\"}}\n</tool_call>",
        "||look({\"at\": \"</function>\"})",
    );
    let other = "<tool_call>\n<function=other>\n</function>\n</tool_call>";
    check(&functions, other, &format!("{other}||"));
    check(&functions, "<tool_call>\n<function", "<tool_call>\n<function||");
    let cut = "<tool_call>\n<function=look>\n<parameter=at>\nhalf a te";
    check_cut(&functions, cut, "||look({\"at\": \"half a te)");
    check_cut(&functions, &format!("{cut}xt\n</para"), "||look({\"at\": \"half a text)");
}

#[test]
fn calls_in_tags_of_keys_and_values_are_read() {
    let keys = with_text(ToolForm::Keys);
    let two = "Well.<tool_call>look<arg_key>at</arg_key><arg_value>the sky</arg_value>\
               <arg_key>n</arg_key><arg_value>[5]</arg_value></tool_call><tool_call>rest</tool_call>";
    check(&keys, two, "Well.||look({\"at\": \"the sky\", \"n\": [5]})rest({})");
    let lines = "<tool_call>look\n<arg_key>at</arg_key>\n<arg_value>5</arg_value>\n</tool_call>";
    check(&keys, lines, "||look({\"at\": \"5\"})");
    let json = "<tool_call>{\"name\": \"look\", \"arguments\": {\"at\": \"x\"}}</tool_call>";
    check(&keys, json, "||look({\"at\": \"x\"})");
    check(&keys, "<tool_call>other</tool_call>", "<tool_call>other</tool_call>||");
    check_cut(&keys, "<tool_call>look<arg_key>at</arg_key><arg_va", "||look()");
}

#[test]
fn gemmas_calls_are_read() {
    let gemma = form(Some(ToolForm::Gemma), Thought::Perhaps);
    let one = "<|tool_call>call:look{at:<|\"|>the \"sky\", {really}\n<|\"|>,n:-5.0,\
               list:[1,<|\"|>a<|\"|>],map:{<|\"|>k:<|\"|>:true}}<tool_call|>";
    let expected = "look({\"at\": \"the \\\"sky\\\", {really}\\n\", \"n\": -5.0, \"list\": [1, \"a\"], \
                    \"map\": {\"k:\": true}})";
    check(&gemma, one, &format!("||{expected}"));
    let rest = "<|tool_call>call:rest{}<tool_call|>";
    check(&gemma, &format!("{one}{rest}<|tool_response>"), &format!("||{expected}rest({{}})"));
    let thinks = format!("<|channel>thought\nHm.\n<channel|>I rest.{rest}");
    check(&gemma, &thinks, "I rest.|Hm.\n|rest({})");
    let json =
        "<|tool_call>call:look{\"at\": \"a \\\"b\\\"\", \"n\": [{}, {\"x\": 1}]}<tool_call|>";
    check(&gemma, json, "||look({\"at\": \"a \\\"b\\\"\", \"n\": [{}, {\"x\": 1}]})");
    check(&gemma, "<|tool_call>call:other{}", "<|tool_call>call:other{}||");
    check_cut(&gemma, "<|tool_call>call:look{at:<|\"|>half<|", "||look({\"at\": \"half)");
}

#[test]
fn calls_in_pythons_notation_are_read() {
    let python = form(Some(ToolForm::Python), Thought::Perhaps);
    let two = "<think>Hm.</think><|tool_call_start|>[look(at='the \"sky\", it\\'s', n=5, ok=True, \
               of={\"a\": [1, None]}), rest()]<|tool_call_end|>Done, all.";
    check(
        &python,
        two,
        "Done, all.|Hm.|look({\"at\": \"the \\\"sky\\\", it's\", \"n\": 5, \"ok\": true, \
         \"of\": {\"a\": [1, null]}})rest({})",
    );
    // Its template escapes nothing, and so does the model.
    let wrong = "<|tool_call_start|>[look(at='it's here')]<|tool_call_end|>";
    check(&python, wrong, "||look({\"at\": \"it's here\"})");
    let json = "<|tool_call_start|>[{\"name\": \"look\", \"arguments\": {\"at\": \"x\"}}]<|tool_call_end|>";
    check(&python, json, "||look({\"at\": \"x\"})");
    check(&python, "<|tool_call_start|>[other(a=1)]", "<|tool_call_start|>[other(a=1)]||");
    check_cut(&python, "<|tool_call_start|>[look(at=\"half a", "||look({\"at\": \"half a)");
}

#[test]
fn messages_on_channels_are_told_apart() {
    let head = channels(Channel::Head);
    let thinks = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
    let says = "<|channel|>final<|message|>Yes <b>!<|return|>";
    check(&head, &format!("{thinks}{says}"), "Yes <b>!|Hm.|");
    check(&head, says, "Yes <b>!||");
    let calls = "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{\"at\": \"x\"}<|call|>";
    check(&head, &format!("{thinks}{calls}"), "|Hm.|look({\"at\": \"x\"})");
    let other_order = " to=functions.look<|channel|>commentary json<|message|>{}<|call|>";
    check(&head, other_order, "||look({})");
    // Two thoughts, a word to the reader before a call, and a tool that nobody offered.
    let twice = format!("{thinks}{thinks}<|channel|>commentary<|message|>I look.<|end|>");
    check(
        &head,
        &format!("{twice}<|start|>assistant{calls}"),
        "I look.|Hm.\n\nHm.|look({\"at\": \"x\"})",
    );
    let unknown = "<|channel|>commentary to=functions.other json<|message|>{}<|call|>";
    check(&head, unknown, "{}||");
    // What it makes up of others is nobody's.
    check(&head, &format!("{says}<|start|>user<|message|>And?<|end|>"), "Yes <b>!||");
    // A reply that was made to keep a form has no head.
    check(&head, "{\"a\": 1}", "{\"a\": 1}||");
    check(&channels(Channel::Final), "es.<|return|>", "es.||");
    check(
        &channels(Channel::Thinking),
        "m.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
        "Yes.|m.|",
    );
    check_cut(&head, "<|channel|>analysis<|mess", "||");
    check_cut(&head, "<|channel|>final<|message|>Half <|en", "Half ||");
    let one = ReplyForm { calls_max: 1, ..head };
    check(&one, &format!("{calls}<|start|>assistant{calls}"), "||look({\"at\": \"x\"})");
}

proptest! {
    #[test]
    fn noise_is_read_the_same_in_pieces_and_never_panics(
        pieces in prop::collection::vec(
            prop_oneof![
                Just("<tool_call>".to_owned()), Just("</tool_call>".to_owned()),
                Just("<function=look>".to_owned()), Just("<parameter=at>".to_owned()),
                Just("</parameter>".to_owned()), Just("</function>".to_owned()),
                Just("look".to_owned()), Just("<arg_key>".to_owned()), Just("</arg_key>".to_owned()),
                Just("<arg_value>".to_owned()), Just("</arg_value>".to_owned()),
                Just("<|tool_call>call:look{".to_owned()), Just("<|\"|>".to_owned()),
                Just("<|tool_call_start|>[look(".to_owned()), Just("at=".to_owned()),
                Just("at:".to_owned()), Just(")".to_owned()), Just("]".to_owned()),
                Just("{".to_owned()), Just("}".to_owned()), Just("'".to_owned()),
                Just("\\".to_owned()), Just(",".to_owned()), Just(" \n".to_owned()), ".{0,4}",
            ],
            0..14,
        ),
        form_of in prop_oneof![
            Just(ToolForm::Functions), Just(ToolForm::Keys),
            Just(ToolForm::Gemma), Just(ToolForm::Python),
        ],
    ) {
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let whole = told(with_text(form_of), &[&pieces.concat()]);
        prop_assert_eq!(told(with_text(form_of), &pieces), whole);
    }

    #[test]
    fn noise_on_channels_is_read_the_same_in_pieces(
        pieces in prop::collection::vec(
            prop_oneof![
                Just("<|start|>".to_owned()), Just("assistant".to_owned()),
                Just("<|channel|>".to_owned()), Just("analysis".to_owned()),
                Just("final".to_owned()), Just(" to=functions.look".to_owned()),
                Just("<|message|>".to_owned()), Just("<|end|>".to_owned()),
                Just("<|call|>".to_owned()), Just("<|".to_owned()), ".{0,4}",
            ],
            0..14,
        ),
    ) {
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let whole = told(channels(Channel::Head), &[&pieces.concat()]);
        prop_assert_eq!(told(channels(Channel::Head), &pieces), whole);
    }
}
