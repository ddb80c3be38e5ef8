//! One frame per WebSocket message, over an authenticated TLS session.
//!
//! [`dial`] and [`accept`] do the upgrade; [`FrameSocket`] is what `nook-mux` drives. It lets only
//! binary messages through, bounded in size before anything is allocated; text, floods of pings and
//! broken frames close the connection with the code that says why. WebSocket's own pings serve as
//! the [`Probe`]: a question put to the other end *now*, beside the mux's regular ones.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use nook_base::clock;
use nook_base::limits::FRAME_BODY_BYTES_MAX;
use nook_wire::{FrameParts, HEADER_BYTES};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::handshake::server::{
    Callback, ErrorResponse, Request, Response,
};
use tokio_tungstenite::tungstenite::http::{StatusCode, header::ORIGIN};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::message_bound::{MessageBound, NoMessage};

/// The one path that is served.
const PATH: &str = "/inglenook/1";

/// Where the dialler says it goes; only the path is looked at.
const URL: &str = "ws://inglenook.invalid/inglenook/1";

/// Longest message: one frame of the wire. A longer one closes the connection unread.
const MESSAGE_BYTES_MAX: usize = HEADER_BYTES + FRAME_BODY_BYTES_MAX;

/// Bytes gathered before the socket is written to without a flush.
const WRITE_BUFFER_BYTES: usize = 32 << 10;

/// Buffer for incoming bytes, per connection.
const READ_BUFFER_BYTES: usize = 64 << 10;

/// Bytes after which a message must have been whole: twice the longest one, because the end of one
/// and the begin of the next are read together.
const UNFINISHED_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;

/// WebSocket pings, and pongs that nobody asked for, in one second beyond which the connection is closed. Honest devices send one per
/// doubt about a link.
const PINGS_PER_SECOND_MAX: u32 = 10;

/// Upgrades a dialled session.
pub(crate) async fn dial<S>(stream: S) -> Result<FrameSocket<S>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stream = MessageBound::new(stream, UNFINISHED_BYTES_MAX);
    let (socket, _) =
        tokio_tungstenite::client_async_with_config(URL, stream, Some(config())).await?;
    Ok(FrameSocket::new(socket))
}

/// Upgrades an accepted session. A browser (`Origin`) and any other path are refused.
pub(crate) async fn accept<S>(stream: S) -> Result<FrameSocket<S>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stream = MessageBound::new(stream, UNFINISHED_BYTES_MAX);
    let socket =
        tokio_tungstenite::accept_hdr_async_with_config(stream, Doorkeeper, Some(config())).await?;
    Ok(FrameSocket::new(socket))
}

fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_write_buffer_size(2 * MESSAGE_BYTES_MAX)
        .read_buffer_size(READ_BUFFER_BYTES)
}

/// Looks at the upgrade request.
struct Doorkeeper;

impl Callback for Doorkeeper {
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        let refused = if request.headers().contains_key(ORIGIN) {
            StatusCode::FORBIDDEN
        } else if request.uri().path() != PATH {
            StatusCode::NOT_FOUND
        } else {
            return Ok(response);
        };
        let mut refusal = ErrorResponse::new(None);
        *refusal.status_mut() = refused;
        Err(refusal)
    }
}

