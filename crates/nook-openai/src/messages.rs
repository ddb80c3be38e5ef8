//! The messages of a chat completion, as sent and as a conversation.

use nook_base::Sensitive;
use nook_text::{PastCall, Role, Turn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::content::Content;
use crate::error::ApiError;

/// Most messages in a conversation.
pub(crate) const MESSAGES_MAX: usize = 4096;

/// One message.
#[derive(Clone, Deserialize, JsonSchema)]
pub(crate) struct SentMessage {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    role: String,
    content: Option<Content>,
    /// Calls that the assistant made.
    tool_calls: Option<Vec<SentCall>>,
    /// The call whose result a message of the role `tool` brings.
    tool_call_id: Option<String>,
}

/// A call that the assistant made.
#[derive(Clone, Deserialize, JsonSchema)]
struct SentCall {
    id: String,
    function: SentCalled,
}

/// What it called.
#[derive(Clone, Deserialize, JsonSchema)]
struct SentCalled {
    name: String,
    arguments: SentArguments,
}

/// JSON as the model wrote it, or what it says.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a string of JSON, or an object")]
pub(crate) enum SentArguments {
    Text(String),
    Object(Map<String, Value>),
}

impl SentArguments {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Object(object) => Value::Object(object).to_string(),
        }
    }
}

/// The conversation that the messages are.
pub(crate) fn turns(sent: Vec<SentMessage>) -> Result<Vec<Turn>, ApiError> {
    if sent.is_empty() {
        return Err(ApiError::bad("messages", "A conversation needs at least one message."));
    }
    if sent.len() > MESSAGES_MAX {
        return Err(ApiError::bad("messages", format!("At most {MESSAGES_MAX} messages.")));
    }
    sent.into_iter().map(turn).collect()
}

fn turn(message: SentMessage) -> Result<Turn, ApiError> {
    let role = role(&message.role).ok_or_else(|| {
        ApiError::bad("messages", format!("The role {:?} is not supported.", message.role))
    })?;
    let text = message.content.map_or(Ok(String::new()), |content| content.text("messages"))?;
    let is_result = role.as_str() == "tool";
    if is_result && message.tool_call_id.is_none() {
        let sentence = "A message of the role tool needs the tool_call_id that it answers.";
        return Err(ApiError::bad("messages", sentence));
    }
    let calls = message.tool_calls.unwrap_or_default().into_iter().map(|call| PastCall {
        id: call.id,
        name: call.function.name,
        arguments: Sensitive(call.function.arguments.text()),
    });
    Ok(Turn {
        calls: if role.as_str() == "assistant" { calls.collect() } else { Vec::new() },
        answers: message.tool_call_id.filter(|_| is_result),
        role,
        text: Sensitive(text),
    })
}

/// A role by the names that clients use.
pub(crate) fn role(name: &str) -> Option<Role> {
    match name {
        "system" | "developer" => Some(Role::system()),
        "user" => Some(Role::user()),
        "assistant" => Some(Role::assistant()),
        "tool" => Some(Role::tool()),
        _ => None,
    }
}
