//! `POST /v1/responses`: the newer shape of OpenAI's answers, with a short memory.
//!
//! The last answers of each key are kept in memory ([`kept`]), so that a request may go on from
//! one. The reply is the same as for chat completions; only its shape differs. Whole and streamed
//! answers are put together by the same [`items::Items`].

mod items;
mod kept;
mod offered;
mod request;
mod shape;

use std::collections::VecDeque;

use axum::extract::State;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use nook_api::views::ReplySummary;
use nook_base::clock;
use nook_text::Turn;
use serde_json::{Value, json};

use crate::answer::new_id;
use crate::asking::{Asked, Heard, Leaves};
use crate::caller::Caller;
use crate::error::ApiError;
use crate::port::Port;
use crate::shapes::finish_reason;
use crate::stream::{self, Outgoing, comment};
use items::Items;
use kept::KeptAnswer;
pub(crate) use kept::KeptAnswers;
pub(crate) use request::Body;
use request::Earlier;
pub(crate) use shape::ResponseObject;
use shape::{Incomplete, ResponseUsage};

/// Makes a response.
pub(crate) async fn respond(
    State(port): State<Port>,
    Extension(caller): Extension<Caller>,
    body: axum::body::Body,
) -> Result<Response, ApiError> {
    let (sent, place): (Body, _) = port.read_in_turn(body).await?;
    let earlier = Earlier { kept: &port.kept, key: caller.key.as_deref() };
    let understood = sent.understand(&port.house.now(), &earlier)?;
    let id = new_id("resp_");
    let (leaves, key) = (Leaves::of(understood.stream), caller.key.clone());
    let (model, mut object) = (understood.request.model.clone(), understood.object);
    let begun = Asked::begin(&port, caller, understood.request, &id, leaves).await;
    drop(place);
    object.id = id;
    object.created_at = clock::unix_seconds();
    let asked = match begun {
        Ok(asked) => asked,
        // Codex makes its conversation shorter only where the stream itself says that it must.
        Err(error) if understood.stream && error.overflow().is_some() => {
            object.model = model;
            return Ok(stream::send(Refused { object, error }));
        }
        Err(error) => return Err(error),
    };
    object.model = asked.model().to_owned();
    let answering = Answering {
        items: Items::new(understood.spaces),
        keeping: object.store.then(|| Keeping { kept: port.kept, key, turns: understood.turns }),
        object,
        asked,
        number: 0,
        begun: false,
    };
    if understood.stream { Ok(stream::send(answering)) } else { whole(answering).await }
}

/// A response that is being made.
struct Answering {
    object: ResponseObject,
    asked: Asked,
    items: Items,
    /// Absent where it is not to be kept.
    keeping: Option<Keeping>,
    /// Of the next event.
    number: u64,
    begun: bool,
}

/// Where an answer is kept, and what belongs to it.
struct Keeping {
    kept: KeptAnswers,
    key: Option<String>,
    turns: Vec<Turn>,
}

/// Collects a response. The client's leaving drops this future, and with it the reply.
async fn whole(mut answering: Answering) -> Result<Response, ApiError> {
    let mut unread = Vec::new();
    loop {
        unread.clear();
        match answering.asked.next().await {
            Heard::Said { pieces, .. } => answering.items.take(pieces, &mut unread),
            Heard::Happened(_) => {}
            Heard::Broken(error) => return Err(error),
            Heard::End { pieces, summary, .. } => {
                answering.items.take(pieces, &mut unread);
                answering.finish(&summary, &mut unread);
                return Ok(Json(answering.object).into_response());
            }
        }
    }
}

impl Answering {
    /// The reply is over: the object says how.
    fn finish(&mut self, summary: &ReplySummary, events: &mut Vec<Value>) {
        let is_cut = finish_reason(summary) == "length";
        let status = if is_cut { "incomplete" } else { "completed" };
        self.items.close(status, events);
        self.object.status = status;
        self.object.incomplete_details =
            is_cut.then_some(Incomplete { reason: "max_output_tokens" });
        self.object.output = self.items.output();
        self.object.usage = Some(ResponseUsage::from(summary));
        if let Some(Keeping { kept, key, turns }) = self.keeping.take() {
            let (id, output) = (self.object.id.clone(), self.items.output());
            kept.keep(key.as_deref(), KeptAnswer { id, turns, output });
        }
    }

    /// An event about the whole response.
    fn about(&self, kind: &str) -> Value {
        about(&self.object, kind)
    }

    fn number_and_send(&mut self, events: Vec<Value>, ready: &mut VecDeque<Event>) {
        for event in events {
            ready.push_back(numbered(event, self.number));
            self.number += 1;
        }
    }
}

/// A response that fails before it begins.
struct Refused {
    object: ResponseObject,
    error: ApiError,
}

impl Outgoing for Refused {
    type Piece = Event;

    async fn take_next(&mut self, ready: &mut VecDeque<Event>) -> bool {
        ready.push_back(numbered(about(&self.object, "response.created"), 0));
        self.object.fail(&self.error);
        ready.push_back(numbered(about(&self.object, "response.failed"), 1));
        false
    }
}

fn about(object: &ResponseObject, kind: &str) -> Value {
    json!({"type": kind, "response": object})
}

fn numbered(mut event: Value, number: u64) -> Event {
    let kind = event["type"].as_str().unwrap_or_default().to_owned();
    event["sequence_number"] = number.into();
    Event::default().event(kind).data(event.to_string())
}

impl Outgoing for Answering {
    type Piece = Event;

    async fn take_next(&mut self, ready: &mut VecDeque<Event>) -> bool {
        let mut events = Vec::new();
        let mut more = true;
        if !self.begun {
            self.begun = true;
            events.push(self.about("response.created"));
            events.push(self.about("response.in_progress"));
            self.number_and_send(events, ready);
            return true;
        }
        match self.asked.next().await {
            Heard::Said { pieces, .. } => self.items.take(pieces, &mut events),
            Heard::Happened(what) => ready.extend(comment(&what)),
            Heard::Broken(error) => {
                self.items.close("incomplete", &mut events);
                self.object.output = self.items.output();
                self.object.fail(&error);
                events.push(self.about("response.failed"));
                more = false;
            }
            Heard::End { pieces, summary, .. } => {
                self.items.take(pieces, &mut events);
                self.finish(&summary, &mut events);
                events.push(self.about(&format!("response.{}", self.object.status)));
                more = false;
            }
        }
        self.number_and_send(events, ready);
        more
    }
}
