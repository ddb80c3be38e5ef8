//! Text in, token ids out, and back: tokenizer, chat template, sampler, stop strings.
//!
//! Owns everything about text and nothing about tensors: it reads a [`nook_base::Vocabulary`]
//! (which `nook-model` took from the file) and gives the node plain ids, plain logits go in and one
//! id comes out. It does no I/O and never asks for the time: the caller passes the moment that a
//! template may write into a prompt.
//!
//! A prompt goes [`ChatTemplate::render`] → [`Tokenizer::encode_chat`] → (model) → [`Sampler`] →
//! [`ReplyText`] → [`SaidParser`], which tells text, thinking and calls of tools apart. Where a
//! reply must have a form, a [`Constraint`] says before each token which may come. What a user
//! wrote never becomes a control token on that way: see [`template::RenderedPrompt`].

mod capabilities;
pub mod grammar;
mod rendered;
pub mod reply;
pub mod said;
pub mod sampler;
pub mod sandbox;
pub mod stop;
pub mod stream;
pub mod template;
pub mod tokenizer;
pub mod tools;

pub use capabilities::Capabilities;
pub use grammar::{Allowed, Constraint, GrammarError, Grammars, ReplyShape, TokenMask, Words};
pub use reply::{Piece, ReplyText};
pub use said::{ReplyForm, Said, SaidParser, Thought};
pub use sampler::{
    BiasError, SampleError, Sampler, SamplerSettings, SamplerSettingsError, SamplingParameters,
    TokenLogprobs,
};
pub use stop::{StopOutcome, StopStrings, StopStringsError};
pub use stream::{Opening, TextStream};
pub use template::{
    ChatMessage, ChatTemplate, Moment, Preview, RenderJob, RenderOptions, RenderedPrompt, Role,
    TemplateError,
};
pub use tokenizer::{
    EncodeError, EncodeOptions, SPECIAL_BYTES_MAX, SPECIALS_MAX, Tokenizer, TokenizerError,
};
pub use tools::{CallRule, PastCall, Tool, ToolChoice, ToolError, ToolForm, Turn};
