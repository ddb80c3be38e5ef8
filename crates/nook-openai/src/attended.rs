//! How a connection tells its seat whether anything is asked on it.
//!
//! `server` wraps each connection in [`Attended`], which sees when all that was sent has been read
//! and all that was answered was taken, and each request passes [`answer`], which holds the seat
//! until the answer is over.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connections::{Busy, Seat};

/// A stream whose seat learns when there is nothing to read.
#[derive(Debug)]
pub(crate) struct Attended<IO> {
    io: IO,
    seat: Arc<Seat>,
    /// There was nothing to read.
    has_read_all: bool,
    /// The client does not take what is written to it.
    is_stalled: bool,
}

/// The body of an answer; the connection is busy until it is over.
struct Answering {
    body: Body,
    _busy: Busy,
}

/// Answers a request, and keeps its connection busy meanwhile.
pub(crate) async fn answer(
    State(seat): State<Arc<Seat>>,
    request: Request,
    next: Next,
) -> Response {
    let busy = seat.busy();
    next.run(request).await.map(|body| Body::new(Answering { body, _busy: busy }))
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<IO> Attended<IO> {
    pub(crate) fn new(io: IO, seat: Arc<Seat>) -> Self {
        Self { io, seat, has_read_all: false, is_stalled: false }
    }

    /// Notes what came of an attempt to write.
    fn written<T>(&mut self, attempt: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.is_stalled = attempt.is_pending();
        if !self.is_stalled {
            self.seat.has_written();
        }
        self.settle();
        attempt
    }

    fn settle(&self) {
        if self.has_read_all && !self.is_stalled {
            self.seat.has_read_all();
        }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Attended<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        self.has_read_all = read.is_pending();
        self.settle();
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Attended<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.written(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
