//! The task of one connection: it alone touches the stream.
//!
//! Each turn first writes what waits, as far as the stream takes it, then reads one frame. Reading
//! goes on while writing is stuck and the other way round, so two ends that both write a lot cannot
//! block each other. Small frames are gathered and flushed together when nothing more waits; after
//! [`FLUSH_BYTES`] the stream is flushed first, so that no more than that stands before an urgent
//! frame that comes late.
//!
//! It may go on over another stream ([`crate::moving`]): then each direction changes by itself.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use nook_base::clock;
use nook_wire::{
    CallId, Frame, FrameParts, Kind, Message, Move, SeqCheck, SeqCounter, SeqError, WireError,
    WireMessage, decode, encode_unsent,
};
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep};

use crate::call::Call;
use crate::config::PingPolicy;
use crate::liveness::{Liveness, Tick};
use crate::meter::ByteMeter;
use crate::moving::{Expected, Left, Moving, Next};
use crate::mux::Incoming;
use crate::reason::{CloseReason, Violation};
use crate::shared::{CallHandle, Shared};
use crate::state::{Delivered, QUESTION_FIRST, Room};

/// Bytes handed to the stream before it is flushed.
const FLUSH_BYTES: usize = 128 << 10;

/// How long the stream may take no byte before the connection is given up: far longer than a chunk
/// takes on a bad Wi-Fi, since the other side's reader never waits for its consumers.
const WRITE_STALL_MAX: Duration = Duration::from_secs(10);

/// How long a goodbye may take; after that the stream is just dropped.
const GOODBYE_MAX: Duration = Duration::from_millis(500);

/// Owns the stream.
pub(crate) struct Connection<S, M: WireMessage> {
    stream: S,
    /// Streams to go on with; `None` once nobody can bring any.
    moves: Option<mpsc::Receiver<Next<S>>>,
    expected: Expected,
    /// The change to another stream that is under way.
    moving: Option<Moving<S>>,
    /// The other side has said MOVE, and the stream for it is on its way here.
    came: Option<u64>,
    /// The stream before, while it is closed.
    left: Option<Left<S>>,
    shared: Arc<Shared<M>>,
    _end_guard: EndGuard<M>,
    /// `None` once the end is decided, so that the owner hears of it before the goodbye.
    incoming: Option<mpsc::Sender<Incoming<M>>>,
    /// Numbers of call 0.
    seq: SeqCounter,
    check: SeqCheck,
    /// Bytes handed to the stream and not flushed.
    unflushed: usize,
    /// Runs while the stream takes nothing.
    stall: Option<Pin<Box<Sleep>>>,
    ping: PingPolicy,
    liveness: Liveness,
    meter: ByteMeter,
    /// Bytes read at the latest tick, and written when the stall began or last went on.
    metered: (u64, u64),
    timer: Pin<Box<Sleep>>,
    /// Whether the timer runs at the busy interval.
    busy: bool,
    ping_due: Option<u64>,
    pong_due: Option<u64>,
}

enum Event {
    Frame(Bytes),
    Tick,
    End(CloseReason),
}

/// Ends the connection for its waiters even if the task panics, or is dropped before it ever ran.
struct EndGuard<M: WireMessage>(Arc<Shared<M>>);

impl<M: WireMessage> Drop for EndGuard<M> {
    fn drop(&mut self) {
        self.0.end(CloseReason::ShutDown);
    }
}

