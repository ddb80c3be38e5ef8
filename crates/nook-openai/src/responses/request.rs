//! The body of `POST /v1/responses`, as sent and as understood.

use nook_api::views::HouseholdView;
use nook_api::{Dialog, GenerateRequest, Prompt, Reach, Thinking};
use nook_base::Sensitive;
use nook_text::{PastCall, ReplyShape, Role, Tool, ToolChoice, Turn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::kept::{KeptAnswers, add_item};
use super::offered::{Namespaces, SentOffer, offered};
use super::shape::{OutputItem, ResponseObject, TextSettings};
use crate::content::Content;
use crate::error::ApiError;
use crate::format::{self, SentFormat};
use crate::messages::{MESSAGES_MAX, SentArguments, role};
use crate::sampling::{SentSampling, model_name, refuse, tokens_max};
use crate::tools::{self, SentChoice};

/// A request for a response. Fields that are not listed are ignored.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ResponseRequest")]
pub(crate) struct Body {
    /// See chat completions.
    model: Option<String>,
    input: SentInput,
    /// Stands before the input as a system message.
    instructions: Option<String>,
    /// Send the response while it is made.
    stream: Option<bool>,
    /// Most tokens of the reply; absent or -1: as many as fit.
    max_output_tokens: Option<i64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    /// Functions, alone or in namespaces; others are left out.
    tools: Option<Vec<SentOffer>>,
    tool_choice: Option<SentChoice>,
    /// Whether one reply may make several calls; absent: yes.
    parallel_tool_calls: Option<bool>,
    text: Option<SentText>,
    reasoning: Option<SentReasoning>,
    /// The answer from which this one goes on; the last ones of each key are kept in memory.
    previous_response_id: Option<String>,
    /// Whether this answer may be named later; absent: yes.
    store: Option<bool>,
    /// Not supported: conversations are not kept.
    conversation: Option<Value>,
    /// May only be false.
    background: Option<bool>,
    /// Not supported: prompts are not kept here.
    prompt: Option<Value>,
    /// Not supported: chat completions tell how likely tokens were.
    top_logprobs: Option<u64>,
    /// Handed back as it is.
    metadata: Option<Map<String, Value>>,
}

/// What was said.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a string or an array of items")]
enum SentInput {
    Text(String),
    Items(Vec<SentItem>),
}

/// One item: a message, a call, or its result.
#[derive(Deserialize, JsonSchema)]
struct SentItem {
    /// `message` (also where absent), `function_call`, `function_call_output`, `reasoning` or
    /// `item_reference`.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Of an `item_reference`: the item of an answer that is kept.
    id: Option<String>,
    role: Option<String>,
    content: Option<Content>,
    call_id: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    arguments: Option<SentArguments>,
    output: Option<Content>,
}

/// Settings of the text.
#[derive(Deserialize, JsonSchema)]
struct SentText {
    format: Option<SentFormat>,
}

/// Settings of thinking.
#[derive(Deserialize, JsonSchema)]
struct SentReasoning {
    /// Handed to templates that know it; `none` asks for no thinking.
    effort: Option<String>,
}

/// The body as understood.
pub(super) struct Understood {
    pub(super) request: GenerateRequest,
    pub(super) stream: bool,
    /// The answer before anything was said.
    pub(super) object: ResponseObject,
    pub(super) spaces: Namespaces,
    /// What was said before it, without instructions.
    pub(super) turns: Vec<Turn>,
}

/// What a request may name of earlier ones.
pub(super) struct Earlier<'a> {
    pub(super) kept: &'a KeptAnswers,
    /// Whose.
    pub(super) key: Option<&'a str>,
}

impl Body {
    /// Checks everything and turns it into a request to the house.
    pub(super) fn understand(
        self,
        house: &HouseholdView,
        earlier: &Earlier<'_>,
    ) -> Result<Understood, ApiError> {
        self.refuse_unsupported()?;
        let (tools, spaces) = offered(self.tools)?;
        let (choice, tools) = tools::choice(self.tool_choice, tools)?;
        let format = self.text.and_then(|text| text.format);
        let name = format.as_ref().and_then(|format| format.name().map(str::to_owned));
        let shape = format::shape("text", format)?;
        let parallel = self.parallel_tool_calls.unwrap_or(true);
        let object = ResponseObject {
            id: String::new(),
            object: "response",
            created_at: 0,
            status: "in_progress",
            error: None,
            incomplete_details: None,
            instructions: self.instructions.clone(),
            max_output_tokens: self.max_output_tokens,
            model: String::new(),
            output: Vec::new(),
            parallel_tool_calls: parallel,
            previous_response_id: self.previous_response_id.clone(),
            store: self.store.unwrap_or(true),
            temperature: self.temperature,
            text: TextSettings { format: format_as_told(shape.as_ref(), name) },
            tool_choice: choice_as_told(&choice),
            tools: tools.iter().map(tool_as_told).collect(),
            top_p: self.top_p,
            truncation: "disabled",
            usage: None,
            metadata: self.metadata.unwrap_or_default(),
        };
        let effort = self.reasoning.and_then(|reasoning| reasoning.effort);
        let thinking = Thinking::of_effort(effort);
        let mut turns = match &self.previous_response_id {
            Some(id) => earlier.conversation(id)?,
            None => Vec::new(),
        };
        add_input(&mut turns, self.input, earlier, &spaces)?;
        let system = self.instructions.map(|text| Turn::new(Role::system(), text));
        let all = system.into_iter().chain(turns.iter().cloned()).collect();
        let dialog = Dialog { turns: all, tools, choice, parallel };
        let sampling = SentSampling {
            temperature: self.temperature,
            top_p: self.top_p,
            shape,
            ..SentSampling::default()
        };
        let request = GenerateRequest {
            model: model_name(self.model, house)?,
            prompt: Prompt::Dialog(Box::new(dialog)),
            tokens_max: tokens_max("max_output_tokens", self.max_output_tokens)?,
            sampling: sampling.sampling()?,
            stop: Vec::new(),
            thinking,
            activation_dtype: None,
            reach: Reach::House,
        };
        Ok(Understood { request, stream: self.stream.unwrap_or(false), object, spaces, turns })
    }

