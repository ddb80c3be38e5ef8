//! What is asked of a model, and what it answers: prompts, settings of the sampler, pieces of a reply,
//! vectors for texts. Plain data that front ends make and read.

use nook_base::{ActivationDtype, Sensitive, ThinkingChoice};
use nook_text::{ReplyForm, ReplyShape, Tool, ToolChoice, Turn as DialogTurn};
use tokio::sync::mpsc;

pub use nook_text::SamplingParameters;

use crate::requests::Reach;
use crate::views::{ChatRole, ReplyEvent};

/// How to choose tokens, and what to say of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampling {
    /// The parameters of the sampler. Without a temperature the node takes 0.7, without a seed a
    /// fresh one.
    pub parameters: SamplingParameters,
    /// Added to the logits of these tokens, -100 to 100.
    pub biases: Sensitive<Vec<(u32, f32)>>,
    /// Tell how likely each token was, with so many alternatives; absent: not.
    pub alternatives: Option<usize>,
    /// The form that the reply must have; absent: any.
    pub shape: Option<ReplyShape>,
}

impl From<SamplingParameters> for Sampling {
    fn from(parameters: SamplingParameters) -> Self {
        Self { parameters, ..Self::default() }
    }
}

/// What the model continues.
#[derive(Debug, Clone)]
pub enum Prompt {
    /// Plain text, as it is.
    Text(Sensitive<String>),
    /// A text with a gap, which the model fills; only models whose vocabulary has marks for it do.
    Gap {
        /// What stands before the gap.
        before: Sensitive<String>,
        /// What stands behind it.
        behind: Sensitive<String>,
    },
    /// Token ids, as they are.
    Tokens(Sensitive<Vec<u32>>),
    /// A conversation, through the model's chat template.
    Chat(Vec<ChatMessage>),
    /// A conversation whose last reply has begun and goes on where it stopped.
    Begun {
        /// What was said before that reply.
        messages: Vec<ChatMessage>,
        /// What was thought before it; may be empty.
        thought: Sensitive<String>,
        /// The reply so far; empty where it was cut while the model thought.
        reply: Sensitive<String>,
    },
    /// A conversation with tools, through the same; the reply is told apart by [`Reply::form`].
    Dialog(Box<Dialog>),
}

/// A conversation in which the model may call tools and think aloud.
#[derive(Debug, Clone, PartialEq)]
pub struct Dialog {
    /// What was said, oldest first.
    pub turns: Vec<DialogTurn>,
    /// What may be called.
    pub tools: Vec<Tool>,
    /// Whether it is to be.
    pub choice: ToolChoice,
    /// Whether one reply may make several calls.
    pub parallel: bool,
}

/// Whether a model is to think aloud before it answers; one that cannot does not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Thinking {
    /// As its template does unasked.
    #[default]
    AsUsual,
    /// No.
    Off,
    /// Yes, also where its template does not unasked.
    On,
    /// Yes, so much, in the words of its template.
    Effort(String),
}

impl From<ThinkingChoice> for Thinking {
    fn from(choice: ThinkingChoice) -> Self {
        match choice {
            ThinkingChoice::Usual => Self::AsUsual,
            ThinkingChoice::Off => Self::Off,
            ThinkingChoice::On => Self::On,
        }
    }
}

impl Thinking {
    /// What an effort asks for, in the words that OpenAI's clients send.
    #[must_use]
    pub fn of_effort(effort: Option<String>) -> Self {
        match effort {
            None => Self::AsUsual,
            Some(none) if none == NO_EFFORT => Self::Off,
            Some(effort) => Self::Effort(effort),
        }
    }

    /// The effort that it is, in the same words, where it is one.
    #[must_use]
    pub fn effort(&self) -> Option<&str> {
        match self {
            Self::AsUsual | Self::On => None,
            Self::Off => Some(NO_EFFORT),
            Self::Effort(effort) => Some(effort),
        }
    }
}

