//! A reply in Ollama's form: lines of JSON while it is made, or one object.

use std::collections::VecDeque;

use axum::Json;
use axum::response::{IntoResponse, Response};
use nook_api::views::ReplySummary;
use nook_base::clock;
use nook_text::Said;
use serde_json::{Value, json};

use super::request::Understood;
use crate::answer::{moment, new_call_id, new_id};
use crate::asking::{Asked, Heard, Leaves};
use crate::caller::Caller;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::models;
use crate::port::Port;
use crate::preparing::Place;
use crate::shapes::finish_reason;
use crate::stream::{Line, Outgoing, send_lines};

/// Nanoseconds of a millisecond.
const NS_PER_MS: f64 = 1e6;

/// Which of the two forms an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `message` with its role.
    Chat,
    /// `response`, a text.
    Generate,
}

/// What was said since the last line.
#[derive(Default)]
struct Fresh {
    text: String,
    thought: String,
    calls: Vec<Call>,
    /// Calls of the reply so far.
    begun: usize,
}

/// A call; told once it is complete, because its arguments are an object here.
struct Call {
    id: String,
    /// Which of the reply it is.
    index: usize,
    name: String,
    arguments: String,
}

/// Answers, as a stream or whole.
pub(super) async fn answer(
    (port, place): (&Port, Place),
    caller: Caller,
    understood: Understood,
    form: Form,
) -> Result<Response, ApiError> {
    let Understood { request, model, stream } = understood;
    let Some(request) = request else {
        return present(port, &model, form);
    };
    let (id, request_id) = (new_id("chat-"), caller.request_id.clone());
    let asked = Asked::begin(port, caller, request, &id, Leaves::of(stream)).await?;
    drop(place);
    let answering = Answering { form, asked, request_id, fresh: Fresh::default() };
    if stream { Ok(send_lines(answering)) } else { whole(answering).await }
}

/// The answer to a request that only wants to know that the model is here.
fn present(port: &Port, model: &str, form: Form) -> Result<Response, ApiError> {
    let view = port.house.now();
    let model = models::find(&view, model)?;
    let mut line = line(form, &model.name, &Fresh::default());
    line["done"] = true.into();
    line["done_reason"] = "load".into();
    Ok(Json(line).into_response())
}

/// A reply that is being told.
struct Answering {
    form: Form,
    asked: Asked,
    request_id: String,
    fresh: Fresh,
}

/// Collects a reply. The client's leaving drops this future, and with it the reply.
async fn whole(mut answering: Answering) -> Result<Response, ApiError> {
    loop {
        match answering.asked.next().await {
            Heard::Said { pieces, .. } => answering.fresh.take(pieces),
            Heard::Happened(_) => {}
            Heard::Broken(error) => return Err(error),
            Heard::End { pieces, summary, .. } => {
                answering.fresh.take(pieces);
                let line = line(answering.form, &summary.model, &answering.fresh);
                return Ok(Json(ended(line, &summary)).into_response());
            }
        }
    }
}

impl Answering {
    /// Tells what is complete: everything but a call that may go on.
    fn tell(&mut self, ready: &mut VecDeque<Line>) {
        let open = self.fresh.calls.pop();
        if !self.fresh.is_empty() {
            let line = line(self.form, self.asked.model(), &self.fresh);
            ready.push_back(Line(line.to_string()));
            self.fresh = Fresh { begun: self.fresh.begun, ..Fresh::default() };
        }
        self.fresh.calls.extend(open);
    }
}

impl Outgoing for Answering {
    type Piece = Line;

    async fn take_next(&mut self, ready: &mut VecDeque<Line>) -> bool {
        match self.asked.next().await {
            Heard::Said { pieces, .. } => {
                self.fresh.take(pieces);
                self.tell(ready);
                true
            }
            Heard::Happened(_) => true,
            Heard::Broken(error) => {
                let error = Dialect::Ollama.error(&error, &self.request_id);
                ready.push_back(Line(error.to_string()));
                false
            }
            Heard::End { pieces, summary, .. } => {
                self.fresh.take(pieces);
                if !self.fresh.is_empty() {
                    let line = line(self.form, &summary.model, &self.fresh);
                    ready.push_back(Line(line.to_string()));
                }
                let last = line(self.form, &summary.model, &Fresh::default());
                ready.push_back(Line(ended(last, &summary).to_string()));
                false
            }
        }
    }
}