    fn refuse_unsupported(&self) -> Result<(), ApiError> {
        refuse(&[
            (
                self.conversation.is_some(),
                "conversation",
                "is not supported; previous_response_id is, or send the whole conversation.",
            ),
            (self.background == Some(true), "background", "may only be false."),
            (self.prompt.is_some(), "prompt", "is not supported; write it into the input."),
            (
                self.top_logprobs.is_some_and(|top| top > 0),
                "top_logprobs",
                "is not supported here; chat completions tell how likely tokens were.",
            ),
        ])
    }
}

impl Earlier<'_> {
    fn conversation(&self, id: &str) -> Result<Vec<Turn>, ApiError> {
        self.kept.conversation(self.key, id).ok_or_else(|| {
            let message = format!(
                "Previous response with id '{id}' not found: only the last ones are kept. Send the \
                 whole conversation."
            );
            ApiError::bad("previous_response_id", message).coded("previous_response_not_found")
        })
    }

    fn item(&self, id: &str) -> Result<OutputItem, ApiError> {
        self.kept.item(self.key, id).ok_or_else(|| {
            let message = format!(
                "Item with id '{id}' not found: only items of the last answers are kept. Send the \
                 item itself."
            );
            ApiError::bad("input", message)
        })
    }
}

fn add_input(
    turns: &mut Vec<Turn>,
    input: SentInput,
    earlier: &Earlier<'_>,
    spaces: &Namespaces,
) -> Result<(), ApiError> {
    let items = match input {
        SentInput::Text(text) => {
            turns.push(Turn::new(Role::user(), text));
            return Ok(());
        }
        SentInput::Items(items) => items,
    };
    if items.is_empty() || items.len() > MESSAGES_MAX {
        let message = format!("The input must have 1 to {MESSAGES_MAX} items.");
        return Err(ApiError::bad("input", message));
    }
    let from = turns.len();
    for item in items {
        match (item.kind.as_deref(), &item.id) {
            (Some("item_reference"), Some(id)) => add_item(turns, &earlier.item(id)?, from),
            _ => add(turns, item, spaces)?,
        }
    }
    Ok(())
}

fn add(turns: &mut Vec<Turn>, item: SentItem, spaces: &Namespaces) -> Result<(), ApiError> {
    let lacks = |what: &str| ApiError::bad("input", format!("An item of the input lacks {what}."));
    match item.kind.as_deref().unwrap_or("message") {
        "message" => {
            let name = item.role.ok_or_else(|| lacks("its role"))?;
            let known = role(&name).filter(|role| role.as_str() != "tool");
            let role = known.ok_or_else(|| {
                ApiError::bad("input", format!("The role {name:?} is not supported."))
            })?;
            let content = item.content.ok_or_else(|| lacks("its content"))?;
            turns.push(Turn::new(role, content.text("input")?));
        }
        "function_call" => {
            let call = PastCall {
                id: item.call_id.ok_or_else(|| lacks("its call_id"))?,
                name: spaces.offered(
                    item.namespace.as_deref(),
                    item.name.ok_or_else(|| lacks("its name"))?,
                ),
                arguments: Sensitive(item.arguments.map(SentArguments::text).unwrap_or_default()),
            };
            // Calls of one reply come as items of their own.
            match turns.last_mut() {
                Some(last) if last.role == Role::assistant() => last.calls.push(call),
                _ => {
                    let said = Turn::new(Role::assistant(), "");
                    turns.push(Turn { calls: vec![call], ..said });
                }
            }
        }
        "function_call_output" => {
            let output = item.output.ok_or_else(|| lacks("its output"))?.text("input")?;
            let answers = Some(item.call_id.ok_or_else(|| lacks("its call_id"))?);
            turns.push(Turn { answers, ..Turn::new(Role::tool(), output) });
        }
        // Templates leave out what was thought in earlier turns.
        "reasoning" => {}
        other => {
            let message = format!("An item of type {other:?} is not supported.");
            return Err(ApiError::bad("input", message));
        }
    }
    Ok(())
}

fn tool_as_told(tool: &Tool) -> Value {
    json!({
        "type": "function",
        "name": tool.name(),
        "description": tool.description(),
        "parameters": tool.parameters(),
        "strict": null,
    })
}

fn choice_as_told(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Named(name) => json!({"type": "function", "name": name}),
    }
}

fn format_as_told(shape: Option<&ReplyShape>, name: Option<String>) -> Value {
    match shape {
        None | Some(ReplyShape::Grammar(_)) => json!({"type": "text"}),
        Some(ReplyShape::JsonObject) => json!({"type": "json_object"}),
        Some(ReplyShape::JsonSchema(schema)) => json!({
            "type": "json_schema",
            "name": name.unwrap_or_else(|| "reply".to_owned()),
            "schema": schema.0,
            "strict": true,
        }),
    }
}
