//! Why something that was asked of a node did not happen.

use nook_base::ErrorCode;

use crate::views::{Problem, ReplyEvent, Wording};

/// Something that was asked of a node and did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct NodeError {
    /// What a program branches on.
    pub code: ErrorCode,
    /// What a person reads, with what to do.
    pub sentence: String,
    /// The same for front ends that speak other languages; absent where only the sentence says it.
    pub wording: Option<Wording>,
}

impl NodeError {
    /// An error with its own sentence.
    #[must_use]
    pub fn new(code: ErrorCode, sentence: impl Into<String>) -> Self {
        Self { code, sentence: sentence.into(), wording: None }
    }

    /// The same error, with words for front ends that speak other languages.
    #[must_use]
    pub fn worded(self, wording: Wording) -> Self {
        Self { wording: Some(wording), ..self }
    }

    /// This program is being closed.
    #[must_use]
    pub fn gone() -> Self {
        Self::new(ErrorCode::Draining, "Inglenook is shutting down.").worded(Wording::Leaving)
    }
}

impl From<ErrorCode> for NodeError {
    fn from(code: ErrorCode) -> Self {
        Self::new(code, code.sentence()).worded(Wording::Code)
    }
}

impl From<NodeError> for ReplyEvent {
    /// The end of a reply that ends early.
    fn from(error: NodeError) -> Self {
        let NodeError { code, sentence, wording } = error;
        Self::PipelineAborted { code: code.name().to_owned(), sentence, wording }
    }
}

impl From<NodeError> for Problem {
    fn from(error: NodeError) -> Self {
        let NodeError { code, sentence, wording } = error;
        Self { code: code.name().to_owned(), sentence, wording }
    }
}

/// Capital first and a full stop, as sentences for people have.
#[must_use]
pub fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let rest = chars.as_str();
    let stop = if rest.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{first}{rest}{stop}")
}
