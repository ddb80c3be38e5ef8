//! The messages of a request in Anthropic's form, as a conversation.
//!
//! One message may hold several things: what was said, calls, results of calls. Results and what
//! the person says beside them become turns of their own.

use nook_base::Sensitive;
use nook_text::{PastCall, Role, Turn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::error::ApiError;
use crate::messages::MESSAGES_MAX;

/// One message.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "MessagesMessage")]
pub(crate) struct SentMessage {
    /// `user`, `assistant` or `system`.
    role: String,
    content: SentText,
}

/// Text, or blocks.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a string or an array of blocks")]
pub(crate) enum SentText {
    Text(String),
    Blocks(Vec<SentBlock>),
}

/// One block of a message.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SentBlock {
    /// `text`, `tool_use`, `tool_result`, `thinking` or `redacted_thinking`.
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    /// Of a call.
    id: Option<String>,
    name: Option<String>,
    input: Option<Value>,
    /// The call that a result answers.
    tool_use_id: Option<String>,
    /// What came of it.
    content: Option<Box<SentText>>,
    is_error: Option<bool>,
}

/// The conversation that the messages are.
pub(super) fn turns(
    system: Option<SentText>,
    sent: Vec<SentMessage>,
) -> Result<Vec<Turn>, ApiError> {
    if sent.is_empty() || sent.len() > MESSAGES_MAX {
        let message = format!("There must be 1 to {MESSAGES_MAX} messages.");
        return Err(ApiError::bad("messages", message));
    }
    let mut turns = Vec::with_capacity(sent.len() + 1);
    if let Some(system) = system {
        let text = system.text("system")?;
        if !text.is_empty() {
            turns.push(Turn::new(Role::system(), text));
        }
    }
    for SentMessage { role, content } in sent {
        match role.as_str() {
            "user" => add_users(&mut turns, content)?,
            "assistant" => turns.push(assistants(content)?),
            "system" => turns.push(Turn::new(Role::system(), content.text("messages")?)),
            other => {
                let message = format!("The role {other:?} is not supported.");
                return Err(ApiError::bad("messages", message));
            }
        }
    }
    Ok(turns)
}

/// What the person said, behind the results that came with it.
fn add_users(turns: &mut Vec<Turn>, content: SentText) -> Result<(), ApiError> {
    let blocks = match content {
        SentText::Text(text) => {
            turns.push(Turn::new(Role::user(), text));
            return Ok(());
        }
        SentText::Blocks(blocks) => blocks,
    };
    let (mut said, mut has_results) = (Vec::new(), false);
    for block in blocks {
        match (block.kind.as_str(), block.tool_use_id, block.text) {
            ("text", _, Some(text)) => said.push(text),
            ("tool_result", Some(call), _) => {
                has_results = true;
                let text = block.content.map_or(Ok(String::new()), |it| it.text("messages"))?;
                let failed = block.is_error == Some(true) && !text.starts_with("Error");
                let text = if failed { format!("Error: {text}") } else { text };
                turns.push(Turn { answers: Some(call), ..Turn::new(Role::tool(), text) });
            }
            ("tool_result", None, _) => return Err(lacks("tool_result", "tool_use_id")),
            (kind, ..) => return Err(not_text("messages", kind)),
        }
    }
    if !said.is_empty() || !has_results {
        turns.push(Turn::new(Role::user(), said.join("\n")));
    }
    Ok(())
}

/// What the assistant said and called. Templates leave out what was thought in earlier turns.
fn assistants(content: SentText) -> Result<Turn, ApiError> {
    let blocks = match content {
        SentText::Text(text) => return Ok(Turn::new(Role::assistant(), text)),
        SentText::Blocks(blocks) => blocks,
    };
    let (mut text, mut calls) = (String::new(), Vec::new());
    for block in blocks {
        match (block.kind.as_str(), block.text) {
            ("text", Some(more)) => text.push_str(&more),
            ("tool_use", _) => calls.push(PastCall {
                id: block.id.ok_or_else(|| lacks("tool_use", "id"))?,
                name: block.name.ok_or_else(|| lacks("tool_use", "name"))?,
                arguments: Sensitive(
                    block.input.map_or_else(|| "{}".to_owned(), |it| it.to_string()),
                ),
            }),
            ("thinking" | "redacted_thinking", _) => {}
            (kind, _) => return Err(not_text("messages", kind)),
        }
    }
    Ok(Turn { calls, ..Turn::new(Role::assistant(), text) })
}

impl SentText {
    /// The text; blocks that are not text are refused by name, never dropped.
    fn text(self, param: &str) -> Result<String, ApiError> {
        let blocks = match self {
            Self::Text(text) => return Ok(text),
            Self::Blocks(blocks) => blocks,
        };
        let mut pieces = Vec::with_capacity(blocks.len());
        for block in blocks {
            match (block.kind.as_str(), block.text) {
                ("text", Some(text)) => pieces.push(text),
                (kind, _) => return Err(not_text(param, kind)),
            }
        }
        Ok(pieces.join("\n"))
    }
}

fn lacks(kind: &str, field: &str) -> ApiError {
    ApiError::bad("messages", format!("A block of type {kind} lacks its {field}."))
}

fn not_text(param: &str, kind: &str) -> ApiError {
    ApiError::bad(param, format!("This model reads text only; a block is of type {kind:?}."))
}
