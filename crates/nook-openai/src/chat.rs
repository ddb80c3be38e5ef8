//! `POST /v1/chat/completions`, whole or streamed.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nook_base::{ErrorCode, clock};
use nook_node::views::{FinishReason, ReplyEvent, ReplySummary};
use nook_node::{HouseError, Reply};
use serde_json::{Value, json};

use crate::error::{ApiError, from_code};
use crate::request::Body;
use crate::server::Port;
use crate::{body, models, stream};

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
    body: axum::body::Body,
) -> Result<Response, ApiError> {
    let sent: Body = body::read(body, port.limits.body).await?;
    let wish = sent.understand(&port.house.now())?;
    let reply = port.house.generate(wish.request).await.map_err(|error| named(&port, error))?;
    let completion = Completion {
        id: format!("chatcmpl-{:016x}", rand::random::<u64>()),
        created: clock::unix_seconds(),
        model: reply.model.clone(),
    };
    if wish.stream {
        Ok(stream::respond(completion, reply, wish.include_usage))
    } else {
        whole(completion, reply).await
    }
}

/// Adds the names that exist to a complaint about one that does not.
fn named(port: &Port, error: HouseError) -> ApiError {
    match error.code {
        ErrorCode::NotFound => models::not_found(&port.house.now(), &error.sentence),
        _ => error.into(),
    }
}

/// Collects a reply. The client's leaving drops this future, and with it the reply.
async fn whole(completion: Completion, mut reply: Reply) -> Result<Response, ApiError> {
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
                    "model": completion.model,
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
    let known = ErrorCode::ALL.into_iter().find(|known| known.name() == code);
    from_code(known.unwrap_or(ErrorCode::ShardUnavailable), sentence)
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
