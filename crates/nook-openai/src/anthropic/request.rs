//! The body of `POST /v1/messages`, as sent and as understood.

use nook_api::views::{ChatRole, HouseholdView};
use nook_api::{ChatMessage, Dialog, GenerateRequest, Prompt, Reach, Thinking};
use nook_base::Sensitive;
use nook_text::{ReplyShape, Role, Tool, ToolChoice, Turn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::content::{SentMessage, SentText, turns};
use crate::error::ApiError;
use crate::sampling::{SentSampling, Stop, model_name, stops, tokens_max};
use crate::tools::{checked_choice, distinct};

/// A request for a message. Fields that are not listed are ignored.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "MessagesRequest")]
pub(crate) struct Body {
    /// See chat completions.
    model: Option<String>,
    messages: Vec<SentMessage>,
    /// What the model is told before the first message.
    system: Option<SentText>,
    /// Send the message while it is made.
    stream: Option<bool>,
    /// Most tokens of the message; absent: as many as fit.
    max_tokens: Option<i64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    /// Only so many of the likeliest tokens; 0 or -1: all.
    top_k: Option<i64>,
    /// Strings that end the message and are not part of it.
    stop_sequences: Option<Vec<String>>,
    tools: Option<Vec<SentTool>>,
    tool_choice: Option<SentChoice>,
    /// `disabled` asks for no thinking, `enabled` for some, `adaptive` leaves it to the model.
    thinking: Option<SentThinking>,
    output_config: Option<SentOutput>,
}

/// A tool on offer.
#[derive(Deserialize, JsonSchema)]
struct SentTool {
    /// Only `custom`, also where absent.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Letters, digits, `_` and `-`, at most 128.
    name: String,
    description: Option<String>,
    /// A JSON schema, an object.
    input_schema: Option<Value>,
}

/// Whether a tool is to be called.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "MessagesToolChoice")]
struct SentChoice {
    /// `auto`, `any`, `tool` or `none`.
    #[serde(rename = "type")]
    kind: String,
    /// Which, of `tool`.
    name: Option<String>,
    /// Whether at most one call is made.
    #[serde(default)]
    disable_parallel_tool_use: bool,
}

/// Settings of thinking.
#[derive(Deserialize, JsonSchema)]
struct SentThinking {
    #[serde(rename = "type")]
    kind: String,
}

/// Settings of the text.
#[derive(Deserialize, JsonSchema)]
struct SentOutput {
    /// Handed to templates that know it.
    effort: Option<String>,
    format: Option<SentFormat>,
}

/// The form of the text.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "MessagesFormat")]
struct SentFormat {
    /// Only `json_schema`.
    #[serde(rename = "type")]
    kind: String,
    /// An object.
    schema: Option<Value>,
}

/// The body as understood.
pub(super) struct Understood {
    pub(super) request: GenerateRequest,
    pub(super) stream: bool,
}

impl Body {
    /// Checks everything and turns it into a request to the house.
    pub(super) fn understand(self, house: &HouseholdView) -> Result<Understood, ApiError> {
        let tools = tools(self.tools)?;
        let parallel = self.tool_choice.as_ref().is_none_or(|it| !it.disable_parallel_tool_use);
        let choice = choice(self.tool_choice, &tools)?;
        let (effort, format) = self.output_config.map_or((None, None), |it| (it.effort, it.format));
        let thinking = thinking(self.thinking, effort)?;
        let sampling = SentSampling {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            shape: shape(format)?,
            ..SentSampling::default()
        };
        let turns = turns(self.system, self.messages)?;
        let dialog = Dialog { turns, tools, choice, parallel };
        let request = GenerateRequest {
            model: model_name(self.model, house)?,
            prompt: prompt(dialog)?,
            tokens_max: tokens_max("max_tokens", self.max_tokens)?,
            sampling: sampling.sampling()?,
            stop: stops("stop_sequences", self.stop_sequences.map(Stop::Several))?,
            thinking,
            activation_dtype: None,
            reach: Reach::House,
        };
        Ok(Understood { request, stream: self.stream.unwrap_or(false) })
    }
}

/// A model decides by itself only as far as its template lets it, so `adaptive` is what it does
/// unasked. How many tokens of thinking a client allows cannot be told to one.
fn thinking(sent: Option<SentThinking>, effort: Option<String>) -> Result<Thinking, ApiError> {
    let by_effort = Thinking::of_effort(effort);
    match (sent.as_ref().map(|sent| sent.kind.as_str()), by_effort) {
        (None | Some("adaptive"), by_effort) => Ok(by_effort),
        (Some("disabled"), _) => Ok(Thinking::Off),
        (Some("enabled"), Thinking::Effort(effort)) => Ok(Thinking::Effort(effort)),
        (Some("enabled"), _) => Ok(Thinking::On),
        (Some(kind), _) => {
            let message =
                format!("thinking is of type enabled, disabled or adaptive, not {kind:?}.");
            Err(ApiError::bad("thinking", message))
        }
    }
}

/// The conversation, whose last message may be the beginning of the reply.
fn prompt(mut dialog: Dialog) -> Result<Prompt, ApiError> {
    let begun = dialog.turns.last().is_some_and(|turn| turn.role == Role::assistant());
    if !begun {
        return Ok(Prompt::Dialog(Box::new(dialog)));
    }
    let has_calls =
        dialog.turns.iter().any(|turn| !turn.calls.is_empty() || turn.answers.is_some());
    if has_calls || !dialog.tools.is_empty() {
        let message = "A reply that has begun can go on only where no tools are used.";
        return Err(ApiError::bad("messages", message));
    }
    let reply = dialog.turns.pop().map(|turn| turn.text).unwrap_or_default();
    let messages = dialog.turns.into_iter().map(message).collect();
    Ok(Prompt::Begun { messages, thought: Sensitive(String::new()), reply })
}

fn message(turn: Turn) -> ChatMessage {
    let role = match turn.role {
        role if role == Role::system() => ChatRole::System,
        role if role == Role::assistant() => ChatRole::Assistant,
        _ => ChatRole::User,
    };
    ChatMessage { role, text: turn.text }
}

fn tools(sent: Option<Vec<SentTool>>) -> Result<Vec<Tool>, ApiError> {
    let one = |SentTool { kind, name, description, input_schema }: SentTool| {
        if let Some(kind) = kind.filter(|kind| kind != "custom") {
            let message =
                format!("The tool {name:?} is of type {kind:?}, which nobody here carries out.");
            return Err(ApiError::bad("tools", message));
        }
        Tool::new(name, description, input_schema)
            .map_err(|error| ApiError::bad("tools", format!("{error}.")))
    };
    distinct(sent.unwrap_or_default().into_iter().map(one).collect::<Result<_, _>>()?)
}

fn choice(sent: Option<SentChoice>, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    let Some(SentChoice { kind, name, .. }) = sent else { return Ok(ToolChoice::Auto) };
    let choice = match (kind.as_str(), name) {
        ("auto", _) => ToolChoice::Auto,
        ("none", _) => ToolChoice::None,
        ("any", _) => ToolChoice::Required,
        ("tool", Some(name)) => ToolChoice::Named(name),
        _ => {
            let message = "tool_choice is of type auto, any, none, or tool with a name.";
            return Err(ApiError::bad("tool_choice", message));
        }
    };
    checked_choice(choice, tools)
}

fn shape(sent: Option<SentFormat>) -> Result<Option<ReplyShape>, ApiError> {
    match sent {
        None => Ok(None),
        Some(SentFormat { kind, schema: Some(schema) })
            if kind == "json_schema" && schema.is_object() =>
        {
            Ok(Some(ReplyShape::JsonSchema(Sensitive(schema))))
        }
        Some(_) => {
            let message = "output_config.format is of type json_schema with a schema, an object.";
            Err(ApiError::bad("output_config", message))
        }
    }
}
