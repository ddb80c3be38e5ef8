//! What a message may hold: a string, an array of parts, or nothing.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::ApiError;

/// `messages[].content` as clients send it.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a string, an array of parts or null")]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// One part of a content array.
#[derive(Clone, Deserialize, JsonSchema)]
pub(crate) struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    refusal: Option<String>,
}

impl Content {
    /// The text; parts that are not text are refused by the name of the field, never dropped.
    pub(crate) fn text(self, param: &str) -> Result<String, ApiError> {
        let parts = match self {
            Self::Text(text) => return Ok(text),
            Self::Parts(parts) => parts,
        };
        let mut text = String::new();
        for part in parts {
            match (part.kind.as_str(), part.text.or(part.refusal)) {
                ("text" | "input_text" | "output_text" | "refusal", Some(piece)) => {
                    text.push_str(&piece);
                }
                (kind, _) => {
                    return Err(ApiError::bad(
                        param,
                        format!("This model reads text only; a part is of type {kind:?}."),
                    ));
                }
            }
        }
        Ok(text)
    }
}