impl Fresh {
    fn take(&mut self, pieces: Vec<Said>) {
        for piece in pieces {
            match piece {
                Said::Text(text) => self.text.push_str(&text),
                Said::Thought(text) => self.thought.push_str(&text),
                Said::Call { name, .. } => {
                    let (id, index) = (new_call_id(), self.begun);
                    self.calls.push(Call { id, index, name, arguments: String::new() });
                    self.begun += 1;
                }
                Said::Arguments { text, .. } => {
                    if let Some(call) = self.calls.last_mut() {
                        call.arguments.push_str(&text);
                    }
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thought.is_empty() && self.calls.is_empty()
    }
}

/// One object of a stream, or the beginning of the only one.
fn line(form: Form, model: &str, fresh: &Fresh) -> Value {
    let mut line =
        json!({"model": model, "created_at": moment(clock::unix_seconds()), "done": false});
    let thinking = (!fresh.thought.is_empty()).then_some(fresh.thought.as_str());
    match form {
        Form::Generate => {
            line["response"] = fresh.text.as_str().into();
            if let Some(thinking) = thinking {
                line["thinking"] = thinking.into();
            }
        }
        Form::Chat => {
            let mut message = json!({"role": "assistant", "content": fresh.text});
            if let Some(thinking) = thinking {
                message["thinking"] = thinking.into();
            }
            if !fresh.calls.is_empty() {
                message["tool_calls"] = fresh.calls.iter().map(call).collect();
            }
            line["message"] = message;
        }
    }
    line
}

/// What the limit cut is no JSON: such a call has no arguments, and the reason says that it was
/// cut.
fn call(call: &Call) -> Value {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
    let Call { id, index, name, .. } = call;
    json!({"id": id, "function": {"index": index, "name": name, "arguments": arguments}})
}

/// The last object, with what the reply took.
fn ended(mut line: Value, summary: &ReplySummary) -> Value {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times are neither negative nor centuries"
    )]
    let ns = |milliseconds: f64| (milliseconds.max(0.0) * NS_PER_MS) as u64;
    line["done"] = true.into();
    line["done_reason"] = finish_reason(summary).into();
    line["total_duration"] = ns(summary.total_ms).into();
    line["load_duration"] = 0.into();
    line["prompt_eval_count"] = summary.prompt_tokens.into();
    line["prompt_eval_duration"] = ns(summary.first_token_ms).into();
    line["eval_count"] = summary.completion_tokens.into();
    line["eval_duration"] = ns(summary.total_ms - summary.first_token_ms).into();
    line
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use nook_api::views::{FinishReason, ReplyEvent, RouteView};
    use nook_api::{Reply, ReplyPiece};
    use nook_base::Sensitive;
    use nook_text::{ReplyForm, Thought, ToolForm};
    use tokio::sync::mpsc;

    use super::*;

    fn summary() -> ReplySummary {
        ReplySummary {
            model: "m".to_owned(),
            finish_reason: FinishReason::Stop,
            prompt_tokens: 3,
            completion_tokens: 2,
            route: RouteView { legs: Vec::new() },
            tokens_per_second: 0.0,
            first_token_ms: 2.0,
            resumed_tokens: 0,
            computed_tokens: 5,
            failovers: Vec::new(),
            total_ms: 5.0,
            timeline: Vec::new(),
            predicted: None,
            shared: Vec::new(),
        }
    }

    #[tokio::test]
    async fn calls_are_told_whole_and_thinking_apart() {
        let (events, receiver) = mpsc::channel(16);
        let form = ReplyForm {
            calls: Some(ToolForm::Hermes),
            names: vec!["go".to_owned(), "rest".to_owned()],
            texts: Vec::new(),
            calls_max: 8,
            thought: Thought::Perhaps,
        };
        let said = [
            "<think>Hm.</think>I go. ",
            "<tool_call>{\"name\": \"go\", \"arguments\": {\"way\"",
            ": \"up\"}}</tool_call>",
            "<tool_call>{\"name\": \"rest\"}</tool_call>",
        ];
        let told = said
            .into_iter()
            .map(|text| ReplyEvent::TokenDelta { text: text.to_owned(), tokens: 1 });
        for event in told.chain([ReplyEvent::Done { summary: summary() }]) {
            let ids = Sensitive(Vec::new());
            let piece = ReplyPiece { event, ids, logprobs: None, stopped: None };
            events.send(piece).await.unwrap();
        }
        let prompt_ids = Sensitive(Vec::new());
        let reply = Reply { model: "m".to_owned(), prompt_ids, form, events: receiver };
        let (asked, request_id) = (Asked::told(reply, "ID"), "req".to_owned());
        let answering = Answering { form: Form::Chat, asked, request_id, fresh: Fresh::default() };
        let body = to_bytes(send_lines(answering).into_body(), 1 << 16).await.unwrap();
        let lines: Vec<Value> = std::str::from_utf8(&body)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let call = |index: usize, name: &str, arguments: Value| {
            let called = json!({"index": index, "name": name, "arguments": arguments});
            json!([{"id": index.to_string(), "function": called}])
        };
        let mut messages: Vec<_> = lines.iter().map(|line| line["message"].clone()).collect();
        let mut ids = Vec::new();
        for message in &mut messages {
            for call in
                message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten()
            {
                ids.push(call["id"].take());
                call["id"] = (ids.len() - 1).to_string().into();
            }
        }
        assert!(ids.iter().all(Value::is_string) && ids[0] != ids[1], "{ids:?}");
        assert_eq!(
            messages,
            [
                json!({"role": "assistant", "content": "I go.", "thinking": "Hm."}),
                json!({"role": "assistant", "content": "", "tool_calls": call(0, "go", json!({"way": "up"}))}),
                json!({"role": "assistant", "content": "", "tool_calls": call(1, "rest", json!({}))}),
                json!({"role": "assistant", "content": ""}),
            ]
        );
        let last = lines.last().unwrap();
        assert_eq!((&last["done"], &last["done_reason"]), (&json!(true), &json!("stop")));
        assert_eq!(last["eval_duration"], 3_000_000);
    }
}