impl<S, M> Connection<S, M>
where
    M: WireMessage,
    S: Stream<Item = io::Result<Bytes>> + Sink<FrameParts, Error = io::Error> + Unpin,
{
    pub(crate) fn new(
        stream: S,
        shared: Arc<Shared<M>>,
        ping: PingPolicy,
        incoming: mpsc::Sender<Incoming<M>>,
        meter: ByteMeter,
        (moves, expected): (mpsc::Receiver<Next<S>>, Expected),
    ) -> Self {
        Self {
            stream,
            moves: Some(moves),
            expected,
            moving: None,
            came: None,
            left: None,
            _end_guard: EndGuard(Arc::clone(&shared)),
            shared,
            incoming: Some(incoming),
            seq: SeqCounter::default(),
            check: SeqCheck::default(),
            unflushed: 0,
            stall: None,
            ping,
            liveness: Liveness::new(ping.misses),
            meter,
            metered: (0, 0),
            // The first ping goes out at once: it finds the distance.
            timer: Box::pin(sleep(Duration::ZERO)),
            busy: false,
            ping_due: None,
            pong_due: None,
        }
    }

    /// Serves the connection to its end.
    pub(crate) async fn run(mut self, cancelled: impl Future<Output = ()> + Send) {
        let mut cancelled = pin!(cancelled);
        let reason = loop {
            let event = std::future::poll_fn(|cx| {
                if cancelled.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Event::End(CloseReason::ShutDown));
                }
                self.poll_event(cx)
            })
            .await;
            let step = match event {
                Event::Frame(bytes) => self.on_frame(bytes),
                Event::Tick => self.on_tick(),
                Event::End(reason) => Err(reason),
            };
            if let Err(reason) = step {
                break reason;
            }
        };
        tracing::debug!(%reason, "connection ended");
        self.shared.end(reason.clone());
        self.incoming = None;
        self.say_goodbye(reason).await;
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        // In line before looking, so that what is queued in between rings the bell.
        self.shared.task.register(cx.waker());
        let calls_open = {
            let state = self.shared.state();
            if let Some(reason) = &state.ended {
                return Poll::Ready(Event::End(reason.clone()));
            }
            state.calls_open()
        };
        self.poll_moves(cx);
        if let Err(reason) = self.poll_write(cx) {
            return Poll::Ready(Event::End(reason));
        }
        self.finish_move();
        match self.poll_read(cx) {
            Poll::Ready(Some(Ok(bytes))) => return Poll::Ready(Event::Frame(bytes)),
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Event::End(lost(&error))),
            Poll::Ready(None) => return Poll::Ready(Event::End(CloseReason::Eof)),
            Poll::Pending => {}
        }
        if !self.busy && (calls_open > 0 || self.is_moving()) {
            self.set_pace(true);
        }
        self.timer.as_mut().poll(cx).map(|()| Event::Tick)
    }

    /// Takes a stream to go on with, and closes the one that was left.
    fn poll_moves(&mut self, cx: &mut Context<'_>) {
        while let Some(moves) = &mut self.moves {
            match moves.poll_recv(cx) {
                // One that comes while another is taken is not wanted; dropping it says so.
                Poll::Ready(Some(next)) if self.moving.is_none() => {
                    let came = self.came.take().is_some_and(|nonce| next.is(nonce));
                    self.moving = Some(Moving::begin(next, came));
                }
                Poll::Ready(Some(_)) => {}
                Poll::Ready(None) => self.moves = None,
                Poll::Pending => break,
            }
        }
        if self.moving.as_mut().is_some_and(|moving| moving.poll_given_up(cx)) {
            self.moving = None;
            self.expected.nothing();
        }
        if self.left.as_mut().is_some_and(|left| left.poll_over(cx)) {
            self.left = None;
        }
    }

    /// Leaves the old stream once both directions have changed.
    fn finish_move(&mut self) {
        let both = |moving: &mut Moving<S>| moving.writes_next() && moving.reads_next();
        if let Some(moving) = self.moving.take_if(both) {
            let old = std::mem::replace(&mut self.stream, moving.finish());
            self.left = Some(Left::new(old));
            self.ping_due = Some(self.liveness.moved());
            self.shared.task.wake();
        }
    }

    fn is_moving(&self) -> bool {
        self.moving.is_some() || self.came.is_some()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match &mut self.moving {
            Some(moving) if moving.reads_next() => moving.next.poll_next_unpin(cx),
            // Nothing follows on this stream, and the next one is not here yet.
            None if self.came.is_some() => Poll::Pending,
            _ => self.stream.poll_next_unpin(cx),
        }
    }

    /// The stream that is written.
    fn writer(&mut self) -> &mut S {
        match &mut self.moving {
            Some(moving) if moving.writes_next() => &mut moving.next,
            _ => &mut self.stream,
        }
    }

    /// Writes what waits, as far as the stream takes it.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<(), CloseReason> {
        let written = loop {
            let more = self.has_frames();
            let leaving = self.moving.as_ref().is_some_and(Moving::is_leaving);
            if leaving || self.unflushed >= FLUSH_BYTES || (!more && self.unflushed > 0) {
                match self.writer().poll_flush_unpin(cx) {
                    Poll::Ready(result) => result.map_err(|error| lost(&error))?,
                    Poll::Pending => break Poll::Pending,
                }
                self.unflushed = 0;
                self.stall = None;
                if let Some(moving) = self.moving.as_mut().filter(|_| leaving) {
                    moving.flushed();
                }
            } else if more {
                match self.writer().poll_ready_unpin(cx) {
                    Poll::Ready(result) => result.map_err(|error| lost(&error))?,
                    Poll::Pending => break Poll::Pending,
                }
                self.stall = None;
                let next = self.next_frame();
                if let Some(frame) = next.map_err(|_| CloseReason::NumbersExhausted)? {
                    self.unflushed += frame.remaining();
                    self.liveness.wrote(frame.remaining());
                    let sent = self.writer().start_send_unpin(frame);
                    sent.map_err(|error| lost(&error))?;
                }
            } else {
                break Poll::Ready(());
            }
        };
        if written.is_pending() {
            let stall = self.stall.get_or_insert_with(|| {
                // Only what is written from now on is progress.
                self.metered.1 = self.meter.written();
                Box::pin(sleep(WRITE_STALL_MAX))
            });
            if stall.as_mut().poll(cx).is_ready() {
                let written = self.meter.written();
                if written == self.metered.1 {
                    return Err(CloseReason::WriteStalled { seconds: WRITE_STALL_MAX.as_secs() });
                }
                // Slow, but it moves.
                self.metered.1 = written;
                stall.set(sleep(WRITE_STALL_MAX));
                cx.waker().wake_by_ref();
            }
        }
        Ok(())
    }

    fn has_frames(&self) -> bool {
        let mark_due = self.moving.as_ref().is_some_and(Moving::mark_due);
        let alive = self.pong_due.is_some() || self.ping_due.is_some();
        mark_due || alive || self.shared.state().has_frames()
    }

    /// The next frame: the change of the stream, then liveness, then the connection's own, then the
    /// calls'.
    fn next_frame(&mut self) -> Result<Option<FrameParts>, SeqError> {
        if let Some(moving) = self.moving.as_mut().filter(|moving| moving.mark_due()) {
            let nonce = moving.nonce;
            moving.mark_handed();
            return self.number(&Message::Move(Move { nonce, found: None })).map(Some);
        }
        if let Some(nonce) = self.pong_due.take() {
            return self.number(&Message::Pong { nonce }).map(Some);
        }
        if let Some(nonce) = self.ping_due.take() {
            self.liveness.ping_written(clock::now());
            return self.number(&Message::Ping { nonce }).map(Some);
        }
        let mut state = self.shared.state();
        let Some(frame) = state.next_control() else {
            return state.next_frame();
        };
        drop(state);
        self.shared.control_taken();
        Ok(Some(frame.with_seq(self.seq.take()?)))
    }

    /// A frame of the connection itself.
    fn number(&mut self, message: &Message) -> Result<FrameParts, SeqError> {
        Ok(encode_unsent(CallId::CONNECTION, message).with_seq(self.seq.take()?))
    }

    fn on_tick(&mut self) -> Result<(), CloseReason> {
        let read = self.meter.read();
        if read != self.metered.0 {
            self.metered.0 = read;
            self.liveness.heard();
        }
        let interval = self.interval();
        match self.liveness.tick(interval) {
            Tick::Ping(nonce) => self.ping_due = Some(nonce),
            Tick::Dead => {
                return Err(CloseReason::PingsMissed { misses: self.ping.misses });
            }
        }
        // Half of the connection is on a stream that may be going away.
        let busy = self.is_moving() || self.shared.state().calls_open() > 0;
        self.set_pace(busy);
        Ok(())
    }

    /// Starts the ping interval anew.
    fn set_pace(&mut self, busy: bool) {
        self.busy = busy;
        let interval = self.interval();
        self.timer.set(sleep(interval));
    }

    fn interval(&self) -> Duration {
        if self.busy { self.ping.busy } else { self.ping.idle }
    }

    fn on_frame(&mut self, bytes: Bytes) -> Result<(), CloseReason> {
        self.liveness.heard();
        let frame = decode::<M>(bytes).map_err(|error| broken(Violation::Frame { error }))?;
        if frame.call == CallId::CONNECTION {
            return self.on_control(frame);
        }
        let delivered = self.shared.state().deliver(frame).map_err(broken)?;
        match delivered {
            Delivered::Done => Ok(()),
            Delivered::Opens(first) => self.on_opening(first).map_err(broken),
        }
    }

    fn on_opening(&mut self, first: Frame<M>) -> Result<(), Violation> {
        // A place in line before the call exists: a call that nobody takes would be a leak.
        let place = self.incoming.as_ref().and_then(|line| line.try_reserve().ok());
        let line = if place.is_some() { Room::Free } else { Room::Full };
        let id = first.call;
        let opened = self.shared.state().open_remote(first, line)?;
        if let (Some(place), Some((inbox, cell))) = (place, opened) {
            let shared = Arc::clone(&self.shared);
            let call = Call::new(CallHandle { id, shared, cell }, inbox);
            place.send(Incoming::Call(call));
        }
        Ok(())
    }

    fn on_control(&mut self, frame: Frame<M>) -> Result<(), CloseReason> {
        let call = frame.call;
        self.check
            .accept(frame.seq)
            .map_err(|error| broken(Violation::Sequence { call, error }))?;
        let message = match frame.message.kind() {
            Kind::Ping | Kind::Pong | Kind::Move | Kind::Close => match frame.message.into_peer() {
                Ok(Message::Ping { nonce }) => {
                    self.pong_due = Some(nonce);
                    return Ok(());
                }
                Ok(Message::Pong { nonce }) => {
                    self.on_pong(nonce);
                    return Ok(());
                }
                Ok(Message::Move(Move { nonce, .. })) => {
                    return self.on_move(nonce).map_err(broken);
                }
                Ok(Message::Close { code }) => return Err(CloseReason::Remote { code }),
                Ok(other) => M::from_peer(other),
                Err(other) => other,
            },
            _ => frame.message,
        };
        let Some(incoming) = &self.incoming else {
            return Ok(());
        };
        match incoming.try_send(Incoming::Control(message)) {
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err(broken(Violation::InboxOverrun { call }))
            }
            // An owner that dropped its receiver wants no control messages.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
        }
    }

    /// The other side says no more on this stream.
    fn on_move(&mut self, nonce: u64) -> Result<(), Violation> {
        let known = match &mut self.moving {
            Some(moving) => moving.came(nonce),
            None if self.came.is_none() && self.expected.is(nonce) => {
                self.came = Some(nonce);
                true
            }
            None => false,
        };
        if known { Ok(()) } else { Err(Violation::UnknownMove) }
    }

    fn on_pong(&mut self, nonce: u64) {
        if nonce >= QUESTION_FIRST {
            self.shared.answered.send_if_modified(|latest| {
                let is_newer = nonce > *latest;
                *latest = nonce.max(*latest);
                is_newer
            });
            return;
        }
        if let Some(further) = self.liveness.answered(nonce, clock::now()) {
            self.ping_due = Some(further);
        }
        self.shared.state().rtt = self.liveness.rtt();
    }

    /// Tells the other side why, if it is there to hear it, and closes the stream.
    async fn say_goodbye(mut self, reason: CloseReason) {
        let frames = self.last_words(reason);
        if frames.is_empty() {
            return;
        }
        let next = self.moving.filter(Moving::writes_next).map(|moving| moving.next);
        let (mut sink, mut stream) = next.unwrap_or(self.stream).split();
        let told = async {
            for frame in frames {
                sink.feed(frame).await?;
            }
            sink.close().await
        };
        // Closing a socket with unread bytes in it would destroy the goodbye under way. They are
        // read from the beginning on: whoever waits for room to write does not read what it is
        // told.
        let unread = async { while let Some(Ok(_)) = stream.next().await {} };
        let goodbye = futures_util::future::join(told, unread);
        if !matches!(tokio::time::timeout(GOODBYE_MAX, goodbye).await, Ok((Ok(()), ()))) {
            tracing::debug!("the goodbye was not heard");
        }
    }

    /// What the owner sent before it closed, then why the connection ends. Nothing when there is
    /// nobody left to hear it.
    fn last_words(&mut self, reason: CloseReason) -> Vec<FrameParts> {
        let mut last = Vec::new();
        let code = match reason {
            CloseReason::Eof
            | CloseReason::Io { .. }
            | CloseReason::PingsMissed { .. }
            | CloseReason::WriteStalled { .. } => return Vec::new(),
            CloseReason::Local { code } => code,
            CloseReason::Remote { .. } | CloseReason::ShutDown | CloseReason::NumbersExhausted => {
                None
            }
            CloseReason::Violation { violation } => {
                let code = violation.code();
                let sentence = violation.to_string();
                last.push(Message::Error(WireError { code, sentence }));
                Some(code)
            }
        };
        last.push(Message::Close { code });
        let mut frames = Vec::new();
        let mut state = self.shared.state();
        while let Some(frame) = state.next_control()
            && let Ok(seq) = self.seq.take()
        {
            frames.push(frame.with_seq(seq));
        }
        drop(state);
        for message in &last {
            frames.extend(self.number(message));
        }
        frames
    }
}

fn lost(error: &io::Error) -> CloseReason {
    CloseReason::Io { kind: error.kind() }
}

fn broken(violation: Violation) -> CloseReason {
    CloseReason::Violation { violation }
}
