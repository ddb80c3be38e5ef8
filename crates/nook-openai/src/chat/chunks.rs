//! A chat completion as server-sent events.
//!
//! Exactly one of two ends comes: a chunk with the finish reason and `[DONE]`, or an error object.

use std::collections::VecDeque;

use axum::response::Response;
use axum::response::sse::Event;
use nook_api::PieceLogprobs;
use nook_text::Said;

use super::Others;
use super::request::Extras;
use crate::answer::{AnswerHead, new_call_id};
use crate::asking::{Asked, Heard};
use crate::happened::{Computed, Happened};
use crate::shapes::{
    ChatChunk, ChatLogprobs, ChunkChoice, Delta, FunctionDelta, ToolCallDelta, Usage, finish_reason,
};
use crate::stream::{Outgoing, comment, data, failed, send};

/// A chat completion as chunks.
struct Chunks {
    head: AnswerHead,
    asked: Asked,
    /// Replies to the same request that come behind this one.
    more: Option<Others>,
    extras: Extras,
    /// Which reply this is.
    index: usize,
    /// Tokens of all replies.
    tokens: u32,
    begun: bool,
    /// Odds of tokens whose text was not sent yet.
    logprobs: Vec<PieceLogprobs>,
}

/// The response for a chat completion.
pub(crate) fn respond(
    head: AnswerHead,
    asked: Asked,
    more: Option<Others>,
    extras: Extras,
) -> Response {
    let (index, tokens, begun, logprobs) = (0, 0, false, Vec::new());
    send(Chunks { head, asked, more, extras, index, tokens, begun, logprobs })
}

impl Outgoing for Chunks {
    type Piece = Event;

    async fn take_next(&mut self, ready: &mut VecDeque<Event>) -> bool {
        if !self.begun {
            self.begun = true;
            let content = Some(String::new());
            let first = Delta { role: Some("assistant"), content, ..Delta::default() };
            ready.push_back(self.chunk(first, None));
            return true;
        }
        match self.asked.next().await {
            Heard::Said { pieces, logprobs } => {
                self.logprobs.extend(logprobs);
                self.say(pieces, ready);
                true
            }
            Heard::Happened(what) => {
                match self.extras.inglenook {
                    true => ready.push_back(self.happened(what)),
                    false => ready.extend(comment(&what)),
                }
                true
            }
            Heard::Broken(error) => {
                ready.push_back(failed(&error));
                false
            }
            Heard::End { pieces, summary, .. } => {
                self.say(pieces, ready);
                let reason = match finish_reason(&summary) {
                    "stop" if self.asked.has_called() => "tool_calls",
                    reason => reason,
                };
                ready.push_back(self.chunk(Delta::default(), Some(reason)));
                if self.extras.inglenook {
                    ready.push_back(self.happened(Happened::Done(Computed::from(&summary))));
                }
                self.tokens = self.tokens.saturating_add(summary.completion_tokens);
                self.go_on(summary.prompt_tokens, ready).await
            }
        }
    }
}

impl Chunks {
    /// Behind a reply comes the next one, or the end.
    async fn go_on(&mut self, prompt_tokens: u32, ready: &mut VecDeque<Event>) -> bool {
        let next = match &mut self.more {
            Some(more) => more.next().await,
            None => None,
        };
        match next {
            Some(Ok(asked)) => {
                (self.asked, self.begun) = (asked, false);
                self.index += 1;
                true
            }
            Some(Err(error)) => {
                ready.push_back(failed(&error));
                false
            }
            None => {
                if self.extras.usage {
                    let usage = Some(Usage::of(prompt_tokens, self.tokens));
                    ready.push_back(data(&ChatChunk { usage, ..self.frame(Vec::new()) }));
                }
                ready.push_back(Event::default().data("[DONE]"));
                false
            }
        }
    }

    fn say(&mut self, pieces: Vec<Said>, ready: &mut VecDeque<Event>) {
        for piece in pieces {
            ready.push_back(self.chunk(delta(piece), None));
        }
    }

    fn chunk(&mut self, delta: Delta, finish_reason: Option<&'static str>) -> Event {
        let logprobs = std::mem::take(&mut self.logprobs);
        let logprobs = ChatLogprobs::of(&logprobs);
        let index = self.index;
        data(&self.frame(vec![ChunkChoice { index, delta, logprobs, finish_reason }]))
    }

