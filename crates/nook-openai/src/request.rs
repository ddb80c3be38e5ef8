//! The body of `POST /v1/chat/completions`, as sent and as understood.
//!
//! Unknown fields are ignored, as clients expect. A known field that would change the reply and is
//! not supported is refused by name: never silently dropped.

use nook_base::Sensitive;
use nook_node::views::{ChatRole, HouseView};
use nook_node::{ChatMessage, GenerateRequest, Prompt, Reach, Sampling};
use serde::Deserialize;
use serde_json::Value;

use crate::content::Content;
use crate::error::ApiError;

/// Most messages in a conversation.
const MESSAGES_MAX: usize = 4096;

/// Name that stands for whatever model is here.
const DEFAULT_MODEL: &str = "default";

/// The body as sent.
#[derive(Deserialize)]
pub(crate) struct Body {
    #[serde(default)]
    model: String,
    messages: Vec<SentMessage>,
    #[serde(default)]
    stream: bool,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<u32>,
    min_p: Option<f32>,
    repetition_penalty: Option<f32>,
    // OpenAI's seeds are signed; only equality matters.
    seed: Option<i64>,
    stop: Option<Stop>,
    n: Option<u64>,
    logprobs: Option<bool>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    logit_bias: Option<serde_json::Map<String, Value>>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    response_format: Option<ResponseFormat>,
}

#[derive(Deserialize)]
struct SentMessage {
    role: String,
    content: Option<Content>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Deserialize)]
struct ResponseFormat {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Stop {
    One(String),
    Several(Vec<String>),
}

/// The body as understood.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) request: GenerateRequest,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
}

impl Body {
    /// Checks everything and turns it into a request to the house.
    pub(crate) fn understand(self, house: &HouseView) -> Result<Wish, ApiError> {
        self.refuse_unsupported()?;
        let tokens_max = self.max_completion_tokens.or(self.max_tokens);
        if tokens_max == Some(0) {
            return Err(ApiError::bad("max_tokens", "max_tokens must be at least 1."));
        }
        let stop = match self.stop {
            None => Vec::new(),
            Some(Stop::One(text)) => vec![text],
            Some(Stop::Several(texts)) => texts,
        };
        let request = GenerateRequest {
            model: model_name(self.model, house)?,
            prompt: Prompt::Chat(messages(self.messages)?),
            tokens_max,
            sampling: Sampling {
                temperature: self.temperature,
                top_k: self.top_k,
                top_p: self.top_p,
                min_p: self.min_p,
                repetition_penalty: self.repetition_penalty,
                seed: self.seed.map(i64::cast_unsigned),
            },
            stop,
            activation_dtype: None,
            reach: Reach::House,
        };
        let include_usage = self.stream_options.is_some_and(|options| options.include_usage);
        Ok(Wish { request, stream: self.stream, include_usage })
    }

    fn refuse_unsupported(&self) -> Result<(), ApiError> {
        let nonzero = |value: Option<f64>| value.is_some_and(|value| value != 0.0);
        let no_tools = self.tool_choice.as_ref().and_then(Value::as_str) == Some("none");
        let format = self.response_format.as_ref().map(|format| format.kind.as_str());
        let refused: [(bool, &'static str, &str); 7] = [
            (self.n.is_some_and(|n| n != 1), "n", "Only n = 1 is supported."),
            (self.logprobs == Some(true), "logprobs", "logprobs are not supported yet."),
            (
                nonzero(self.frequency_penalty),
                "frequency_penalty",
                "frequency_penalty is not supported yet; repetition_penalty is.",
            ),
            (
                nonzero(self.presence_penalty),
                "presence_penalty",
                "presence_penalty is not supported yet; repetition_penalty is.",
            ),
            (
                self.logit_bias.as_ref().is_some_and(|bias| !bias.is_empty()),
                "logit_bias",
                "logit_bias is not supported yet.",
            ),
            (
                self.tools.as_ref().is_some_and(|tools| !tools.is_empty()) && !no_tools,
                "tools",
                "Tools are not supported yet.",
            ),
            (
                !matches!(format, None | Some("text")),
                "response_format",
                "Only the response format text is supported yet.",
            ),
        ];
        match refused.into_iter().find(|(wrong, ..)| *wrong) {
            Some((_, param, message)) => Err(ApiError::bad(param, message)),
            None => Ok(()),
        }
    }
}

/// An empty or default name stands for the model that a person would get: the newest that was
/// added, else the built-in one.
fn model_name(sent: String, house: &HouseView) -> Result<String, ApiError> {
    if !sent.is_empty() && sent != DEFAULT_MODEL {
        return Ok(sent);
    }
    let newest = house.models.iter().max_by_key(|model| (!model.built_in, model.added));
    newest.map(|model| model.name.clone()).ok_or_else(|| {
        ApiError::new(axum::http::StatusCode::NOT_FOUND, "There is no model here yet.")
    })
}

fn messages(sent: Vec<SentMessage>) -> Result<Vec<ChatMessage>, ApiError> {
    if sent.is_empty() {
        return Err(ApiError::bad("messages", "A conversation needs at least one message."));
    }
    if sent.len() > MESSAGES_MAX {
        return Err(ApiError::bad("messages", format!("At most {MESSAGES_MAX} messages.")));
    }
    sent.into_iter()
        .map(|message| {
            let role = match message.role.as_str() {
                "system" | "developer" => ChatRole::System,
                "user" => ChatRole::User,
                "assistant" => ChatRole::Assistant,
                other => {
                    return Err(ApiError::bad(
                        "messages",
                        format!("The role {other:?} is not supported."),
                    ));
                }
            };
            let text = message.content.map_or(Ok(String::new()), Content::text)?;
            Ok(ChatMessage { role, text: Sensitive(text) })
        })
        .collect()
}
