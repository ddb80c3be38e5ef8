//! In whose form a request speaks, and so its errors are told.
//!
//! OpenAI's, Anthropic's and Ollama's clients reach the same house through the same guard. Routes
//! and guard fail with one kind of error; here it is written as each client expects it.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

use crate::error::{ApiError, Listed};

/// Whose form a request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAi,
    Anthropic,
    Ollama,
}

impl Dialect {
    /// By the path; the list of models is at one path for two of them, and Anthropic's clients say
    /// in a header who they are.
    pub(crate) fn of(request: &Request) -> Self {
        let path = request.uri().path();
        let under = |path: &str, base: &str| {
            path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_anthropics = under(path.strip_prefix("/v1").unwrap_or(path), "/messages")
            || request.headers().contains_key("anthropic-version");
        match () {
            () if under(path, "/api") => Self::Ollama,
            () if is_anthropics => Self::Anthropic,
            () => Self::OpenAi,
        }
    }

    /// An error as the body of an answer, or the end of a stream.
    pub(crate) fn error(self, error: &ApiError, request_id: &str) -> Value {
        match self {
            Self::OpenAi => json!(error.body()),
            Self::Anthropic => {
                let kind = anthropics_kind(error.status());
                let message = match error.overflow() {
                    // The words by which its clients know that they must shorten.
                    Some((tokens, window)) => {
                        format!("prompt is too long: {tokens} tokens > {window} maximum")
                    }
                    None => error.message().to_owned(),
                };
                json!({
                    "type": "error",
                    "error": {"type": kind, "message": message},
                    "request_id": request_id,
                })
            }
            Self::Ollama => json!({"error": error.message()}),
        }
    }

    /// The same answer, with its error in this form.
    pub(crate) fn told(self, response: Response, request_id: &str) -> Response {
        let error = match (self, response.extensions().get()) {
            (Self::OpenAi, _) | (_, None) => return response,
            (_, Some(Listed(error))) => self.error(error, request_id).to_string(),
        };
        let (mut parts, _) = response.into_parts();
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Response::from_parts(parts, Body::from(error))
    }
}

fn anthropics_kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_client_error() => "invalid_request_error",
        StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
        _ => "api_error",
    }
}
