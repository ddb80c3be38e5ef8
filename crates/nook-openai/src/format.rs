//! The form that a reply must have, as clients ask for it.

use nook_base::Sensitive;
use nook_text::ReplyShape;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::error::ApiError;

/// `response_format` of chat completions, and `text.format` of responses, which does not nest.
#[derive(Clone, Deserialize, JsonSchema)]
pub(crate) struct SentFormat {
    /// `text`, `json_object` or `json_schema`.
    #[serde(rename = "type")]
    kind: String,
    json_schema: Option<NamedSchema>,
    /// The name of responses' schema.
    name: Option<String>,
    /// The schema of responses.
    schema: Option<Value>,
}

/// A schema with a name that clients choose. Replies are held to it whether or not `strict` is set.
#[derive(Clone, Deserialize, JsonSchema)]
struct NamedSchema {
    schema: Option<Value>,
}

impl SentFormat {
    /// The name of a schema that is not nested.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

/// The form asked for, in the words of the field `param`. Whether a schema can be kept to is seen
/// when the model's vocabulary is known.
pub(crate) fn shape(param: &str, sent: Option<SentFormat>) -> Result<Option<ReplyShape>, ApiError> {
    let Some(SentFormat { kind, json_schema, schema, .. }) = sent else { return Ok(None) };
    match kind.as_str() {
        "text" => Ok(None),
        // Some clients know no other word for a schema.
        "json_object" if json_schema.is_none() && schema.is_none() => {
            Ok(Some(ReplyShape::JsonObject))
        }
        "json_schema" | "json_object" => {
            let schema = json_schema.and_then(|named| named.schema).or(schema);
            match schema.filter(Value::is_object) {
                Some(schema) => Ok(Some(ReplyShape::JsonSchema(Sensitive(schema)))),
                None => {
                    let message = format!("{param} of type {kind} needs a schema, an object.");
                    Err(ApiError::bad(param, message))
                }
            }
        }
        other => {
            let message =
                format!("{param} is of type text, json_object or json_schema, not {other:?}.");
            Err(ApiError::bad(param, message))
        }
    }
}

/// The schema of vLLM's clients: a JSON schema, or the text of one.
pub(crate) fn guided(sent: Option<Value>) -> Result<Option<ReplyShape>, ApiError> {
    let schema = match sent {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or_default(),
        Some(schema) => schema,
    };
    match schema.is_object() {
        true => Ok(Some(ReplyShape::JsonSchema(Sensitive(schema)))),
        false => {
            Err(ApiError::bad("guided_json", "guided_json is a JSON schema, or the text of one."))
        }
    }
}
