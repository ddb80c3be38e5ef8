//! Text in, token ids out, and back: tokenizer, chat template, sampler, stop strings.
//!
//! Owns everything about text and nothing about tensors: it reads a [`nook_base::Vocabulary`]
//! (which `nook-model` took from the file) and gives the node plain ids, plain logits go in and one
//! id comes out. It does no I/O and never asks for the time: the caller passes the moment that a
//! template may write into a prompt.
//!
//! A prompt goes [`ChatTemplate::render`] → [`Tokenizer::encode_chat`] → (model) → [`Sampler`] →
//! [`ReplyText`]. What a user wrote never becomes a control token on that way: see
//! [`template::RenderedPrompt`].

pub mod reply;
pub mod sampler;
pub mod stop;
pub mod stream;
pub mod template;
pub mod tokenizer;

pub use reply::{Piece, ReplyText};
pub use sampler::{
    RawSamplerSettings, SampleError, Sampler, SamplerSettings, SamplerSettingsError,
};
pub use stop::{StopOutcome, StopStrings, StopStringsError};
pub use stream::{Opening, TextStream};
pub use template::{
    ChatMessage, ChatTemplate, Moment, Preview, RenderOptions, RenderedPrompt, Role, TemplateError,
};
pub use tokenizer::{EncodeError, EncodeOptions, Tokenizer, TokenizerError};
