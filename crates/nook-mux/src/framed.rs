//! Frames over a plain byte stream: a socket, a named pipe, an in-memory pair.
//!
//! The frame's own header says how long it is, so nothing is added around it. Reading makes room
//! only for what [`Header::parse`] has let pass, and in steps, so that a claimed length costs no
//! memory by itself. Writing hands the parts of several frames to the socket at once (a vectored
//! write), so a payload is not copied before the system takes it.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Sink, Stream};
use nook_base::limits::CHUNK_BYTES;
use nook_wire::{FrameParts, HEADER_BYTES, Header};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::poll_read_buf;

/// Room made at once while a frame comes in: a usual chunk with its head. A larger frame grows the
/// buffer in steps of this as its bytes really come.
const READ_STEP_BYTES: usize = CHUNK_BYTES + 4096;

/// Room made when nothing is known yet: many small frames in one read.
const READ_IDLE_BYTES: usize = 16 << 10;

/// Frames that wait for the socket; at this many, the sink is not ready.
const WRITE_FRAMES_MAX: usize = 32;

/// Slices handed to the socket in one call; a frame has at most two.
const WRITE_SLICES_MAX: usize = 32;

/// One frame per item over `IO`. Made by [`framed`].
#[derive(Debug)]
pub struct FramedBytes<IO> {
    io: IO,
    input: BytesMut,
    output: VecDeque<FrameParts>,
    phase: Phase,
}

/// How far reading has come.
#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// Frame after frame.
    Reading,
    /// After a header that was refused, where the next frame starts is unknown. What still comes is
    /// thrown away: closing a socket with unread bytes in it would destroy the refusal on its way
    /// to the other side.
    Discarding,
    /// The stream has ended.
    Ended,
}

/// Carries frames over `io`.
pub fn framed<IO: AsyncRead + AsyncWrite + Unpin>(io: IO) -> FramedBytes<IO> {
    FramedBytes { io, input: BytesMut::new(), output: VecDeque::new(), phase: Phase::Reading }
}

impl<IO> FramedBytes<IO> {
    /// The next whole frame, or how many bytes are missing for one.
    ///
    /// A header that is refused is handed on as it is: whoever decodes it finds the reason.
    fn cut(&mut self) -> Result<Bytes, usize> {
        if self.input.len() < HEADER_BYTES {
            return Err(HEADER_BYTES - self.input.len());
        }
        let Ok(header) = Header::parse(&self.input) else {
            self.phase = Phase::Discarding;
            return Ok(self.input.split_to(HEADER_BYTES).freeze());
        };
        let whole = HEADER_BYTES + header.body_len as usize;
        if self.input.len() < whole {
            return Err(whole - self.input.len());
        }
        Ok(self.input.split_to(whole).freeze())
    }
}

impl<IO: AsyncRead + Unpin> Stream for FramedBytes<IO> {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            let room = match this.phase {
                Phase::Reading => match this.cut() {
                    Ok(frame) => return Poll::Ready(Some(Ok(frame))),
                    // Between frames, room for many small ones; inside one, just for the rest of
                    // it, so that a chunk's buffer is shared with little else.
                    Err(_) if this.input.len() < HEADER_BYTES => READ_IDLE_BYTES,
                    Err(missing) => missing.min(READ_STEP_BYTES),
                },
                Phase::Discarding => {
                    this.input.clear();
                    READ_IDLE_BYTES
                }
                Phase::Ended => return Poll::Ready(None),
            };
            this.input.reserve(room);
            let read = ready!(poll_read_buf(Pin::new(&mut this.io), cx, &mut this.input));
            match read {
                Ok(0) => {
                    let whole = this.phase == Phase::Discarding || this.input.is_empty();
                    this.phase = Phase::Ended;
                    let cut_off = Err(io::ErrorKind::UnexpectedEof.into());
                    return Poll::Ready((!whole).then_some(cut_off));
                }
                Ok(_) => {}
                Err(error) => {
                    this.phase = Phase::Ended;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl<IO: AsyncWrite + Unpin> FramedBytes<IO> {
    /// Writes until at most `left` frames wait.
    fn poll_drain(&mut self, cx: &mut Context<'_>, left: usize) -> Poll<io::Result<()>> {
        while self.output.len() > left {
            let mut slices = [io::IoSlice::new(&[]); WRITE_SLICES_MAX];
            let mut count = 0;
            for frame in &self.output {
                count += frame.chunks_vectored(&mut slices[count..]);
            }
            let written = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(frame) = self.output.front_mut() {
            if written < frame.remaining() {
                frame.advance(written);
                return;
            }
            written -= frame.remaining();
            self.output.pop_front();
        }
    }
}

impl<IO: AsyncWrite + Unpin> Sink<FrameParts> for FramedBytes<IO> {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_drain(cx, WRITE_FRAMES_MAX - 1)
    }

    fn start_send(self: Pin<&mut Self>, frame: FrameParts) -> io::Result<()> {
        self.get_mut().output.push_back(frame);
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx, 0))?;
        Pin::new(&mut this.io).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx, 0))?;
        Pin::new(&mut this.io).poll_shutdown(cx)
    }
}
