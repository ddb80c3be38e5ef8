//! A socket on which a write that makes no progress ends with an error.
//!
//! `server` wraps each connection in a [`WriteLimited`]. A client that does not read fills the
//! buffers of both systems; from then on every write waits for it. hyper has no timer for that, so
//! such a client would hold its connection, and the reply behind it, for ever.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes may wait only so long.
#[derive(Debug)]
pub(crate) struct WriteLimited<IO> {
    io: IO,
    limit: Duration,
    /// Runs while the other side takes nothing.
    stall: Option<Pin<Box<Sleep>>>,
}

impl<IO> WriteLimited<IO> {
    pub(crate) fn new(io: IO, limit: Duration) -> Self {
        Self { io, limit, stall: None }
    }

    /// What came of an attempt to write; an error once the limit is over.
    fn within<T>(
        &mut self,
        cx: &mut Context<'_>,
        attempt: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            self.stall = None;
            return attempt;
        }
        let limit = self.limit;
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(limit)));
        stall.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for WriteLimited<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for WriteLimited<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.within(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.within(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.within(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.io).poll_shutdown(cx);
        self.within(cx, shut)
    }
}
