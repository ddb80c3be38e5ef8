//! What crosses the control socket. Both ends are the same user on this machine.

use nook_api::views::{ChatRole, Problem, ReplyEvent};
use nook_api::{
    ChatMessage, GenerateRequest, Prompt, Reach, Request, Response, SamplingParameters, Thinking,
};
use nook_base::{ActivationDtype, Sensitive, ThinkingChoice};
use serde::{Deserialize, Serialize};

/// What stands in the first line of a connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A request with one response.
    Call(Request),
    /// A reply; its events follow.
    Generate(ReplyRequest),
}

/// A request for a reply, as it stands on the socket.
#[derive(Clone, Serialize, Deserialize)]
pub struct ReplyRequest {
    /// Name of the model.
    pub model: String,
    /// Plain text to continue; exactly one of this and `messages` is given.
    pub text: Option<String>,
    /// A conversation to continue.
    pub messages: Option<Vec<RequestMessage>>,
    /// Most tokens.
    pub tokens_max: Option<u32>,
    /// How to choose tokens.
    pub sampling: SamplingParameters,
    /// Texts that end the reply.
    pub stop: Vec<String>,
    /// Whether to think first; counts for conversations. Absent: as the model does unasked.
    #[serde(default)]
    pub thinking: Option<ThinkingChoice>,
    /// How activations travel.
    pub activation_dtype: Option<ActivationDtype>,
    /// Compute on this device only.
    pub this_device_only: bool,
}

/// One message of the conversation of a request.
#[derive(Clone, Serialize, Deserialize)]
pub struct RequestMessage {
    /// Who said it.
    pub role: ChatRole,
    /// What was said.
    pub text: String,
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

impl std::fmt::Debug for ReplyRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReplyRequest({})", self.model)
    }
}

impl std::fmt::Debug for RequestMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RequestMessage({:?})", self.role)
    }
}

impl From<ReplyRequest> for GenerateRequest {
    fn from(request: ReplyRequest) -> Self {
        let prompt = match (request.messages, request.text) {
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
        Self {
            model: request.model,
            prompt,
            tokens_max: request.tokens_max,
            sampling: request.sampling.into(),
            stop: request.stop,
            thinking: request.thinking.map(Thinking::from).unwrap_or_default(),
            activation_dtype: request.activation_dtype,
            reach: if request.this_device_only { Reach::ThisDevice } else { Reach::House },
        }
    }
}
