//! `POST /v1/chat/completions`, whole or streamed.

use std::collections::VecDeque;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use nook_api::GenerateRequest;
use nook_api::views::ReplySummary;
use nook_base::clock;
use nook_text::Said;

use crate::answer::{AnswerHead, new_call_id, new_id};
use crate::asking::{Asked, Heard, Leaves};
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
    let (sent, place): (Body, _) = port.read_in_turn(body).await?;
    let understood = sent.understand(&port.house.now())?;
    let (id, leaves) = (new_id("chatcmpl-"), Leaves::of(understood.stream));
    let asked = Asked::begin(&port, caller.clone(), understood.request, &id, leaves).await?;
    drop(place);
    let model = asked.model().to_owned();
    let more = Others { port, caller, id: id.clone(), leaves, waiting: understood.more };
    let head = AnswerHead { id, created: clock::unix_seconds(), model };
    if understood.stream {
        Ok(chunks::respond(head, asked, Some(more), understood.extras))
    } else {
        whole(head, asked, more, understood.extras.inglenook).await
    }
}

/// Replies to the same request that wait for the one before them.
pub(crate) struct Others {
    port: Port,
    caller: Caller,
    id: String,
    leaves: Leaves,
    waiting: VecDeque<GenerateRequest>,
}

impl Others {
    /// Asks for the next one, if there is one.
    pub(crate) async fn next(&mut self) -> Option<Result<Asked, ApiError>> {
        let request = self.waiting.pop_front()?;
        let caller = self.caller.clone();
        Some(Asked::begin(&self.port, caller, request, &self.id, self.leaves).await)
    }
}

/// Collects all replies. The client's leaving drops this future, and with it the reply.
async fn whole(
    head: AnswerHead,
    mut asked: Asked,
    mut more: Others,
    tells_devices: bool,
) -> Result<Response, ApiError> {
    let (mut choices, mut completion_tokens) = (Vec::new(), 0_u32);
    loop {
        let (choice, summary) = one(asked, choices.len()).await?;
        choices.push(choice);
        completion_tokens = completion_tokens.saturating_add(summary.completion_tokens);
        match more.next().await {
            Some(next) => asked = next?,
            None => {
                let answer = ChatCompletion {
                    id: head.id,
                    object: "chat.completion",
                    created: head.created,
                    model: head.model,
                    choices,
                    usage: Usage::of(summary.prompt_tokens, completion_tokens),
                    inglenook: tells_devices.then(|| Computed::from(&summary)),
                };
                return Ok(Json(answer).into_response());
            }
        }
    }
}

/// One reply to its end.
async fn one(mut asked: Asked, index: usize) -> Result<(ChatChoice, ReplySummary), ApiError> {
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
            Heard::End { pieces, summary, .. } => {
                collected.take(pieces);
                let reason = collected.reason(finish_reason(&summary));
                let choice = ChatChoice {
                    index,
                    message: collected.message(),
                    logprobs: ChatLogprobs::of(&told),
                    finish_reason: reason,
                };
                return Ok((choice, summary));
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
