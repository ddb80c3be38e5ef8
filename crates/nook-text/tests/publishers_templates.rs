//! Promise: a chat becomes the prompt that the publisher's template gives in Hugging Face's own
//! environment, or is refused where that refuses.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/fixtures.rs"]
mod fixtures;

use nook_base::Vocabulary;
use nook_text::{
    ChatMessage, ChatTemplate, EncodeOptions, Moment, RenderOptions, Role, TemplateError, Tokenizer,
};
use serde_json::Map;

/// 2025-01-02 03:04:05, as the reference has it.
const NOW: Moment = Moment { unix_seconds: 1_735_787_045, utc_offset_seconds: 0 };

const PYTHON_ERRORS: &[&str] = &[
    "TypeError: 'NoneType' object is not iterable",
    "TypeError: Object of type generator is not JSON serializable",
];

fn template(source: String) -> Result<ChatTemplate, TemplateError> {
    let vocabulary = Vocabulary {
        tokens: vec!["<s>".to_owned(), "</s>".to_owned(), "<|im_end|>".to_owned()],
        bos: Some(0),
        eos: Some(1),
        chat_template: Some(source),
        ..Vocabulary::default()
    };
    ChatTemplate::from_vocabulary(&vocabulary).map(Option::unwrap)
}

#[test]
fn every_template_of_the_fixtures_renders_every_chat_as_the_reference() {
    let test = "every_template_of_the_fixtures_renders_every_chat_as_the_reference";
    let Some(rendered) = fixtures::read_json(test, "fixtures/templates/rendered.json") else {
        return;
    };
    let (mut right, mut wrong) = (0, Vec::new());
    for (name, outcomes) in rendered["templates"].as_object().unwrap() {
        let path = fixtures::find(test, &format!("fixtures/templates/{name}")).unwrap();
        let template = match template(std::fs::read_to_string(path).unwrap()) {
            Ok(template) => template,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        for (case, outcome) in outcomes.as_object().unwrap() {
            let chat = &rendered["cases"][case];
            let options = RenderOptions {
                add_generation_prompt: chat["add_generation_prompt"].as_bool().unwrap(),
                now: Some(NOW),
                tools: chat.get("tools").cloned(),
            };
            let mut variables = Map::new();
            if let Some(thinking) = chat.get("enable_thinking") {
                variables.insert("enable_thinking".to_owned(), thinking.clone());
            }
            let messages = chat["messages"].as_array().unwrap();
            let ours = template.render_values(messages, &options, &variables);
            let same = match (&ours, outcome["output"].as_str()) {
                (Ok(prompt), Some(expected)) => prompt.text() == expected,
                // Ours sees that these two leave out what the user said in parts.
                (Err(TemplateError::UserTextLost), Some(_)) => case == "content_parts",
                // A slice of no messages from behind stops minijinja 3.0.5.
                (Err(_), Some(_)) => name == "Reka-Edge.jinja" && case == "empty_messages",
                (Err(_), None) => true,
                // Python's own type errors; Jinja without Python has an empty list there.
                (Ok(_), None) => PYTHON_ERRORS.contains(&outcome["error"].as_str().unwrap()),
            };
            if same {
                right += 1;
            } else {
                let ours = ours.as_ref().map(|prompt| prompt.text());
                wrong.push(format!("{name} {case}:\n--- ours\n{ours:?}\n--- reference\n{outcome}"));
            }
        }
    }
    assert_eq!(right + wrong.len(), 52 * 11);
    assert!(wrong.is_empty(), "{right} right, {} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn embers_chats_render_and_encode_as_the_reference() {
    let test = "embers_chats_render_and_encode_as_the_reference";
    let Some(reference) = fixtures::read_json(test, "ember/ember-greedy.json") else {
        return;
    };
    let Some(vocabulary) = fixtures::read_vocabulary(test, "ember/ember-q8_0.gguf") else {
        return;
    };
    let template = ChatTemplate::from_vocabulary(&vocabulary).unwrap().unwrap();
    let tokenizer = Tokenizer::new(&vocabulary).unwrap();
    for case in reference["cases"].as_array().unwrap() {
        let expected: Vec<u32> = case["prompt_ids"]
            .as_array()
            .unwrap()
            .iter()
            .map(|id| id.as_u64().unwrap() as u32)
            .collect();
        let Some(messages) = case["messages"].as_array() else {
            let options = EncodeOptions { add_special: true, parse_special: true };
            let text = case["prompt"].as_str().unwrap();
            assert_eq!(
                tokenizer.encode(text.trim_start_matches("<|bos|>"), options).unwrap(),
                expected
            );
            continue;
        };
        let messages: Vec<ChatMessage> = messages
            .iter()
            .map(|message| {
                let role = Role::new(message["role"].as_str().unwrap()).unwrap();
                ChatMessage::new(role, message["content"].as_str().unwrap())
            })
            .collect();
        let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
        let prompt = template.render(&messages, options).unwrap();
        assert_eq!(prompt.text(), case["prompt"].as_str().unwrap());
        assert_eq!(tokenizer.encode_chat(&prompt).unwrap(), expected);
    }
}
