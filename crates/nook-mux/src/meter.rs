//! Counts bytes below the frames, so that half a frame counts as a sign of life.
//!
//! On a slow link a chunk takes longer than the ping interval. Whoever looks only at whole frames
//! would call the other side dead in the middle of it. [`metered`] wraps the socket, below TLS and
//! framing; the connection asks its [`ByteMeter`] whether anything moved.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that a socket has carried so far. Clones look at the same socket.
#[derive(Debug, Clone, Default)]
pub struct ByteMeter {
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    read: AtomicU64,
    written: AtomicU64,
    /// The meter of the connection that goes on over this socket.
    also: OnceLock<ByteMeter>,
}

/// A socket whose bytes are counted. Made by [`metered`].
#[derive(Debug)]
pub struct Metered<IO> {
    io: IO,
    meter: ByteMeter,
}

/// Counts the bytes of `io`. Give the meter to [`crate::Mux::start_metered`].
pub fn metered<IO>(io: IO) -> (Metered<IO>, ByteMeter) {
    let meter = ByteMeter::default();
    let counted = meter.clone();
    (Metered { io, meter }, counted)
}

impl ByteMeter {
    /// Bytes read.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.counts.read.load(Ordering::Relaxed)
    }

    /// Bytes written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.counts.written.load(Ordering::Relaxed)
    }
}

impl ByteMeter {
    /// What this socket carries from now on counts for `connection` too, which goes on over it.
    pub(crate) fn count_for(&self, connection: &Self) {
        // A socket becomes part of one connection only.
        let _ = self.counts.also.set(connection.clone());
    }

    fn count(&self, read: u64, written: u64) {
        self.counts.read.fetch_add(read, Ordering::Relaxed);
        self.counts.written.fetch_add(written, Ordering::Relaxed);
        if let Some(connection) = self.counts.also.get() {
            connection.counts.read.fetch_add(read, Ordering::Relaxed);
            connection.counts.written.fetch_add(written, Ordering::Relaxed);
        }
    }
}

impl<IO> Metered<IO> {
    /// The socket itself.
    #[must_use]
    pub fn get_ref(&self) -> &IO {
        &self.io
    }

    fn count_written(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.meter.count(0, bytes as u64);
        }
        written
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Metered<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.io).poll_read(cx, buf);
        let got = buf.filled().len() - before;
        self.meter.count(got as u64, 0);
        result
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Metered<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.count_written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.count_written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
