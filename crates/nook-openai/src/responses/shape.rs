//! A response as it leaves.

use nook_api::views::ReplySummary;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::ApiError;

/// `response`
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(rename = "Response")]
pub(crate) struct ResponseObject {
    pub(crate) id: String,
    pub(crate) object: &'static str,
    pub(crate) created_at: u64,
    /// `in_progress`, `completed`, `incomplete` or `failed`.
    pub(crate) status: &'static str,
    pub(crate) error: Option<ResponseError>,
    pub(crate) incomplete_details: Option<Incomplete>,
    pub(crate) instructions: Option<String>,
    pub(crate) max_output_tokens: Option<i64>,
    pub(crate) model: String,
    pub(crate) output: Vec<OutputItem>,
    pub(crate) parallel_tool_calls: bool,
    /// The answer from which this one goes on.
    pub(crate) previous_response_id: Option<String>,
    /// Whether a later request may name it, as long as it is among the last ones of its key.
    pub(crate) store: bool,
    pub(crate) temperature: Option<f64>,
    pub(crate) text: TextSettings,
    pub(crate) tool_choice: Value,
    pub(crate) tools: Vec<Value>,
    pub(crate) top_p: Option<f64>,
    pub(crate) truncation: &'static str,
    pub(crate) usage: Option<ResponseUsage>,
    pub(crate) metadata: Map<String, Value>,
}

impl ResponseObject {
    /// It came to nothing, or to no end. Clients branch on the code as on that of an answer: some
    /// make their conversation shorter when it was too long.
    pub(super) fn fail(&mut self, error: &ApiError) {
        let (code, message) = (error.code().unwrap_or("server_error"), error.message().to_owned());
        self.status = "failed";
        self.error = Some(ResponseError { code, message });
    }
}

/// The form that the reply has.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct TextSettings {
    pub(crate) format: Value,
}

/// Why a response failed.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct ResponseError {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

/// Why a response is not complete.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct Incomplete {
    pub(crate) reason: &'static str,
}

/// One thing that the model did.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum OutputItem {
    /// It thought aloud.
    Reasoning {
        id: String,
        /// Always empty: the thinking itself is told.
        summary: Vec<Value>,
        content: Vec<ReasoningText>,
        status: &'static str,
    },
    /// It said something.
    Message { id: String, status: &'static str, role: &'static str, content: Vec<OutputText> },
    /// It calls a tool.
    FunctionCall {
        id: String,
        call_id: String,
        name: String,
        /// Of a tool that was offered in one.
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        arguments: String,
        status: &'static str,
    },
}

/// Thinking.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct ReasoningText {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

/// Text.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct OutputText {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    pub(crate) annotations: Vec<Value>,
    pub(crate) logprobs: Vec<Value>,
}

/// Tokens that a response took.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct ResponseUsage {
    pub(crate) input_tokens: u32,
    pub(crate) input_tokens_details: InputDetails,
    pub(crate) output_tokens: u32,
    pub(crate) output_tokens_details: OutputDetails,
    pub(crate) total_tokens: u32,
}

/// Of the prompt.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct InputDetails {
    /// Tokens that were not computed again.
    pub(crate) cached_tokens: u32,
    /// Always 0: keeping them costs nothing.
    pub(crate) cache_write_tokens: u32,
}

/// Of the reply.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct OutputDetails {
    /// Not counted apart; always 0.
    pub(crate) reasoning_tokens: u32,
}

impl From<&ReplySummary> for ResponseUsage {
    fn from(summary: &ReplySummary) -> Self {
        let (input, output) = (summary.prompt_tokens, summary.completion_tokens);
        Self {
            input_tokens: input,
            input_tokens_details: InputDetails {
                cached_tokens: summary.resumed_tokens,
                cache_write_tokens: 0,
            },
            output_tokens: output,
            output_tokens_details: OutputDetails { reasoning_tokens: 0 },
            total_tokens: input.saturating_add(output),
        }
    }
}

impl OutputItem {
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Reasoning { id, .. } | Self::Message { id, .. } => id,
            Self::FunctionCall { id, .. } => id,
        }
    }

    pub(crate) fn set_status(&mut self, new: &'static str) {
        match self {
            Self::Reasoning { status, .. }
            | Self::Message { status, .. }
            | Self::FunctionCall { status, .. } => *status = new,
        }
    }
}