    fn happened(&self, what: Happened) -> Event {
        data(&ChatChunk { inglenook: Some(what), ..self.frame(Vec::new()) })
    }

    fn frame(&self, choices: Vec<ChunkChoice>) -> ChatChunk<'_> {
        ChatChunk {
            id: &self.head.id,
            object: "chat.completion.chunk",
            created: self.head.created,
            model: &self.head.model,
            choices,
            usage: None,
            inglenook: None,
        }
    }
}

fn delta(piece: Said) -> Delta {
    match piece {
        Said::Text(text) => Delta { content: Some(text), ..Delta::default() },
        Said::Thought(text) => Delta {
            reasoning_content: Some(text.clone()),
            reasoning: Some(text),
            ..Delta::default()
        },
        Said::Call { index, name } => call_delta(ToolCallDelta {
            index,
            id: Some(new_call_id()),
            kind: Some("function"),
            function: FunctionDelta { name: Some(name), arguments: String::new() },
        }),
        Said::Arguments { index, text } => call_delta(ToolCallDelta {
            index,
            id: None,
            kind: None,
            function: FunctionDelta { name: None, arguments: text },
        }),
    }
}

fn call_delta(call: ToolCallDelta) -> Delta {
    Delta { tool_calls: vec![call], ..Delta::default() }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use futures_util::StreamExt;
    use nook_api::views::{
        FailoverView, FinishReason, ReplyEvent, ReplySummary, RouteView, ShardState,
    };
    use nook_api::{NodeError, Reply, ReplyPiece};
    use nook_base::{ErrorCode, Sensitive};
    use nook_text::{ReplyForm, Thought, ToolForm};
    use tokio::sync::mpsc;

    use super::*;

    /// A response whose reply is told by the test.
    fn respond_to(extras: Extras, form: ReplyForm) -> (mpsc::Sender<ReplyPiece>, Body) {
        let (events, receiver) = mpsc::channel(16);
        let (model, prompt_ids) = ("m".to_owned(), Sensitive(Vec::new()));
        let reply = Reply { model, prompt_ids, form, events: receiver };
        let head = AnswerHead { id: "ID".to_owned(), created: 7, model: reply.model.clone() };
        let asked = Asked::told(reply, "ID");
        (events, respond(head, asked, None, extras).into_body())
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
            total_ms: 0.0,
            timeline: Vec::new(),
            predicted: None,
            shared: Vec::new(),
        };
        ReplyEvent::Done { summary }
    }

    fn aborted_at_a_device() -> ReplyEvent {
        NodeError::new(ErrorCode::ShardUnavailable, "Desk is gone.").into()
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
        let extras = Extras { usage: include_usage, ..Extras::default() };
        let bytes = sent(told, extras, ReplyForm::plain()).await;
        let begin = chunk(r#"{"role":"assistant","content":""}"#, "null");
        assert_eq!(bytes, begin + &expected.concat());
    }

    async fn sent(told: Vec<ReplyEvent>, extras: Extras, form: ReplyForm) -> String {
        let (events, body) = respond_to(extras, form);
        for event in told {
            let ids = Sensitive(Vec::new());
            let piece = ReplyPiece { event, ids, logprobs: None, stopped: None };
            events.send(piece).await.unwrap();
        }
        drop(events);
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
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

    /// A device is lost and this one takes over.
    fn taken_over() -> Vec<ReplyEvent> {
        let failover = FailoverView {
            from: "Desk\r\ndata: evil".to_owned(),
            to: "Attic".to_owned(),
            pause_ms: 12.4,
            after_tokens: 1,
        };
        vec![
            ReplyEvent::Started { prompt_tokens: 3, route: route(), predicted: None },
            ReplyEvent::ShardStatus { device: "Desk".to_owned(), status: ShardState::Lost },
            ReplyEvent::ShardFailover { failover, route: route() },
            ReplyEvent::FallbackToLocal { route: route() },
            done(),
        ]
    }

    #[tokio::test]
    async fn whoever_asks_is_told_in_objects_what_happens_between_devices() {
        let extras = Extras { inglenook: true, usage: false };
        let bytes = sent(taken_over(), extras, ReplyForm::plain()).await;
        let told: Vec<serde_json::Value> = bytes
            .split("\n\n")
            .filter_map(|event| event.strip_prefix("data: "))
            .filter_map(|data| serde_json::from_str::<serde_json::Value>(data).ok())
            .filter(|chunk| chunk["choices"] == serde_json::json!([]))
            .map(|mut chunk| chunk["inglenook"].take())
            .collect();
        assert_eq!(
            told,
            [
                serde_json::json!({"event": "shard_status", "device": "Desk", "status": "lost"}),
                serde_json::json!({"event": "shard_failover", "from": "Desk\r\ndata: evil",
                    "to": "Attic", "pause_ms": 12.4, "after_tokens": 1}),
                serde_json::json!({"event": "fallback_to_local"}),
                serde_json::json!({"event": "done", "route": [], "failovers": [],
                    "first_token_ms": 0.0, "tokens_per_second": 0.0,
                    "predicted_alone": null, "predicted_together": null, "shared": []}),
            ]
        );
        assert!(!bytes.contains("\n:") && bytes.ends_with("data: [DONE]\n\n"), "{bytes}");
    }

    #[tokio::test]
    async fn what_happens_between_devices_travels_as_comments() {
        let told = taken_over();
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
        let (_events, body) = respond_to(Extras::default(), ReplyForm::plain());
        let mut pieces = body.into_data_stream();
        let begin = chunk(r#"{"role":"assistant","content":""}"#, "null");
        assert_eq!(pieces.next().await.unwrap().unwrap(), begin);
        assert_eq!(pieces.next().await.unwrap().unwrap(), ":\n\n");
    }

    #[tokio::test]
    async fn dropping_the_response_drops_the_reply() {
        let (events, body) = respond_to(Extras::default(), ReplyForm::plain());
        drop(body);
        assert!(events.is_closed());
    }

    /// A reply that thinks, says something and calls two tools, with names as a model writes them.
    const ACTING: &[&str] = &[
        "<think>\nHm",
        "m.</think>\n\nI lo",
        "ok.\n<tool_",
        "call>\n{\"name\": \"look\", \"argu",
        "ments\": {\"at\": \"{<sky",
        ">}\"}}\n</tool_call>\n<tool_call>\n",
        "{\"name\": \"rest\", \"arguments\": {}}\n</tool_call>",
    ];

    #[tokio::test]
    async fn thinking_and_calls_leave_in_fields_of_their_own() {
        let form = ReplyForm {
            calls: Some(ToolForm::Hermes),
            names: vec!["look".to_owned(), "rest".to_owned()],
            texts: Vec::new(),
            calls_max: 8,
            thought: Thought::Perhaps,
        };
        let mut told: Vec<_> = ACTING.iter().map(|text| delta(text)).collect();
        told.push(done());
        let bytes = sent(told, Extras::default(), form).await;
        let chunks: Vec<serde_json::Value> = bytes
            .split("\n\n")
            .filter_map(|event| event.strip_prefix("data: "))
            .filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        let of = |key: &str| -> String {
            let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
            deltas.filter_map(|delta| delta[key].as_str()).collect()
        };
        assert_eq!(of("content"), "I look.");
        assert_eq!((of("reasoning_content"), of("reasoning")), ("Hmm.".into(), "Hmm.".into()));
        let calls: Vec<&serde_json::Value> = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].get(0))
            .collect();
        let named: Vec<_> = calls.iter().filter(|call| call["id"].is_string()).collect();
        assert_eq!(named.len(), 2);
        for (index, name) in ["look", "rest"].iter().enumerate() {
            assert_eq!(named[index]["index"], index);
            assert_eq!(named[index]["type"], "function");
            assert_eq!(named[index]["function"]["name"], *name);
        }
        let arguments = |index: usize| -> String {
            let its = calls.iter().filter(|call| call["index"] == index);
            its.map(|call| call["function"]["arguments"].as_str().unwrap()).collect()
        };
        assert_eq!(arguments(0), "{\"at\": \"{<sky>}\"}");
        assert_eq!(arguments(1), "{}");
        let last = chunks.last().unwrap();
        assert_eq!(last["choices"][0]["finish_reason"], "tool_calls");
    }
}
