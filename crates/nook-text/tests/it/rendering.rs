//! Renders templates that tests make up, for chats that they make up.

use nook_base::Vocabulary;
use nook_text::{ChatMessage, ChatTemplate, Moment, RenderOptions, Role, TemplateError};

/// The template of this source.
pub(crate) fn template(source: &str) -> Result<ChatTemplate, TemplateError> {
    let vocabulary = Vocabulary {
        tokens: vec!["<s>".to_owned(), "</s>".to_owned()],
        bos: Some(0),
        eos: Some(1),
        chat_template: Some(source.to_owned()),
        ..Vocabulary::default()
    };
    ChatTemplate::for_vocabulary(&vocabulary)
}

/// What it makes of `chat`, pairs of role and text.
pub(crate) fn render(source: &str, chat: &[(&str, &str)]) -> Result<String, TemplateError> {
    let messages: Vec<ChatMessage> = chat
        .iter()
        .map(|(role, text)| ChatMessage::new(Role::new(*role).unwrap(), *text))
        .collect();
    let now = Some(Moment { unix_seconds: 1_735_787_045, utc_offset_seconds: 3600 });
    let options = RenderOptions { add_generation_prompt: true, now, tools: None };
    template(source)?.render(&messages, options).map(|prompt| prompt.text().to_owned())
}

/// What the last message says, so that the template leaves nobody out.
pub(crate) const SAY: &str = "{{ messages[-1].content }}";
