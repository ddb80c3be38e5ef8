//! Promise: a template is a program from a download, and can neither run away nor leave the chat
//! out; and what every template may ask for is there.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use nook_base::Vocabulary;
use nook_base::vocabulary::TokenKind;
use nook_text::{ChatMessage, ChatTemplate, RenderOptions, Role, TemplateError};

use crate::rendering::{SAY, render, template};

fn check(source: &str, expected: &str) {
    let source = format!("{source}{SAY}");
    assert_eq!(render(&source, &[("user", "U")]).unwrap(), format!("{expected}U"), "{source}");
}

#[test]
fn what_templates_ask_for_is_there() {
    check("{{ bos_token }}{{ eos_token }}", "<s></s>");
    check("{{ strftime_now('%d %b %Y %H:%M') }}", "02 Jan 2025 04:04");
    check("{{ {'b': [1, 'é<'], 'a': none} | tojson }}", r#"{"b": [1, "é<"], "a": null}"#);
    check(
        "{% set ns = namespace(n=1) %}{% for x in [1,2] %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}",
        "4",
    );
    check(
        "{% for x in [1,2,3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
        "13",
    );
    check("{{ ' a '.strip() ~ 'a-b'.split('-')[1] ~ 'xy'.startswith('x') }}", "abTrue");
    check("{% for k, v in {'k': 'v'}.items() %}{{ k }}{{ v }}{% endfor %}", "kv");
    check("{% if tools is none %}none{% endif %}", "none");
    check("{% generation %}a{% endgeneration %}", "a");
    check("  {% if true %}\n  a\n  {% endif %}\n", "  a\n");
    check(
        "{{ none }}|{{ true }}|{{ 1.0 }}|{{ ['a', {'b': none}] }}",
        "None|True|1.0|['a', {'b': None}]",
    );
    check(
        "{{ 'abcd'[::-1] }}{{ [1, 2, 3][::-1] }}{{ 'abcd'[3:0:-2] }}{{ [][::-1] }}{{ ''[::-1] }}",
        "dcba[3, 2, 1]db[]",
    );
    check(
        "{% set b = -2 %}{{ 'abcde'[::b] }}{{ [1, 2, 3, 4][-3:-1] }}{{ (1, 2, 3)[5:0:-1] }}{{ 'aé'[1:9] }}",
        "eca[2, 3](3, 2)é",
    );
    check("{{ 'abcd'[1:] }}{{ [1, 2, 3][:2] | tojson }}{{ [1, 2, 3][-1] }}", "bcd[1, 2]3");
    check("{{ 'ab' * 2 ~ 3 * 'c' ~ [1] * 2 ~ 2 * 3 * 4 }}", "ababccc[1, 1]24");
    check(
        "{% macro m(a, b='x') %}{{ a }}{{ b }}{{ caller(1) }}{% endmacro %}{% call(n) m('y') %}{{ n }}{% endcall %}",
        "yx1",
    );
    check("{% set t | upper | trim %} {{ 'a' }} {% endset %}{{ t }}", "A");
    check("{{ '%s-%d' | format('a', 1) }}{{ '{}{x}'.format(1, x='y') }}", "a-11y");
}

#[test]
fn runaway_templates_end_in_an_error() {
    let forever = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
    assert_eq!(render(forever, &[("user", "U")]), Err(TemplateError::OutOfFuel));
    let long = "{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}";
    assert_eq!(render(long, &[("user", "U")]), Err(TemplateError::PromptTooLong));
    let source = "x".repeat(300_000);
    assert_eq!(template(&source).err(), Some(TemplateError::SourceTooLong { bytes: 300_000 }));
    assert!(matches!(template("{% if %}"), Err(TemplateError::Syntax { line: 1, .. })));
}

#[test]
fn what_nests_as_deeply_as_it_may_is_written_and_freed() {
    let deep = "{% set ns = namespace(x=[1]) %}{% for i in range(9000) %}{% set ns.x = [ns.x] %}{% endfor %}";
    check(&format!("{deep}{{{{ (ns.x | string | length) }}}}"), "18003");
    check(&format!("{deep}{{{{ ns.x == [1] }}}}{{{{ (ns.x ~ '') | length }}}}"), "False18003");
    let lazy = "{% set ns = namespace(x=[1]) %}{% for i in range(9000) %}{% set ns.x = ns.x[0:] %}{% endfor %}";
    check(&format!("{lazy}{{{{ ns.x | length }}}}"), "1");
    // A namespace that held itself would be written for ever.
    for source in [
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.x = dict(a=ns) %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.x = namespace(a=ns) %}{{ ns }}",
    ] {
        assert!(matches!(render(source, &[("user", "U")]), Err(TemplateError::Failed { .. })));
    }
}

#[test]
fn a_text_that_grows_piece_by_piece_is_no_greed() {
    let grow = "{% set ns = namespace(out='') %}{% for i in range(4000) %}\
                {% set ns.out = ns.out ~ ('x' * 100) %}{% endfor %}{{ ns.out | length }}";
    check(grow, "400000");
}

