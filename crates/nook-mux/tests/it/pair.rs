//! What the tests share: two muxes over a pipe, or one mux and a hand that writes frames.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use nook_base::tasks::Tasks;
use nook_base::{ActivationDtype, LayerRange, ModelDigest, PeerId};
use nook_mux::{Call, FramedBytes, Incoming, Mux, MuxConfig, PingPolicy, Side, framed};
use nook_wire::{
    CallId, Chunk, Frame, Kind, Message, Open, PrefixHash, StepHead, Ticket, TicketClaim,
    WireMessage, decode, encode,
};
use tokio::io::DuplexStream;
use tokio::sync::mpsc::Receiver;

/// Bytes that the pipe between the ends holds: less than one chunk, like a socket's buffer.
pub(crate) const PIPE_BYTES: usize = 64 << 10;

/// Calls that each end accepts.
pub(crate) const CALLS_MAX: usize = 20;

/// One end: a mux, and what the other side starts.
pub(crate) struct End {
    pub(crate) mux: Mux<Message>,
    pub(crate) incoming: Receiver<Incoming<Message>>,
    pub(crate) tasks: Tasks,
}

/// The other end of a mux, frame by frame.
pub(crate) struct Hand {
    pub(crate) pipe: FramedBytes<DuplexStream>,
    seqs: std::collections::HashMap<CallId, u32>,
}

/// Pings that no busy test machine can miss: most hands here do not answer them.
pub(crate) const PATIENT: PingPolicy =
    PingPolicy { idle: Duration::from_secs(600), busy: Duration::from_secs(600), misses: 4 };

pub(crate) fn config(side: Side, ping: PingPolicy) -> MuxConfig {
    MuxConfig { side, ping, calls_max: CALLS_MAX }
}

impl End {
    pub(crate) fn start(side: Side, ping: PingPolicy, io: DuplexStream) -> Self {
        let tasks = Tasks::new();
        let (mux, incoming) = Mux::start(framed(io), config(side, ping), &tasks);
        Self { mux, incoming, tasks }
    }

    /// The next call that the other side starts.
    pub(crate) async fn accept(&mut self) -> Call<Message> {
        match self.incoming.recv().await {
            Some(Incoming::Call(call)) => call,
            other => panic!("expected a call, not {other:?}"),
        }
    }
}

/// Two connected ends.
pub(crate) fn pair() -> (End, End) {
    pair_with(PATIENT)
}

/// Two connected ends that ping as told.
pub(crate) fn pair_with(ping: PingPolicy) -> (End, End) {
    let (dialer, acceptor) = tokio::io::duplex(PIPE_BYTES);
    (End::start(Side::Dialer, ping, dialer), End::start(Side::Acceptor, ping, acceptor))
}

/// An accepting end, and a hand that dials it.
pub(crate) fn by_hand() -> (End, Hand) {
    by_hand_with(PATIENT)
}

/// An accepting end that pings as told, and a hand that dials it.
pub(crate) fn by_hand_with(ping: PingPolicy) -> (End, Hand) {
    let (hand, end) = tokio::io::duplex(PIPE_BYTES);
    (End::start(Side::Acceptor, ping, end), Hand::new(hand))
}

/// A call that was opened by `from` and accepted by `to`, its OPEN taken.
pub(crate) async fn call(from: &End, to: &mut End) -> (Call<Message>, Call<Message>) {
    let mut caller = from.mux.open_call().await.expect("the connection is up");
    caller.send(open()).await.expect("the call is new");
    let mut callee = to.accept().await;
    assert_eq!(callee.recv().await, Ok(open()));
    (caller, callee)
}

pub(crate) fn open() -> Message {
    Message::Open(Open {
        session: 1,
        model: ModelDigest([1; 32]),
        layers: LayerRange::with_len(1, 2),
        dtype: ActivationDtype::F32,
        positions_max: 64,
        resume: None,
    })
}

/// As a host begins a call to the next one.
pub(crate) fn relay() -> Message {
    Message::Relay(Box::new(Ticket {
        requester: [1; 32],
        claim: TicketClaim {
            carrier: PeerId([2; 32]),
            host: PeerId([3; 32]),
            session: 1,
            model: ModelDigest([1; 32]),
            layers: LayerRange::with_len(1, 2),
            dtype: ActivationDtype::F32,
            positions_max: 64,
        },
        signature: [[4; 32]; 2],
    }))
}

/// The head of a step of `count` rows of 1,024 f32.
pub(crate) fn step(count: u32, bulk: bool) -> Message {
    Message::Step(StepHead {
        step: 0,
        position: 0,
        count,
        hidden: 1024,
        dtype: ActivationDtype::F32,
        history_before: PrefixHash::default(),
        history_after: PrefixHash::default(),
        bulk,
    })
}

/// The activation of [`step`].
pub(crate) fn rows(count: u32, fill: u8) -> Bytes {
    vec![fill; count as usize * 4096].into()
}

pub(crate) fn chunk(offset: u64) -> Message {
    Message::Chunk(Chunk { offset, bytes: Bytes::from_static(&[7; 8]), last: false })
}

impl Hand {
    pub(crate) fn new(pipe: DuplexStream) -> Self {
        Self { pipe: framed(pipe), seqs: std::collections::HashMap::new() }
    }

    /// Writes a frame with the number that is due.
    pub(crate) async fn write(&mut self, call: u32, message: &Message) {
        let seq = self.seqs.entry(CallId(call)).or_default();
        let frame = encode(CallId(call), *seq, message);
        *seq += 1;
        self.write_raw(frame).await;
    }

    pub(crate) async fn write_raw(&mut self, frame: Bytes) {
        // The other side may have hung up already; the test looks at that by itself.
        let _ = self.pipe.send(frame.into()).await;
    }

    /// The next frame that is no ping; `None` at the end.
    pub(crate) async fn read(&mut self) -> Option<Frame<Message>> {
        loop {
            let bytes = self.pipe.next().await?.ok()?;
            let frame = decode::<Message>(bytes).expect("a mux writes sound frames");
            if frame.message.kind() != Kind::Ping {
                return Some(frame);
            }
        }
    }
}

/// Runs `work` beside the test.
pub(crate) fn spawn<F>(work: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::runtime::Handle::current().spawn(work)
}
