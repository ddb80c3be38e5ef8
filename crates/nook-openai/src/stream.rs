//! Server-sent events, whatever they tell: `chat`, `completions`, `responses` and `anthropic` fill
//! them. `ollama` fills lines of JSON instead.
//!
//! What happens between devices travels as comments, which every client ignores.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use serde::Serialize;

use crate::error::ApiError;
use crate::happened::Happened;

/// How often a comment keeps the connection awake while the prompt is read.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Something that becomes pieces of a stream, a few at a time.
pub(crate) trait Outgoing: Send + 'static {
    /// A server-sent event, or a line.
    type Piece: Send;

    /// Waits for more; leaves `ready` empty where there is nothing to send yet. `false` at the end.
    fn take_next(&mut self, ready: &mut VecDeque<Self::Piece>)
    -> impl Future<Output = bool> + Send;
}

/// A line of JSON.
pub(crate) struct Line(pub(crate) String);

/// The response. Dropping it, when the client leaves, drops the reply.
pub(crate) fn send(outgoing: impl Outgoing<Piece = Event>) -> Response {
    send_kept(outgoing, KeepAlive::new())
}

/// The same, kept awake by an event of its own instead of comments.
pub(crate) fn send_with(outgoing: impl Outgoing<Piece = Event>, ping: Event) -> Response {
    send_kept(outgoing, KeepAlive::new().event(ping))
}

/// The response as lines of JSON. Nothing keeps it awake: its clients take every line for news.
pub(crate) fn send_lines(outgoing: impl Outgoing<Piece = Line>) -> Response {
    let lines = events(outgoing).map(|line| line.map(|Line(line)| line + "\n"));
    let mut response = Body::from_stream(lines).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn send_kept(outgoing: impl Outgoing<Piece = Event>, keep_alive: KeepAlive) -> Response {
    let keep_alive = keep_alive.interval(KEEP_ALIVE);
    let mut response = Sse::new(events(outgoing)).keep_alive(keep_alive).into_response();
    let headers = response.headers_mut();
    headers
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn events<O: Outgoing>(outgoing: O) -> impl Stream<Item = Result<O::Piece, Infallible>> + Send {
    let state = (outgoing, VecDeque::new(), true);
    stream::unfold(state, |(mut outgoing, mut ready, mut more)| async move {
        loop {
            if let Some(event) = ready.pop_front() {
                return Some((Ok(event), (outgoing, ready, more)));
            }
            if !more {
                return None;
            }
            more = outgoing.take_next(&mut ready).await;
        }
    })
}

/// An event that holds an object. What we send can always be written as JSON.
pub(crate) fn data(object: &impl Serialize) -> Event {
    Event::default().data(serde_json::to_string(object).unwrap_or_default())
}

/// The event that ends a stream which broke.
pub(crate) fn failed(error: &ApiError) -> Event {
    data(&error.body())
}

/// What clients ignore.
pub(crate) fn comment(happened: &Happened) -> Option<Event> {
    // A device's name is untrusted text; a line break in it would end the comment.
    let text = happened.comment()?.replace(['\r', '\n'], " ");
    Some(Event::default().comment(text))
}
