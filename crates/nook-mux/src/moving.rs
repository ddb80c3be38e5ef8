//! A connection goes on over another stream, under its open calls.
//!
//! ```text
//! leading side                          following side
//!                                       has the next stream ready
//! MOVE, last on the old stream ───────► reads the next stream from here on
//! writes the next stream                MOVE, last on the old stream
//! reads the next stream from here on ◄─ writes the next stream
//! ```
//!
//! Each direction changes at a frame, so none is lost, doubled or overtaken: calls, their numbers
//! and their credit know nothing of it. Should either stream fail before both directions have
//! changed, the connection ends as it does on one stream.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use nook_wire::FrameParts;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Sleep, sleep};

use crate::meter::ByteMeter;

/// How long a stream is kept ready for the other side's MOVE.
const READY_MAX: Duration = Duration::from_secs(10);

/// How long a stream that was left may take to close.
const LEFT_MAX: Duration = Duration::from_secs(5);

/// Frames of a stream that was left that are thrown away in a row.
const LEFT_FRAMES: usize = 16;

/// Gives a connection another stream. Made by [`crate::Mux::start_movable`].
#[derive(Debug)]
pub struct Mover<S> {
    orders: mpsc::Sender<Next<S>>,
    expected: Expected,
    meter: ByteMeter,
}

/// The connection did not change its stream: it has ended, it is changing it just now, or the other
/// side did not go along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection stays where it is")]
pub struct NotMoved;

/// Which MOVE of the other side has, or will have, a stream ready; 0: none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expected(Arc<AtomicU64>);

/// A stream to go on with.
#[derive(Debug)]
pub(crate) struct Next<S> {
    stream: S,
    nonce: u64,
    leads: bool,
    done: oneshot::Sender<()>,
}

/// A change under way.
pub(crate) struct Moving<S> {
    pub(crate) next: S,
    pub(crate) nonce: u64,
    mark: Mark,
    /// Whether the other side's MOVE has come.
    read: bool,
    until: Pin<Box<Sleep>>,
    done: oneshot::Sender<()>,
}

/// How far this side's MOVE is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// The other side leads.
    Waits,
    Due,
    /// With the old stream, which is still to be flushed.
    Handed,
    Written,
}

/// A stream that both sides have left. It is closed in order, so that nothing under way is
/// destroyed.
pub(crate) struct Left<S> {
    stream: S,
    closed: bool,
    until: Pin<Box<Sleep>>,
}

impl<S> Clone for Mover<S> {
    fn clone(&self) -> Self {
        let (orders, expected) = (self.orders.clone(), self.expected.clone());
        Self { orders, expected, meter: self.meter.clone() }
    }
}

impl<S> Mover<S> {
    pub(crate) fn new(meter: ByteMeter) -> (Self, mpsc::Receiver<Next<S>>, Expected) {
        let (orders, receiver) = mpsc::channel(1);
        let expected = Expected::default();
        (Self { orders, expected: expected.clone(), meter }, receiver, expected)
    }

    /// The other side may say MOVE with `nonce` from now on, even before [`Mover::follow`] was told
    /// of it.
    pub fn expect(&self, nonce: u64) {
        self.expected.0.store(nonce, Ordering::Release);
    }

    /// Goes on over `stream`, which the other side holds ready. Its bytes count for the connection
    /// from now on. Returns when both directions have changed.
    pub async fn lead(&self, stream: S, meter: &ByteMeter, nonce: u64) -> Result<(), NotMoved> {
        self.change(stream, meter, nonce, true).await
    }

    /// Goes on over `stream` once the other side says MOVE with `nonce`. Its bytes count for the
    /// connection from now on. Returns when both directions have changed.
    pub async fn follow(&self, stream: S, meter: &ByteMeter, nonce: u64) -> Result<(), NotMoved> {
        self.change(stream, meter, nonce, false).await
    }

    async fn change(
        &self,
        stream: S,
        meter: &ByteMeter,
        nonce: u64,
        leads: bool,
    ) -> Result<(), NotMoved> {
        meter.count_for(&self.meter);
        let (done, changed) = oneshot::channel();
        let next = Next { stream, nonce, leads, done };
        self.orders.send(next).await.map_err(|_| NotMoved)?;
        changed.await.map_err(|_| NotMoved)
    }
}

impl Expected {
    /// The stream that was ready is given back.
    pub(crate) fn nothing(&self) {
        self.0.store(0, Ordering::Release);
    }

    pub(crate) fn is(&self, nonce: u64) -> bool {
        nonce != 0 && self.0.load(Ordering::Acquire) == nonce
    }
}

impl<S> Next<S> {
    pub(crate) fn is(&self, nonce: u64) -> bool {
        self.nonce == nonce
    }
}

impl<S> Moving<S> {
    /// `came`: the other side has said MOVE already.
    pub(crate) fn begin(next: Next<S>, came: bool) -> Self {
        let Next { stream, nonce, leads, done } = next;
        let mark = if leads || came { Mark::Due } else { Mark::Waits };
        let until = Box::pin(sleep(READY_MAX));
        Self { next: stream, nonce, mark, read: came, until, done }
    }

    /// The other side has said MOVE; whether that was its turn.
    pub(crate) fn came(&mut self, nonce: u64) -> bool {
        if self.read || nonce != self.nonce {
            return false;
        }
        self.read = true;
        if self.mark == Mark::Waits {
            self.mark = Mark::Due;
        }
        true
    }

    /// Whether the other side leads and did not come in time.
    pub(crate) fn poll_given_up(&mut self, cx: &mut Context<'_>) -> bool {
        self.mark == Mark::Waits && self.until.as_mut().poll(cx).is_ready()
    }

    pub(crate) fn mark_due(&self) -> bool {
        self.mark == Mark::Due
    }

    pub(crate) fn mark_handed(&mut self) {
        self.mark = Mark::Handed;
    }

    /// Whether the old stream is to be flushed for the last time.
    pub(crate) fn is_leaving(&self) -> bool {
        self.mark == Mark::Handed
    }

    pub(crate) fn flushed(&mut self) {
        self.mark = Mark::Written;
    }

    /// Whether this side writes the next stream.
    pub(crate) fn writes_next(&self) -> bool {
        self.mark == Mark::Written
    }

    /// Whether this side reads the next stream.
    pub(crate) fn reads_next(&self) -> bool {
        self.read
    }

    /// Both directions have changed: the stream from now on.
    pub(crate) fn finish(self) -> S {
        // Whoever waited may have left.
        let _ = self.done.send(());
        self.next
    }
}

impl<S> Left<S>
where
    S: Stream + Sink<FrameParts> + Unpin,
{
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, closed: false, until: Box::pin(sleep(LEFT_MAX)) }
    }

    /// Closes it and waits until the other side has too; whether that is over.
    pub(crate) fn poll_over(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.closed {
            self.closed = self.stream.poll_close_unpin(cx).is_ready();
        }
        for _ in 0..LEFT_FRAMES {
            match self.stream.poll_next_unpin(cx) {
                Poll::Ready(Some(_)) => {}
                // Nothing more comes from there; what was written is out, or never will be.
                Poll::Ready(None) => return true,
                Poll::Pending => return self.until.as_mut().poll(cx).is_ready(),
            }
        }
        cx.waker().wake_by_ref();
        self.until.as_mut().poll(cx).is_ready()
    }
}
