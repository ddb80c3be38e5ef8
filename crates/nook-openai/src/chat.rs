//! `POST /v1/chat/completions`, whole or streamed.

use std::time::Duration;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nook_base::clock;
use nook_node::views::{FinishReason, ReplyEvent, ReplySummary};
use nook_node::{HouseError, Reply};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use crate::error::{ApiError, from_code};
use crate::request::Body;
use crate::server::Port;
use crate::stream;

/// Largest body, in bytes: a long conversation as text.
const BODY_BYTES_MAX: usize = 2 << 20;

/// Longest wait for a whole body.
const BODY_LIMIT: Duration = Duration::from_secs(30);

/// What all chunks of one reply have in common.
#[derive(Debug, Clone)]
pub(crate) struct Completion {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
}

/// Makes a reply.
pub(crate) async fn complete(
    State(port): State<Port>,
    body: HttpBody,
) -> Result<Response, ApiError> {
    let body: Body = read(body).await?;
    let wish = body.understand(&port.house.now())?;
    let turn = take_turn(&port).await?;
    let completion = Completion {
        id: format!("chatcmpl-{:016x}", rand::random::<u64>()),
        created: clock::unix_seconds(),
        model: wish.request.model.clone(),
    };
    let reply = port.house.generate(wish.request).await.map_err(|error| listed(&port, error))?;
    if wish.stream {
        Ok(stream::respond(completion, reply, wish.include_usage, turn))
    } else {
        whole(completion, reply, turn).await
    }
}

async fn read(body: HttpBody) -> Result<Body, ApiError> {
    let bytes = tokio::time::timeout(BODY_LIMIT, axum::body::to_bytes(body, BODY_BYTES_MAX))
        .await
        .map_err(|_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "The body did not come in time."))?
        .map_err(|_| {
            let message = format!("The body is larger than {} MB.", BODY_BYTES_MAX >> 20);
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        })?;
    serde_json::from_slice(&bytes).map_err(|error| {
        ApiError::new(StatusCode::BAD_REQUEST, format!("The body cannot be understood: {error}"))
    })
}

/// A turn among the replies that may be made at once; a bounded number of requests wait for it.
async fn take_turn(port: &Port) -> Result<OwnedSemaphorePermit, ApiError> {
    let _place = port.waiting.clone().try_acquire_owned().map_err(|_| ApiError::too_many())?;
    port.replies.clone().acquire_owned().await.map_err(|_| ApiError::too_many())
}

/// Adds the names that exist to a complaint about one that does not.
fn listed(port: &Port, error: HouseError) -> ApiError {
    if error.code != nook_base::ErrorCode::NotFound {
        return error.into();
    }
    let view = port.house.now();
    let known: Vec<_> = view.models.iter().map(|model| model.name.as_str()).collect();
    from_code(error.code, format!("{} There are: {}", error.sentence, known.join(", ")))
}

/// Collects a reply. The client's leaving drops this future, and with it the reply.
async fn whole(
    completion: Completion,
    mut reply: Reply,
    _turn: OwnedSemaphorePermit,
) -> Result<Response, ApiError> {
    let mut text = String::new();
    while let Some(piece) = reply.events.recv().await {
        match piece.event {
            ReplyEvent::TokenDelta { text: more, .. } => text.push_str(&more),
            ReplyEvent::Done { summary } => {
                let message = json!({"role": "assistant", "content": text, "refusal": null});
                let body = json!({
                    "id": completion.id,
                    "object": "chat.completion",
                    "created": completion.created,
                    "model": summary.model,
                    "choices": [{
                        "index": 0,
                        "message": message,
                        "logprobs": null,
                        "finish_reason": finish_reason(&summary),
                    }],
                    "usage": usage(&summary),
                });
                return Ok(Json(body).into_response());
            }
            ReplyEvent::PipelineAborted { code, sentence } => {
                return Err(aborted(&code, sentence));
            }
            _ => {}
        }
    }
    Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "The reply ended without an end."))
}

/// The error for a reply that ended early.
pub(crate) fn aborted(code: &str, sentence: String) -> ApiError {
    let known = nook_base::ErrorCode::ALL.into_iter().find(|known| known.name() == code);
    from_code(known.unwrap_or(nook_base::ErrorCode::ShardUnavailable), sentence)
}

pub(crate) fn finish_reason(summary: &ReplySummary) -> &'static str {
    match summary.finish_reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
    }
}

pub(crate) fn usage(summary: &ReplySummary) -> Value {
    json!({
        "prompt_tokens": summary.prompt_tokens,
        "completion_tokens": summary.completion_tokens,
        "total_tokens": summary.prompt_tokens.saturating_add(summary.completion_tokens),
    })
}
