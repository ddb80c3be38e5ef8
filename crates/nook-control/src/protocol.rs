//! What crosses the control socket. Both ends are the same user on this machine.

use nook_api::views::{ChatRole, Problem, ReplyEvent};
use nook_api::{ChatMessage, GenerateRequest, Prompt, Reach, Request, Response, Sampling};
use nook_base::{ActivationDtype, Sensitive};
use serde::{Deserialize, Serialize};

/// What stands in the first line of a connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A request with one response.
    Call(Request),
    /// A reply; its events follow.
    Generate(GenerateWish),
}

/// A reply that is wanted.
#[derive(Clone, Serialize, Deserialize)]
pub struct GenerateWish {
    /// Name of the model.
    pub model: String,
    /// Plain text to continue; exactly one of this and `messages` is given.
    pub text: Option<String>,
    /// A conversation to continue.
    pub messages: Option<Vec<WishedMessage>>,
    /// Most tokens.
    pub tokens_max: Option<u32>,
    /// How to choose tokens.
    pub sampling: SamplingWish,
    /// Texts that end the reply.
    pub stop: Vec<String>,
    /// How activations travel.
    pub activation_dtype: Option<ActivationDtype>,
    /// Compute on this device only.
    pub this_device_only: bool,
}

/// One message of a wished conversation.
#[derive(Clone, Serialize, Deserialize)]
pub struct WishedMessage {
    /// Who said it.
    pub role: ChatRole,
    /// What was said.
    pub text: String,
}

/// How to choose tokens; absent means as the house does by default.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct SamplingWish {
    /// See [`Sampling::temperature`].
    pub temperature: Option<f32>,
    /// See [`Sampling::top_k`].
    pub top_k: Option<u32>,
    /// See [`Sampling::top_p`].
    pub top_p: Option<f32>,
    /// See [`Sampling::min_p`].
    pub min_p: Option<f32>,
    /// See [`Sampling::repetition_penalty`].
    pub repetition_penalty: Option<f32>,
    /// See [`Sampling::seed`].
    pub seed: Option<u64>,
}

/// One line of an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The response to a request.
    Response(Box<Response>),
    /// A reply begins; these are its prompt's token ids.
    Prompt {
        /// The ids.
        ids: Ids,
    },
    /// Something happened in a reply.
    Event {
        /// What.
        event: ReplyEvent,
        /// Token ids that it added.
        ids: Ids,
    },
    /// It did not work.
    Problem(Problem),
}

/// Token ids: sensitive in logs, plain on this socket.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Ids(pub Vec<u32>);

impl std::fmt::Debug for Ids {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ids", self.0.len())
    }
}

impl std::fmt::Debug for GenerateWish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GenerateWish({})", self.model)
    }
}

impl std::fmt::Debug for WishedMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WishedMessage({:?})", self.role)
    }
}

impl From<GenerateWish> for GenerateRequest {
    fn from(wish: GenerateWish) -> Self {
        let prompt = match (wish.messages, wish.text) {
            (Some(messages), _) => Prompt::Chat(
                messages
                    .into_iter()
                    .map(|message| ChatMessage {
                        role: message.role,
                        text: Sensitive(message.text),
                    })
                    .collect(),
            ),
            (None, text) => Prompt::Text(Sensitive(text.unwrap_or_default())),
        };
        let SamplingWish { temperature, top_k, top_p, min_p, repetition_penalty, seed } =
            wish.sampling;
        Self {
            model: wish.model,
            prompt,
            tokens_max: wish.tokens_max,
            sampling: Sampling {
                temperature,
                top_k,
                top_p,
                min_p,
                repetition_penalty,
                seed,
                ..Sampling::default()
            },
            stop: wish.stop,
            activation_dtype: wish.activation_dtype,
            reach: if wish.this_device_only { Reach::ThisDevice } else { Reach::House },
        }
    }
}
