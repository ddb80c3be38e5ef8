//! `POST /v1/chat/completions`, whole or streamed.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use nook_base::clock;
use nook_text::Said;

use crate::answer::{AnswerHead, new_call_id, new_id};
use crate::asking::{Asked, Heard, Leaves};
use crate::body;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::happened::Computed;
use crate::port::Port;
use crate::shapes::{
    CalledFunction, ChatChoice, ChatCompletion, ChatLogprobs, Message, ToolCall, Usage,
    finish_reason,
};

mod chunks;
mod request;

pub(crate) use request::Body;

/// Makes a reply.
pub(crate) async fn complete(
    State(port): State<Port>,
    Extension(caller): Extension<Caller>,
    body: axum::body::Body,
) -> Result<Response, ApiError> {
    let sent: Body = body::read(body, port.limits.body).await?;
    let understood = sent.understand(&port.house.now())?;
    let id = new_id("chatcmpl-");
    let asked =
        Asked::begin(&port, caller, understood.request, &id, Leaves::of(understood.stream)).await?;
    let model = asked.model().to_owned();
    let head = AnswerHead { id, created: clock::unix_seconds(), model };
    if understood.stream {
        Ok(chunks::respond(head, asked, understood.extras))
    } else {
        whole(head, asked, understood.extras.inglenook).await
    }
}

/// Collects a reply. The client's leaving drops this future, and with it the reply.
async fn whole(
    head: AnswerHead,
    mut asked: Asked,
    tells_devices: bool,
) -> Result<Response, ApiError> {
    let mut collected = Collected::default();
    let mut told = Vec::new();
    loop {
        match asked.next().await {
            Heard::Said { pieces, logprobs } => {
                collected.take(pieces);
                told.extend(logprobs);
            }
            Heard::Happened(_) => {}
            Heard::Broken(error) => return Err(error),
            Heard::End { pieces, summary } => {
                collected.take(pieces);
                let reason = collected.reason(finish_reason(&summary));
                let choice = ChatChoice {
                    index: 0,
                    message: collected.message(),
                    logprobs: ChatLogprobs::of(&told),
                    finish_reason: reason,
                };
                let answer = ChatCompletion {
                    id: head.id,
                    object: "chat.completion",
                    created: head.created,
                    model: head.model,
                    choices: vec![choice],
                    usage: Usage::from(&summary),
                    inglenook: tells_devices.then(|| Computed::from(&summary)),
                };
                return Ok(Json(answer).into_response());
            }
        }
    }
}

/// What was said so far.
#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) text: String,
    pub(crate) thought: String,
    pub(crate) calls: Vec<ToolCall>,
}

impl Collected {
    pub(crate) fn take(&mut self, pieces: Vec<Said>) {
        for piece in pieces {
            match piece {
                Said::Text(text) => self.text.push_str(&text),
                Said::Thought(text) => self.thought.push_str(&text),
                Said::Call { name, .. } => self.calls.push(ToolCall {
                    id: new_call_id(),
                    kind: "function",
                    function: CalledFunction { name, arguments: String::new() },
                }),
                // Pieces of a call come behind its beginning.
                Said::Arguments { text, .. } => {
                    if let Some(call) = self.calls.last_mut() {
                        call.function.arguments.push_str(&text);
                    }
                }
            }
        }
    }

    /// Why it ended: calls are a reason of their own, unless they were cut.
    fn reason(&self, reason: &'static str) -> &'static str {
        if self.calls.is_empty() || reason == "length" { reason } else { "tool_calls" }
    }

    fn message(self) -> Message {
        let thought = (!self.thought.is_empty()).then_some(self.thought);
        let silent = self.text.is_empty() && !self.calls.is_empty();
        Message {
            role: "assistant",
            content: (!silent).then_some(self.text),
            refusal: None,
            reasoning_content: thought.clone(),
            reasoning: thought,
            tool_calls: self.calls,
        }
    }
}
