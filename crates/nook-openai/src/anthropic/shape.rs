//! A message as it leaves, in Anthropic's form.

use nook_api::views::ReplySummary;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// `message`
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MessagesAnswer")]
pub(crate) struct MessageObject {
    pub(crate) id: String,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) role: &'static str,
    pub(crate) model: String,
    pub(crate) content: Vec<Block>,
    /// `end_turn`, `max_tokens`, `stop_sequence` or `tool_use`; null at the beginning of a stream.
    pub(crate) stop_reason: Option<&'static str>,
    /// The one that ended it.
    pub(crate) stop_sequence: Option<String>,
    pub(crate) usage: MessageUsage,
}

/// One thing that the model did.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "MessagesBlock")]
pub(crate) enum Block {
    /// It thought aloud.
    Thinking {
        thinking: String,
        /// Always empty: nobody signs what a model of this house thinks.
        signature: &'static str,
    },
    /// It said something.
    Text { text: String },
    /// It calls a tool.
    ToolUse { id: String, name: String, input: Value },
}

/// Tokens that a message took.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct MessageUsage {
    /// Of the prompt, without those that were not computed again.
    pub(crate) input_tokens: u32,
    /// Always 0.
    pub(crate) cache_creation_input_tokens: u32,
    /// Of the prompt, those that were still in memory.
    pub(crate) cache_read_input_tokens: u32,
    pub(crate) output_tokens: u32,
}

/// How long a prompt is.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Counted {
    pub(crate) input_tokens: u64,
}

impl MessageUsage {
    /// At the beginning, when only the prompt is known.
    pub(crate) fn of_prompt(tokens: u32) -> Self {
        Self {
            input_tokens: tokens,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: 0,
            output_tokens: 0,
        }
    }
}

impl From<&ReplySummary> for MessageUsage {
    fn from(summary: &ReplySummary) -> Self {
        let read = summary.resumed_tokens.min(summary.prompt_tokens);
        Self {
            cache_read_input_tokens: read,
            output_tokens: summary.completion_tokens,
            ..Self::of_prompt(summary.prompt_tokens - read)
        }
    }
}
