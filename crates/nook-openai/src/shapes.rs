//! Answers as they leave: OpenAI's objects, field by field, in their order.
//!
//! The OpenAPI document is made from these types, so what it says is what is sent.

use nook_api::views::{FinishReason, ReplySummary};
use nook_api::{LikelyToken, PieceLogprobs};
use schemars::JsonSchema;
use serde::Serialize;

use crate::happened::{Computed, Happened};

/// What stands for a logarithm that JSON cannot hold, as OpenAI writes it.
const LEAST_LOGARITHM: f32 = -9999.0;

/// Tokens that a request took.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct Usage {
    pub(crate) prompt_tokens: u32,
    pub(crate) completion_tokens: u32,
    pub(crate) total_tokens: u32,
}

/// `chat.completion`
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChatCompletion {
    pub(crate) id: String,
    pub(crate) object: &'static str,
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) choices: Vec<ChatChoice>,
    pub(crate) usage: Usage,
    /// Who computed the reply; only where the request asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) inglenook: Option<Computed>,
}

/// The reply of a chat completion.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChatChoice {
    pub(crate) index: usize,
    pub(crate) message: Message,
    pub(crate) logprobs: Option<ChatLogprobs>,
    /// `stop`, `length` or `tool_calls`.
    pub(crate) finish_reason: &'static str,
}

/// What the assistant said.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Message {
    pub(crate) role: &'static str,
    /// Null where it only called tools.
    pub(crate) content: Option<String>,
    /// Always null: a local model is not filtered.
    pub(crate) refusal: Option<String>,
    /// Thinking aloud of models that do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning_content: Option<String>,
    /// The same under the other name that clients look for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tool_calls: Vec<ToolCall>,
}

/// A call of a tool.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) function: CalledFunction,
}

/// What is called, with what.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct CalledFunction {
    pub(crate) name: String,
    /// JSON as the model wrote it.
    pub(crate) arguments: String,
}

/// How likely the tokens of a chat's reply were.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct ChatLogprobs {
    pub(crate) content: Vec<TokenLogprob>,
    pub(crate) refusal: Option<Vec<TokenLogprob>>,
}

/// One token, with the likeliest ones in its place.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct TokenLogprob {
    pub(crate) token: String,
    /// Natural logarithm of the model's own probability, before temperature and penalties.
    pub(crate) logprob: f32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) top_logprobs: Vec<TopLogprob>,
}

/// A token that could have stood there.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct TopLogprob {
    pub(crate) token: String,
    pub(crate) logprob: f32,
    pub(crate) bytes: Vec<u8>,
}

/// `chat.completion.chunk`
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChatChunk<'a> {
    pub(crate) id: &'a str,
    pub(crate) object: &'static str,
    pub(crate) created: u64,
    pub(crate) model: &'a str,
    /// Empty in the last chunk of a stream whose usage was asked for, and where devices are told of.
    pub(crate) choices: Vec<ChunkChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Usage>,
    /// What happened between devices; only where the request asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) inglenook: Option<Happened>,
}

/// More of the reply.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChunkChoice {
    pub(crate) index: usize,
    pub(crate) delta: Delta,
    pub(crate) logprobs: Option<ChatLogprobs>,
    pub(crate) finish_reason: Option<&'static str>,
}

/// What is new in a chunk.
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tool_calls: Vec<ToolCallDelta>,
}

/// What is new of a call: id and name first, arguments piece by piece.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ToolCallDelta {
    pub(crate) index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<&'static str>,
    pub(crate) function: FunctionDelta,
}

/// See [`ToolCallDelta`].
#[derive(Serialize, JsonSchema)]
pub(crate) struct FunctionDelta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    pub(crate) arguments: String,
}

/// `text_completion`, whole or one chunk of a stream.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TextCompletion<'a> {
    pub(crate) id: &'a str,
    pub(crate) object: &'static str,
    pub(crate) created: u64,
    pub(crate) model: &'a str,
    /// One for each prompt.
    pub(crate) choices: Vec<TextChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Usage>,
}

