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

/// Most stop strings, as everywhere.
const STOPS_MAX: usize = 4;

/// Name that stands for whatever model is here.
const DEFAULT_MODEL: &str = "default";

/// The body as sent.
#[derive(Deserialize)]
pub(crate) struct Body {
    model: Option<String>,
    messages: Vec<SentMessage>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<u32>,
    min_p: Option<f64>,
    repetition_penalty: Option<f64>,
    // OpenAI's seeds are signed; only equality matters.
    seed: Option<i64>,
    stop: Option<Stop>,
    n: Option<u64>,
    logprobs: Option<bool>,
    top_logprobs: Option<u64>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    logit_bias: Option<serde_json::Map<String, Value>>,
    tools: Option<Vec<Value>>,
    functions: Option<Vec<Value>>,
    modalities: Option<Vec<String>>,
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
#[serde(untagged, expecting = "expected a string, an array of strings or null")]
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
        let request = GenerateRequest {
            model: model_name(self.model.unwrap_or_default(), house)?,
            prompt: Prompt::Chat(messages(self.messages)?),
            // More than any window holds is as many as fit.
            tokens_max: tokens_max.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
            sampling: Sampling {
                temperature: narrow("temperature", self.temperature)?,
                top_k: self.top_k,
                top_p: narrow("top_p", self.top_p)?,
                min_p: narrow("min_p", self.min_p)?,
                repetition_penalty: narrow("repetition_penalty", self.repetition_penalty)?,
                seed: self.seed.map(i64::cast_unsigned),
            },
            stop: stops(self.stop)?,
            activation_dtype: None,
            reach: Reach::House,
        };
        let include_usage = self.stream_options.is_some_and(|options| options.include_usage);
        Ok(Wish { request, stream: self.stream.unwrap_or(false), include_usage })
    }

    fn refuse_unsupported(&self) -> Result<(), ApiError> {
        let nonzero = |value: Option<f64>| value.is_some_and(|value| value != 0.0);
        let any = |list: &Option<Vec<Value>>| list.as_ref().is_some_and(|list| !list.is_empty());
        let no_tools = self.tool_choice.as_ref().and_then(Value::as_str) == Some("none");
        let biased = self.logit_bias.as_ref().is_some_and(|bias| !bias.is_empty());
        let kinds = self.modalities.as_deref().unwrap_or_default();
        let format = self.response_format.as_ref().map(|format| format.kind.as_str());
        let later = "is not supported yet.";
        let penalty = "is not supported yet; repetition_penalty is.";
        let refused = [
            (self.n.is_some_and(|n| n != 1), "n", "may only be 1."),
            (self.logprobs == Some(true), "logprobs", later),
            (self.top_logprobs.is_some_and(|top| top > 0), "top_logprobs", later),
            (nonzero(self.frequency_penalty), "frequency_penalty", penalty),
            (nonzero(self.presence_penalty), "presence_penalty", penalty),
            (biased, "logit_bias", later),
            (any(&self.tools) && !no_tools, "tools", later),
            (any(&self.functions), "functions", later),
            (kinds.iter().any(|kind| kind != "text"), "modalities", "may only hold text."),
            (!matches!(format, None | Some("text")), "response_format", "may only be text yet."),
        ];
        match refused.into_iter().find(|(wrong, ..)| *wrong) {
            Some((_, param, why)) => Err(ApiError::bad(param, format!("{param} {why}"))),
            None => Ok(()),
        }
    }
}

/// The house computes with 32 bits; what does not fit is refused here, the range by the house.
fn narrow(param: &'static str, sent: Option<f64>) -> Result<Option<f32>, ApiError> {
    let Some(sent) = sent else { return Ok(None) };
    #[expect(clippy::cast_possible_truncation, reason = "what became infinite is refused below")]
    let narrowed = sent as f32;
    if narrowed.is_finite() {
        return Ok(Some(narrowed));
    }
    Err(ApiError::bad(param, format!("{param} must be an ordinary number, not {sent:e}.")))
}

fn stops(sent: Option<Stop>) -> Result<Vec<String>, ApiError> {
    let stops = match sent {
        None => Vec::new(),
        Some(Stop::One(text)) => vec![text],
        Some(Stop::Several(texts)) => texts,
    };
    if stops.len() > STOPS_MAX {
        return Err(ApiError::bad("stop", format!("At most {STOPS_MAX} stop strings.")));
    }
    if stops.iter().any(String::is_empty) {
        return Err(ApiError::bad("stop", "A stop string may not be empty."));
    }
    Ok(stops)
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
