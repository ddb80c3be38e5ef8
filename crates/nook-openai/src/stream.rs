//! A reply as server-sent events.
//!
//! Exactly one of two ends comes: a chunk with the finish reason and `[DONE]`, or an error object.
//! What happens between devices travels as comments, which every client ignores.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use nook_node::Reply;
use nook_node::views::{ReplyEvent, ShardState};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use crate::chat::{Completion, aborted, finish_reason, usage};

/// How often a comment keeps the connection awake while the prompt is read.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// A reply on its way out.
struct Outgoing {
    completion: Completion,
    reply: Reply,
    include_usage: bool,
    // Chunks that are ready; at most the three of an end.
    ready: Vec<Event>,
    begun: bool,
    over: bool,
    _turn: OwnedSemaphorePermit,
}

/// The response. Dropping it, when the client leaves, drops the reply.
pub(crate) fn respond(
    completion: Completion,
    reply: Reply,
    include_usage: bool,
    turn: OwnedSemaphorePermit,
) -> Response {
    let outgoing = Outgoing {
        completion,
        reply,
        include_usage,
        ready: Vec::new(),
        begun: false,
        over: false,
        _turn: turn,
    };
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("");
    let mut response = Sse::new(events(outgoing)).keep_alive(keep_alive).into_response();
    let headers = response.headers_mut();
    headers
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn events(outgoing: Outgoing) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(outgoing, |mut outgoing| async move {
        if !outgoing.begun {
            outgoing.begun = true;
            let role = json!({"role": "assistant", "content": ""});
            let first = outgoing.chunk(role, None);
            return Some((Ok(first), outgoing));
        }
        loop {
            if !outgoing.ready.is_empty() {
                let event = outgoing.ready.remove(0);
                return Some((Ok(event), outgoing));
            }
            if outgoing.over {
                return None;
            }
            outgoing.take_next().await;
        }
    })
}

impl Outgoing {
    async fn take_next(&mut self) {
        let Some(piece) = self.reply.events.recv().await else {
            let sentence = "The reply ended without an end.".to_owned();
            return self.fail("shard_unavailable", sentence);
        };
        match piece.event {
            ReplyEvent::TokenDelta { text, .. } if !text.is_empty() => {
                let chunk = self.chunk(json!({"content": text}), None);
                self.ready.push(chunk);
            }
            ReplyEvent::TokenDelta { .. } | ReplyEvent::Started { .. } => {}
            ReplyEvent::ShardStatus { device, status } => {
                let word = match status {
                    ShardState::Online => "online",
                    ShardState::Degraded => "degraded",
                    ShardState::Lost => "lost",
                };
                self.comment(&format!("shard_status {device}: {word}"));
            }
            ReplyEvent::ShardFailover { failover, .. } => self.comment(&format!(
                "shard_failover {} to {} after {:.0} ms",
                failover.from, failover.to, failover.pause_ms
            )),
            ReplyEvent::FallbackToLocal { .. } => self.comment("fallback_to_local"),
            ReplyEvent::Done { summary } => {
                self.over = true;
                let last = self.chunk(json!({}), Some(finish_reason(&summary)));
                self.ready.push(last);
                if self.include_usage {
                    let mut body = self.body();
                    body["choices"] = json!([]);
                    body["usage"] = usage(&summary);
                    self.ready.push(Event::default().data(body.to_string()));
                }
                self.ready.push(Event::default().data("[DONE]"));
            }
            ReplyEvent::PipelineAborted { code, sentence } => self.fail(&code, sentence),
        }
    }

    fn fail(&mut self, code: &str, sentence: String) {
        self.over = true;
        self.ready.push(Event::default().data(aborted(code, sentence).body().to_string()));
    }

    fn comment(&mut self, text: &str) {
        // A device's name is untrusted text; a line break in it would end the comment.
        let line = text.replace(['\r', '\n'], " ");
        self.ready.push(Event::default().comment(line));
    }

    fn chunk(&self, delta: Value, finish_reason: Option<&str>) -> Event {
        let mut body = self.body();
        body["choices"] = json!([{
            "index": 0,
            "delta": delta,
            "logprobs": null,
            "finish_reason": finish_reason,
        }]);
        Event::default().data(body.to_string())
    }

    fn body(&self) -> Value {
        json!({
            "id": self.completion.id,
            "object": "chat.completion.chunk",
            "created": self.completion.created,
            "model": self.completion.model,
        })
    }
}
