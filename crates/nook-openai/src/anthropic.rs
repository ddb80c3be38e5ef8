//! `POST /v1/messages` and `/v1/messages/count_tokens`: the form of Anthropic's clients.
//!
//! A request becomes the same request to the house as a chat completion, and is read by the same
//! [`Asked`]; only the form differs. Whole and streamed messages are put together by the same
//! [`Blocks`].

mod blocks;
mod content;
mod request;
mod shape;

use std::collections::VecDeque;

use axum::extract::State;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use nook_api::views::{FinishReason, ReplySummary};
use nook_base::Sensitive;
use serde_json::{Value, json};

use crate::answer::new_id;
use crate::asking::{Asked, Heard, Leaves, refused};
use crate::caller::Caller;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::port::Port;
use crate::stream::{self, Outgoing, comment};
use blocks::Blocks;
pub(crate) use request::Body;
use shape::MessageUsage;
pub(crate) use shape::{Counted, MessageObject};

/// Makes a message.
pub(crate) async fn answer(
    State(port): State<Port>,
    Extension(caller): Extension<Caller>,
    body: axum::body::Body,
) -> Result<Response, ApiError> {
    let (sent, place): (Body, _) = port.read_in_turn(body).await?;
    let understood = sent.understand(&port.house.now())?;
    let id = new_id("msg_");
    let stops = understood.request.stop.clone();
    let request_id = caller.request_id.clone();
    let leaves = Leaves::of(understood.stream);
    let asked = Asked::begin(&port, caller, understood.request, &id, leaves).await?;
    drop(place);
    let (blocks, begun) = (Blocks::default(), false);
    let answering = Answering { id, request_id, stops: Sensitive(stops), asked, blocks, begun };
    if understood.stream {
        // A stream that waits for its turn tells that in its own events.
        let ping = Event::default().event("ping").data(json!({"type": "ping"}).to_string());
        return Ok(stream::send_with(answering, ping));
    }
    whole(answering).await
}

/// Counts the tokens of a prompt.
pub(crate) async fn count(
    State(port): State<Port>,
    body: axum::body::Body,
) -> Result<Json<Counted>, ApiError> {
    let (sent, place): (Body, _) = port.read_in_turn(body).await?;
    let understood = sent.understand(&port.house.now())?;
    let counted = port.house.count(understood.request).await;
    drop(place);
    let counted = counted.map_err(|error| refused(&port, error))?;
    Ok(Json(Counted { input_tokens: counted.tokens }))
}

/// A message that is being made.
struct Answering {
    id: String,
    request_id: String,
    /// The strings that the client wants it to end at.
    stops: Sensitive<Vec<String>>,
    asked: Asked,
    blocks: Blocks,
    begun: bool,
}

/// Collects a message. The client's leaving drops this future, and with it the reply.
async fn whole(mut answering: Answering) -> Result<Response, ApiError> {
    let mut unread = Vec::new();
    loop {
        unread.clear();
        match answering.asked.next().await {
            Heard::Said { pieces, .. } => answering.blocks.take(pieces, &mut unread),
            Heard::Happened(_) => {}
            Heard::Broken(error) => return Err(error),
            Heard::End { pieces, summary, stopped } => {
                answering.blocks.take(pieces, &mut unread);
                answering.blocks.close(&mut unread);
                let (stop_reason, stop_sequence) = answering.end(&summary, stopped);
                let message = MessageObject {
                    id: answering.id,
                    kind: "message",
                    role: "assistant",
                    model: summary.model.clone(),
                    content: answering.blocks.content(),
                    stop_reason: Some(stop_reason),
                    stop_sequence,
                    usage: MessageUsage::from(&summary),
                };
                return Ok(Json(message).into_response());
            }
        }
    }
}

impl Answering {
    /// Why it ended, and at which of the client's strings.
    fn end(
        &self,
        summary: &ReplySummary,
        stopped: Option<Sensitive<String>>,
    ) -> (&'static str, Option<String>) {
        // The model's own marks of an end are no business of the client.
        let stopped = stopped.map(|it| it.0).filter(|it| self.stops.contains(it));
        match (summary.finish_reason, stopped) {
            (FinishReason::Length, _) => ("max_tokens", None),
            (FinishReason::Stop, Some(stop)) => ("stop_sequence", Some(stop)),
            (FinishReason::Stop, None) if self.asked.has_called() => ("tool_use", None),
            (FinishReason::Stop, None) => ("end_turn", None),
        }
    }

    /// The message before anything was said.
    fn start(&self, prompt_tokens: u32) -> Value {
        let message = MessageObject {
            id: self.id.clone(),
            kind: "message",
            role: "assistant",
            model: self.asked.model().to_owned(),
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            usage: MessageUsage::of_prompt(prompt_tokens),
        };
        json!({"type": "message_start", "message": message})
    }

    fn broken(&self, error: &ApiError) -> Value {
        Dialect::Anthropic.error(error, &self.request_id)
    }
}

impl Outgoing for Answering {
    type Piece = Event;

    async fn take_next(&mut self, ready: &mut VecDeque<Event>) -> bool {
        let mut events = Vec::new();
        let mut more = true;
        if !self.begun {
            // Nothing but pings may stand before the first event, which tells the prompt's length.
            self.begun = true;
            match self.asked.come().await {
                Ok(prompt_tokens) => events.push(self.start(prompt_tokens)),
                Err(error) => {
                    events.push(self.broken(&error));
                    more = false;
                }
            }
            ready.extend(events.iter().map(event));
            return more;
        }
        match self.asked.next().await {
            Heard::Said { pieces, .. } => self.blocks.take(pieces, &mut events),
            Heard::Happened(what) => ready.extend(comment(&what)),
            Heard::Broken(error) => {
                events.push(self.broken(&error));
                more = false;
            }
            Heard::End { pieces, summary, stopped } => {
                self.blocks.take(pieces, &mut events);
                self.blocks.close(&mut events);
                let (stop_reason, stop_sequence) = self.end(&summary, stopped);
                events.push(json!({
                    "type": "message_delta",
                    "delta": {"stop_reason": stop_reason, "stop_sequence": stop_sequence},
                    "usage": MessageUsage::from(&summary),
                }));
                events.push(json!({"type": "message_stop"}));
                more = false;
            }
        }
        ready.extend(events.iter().map(event));
        more
    }
}

fn event(event: &Value) -> Event {
    let kind = event["type"].as_str().unwrap_or_default();
    Event::default().event(kind).data(event.to_string())
}
