//! A stream that bounds what may come between two messages.
//!
//! A WebSocket message may come in any number of pieces, also in empty ones. The library puts them
//! together and bounds what they hold, but not how many there are: pieces of nothing would keep it
//! reading for ever. So the bytes on the wire are counted, and [`MessageBound::a_message_came`] begins
//! anew. A message of ours is one piece.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream of which no more than so many bytes may come before the next message is whole.
#[derive(Debug)]
pub(crate) struct MessageBound<S> {
    stream: S,
    bytes_max: usize,
    since: usize,
}

/// More bytes came than any message has.
#[derive(Debug)]
pub(crate) struct NoMessage;

impl<S> MessageBound<S> {
    pub(crate) fn new(stream: S, bytes_max: usize) -> Self {
        Self { stream, bytes_max, since: 0 }
    }

    /// A message is whole.
    pub(crate) fn a_message_came(&mut self) {
        self.since = 0;
    }
}

impl NoMessage {
    /// Whether that is why reading failed.
    pub(crate) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|source| source.is::<Self>())
    }
}

impl fmt::Display for NoMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pieces without end of a message")
    }
}

impl std::error::Error for NoMessage {}

impl<S: AsyncRead + Unpin> AsyncRead for MessageBound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.since > self.bytes_max {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, NoMessage)));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.since += buf.filled().len() - before;
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MessageBound<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
