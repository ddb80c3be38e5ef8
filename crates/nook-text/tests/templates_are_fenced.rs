//! Promise: a template is a program from a download, and can neither run away nor leave the chat
//! out; and what every template may ask for is there.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use nook_base::Vocabulary;
use nook_text::{ChatMessage, ChatTemplate, Moment, RenderOptions, Role, TemplateError};

fn template(source: &str) -> Result<ChatTemplate, TemplateError> {
    let vocabulary = Vocabulary {
        tokens: vec!["<s>".to_owned(), "</s>".to_owned()],
        bos: Some(0),
        eos: Some(1),
        chat_template: Some(source.to_owned()),
        ..Vocabulary::default()
    };
    ChatTemplate::from_vocabulary(&vocabulary).map(Option::unwrap)
}

fn render(source: &str, chat: &[(&str, &str)]) -> Result<String, TemplateError> {
    let messages: Vec<ChatMessage> = chat
        .iter()
        .map(|(role, text)| ChatMessage::new(Role::new(*role).unwrap(), *text))
        .collect();
    let now = Some(Moment { unix_seconds: 1_735_787_045, utc_offset_seconds: 3600 });
    let options = RenderOptions { add_generation_prompt: true, now, tools: None };
    template(source)?.render(&messages, options).map(|prompt| prompt.text().to_owned())
}

const SAY: &str = "{{ messages[-1].content }}";

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
    let fault = "{% for a in [][::-1] %}{% endfor %}";
    assert!(matches!(render(fault, &[("user", "U")]), Err(TemplateError::Failed { .. })));
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

#[test]
fn a_model_without_a_template_reads_a_transcript() {
    let vocabulary =
        Vocabulary { tokens: vec!["<s>".to_owned()], bos: Some(0), ..Vocabulary::default() };
    assert!(ChatTemplate::from_vocabulary(&vocabulary).unwrap().is_none());
    let plain = ChatTemplate::plain(&vocabulary);
    let chat = [
        ChatMessage::new(Role::system(), "Be brief."),
        ChatMessage::new(Role::user(), "hi"),
        ChatMessage::new(Role::assistant(), "yo"),
        ChatMessage::new(Role::user(), "bye"),
    ];
    let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
    let prompt = plain.render(&chat, options).unwrap();
    assert_eq!(prompt.text(), "<s>Be brief.\n\nUser: hi\nAssistant: yo\nUser: bye\nAssistant:");
    assert_eq!(plain.stop_strings(), ["\nUser:"]);
}

#[test]
fn errors_and_debug_output_show_nothing_of_the_chat() {
    let failing = "{{ messages[0].content.canary() }}{{ messages[0].content + 1 }}";
    let error = render(failing, &[("user", "canary-text")]).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("canary-text"));
    let message = ChatMessage::new(Role::user(), "canary-text");
    assert!(!format!("{message:?}").contains("canary-text"));
}
