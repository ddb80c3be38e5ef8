//! The handle of one connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Sink, Stream};
use nook_base::ErrorCode;
use nook_base::tasks::Tasks;
use nook_wire::{CallId, FrameParts, Kind, Message, WireMessage};
use tokio::sync::mpsc;

use crate::call::Call;
use crate::config::MuxConfig;
use crate::connection::Connection;
use crate::meter::ByteMeter;
use crate::moving::Mover;
use crate::reason::{CloseReason, MuxClosed};
use crate::shared::{CallHandle, Shared};

/// Calls and control messages that wait for this side's attention. A further call is refused as
/// `busy`; a further control message is a violation.
const INCOMING_MAX: usize = 64;

/// Longest wait for the answer to a question; then it is asked again. An answer is lost where the
/// other side was asked twice before it could write one.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A handle of one connection. Clones are handles of the same one.
///
/// The connection lives until either side closes it, the stream ends, or its tasks are cancelled;
/// dropping handles does not end it.
#[derive(Debug)]
pub struct Mux<M: WireMessage> {
    shared: Arc<Shared<M>>,
    meter: ByteMeter,
}

/// What the other side starts.
#[derive(Debug)]
pub enum Incoming<M: WireMessage> {
    /// A call; its first message waits in it.
    Call(Call<M>),
    /// A message of the connection itself.
    Control(M),
}

impl<M: WireMessage> Clone for Mux<M> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), meter: self.meter.clone() }
    }
}

impl<M: WireMessage> Mux<M> {
    /// Starts the connection's task on `stream`, which carries one whole frame per item.
    /// Frames come in as one buffer and go out in parts.
    ///
    /// The receiver ends when the connection does.
    pub fn start<S>(
        stream: S,
        config: MuxConfig,
        tasks: &Tasks,
    ) -> (Self, mpsc::Receiver<Incoming<M>>)
    where
        S: Stream<Item = io::Result<Bytes>> + Sink<FrameParts, Error = io::Error>,
        S: Send + Unpin + 'static,
    {
        Self::start_metered(stream, config, tasks, ByteMeter::default())
    }

    /// As [`Mux::start`], over a socket whose bytes `meter` counts ([`crate::metered`]): then half
    /// a frame on a slow link counts as a sign of life too.
    pub fn start_metered<S>(
        stream: S,
        config: MuxConfig,
        tasks: &Tasks,
        meter: ByteMeter,
    ) -> (Self, mpsc::Receiver<Incoming<M>>)
    where
        S: Stream<Item = io::Result<Bytes>> + Sink<FrameParts, Error = io::Error>,
        S: Send + Unpin + 'static,
    {
        let (mux, receiver, _) = Self::start_movable(stream, config, tasks, meter);
        (mux, receiver)
    }

    /// As [`Mux::start_metered`], and the connection can go on over another stream.
    pub fn start_movable<S>(
        stream: S,
        config: MuxConfig,
        tasks: &Tasks,
        meter: ByteMeter,
    ) -> (Self, mpsc::Receiver<Incoming<M>>, Mover<S>)
    where
        S: Stream<Item = io::Result<Bytes>> + Sink<FrameParts, Error = io::Error>,
        S: Send + Unpin + 'static,
    {
        let shared = Arc::new(Shared::new(&config));
        let (incoming, receiver) = mpsc::channel(INCOMING_MAX);
        let cancelled = tasks.token().clone().cancelled_owned();
        let (mover, moves, expected) = Mover::new(meter.clone());
        let connection = Connection::new(
            stream,
            Arc::clone(&shared),
            config.ping,
            incoming,
            meter.clone(),
            (moves, expected),
        );
        tasks.spawn("mux", connection.run(cancelled));
        (Self { shared, meter }, receiver, mover)
    }

    /// A new call. The other side hears of it with the first message sent on it.
    // Async although nothing waits today: a limit on calls of this side would.
    #[expect(clippy::unused_async, reason = "leaves room for a limit that waits")]
    pub async fn open_call(&self) -> Result<Call<M>, MuxClosed> {
        let opened = {
            let mut state = self.shared.state();
            if let Some(reason) = state.ended.clone() {
                return Err(MuxClosed { reason });
            }
            state.open_local()
        };
        let Some((id, (inbox, cell))) = opened else {
            let reason = CloseReason::NumbersExhausted;
            self.shared.end(reason.clone());
            return Err(MuxClosed { reason });
        };
        self.shared.task.wake();
        let shared = Arc::clone(&self.shared);
        Ok(Call::new(CallHandle { id, shared, cell }, inbox))
    }

    /// Sends a message of the connection itself, ahead of all calls. Waits while too many wait.
    ///
    /// Pings, moves and the goodbye are the mux's own, and messages of calls go on calls: those are
    /// mistakes of the caller, logged and dropped.
    pub async fn send(&self, message: M) -> Result<(), MuxClosed> {
        if !is_control(message.kind()) {
            return Ok(());
        }
        self.shared.send_control(&message).await
    }

    /// The same without waiting; whether there was room for it now. What was taken is still written
    /// when this side closes the connection right behind it.
    #[must_use]
    pub fn try_send(&self, message: &M) -> bool {
        is_control(message.kind()) && self.shared.try_send_control(message)
    }

    /// Waits until the other side has taken in all messages of the connection that were sent before
    /// this: they are in the line of whoever attends to it. For as long as the connection lives.
    pub async fn round_trip(&self) -> Result<(), MuxClosed> {
        let mut answered = self.shared.answered.subscribe();
        let nonce = self.shared.state().next_question();
        let question = M::from_peer(Message::Ping { nonce });
        loop {
            self.shared.send_control(&question).await?;
            tokio::select! {
                reason = self.closed() => return Err(MuxClosed { reason }),
                Ok(_) = answered.wait_for(|latest| *latest >= nonce) => return Ok(()),
                () = tokio::time::sleep(ASK_AGAIN) => {}
            }
        }
    }

    /// The shortest of the last round trips, once there were three. Includes no work of the other
    /// side but its connection task.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        self.shared.state().rtt
    }

    /// Bytes that the socket has carried, where it is metered ([`Mux::start_metered`]); else none.
    #[must_use]
    pub fn bytes(&self) -> &ByteMeter {
        &self.meter
    }

    /// Calls open now, of both sides.
    #[must_use]
    pub fn calls_open(&self) -> usize {
        self.shared.state().calls_open()
    }

    /// Frames that came for calls already closed here, and were dropped.
    #[must_use]
    pub fn frames_late(&self) -> u64 {
        self.shared.state().frames_late
    }

    /// Ends the connection: every waiter ends at once, what calls have queued is dropped, the other
    /// side is told `code`.
    pub fn close(&self, code: Option<ErrorCode>) {
        self.shared.end(CloseReason::Local { code });
    }

    /// Waits for the connection's end.
    pub async fn closed(&self) -> CloseReason {
        let mut ended = self.shared.ended.subscribe();
        let reason = match ended.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone(),
            // The sender lives in `self.shared`, so this arm is never taken; it costs nothing to
            // answer it honestly.
            Err(_) => None,
        };
        reason.unwrap_or(CloseReason::Eof)
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.state().ended.is_some()
    }
}

/// Whether this side may send such messages of the connection. A mistake of the caller is logged.
fn is_control(kind: Kind) -> bool {
    let own = matches!(kind, Kind::Ping | Kind::Pong | Kind::Close | Kind::Move);
    if own || !kind.fits(CallId::CONNECTION) {
        debug_assert!(false, "{kind:?} cannot be sent as a control message");
        tracing::error!(?kind, "cannot be sent as a control message");
        return false;
    }
    true
}