/// What continues a prompt.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TextChoice {
    pub(crate) text: String,
    /// Which prompt.
    pub(crate) index: usize,
    pub(crate) logprobs: Option<TextLogprobs>,
    /// `stop` or `length`; null in chunks before the last.
    pub(crate) finish_reason: Option<&'static str>,
}

/// How likely the tokens of a text completion were.
#[derive(Clone, Default, Serialize, JsonSchema)]
pub(crate) struct TextLogprobs {
    pub(crate) tokens: Vec<String>,
    pub(crate) token_logprobs: Vec<f32>,
    pub(crate) top_logprobs: Vec<std::collections::BTreeMap<String, f32>>,
    /// Where each token begins in the text, in characters.
    pub(crate) text_offset: Vec<usize>,
}

/// The list of vectors.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Embeddings {
    pub(crate) object: &'static str,
    pub(crate) data: Vec<Embedding>,
    pub(crate) model: String,
    pub(crate) usage: EmbeddingUsage,
}

/// One vector.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Embedding {
    pub(crate) object: &'static str,
    pub(crate) index: usize,
    pub(crate) embedding: Vector,
}

/// Numbers, or base64 of their little-endian 32-bit floats.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Vector {
    Numbers(Vec<f32>),
    Base64(String),
}

/// Tokens that vectors took.
#[derive(Serialize, JsonSchema)]
pub(crate) struct EmbeddingUsage {
    pub(crate) prompt_tokens: u32,
    pub(crate) total_tokens: u32,
}

/// The list of models.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Models {
    pub(crate) object: &'static str,
    pub(crate) data: Vec<Model>,
}

/// One model.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Model {
    pub(crate) id: String,
    pub(crate) object: &'static str,
    pub(crate) created: u64,
    pub(crate) owned_by: &'static str,
    /// Tokens of prompt and reply together.
    pub(crate) context_length: u32,
    /// The same under the name that vLLM gives it.
    pub(crate) max_model_len: u32,
}

impl From<&ReplySummary> for Usage {
    fn from(summary: &ReplySummary) -> Self {
        Self::of(summary.prompt_tokens, summary.completion_tokens)
    }
}

impl Usage {
    pub(crate) fn of(prompt_tokens: u32, completion_tokens: u32) -> Self {
        let total_tokens = prompt_tokens.saturating_add(completion_tokens);
        Self { prompt_tokens, completion_tokens, total_tokens }
    }
}

impl From<&PieceLogprobs> for TokenLogprob {
    fn from(logprobs: &PieceLogprobs) -> Self {
        let TopLogprob { token, logprob, bytes } = (&logprobs.chosen).into();
        let top_logprobs = logprobs.top.iter().map(TopLogprob::from).collect();
        Self { token, logprob, bytes, top_logprobs }
    }
}

impl From<&LikelyToken> for TopLogprob {
    fn from(token: &LikelyToken) -> Self {
        Self {
            token: String::from_utf8_lossy(&token.bytes).into_owned(),
            logprob: token.logarithm.max(LEAST_LOGARITHM),
            bytes: token.bytes.0.clone(),
        }
    }
}

impl ChatLogprobs {
    /// Of some tokens; `None` where none were told.
    pub(crate) fn of(logprobs: &[PieceLogprobs]) -> Option<Self> {
        let content = logprobs.iter().map(TokenLogprob::from).collect::<Vec<_>>();
        (!content.is_empty()).then_some(Self { content, refusal: None })
    }
}

impl TextLogprobs {
    /// Of some tokens that begin at character `offset` of the text; `None` where none were told.
    pub(crate) fn of(logprobs: &[PieceLogprobs], offset: &mut usize) -> Option<Self> {
        let mut told = Self::default();
        for logprobs in logprobs {
            let chosen = TopLogprob::from(&logprobs.chosen);
            told.text_offset.push(*offset);
            *offset += chosen.token.chars().count();
            let top = logprobs.top.iter().map(TopLogprob::from);
            told.top_logprobs.push(top.map(|top| (top.token, top.logprob)).collect());
            told.tokens.push(chosen.token);
            told.token_logprobs.push(chosen.logprob);
        }
        (!told.tokens.is_empty()).then_some(told)
    }
}

/// Why the model ended by itself.
pub(crate) fn finish_reason(summary: &ReplySummary) -> &'static str {
    match summary.finish_reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
    }
}
