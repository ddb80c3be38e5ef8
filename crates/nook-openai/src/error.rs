//! Errors as OpenAI's clients know them: `{"error":{"message","type","param","code"}}`.
//! `dialect` writes the same ones for other clients.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use nook_api::NodeError;
use nook_api::views::Wording;
use nook_base::ErrorCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::pace::retry_after;

/// An answer that says what went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
    /// Of a prompt that is too long: its tokens, and how many fit.
    overflow: Option<(u64, u32)>,
    /// When to try again, in seconds.
    retry_after: Option<u64>,
}

/// The error that an answer is; goes with its response as far as the guard.
#[derive(Debug, Clone)]
pub(crate) struct Listed(pub(crate) ApiError);

/// An error as it leaves.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(crate) struct ErrorBody {
    error: ErrorDetail,
}

/// What went wrong.
#[derive(Serialize, JsonSchema)]
struct ErrorDetail {
    /// For a person.
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    /// The field that is to blame.
    param: Option<String>,
    /// What a program branches on.
    code: Option<&'static str>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            param: None,
            code: None,
            overflow: None,
            retry_after: None,
        }
    }

    pub(crate) fn bad(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    pub(crate) fn forbidden(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    pub(crate) fn unauthorized(message: &str) -> Self {
        Self { code: Some("invalid_api_key"), ..Self::new(StatusCode::UNAUTHORIZED, message) }
    }

    pub(crate) fn too_many(message: &str) -> Self {
        Self {
            code: Some("rate_limit_exceeded"),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, message)
        }
    }

    /// The object that also ends a stream which broke.
    pub(crate) fn body(&self) -> ErrorBody {
        ErrorBody {
            error: ErrorDetail {
                message: self.message.clone(),
                kind: self.kind(),
                param: self.param.clone(),
                code: self.code,
            },
        }
    }

    /// What the owner is shown of it: the code, or the kind where there is none; with the status.
    pub(crate) fn listed(&self) -> String {
        format!("{} {}", self.status.as_u16(), self.code.unwrap_or(self.kind()))
    }

    /// What a program branches on; absent where the kind says it.
    pub(crate) fn code(&self) -> Option<&'static str> {
        self.code
    }

    /// The sentence for a person.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Tokens of a prompt that is too long, and how many fit.
    pub(crate) fn overflow(&self) -> Option<(u64, u32)> {
        self.overflow
    }

    /// The same error, with what a program branches on.
    pub(crate) fn coded(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// The same error, with when to try again.
    pub(crate) fn after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_client_error() => "invalid_request_error",
            StatusCode::SERVICE_UNAVAILABLE => "service_unavailable",
            _ => "server_error",
        }
    }
}

/// Status and code for an error of the house, or of a reply that ended early.
pub(crate) fn from_code(code: ErrorCode, sentence: String) -> ApiError {
    let (status, name) = match code {
        ErrorCode::NotFound => (StatusCode::NOT_FOUND, Some("model_not_found")),
        ErrorCode::TooLong => (StatusCode::BAD_REQUEST, Some("context_length_exceeded")),
        ErrorCode::BadRequest => (StatusCode::BAD_REQUEST, None),
        ErrorCode::Busy | ErrorCode::RateLimited => {
            (StatusCode::TOO_MANY_REQUESTS, Some("rate_limit_exceeded"))
        }
        ErrorCode::ShardUnavailable
        | ErrorCode::PipelineStalled
        | ErrorCode::Draining
        | ErrorCode::OutOfMemory
        | ErrorCode::GpuMissing
        | ErrorCode::GpuOutOfMemory
        | ErrorCode::GpuNoKernel
        | ErrorCode::GpuLost
        | ErrorCode::SwitchedOff => (StatusCode::SERVICE_UNAVAILABLE, Some(code.name())),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, Some(code.name())),
    };
    ApiError { code: name, ..ApiError::new(status, sentence) }
}

/// The same where the house has said it in words with numbers: clients that must shorten their
/// conversation know it by OpenAI's sentences, of which some know one and some the other.
pub(crate) fn from_words(code: ErrorCode, sentence: String, words: Option<&Wording>) -> ApiError {
    let Some(Wording::PromptTooLong { tokens, window, .. }) = words else {
        return from_code(code, sentence);
    };
    let message = format!(
        "This model's maximum context length is {window} tokens. However, your messages resulted \
         in {tokens} tokens. Input tokens exceed the configured limit of {window} tokens. \
         {sentence}"
    );
    ApiError { overflow: Some((*tokens, *window)), ..from_code(code, message) }
}

impl From<NodeError> for ApiError {
    fn from(error: NodeError) -> Self {
        from_words(error.code, error.sentence, error.wording.as_ref())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        response.extensions_mut().insert(Listed(self.clone()));
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, retry_after(self.retry_after));
        }
        response
    }
}