/// The effort that asks for no thinking.
const NO_EFFORT: &str = "none";

/// One message of a prompt.
#[derive(Debug, Clone)]
pub struct ChatMessage {
    /// Who said it.
    pub role: ChatRole,
    /// What was said.
    pub text: Sensitive<String>,
}

/// Who asks for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// The owner, in a window or a terminal: goes first.
    Owner,
    /// A program at the port.
    Program,
}

/// One reply that somebody wants.
#[derive(Debug, Clone)]
pub struct GenerateRequest {
    /// Name of the model; exact, then ignoring case, then a unique beginning.
    pub model: String,
    /// What to continue.
    pub prompt: Prompt,
    /// Most tokens of the reply; absent: as many as fit.
    pub tokens_max: Option<u32>,
    /// How to choose tokens.
    pub sampling: Sampling,
    /// Texts that end the reply; they are not shown.
    pub stop: Vec<String>,
    /// Whether, and how much, to think first; counts for conversations.
    pub thinking: Thinking,
    /// How activations travel; absent: as set.
    pub activation_dtype: Option<ActivationDtype>,
    /// Where it may be computed.
    pub reach: Reach,
}

/// A reply in the making. Dropping it stops the reply within a token.
#[derive(Debug)]
pub struct Reply {
    /// The model that answers, by its full name.
    pub model: String,
    /// Token ids of the prompt.
    pub prompt_ids: Sensitive<Vec<u32>>,
    /// How to tell text, thinking and calls apart.
    pub form: ReplyForm,
    /// Events in order, closed after `done` or `pipeline_aborted`.
    pub events: mpsc::Receiver<ReplyPiece>,
}

/// An event of a reply with the token ids it stands for.
#[derive(Debug, Clone)]
pub struct ReplyPiece {
    /// What front ends show.
    pub event: ReplyEvent,
    /// Ids of the tokens that this event added (deltas only); stay inside this process.
    pub ids: Sensitive<Vec<u32>>,
    /// How likely its token was, where [`Sampling::alternatives`] asked.
    pub logprobs: Option<PieceLogprobs>,
    /// The text of [`GenerateRequest::stop`], or of the model's template, that its token completed;
    /// the reply ends with it.
    pub stopped: Option<Sensitive<String>>,
}

/// How likely a token was: the model's own opinion, before settings changed it.
#[derive(Debug, Clone, PartialEq)]
pub struct PieceLogprobs {
    /// The token.
    pub chosen: LikelyToken,
    /// The likeliest ones, best first.
    pub top: Vec<LikelyToken>,
}

/// A token and its logarithm.
#[derive(Debug, Clone, PartialEq)]
pub struct LikelyToken {
    /// Its bytes; may be part of a character. Control tokens are spelt out.
    pub bytes: Sensitive<Vec<u8>>,
    /// Natural logarithm of its probability.
    pub logarithm: f32,
}

/// How long a prompt is.
#[derive(Debug, Clone)]
pub struct Counted {
    /// The model, by its full name.
    pub model: String,
    /// Tokens, with those of the model's template.
    pub tokens: u64,
}

/// Texts whose place in the model's space of meanings is wanted.
#[derive(Debug, Clone)]
pub struct EmbedRequest {
    /// Name of the model, as in [`GenerateRequest`].
    pub model: String,
    /// The texts.
    pub inputs: Vec<EmbedInput>,
}

/// One of them.
#[derive(Debug, Clone)]
pub enum EmbedInput {
    /// Plain text.
    Text(Sensitive<String>),
    /// Token ids.
    Tokens(Sensitive<Vec<u32>>),
}

/// What came of an [`EmbedRequest`].
#[derive(Debug, Clone)]
pub struct Embedded {
    /// The model, by its full name.
    pub model: String,
    /// One vector of length 1 for each input, in order.
    pub vectors: Sensitive<Vec<Vec<f32>>>,
    /// Tokens of all inputs.
    pub tokens: u32,
}