#[test]
fn a_template_that_leaves_the_user_out_is_noticed() {
    let chat = [("user", "first"), ("user", "second")];
    assert_eq!(render("{{ messages[0].content }}", &chat), Err(TemplateError::UserTextLost));
    assert_eq!(render(SAY, &chat).unwrap(), "second");
}

#[test]
fn a_refused_system_message_goes_before_the_first_user_message() {
    let refusing = "{% for m in messages %}{% if m.role == 'system' %}\
        {{ raise_exception('no system') }}{% endif %}[{{ m.role }}:{{ m.content }}]{% endfor %}";
    let chat = [("system", "be brief"), ("user", "hi"), ("assistant", "yo"), ("user", "bye")];
    let expected = "[user:be brief\n\nhi][assistant:yo][user:bye]";
    assert_eq!(render(refusing, &chat).unwrap(), expected);
    let Err(TemplateError::Refused { sentence }) = render(refusing, &[("system", "alone")]) else {
        panic!("nobody can take the system message");
    };
    assert_eq!(sentence.0, "no system");
    // A template that accepts it is left alone.
    let accepting = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}";
    assert!(render(accepting, &chat).unwrap().starts_with("[system:be brief]"));
}

const CHAT: [(&str, &str); 4] =
    [("system", "Be brief."), ("user", "hi"), ("assistant", "yo"), ("user", "bye")];

/// What a model without a template, whose vocabulary has `tokens`, is given for [`CHAT`].
fn default_prompt(tokens: &[&str], name: &str) -> (String, Vec<String>) {
    let tokens: Vec<String> =
        ["<s>", "</s>"].iter().chain(tokens).map(|text| (*text).to_owned()).collect();
    let vocabulary = Vocabulary {
        kinds: vec![TokenKind::Control; tokens.len()],
        tokens,
        bos: Some(0),
        eos: Some(1),
        ..Vocabulary::default()
    };
    let template = ChatTemplate::for_vocabulary(&vocabulary).unwrap();
    assert_eq!(template.default_name(), Some(name));
    let chat = CHAT.map(|(role, text)| ChatMessage::new(Role::new(role).unwrap(), text));
    let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
    let prompt = template.render(&chat, options).unwrap();
    let stops = template.stop_strings().iter().map(|stop| (*stop).to_owned()).collect();
    (prompt.text().to_owned(), stops)
}

#[test]
fn a_model_without_a_template_is_written_to_as_its_vocabulary_tells() {
    let check = |tokens: &[&str], name: &str, expected: &str| {
        assert_eq!(default_prompt(tokens, name), (expected.to_owned(), Vec::new()), "{name}");
    };
    check(
        &["<|im_start|>", "<|im_end|>"],
        "ChatML",
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n\
         <|im_start|>assistant\nyo<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n\
         <|im_start|>assistant\n",
    );
    check(
        &["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        "Llama 3",
        "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>\
         <|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>\
         <|start_header_id|>assistant<|end_header_id|>\n\nyo<|eot_id|>\
         <|start_header_id|>user<|end_header_id|>\n\nbye<|eot_id|>\
         <|start_header_id|>assistant<|end_header_id|>\n\n",
    );
    check(
        &["<start_of_turn>", "<end_of_turn>"],
        "Gemma",
        "<s><start_of_turn>user\nBe brief.\n\nhi<end_of_turn>\n<start_of_turn>model\nyo<end_of_turn>\n\
         <start_of_turn>user\nbye<end_of_turn>\n<start_of_turn>model\n",
    );
    check(
        &["<|user|>", "<|assistant|>", "<|end|>"],
        "Phi-3",
        "<s><|system|>\nBe brief.<|end|>\n<|user|>\nhi<|end|>\n<|assistant|>\nyo<|end|>\n\
         <|user|>\nbye<|end|>\n<|assistant|>\n",
    );
    check(
        &["[INST]", "[/INST]"],
        "Mistral",
        "<s>[INST]Be brief.\n\nhi[/INST]yo</s>[INST]bye[/INST]",
    );
    // No marker that is known, or half of a pair: a transcript.
    for tokens in [&[][..], &["<|im_start|>"]] {
        let (prompt, stops) = default_prompt(tokens, "a transcript");
        assert_eq!(prompt, "<s>Be brief.\n\nUser: hi\nAssistant: yo\nUser: bye\nAssistant:");
        assert_eq!(stops, ["\nUser:"]);
    }
}

#[test]
fn a_template_for_tools_works_without_any() {
    let source = "{% for tool in tools %}{{ tool }}{% endfor %}{{ messages[-1].content }}";
    assert_eq!(render(source, &[("user", "U")]).unwrap(), "U");
}

#[test]
fn errors_and_debug_output_show_nothing_of_the_chat() {
    let failing = "{{ messages[0].content.canary() }}{{ messages[0].content + 1 }}";
    let error = render(failing, &[("user", "canary-text")]).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("canary-text"));
    let message = ChatMessage::new(Role::user(), "canary-text");
    assert!(!format!("{message:?}").contains("canary-text"));
}