/// Frames over one WebSocket.
#[derive(Debug)]
pub(crate) struct FrameSocket<S> {
    socket: WebSocketStream<MessageBound<S>>,
    pings: PingMeter,
    /// Pings of ours that no pong has answered.
    unanswered: u32,
    probe: Arc<ProbeState>,
    /// A frame that was looked at before its reader was there.
    unread: Option<Bytes>,
    /// Bytes of a probe wait for the socket.
    probe_unflushed: bool,
    ended: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> FrameSocket<S> {
    fn new(socket: WebSocketStream<MessageBound<S>>) -> Self {
        Self {
            socket,
            pings: PingMeter::default(),
            unanswered: 0,
            probe: Arc::default(),
            unread: None,
            probe_unflushed: false,
            ended: false,
        }
    }

    /// A handle that asks the other end for a sign of life.
    pub(crate) fn probe(&self) -> Probe {
        Probe(self.probe.clone())
    }

    /// Gives the frame that was read last back: it is read once more.
    pub(crate) fn unread(&mut self, frame: Bytes) {
        self.unread = Some(frame);
    }

    /// Sends the ping that a [`Probe`] has asked for.
    fn poll_probe(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        self.probe.waker.register(cx.waker());
        if self.probe.wanted.load(Ordering::Acquire) && self.socket.poll_ready_unpin(cx).is_ready()
        {
            self.probe.wanted.store(false, Ordering::Release);
            self.socket.start_send_unpin(Message::Ping(Bytes::new()))?;
            self.unanswered = self.unanswered.saturating_add(1);
            self.probe_unflushed = true;
        }
        if self.probe_unflushed
            && let Poll::Ready(flushed) = self.socket.poll_flush_unpin(cx)
        {
            self.probe_unflushed = false;
            flushed?;
        }
        Ok(())
    }

    /// Says goodbye with `code`, as far as the socket takes it at once, and ends the stream.
    fn refuse(&mut self, code: CloseCode, cx: &mut Context<'_>) -> io::Error {
        self.ended = true;
        let goodbye = CloseFrame { code, reason: "".into() };
        if self.socket.start_send_unpin(Message::Close(Some(goodbye))).is_ok() {
            let _ = self.socket.poll_flush_unpin(cx);
        }
        io::Error::new(io::ErrorKind::InvalidData, code.to_string())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for FrameSocket<S> {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Some(frame) = this.unread.take() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if this.ended {
            return Poll::Ready(None);
        }
        if let Err(error) = this.poll_probe(cx) {
            this.ended = true;
            return Poll::Ready(Some(Err(into_io(error))));
        }
        loop {
            let Some(message) = ready!(this.socket.poll_next_unpin(cx)) else {
                this.ended = true;
                return Poll::Ready(None);
            };
            this.socket.get_mut().a_message_came();
            this.probe.answered();
            let code = match message {
                Ok(Message::Binary(frame)) => return Poll::Ready(Some(Ok(frame))),
                Ok(Message::Ping(_)) if this.pings.allows(clock::now()) => continue,
                Ok(Message::Pong(_)) if this.unanswered > 0 => {
                    this.unanswered -= 1;
                    continue;
                }
                Ok(Message::Pong(_)) if this.pings.allows(clock::now()) => continue,
                // Given out by the library's writing half only.
                Ok(Message::Frame(_)) => continue,
                Ok(Message::Close(_)) => {
                    this.ended = true;
                    return Poll::Ready(None);
                }
                Ok(Message::Ping(_) | Message::Pong(_)) => CloseCode::Policy,
                Err(Error::Io(error)) if NoMessage::is(&error) => CloseCode::Policy,
                Ok(Message::Text(_)) => CloseCode::Unsupported,
                Err(Error::Capacity(CapacityError::MessageTooLong { .. })) => CloseCode::Size,
                Err(Error::Protocol(_) | Error::Utf8(_)) => CloseCode::Protocol,
                Err(error) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(into_io(error))));
                }
            };
            return Poll::Ready(Some(Err(this.refuse(code, cx))));
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sink<FrameParts> for FrameSocket<S> {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().socket.poll_ready_unpin(cx).map_err(into_io)
    }

    fn start_send(self: Pin<&mut Self>, frame: FrameParts) -> io::Result<()> {
        // A WebSocket message is one buffer, which the library masks and TLS encrypts.
        let frame = frame.into_bytes();
        self.get_mut().socket.start_send_unpin(Message::Binary(frame)).map_err(into_io)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().socket.poll_flush_unpin(cx).map_err(into_io)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().socket.poll_close_unpin(cx).map_err(into_io)
    }
}

fn into_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::ConnectionClosed | Error::AlreadyClosed => io::ErrorKind::NotConnected.into(),
        other => io::Error::new(io::ErrorKind::InvalidData, other),
    }
}

/// Asks the other end of a live connection for a sign of life, now.
#[derive(Debug, Clone)]
pub(crate) struct Probe(Arc<ProbeState>);

#[derive(Debug, Default)]
struct ProbeState {
    wanted: AtomicBool,
    waker: AtomicWaker,
    /// Messages of any kind that have come.
    heard: AtomicU64,
    came: Notify,
}

impl Probe {
    /// Waits until anything comes from the other end after this question. Never returns when
    /// nothing does: the caller has a deadline.
    pub(crate) async fn answer(&self) {
        let before = self.0.heard.load(Ordering::Acquire);
        self.0.wanted.store(true, Ordering::Release);
        self.0.waker.wake();
        loop {
            let came = self.0.came.notified();
            if self.0.heard.load(Ordering::Acquire) != before {
                return;
            }
            came.await;
        }
    }
}

impl ProbeState {
    fn answered(&self) {
        self.heard.fetch_add(1, Ordering::AcqRel);
        self.came.notify_waiters();
    }
}

/// Counts pings, and pongs that nobody asked for, by the second.
#[derive(Debug, Default)]
struct PingMeter {
    second: Option<Instant>,
    count: u32,
}

impl PingMeter {
    fn allows(&mut self, now: Instant) -> bool {
        let same_second = self
            .second
            .is_some_and(|start| now.saturating_duration_since(start) < Duration::from_secs(1));
        if !same_second {
            self.second = Some(now);
            self.count = 0;
        }
        self.count += 1;
        self.count <= PINGS_PER_SECOND_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t4_ten_pings_a_second_are_allowed_and_the_eleventh_is_not() {
        let now = clock::now();
        let mut meter = PingMeter::default();
        assert!((0..10).all(|_| meter.allows(now)));
        assert!(!meter.allows(now));
        assert!(meter.allows(now + Duration::from_secs(1)));
    }
}
