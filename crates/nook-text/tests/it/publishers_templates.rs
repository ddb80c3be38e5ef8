//! Promise: a chat becomes the prompt that the publisher's template gives in Hugging Face's own
//! environment, or is refused where that refuses.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};

use crate::fixtures::{read_json, read_vocabulary};
use crate::places::{fixture, large_fixture};
use nook_base::Vocabulary;
use nook_text::{
    ChatMessage, ChatTemplate, EncodeOptions, Moment, RenderOptions, Role, TemplateError, Tokenizer,
};
use serde_json::{Map, Value, json};

/// 2025-01-02 03:04:05, as the reference has it.
const NOW: Moment = Moment { unix_seconds: 1_735_787_045, utc_offset_seconds: 0 };

fn template(source: String) -> Result<ChatTemplate, TemplateError> {
    let vocabulary = Vocabulary {
        tokens: vec!["<s>".to_owned(), "</s>".to_owned(), "<|im_end|>".to_owned()],
        bos: Some(0),
        eos: Some(1),
        chat_template: Some(source),
        ..Vocabulary::default()
    };
    ChatTemplate::for_vocabulary(&vocabulary)
}

/// A folder of templates with what the reference makes of them.
struct Templates {
    folder: PathBuf,
    rendered: Value,
}

impl Templates {
    /// Those written for the tests, which hold what publishers' templates do.
    fn own() -> Self {
        Self::below(fixture("templates"))
    }

    /// The publishers'.
    fn published(test: &str) -> Option<Self> {
        large_fixture(test, "fixtures/templates").map(Self::below)
    }

    fn below(folder: PathBuf) -> Self {
        let rendered = read_json(&folder.join("rendered.json"));
        Self { folder, rendered }
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.rendered["templates"].as_object().unwrap().keys()
    }

    fn source(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(name)).unwrap()
    }

    /// Renders all chats with all templates, which must be `count` texts or refusals, each as in
    /// the reference.
    fn check(&self, count: usize) {
        let (mut right, mut wrong) = (0, Vec::new());
        for (name, outcomes) in self.rendered["templates"].as_object().unwrap() {
            let template = match template(self.source(name)) {
                Ok(template) => template,
                Err(error) => {
                    wrong.push(format!("{name}: {error}"));
                    continue;
                }
            };
            for (case, outcome) in outcomes.as_object().unwrap() {
                let chat = &self.rendered["cases"][case];
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
                let looked_at = template.preview(messages, &options, &variables);
                let ours = template.render_values(messages, &options, &variables);
                let expected = outcome["output"].as_str();
                let equal =
                    looked_at.as_ref().map(|preview| preview.text.as_str()).ok() == expected;
                // Three templates leave out what the user said in parts: that is no prompt for us.
                let kept = match &looked_at {
                    Ok(preview) if preview.user_text_lost => {
                        case == "content_parts" && ours == Err(TemplateError::UserTextLost)
                    }
                    _ => ours.as_ref().map(|prompt| prompt.text()).ok() == expected,
                };
                if equal && kept {
                    right += 1;
                } else {
                    let ours = looked_at.as_ref().map(|preview| preview.text.as_str());
                    wrong.push(format!(
                        "{name} {case}:\n--- ours\n{ours:?}\n--- reference\n{outcome}"
                    ));
                }
            }
        }
        assert_eq!(right + wrong.len(), count);
        assert!(wrong.is_empty(), "{right} right, {} wrong:\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn every_template_of_the_fixtures_renders_every_chat_as_the_reference() {
    Templates::own().check(4 * 11);
    let test = "every_template_of_the_fixtures_renders_every_chat_as_the_reference";
    if let Some(published) = Templates::published(test) {
        published.check(52 * 11);
    }
}

/// The limits of a rendering are far above what chats need.
#[test]
fn a_chat_of_a_thousand_messages_fits_every_template() {
    let test = "a_chat_of_a_thousand_messages_fits_every_template";
    let own = Templates::own();
    let tools = own.rendered["cases"]["tools"]["tools"].clone();
    let text = "Some words that somebody may say in a long chat about one thing or another. ";
    let message = |index: usize| {
        let role = if index.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": format!("{index} {}", text.repeat(2))})
    };
    let messages: Vec<Value> = (0..1001).map(message).collect();
    let options = RenderOptions { add_generation_prompt: true, now: Some(NOW), tools: Some(tools) };
    let mut refused = Vec::new();
    for templates in [Some(own), Templates::published(test)].into_iter().flatten() {
        for name in templates.names() {
            // Some refuse, because they want other tools, or none.
            if let Err(
                error @ (TemplateError::OutOfFuel
                | TemplateError::MakesTooMuch
                | TemplateError::PromptTooLong),
            ) =
                template(templates.source(name)).unwrap().preview(&messages, &options, &Map::new())
            {
                refused.push(format!("{name}: {error}"));
            }
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn embers_chats_render_and_encode_as_the_reference() {
    let reference = read_json(&fixture("ember/ember-greedy.json"));
    let ember = concat!(env!("CARGO_MANIFEST_DIR"), "/../nook-store/ember/ember-q8_0.gguf");
    let vocabulary = read_vocabulary(Path::new(ember));
    let template = ChatTemplate::for_vocabulary(&vocabulary).unwrap();
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
