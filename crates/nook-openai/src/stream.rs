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
}

/// The response. Dropping it, when the client leaves, drops the reply.
pub(crate) fn respond(completion: Completion, reply: Reply, include_usage: bool) -> Response {
    let outgoing =
        Outgoing { completion, reply, include_usage, ready: Vec::new(), begun: false, over: false };
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
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

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use futures_util::StreamExt;
    use nook_base::Sensitive;
    use nook_node::ReplyPiece;
    use nook_node::views::{FailoverView, FinishReason, ReplySummary, RouteView};
    use tokio::sync::mpsc;

    use super::*;

    /// A response whose reply is told by the test.
    fn respond_to(include_usage: bool) -> (mpsc::Sender<ReplyPiece>, Body) {
        let (events, receiver) = mpsc::channel(16);
        let reply =
            Reply { model: "m".to_owned(), prompt_ids: Sensitive(Vec::new()), events: receiver };
        let completion = Completion { id: "ID".to_owned(), created: 7, model: reply.model.clone() };
        (events, respond(completion, reply, include_usage).into_body())
    }

    fn route() -> RouteView {
        RouteView { legs: Vec::new() }
    }

    fn delta(text: &str) -> ReplyEvent {
        ReplyEvent::TokenDelta { text: text.to_owned(), tokens: 1 }
    }

    fn done() -> ReplyEvent {
        let summary = ReplySummary {
            model: "m".to_owned(),
            finish_reason: FinishReason::Stop,
            prompt_tokens: 3,
            completion_tokens: 2,
            route: route(),
            tokens_per_second: 0.0,
            first_token_ms: 0.0,
            resumed_tokens: 0,
            computed_tokens: 5,
            failovers: Vec::new(),
        };
        ReplyEvent::Done { summary }
    }

    fn aborted_at_a_device() -> ReplyEvent {
        let (code, sentence) = ("shard_unavailable".to_owned(), "Desk is gone.".to_owned());
        ReplyEvent::PipelineAborted { code, sentence }
    }

    fn chunk(delta: &str, reason: &str) -> String {
        format!(
            concat!(
                r#"data: {{"id":"ID","object":"chat.completion.chunk","created":7,"model":"m","#,
                r#""choices":[{{"index":0,"delta":{},"logprobs":null,"finish_reason":{}}}]}}"#,
                "\n\n"
            ),
            delta, reason
        )
    }

    /// The bytes of a stream in which `told` happens, after the first chunk that all streams have.
    async fn check(told: Vec<ReplyEvent>, include_usage: bool, expected: &[String]) {
        let (events, body) = respond_to(include_usage);
        for event in told {
            events.send(ReplyPiece { event, ids: Sensitive(Vec::new()) }).await.unwrap();
        }
        drop(events);
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let begin = chunk(r#"{"role":"assistant","content":""}"#, "null");
        assert_eq!(String::from_utf8(bytes.to_vec()).unwrap(), begin + &expected.concat());
    }

    #[tokio::test]
    async fn a_reply_is_its_pieces_one_reason_and_done() {
        let told = || vec![delta("Hel"), delta(""), delta("lo\n\r"), done()];
        let pieces = [
            chunk(r#"{"content":"Hel"}"#, "null"),
            chunk(r#"{"content":"lo\n\r"}"#, "null"),
            chunk("{}", r#""stop""#),
        ];
        let usage = r#"data: {"id":"ID","object":"chat.completion.chunk","created":7,"model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}"#;
        let end = "data: [DONE]\n\n".to_owned();
        check(told(), false, &[pieces.concat(), end.clone()]).await;
        check(told(), true, &[pieces.concat(), format!("{usage}\n\n"), end]).await;
    }

    #[tokio::test]
    async fn what_happens_between_devices_travels_as_comments() {
        let failover = FailoverView {
            from: "Desk\r\ndata: evil".to_owned(),
            to: "Attic".to_owned(),
            pause_ms: 12.4,
            after_tokens: 1,
        };
        let told = vec![
            ReplyEvent::Started { prompt_tokens: 3, route: route() },
            ReplyEvent::ShardStatus { device: "Desk".to_owned(), status: ShardState::Lost },
            ReplyEvent::ShardFailover { failover, route: route() },
            ReplyEvent::FallbackToLocal { route: route() },
            done(),
        ];
        let expected = [
            ": shard_status Desk: lost\n\n".to_owned(),
            ": shard_failover Desk  data: evil to Attic after 12 ms\n\n".to_owned(),
            ": fallback_to_local\n\n".to_owned(),
            chunk("{}", r#""stop""#),
            "data: [DONE]\n\n".to_owned(),
        ];
        check(told, false, &expected).await;
    }

    #[tokio::test]
    async fn a_broken_reply_ends_in_an_error_without_a_reason_and_without_done() {
        let error = |message: &str| {
            format!(
                concat!(
                    r#"data: {{"error":{{"message":"{}","type":"service_unavailable","#,
                    r#""param":null,"code":"shard_unavailable"}}}}"#,
                    "\n\n"
                ),
                message
            )
        };
        let said = chunk(r#"{"content":"Hel"}"#, "null");
        let told = vec![delta("Hel"), aborted_at_a_device()];
        check(told, true, &[said.clone(), error("Desk is gone.")]).await;
        // A reply without any end is one that broke.
        check(vec![delta("Hel")], true, &[said, error("The reply ended without an end.")]).await;
        // Nothing that comes after the end is sent.
        check(vec![aborted_at_a_device(), done()], true, &[error("Desk is gone.")]).await;
    }

    #[tokio::test]
    async fn while_the_prompt_is_read_a_comment_keeps_the_connection_awake() {
        let (_events, body) = respond_to(false);
        let mut pieces = body.into_data_stream();
        let begin = chunk(r#"{"role":"assistant","content":""}"#, "null");
        assert_eq!(pieces.next().await.unwrap().unwrap(), begin);
        assert_eq!(pieces.next().await.unwrap().unwrap(), ":\n\n");
    }

    #[tokio::test]
    async fn dropping_the_response_drops_the_reply() {
        let (events, body) = respond_to(false);
        drop(body);
        assert!(events.is_closed());
    }
}
