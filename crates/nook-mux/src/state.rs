//! The table of calls of one connection, and what waits to be written. No I/O, no waiting.
//!
//! Guarded by one lock in [`crate::shared::Shared`], held only for moments. Inbound, the connection
//! task hands each decoded frame to [`State::deliver`]; outbound, callers put encoded frames into
//! the queue of their call and the connection task takes the next one with [`State::next_frame`].
//!
//! Sequence numbers are given at the moment of writing, so frames of different calls can overtake
//! each other while those of one call cannot. Credit is a counter, not a queue: it is sent ahead
//! of the call's own frames and several credits become one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use nook_base::ErrorCode;
use nook_wire::{
    CallId, CreditWindow, EncodedFrame, Frame, FrameParts, Kind, Message, SeqCheck, SeqCounter,
    SeqError, WireMessage, encode_unsent,
};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError as InboxError;

use crate::config::{MuxConfig, Side};
use crate::reason::{CallError, CloseReason, Violation};
use crate::shared::CallCell;

/// Frames of one call that wait to be written. A sender waits while there are this many.
pub(crate) const CALL_OUT_FRAMES_MAX: usize = 8;

/// Frames of the connection itself that wait to be written. A sender waits while there are this
/// many.
pub(crate) const CONTROL_OUT_FRAMES_MAX: usize = 64;

/// Frames other than chunks that wait for a call's consumer. One more is a violation: a call is
/// question and answer, nobody is this far ahead of the other side.
pub(crate) const INBOX_CONTROL_FRAMES_MAX: usize = 32;

/// Refusals of calls beyond the limit that wait to be written (two frames each). One more is a
/// violation.
const REFUSAL_FRAMES_MAX: usize = 128;

/// The first nonce of the pings whose answer somebody waits for. Those that only measure the round
/// trip are below.
pub(crate) const QUESTION_FIRST: u64 = 1 << 63;

/// One connection's calls and outbound queues.
#[derive(Debug)]
pub(crate) struct State<M> {
    side: Side,
    calls_max: usize,
    pub(crate) ended: Option<CloseReason>,
    pub(crate) rtt: Option<Duration>,
    /// The nonce of the next question.
    question: u64,
    /// Frames for calls that are closed here; dropped.
    pub(crate) frames_late: u64,
    /// Call 0, without numbers: the connection task numbers them along with its own.
    control: VecDeque<EncodedFrame>,
    refusals: VecDeque<FrameParts>,
    calls: HashMap<CallId, CallState<M>>,
    /// Opened by the other side, of those in `calls`.
    calls_remote: usize,
    next_id: u32,
    urgent: VecDeque<CallId>,
    bulk: VecDeque<CallId>,
    background: VecDeque<CallId>,
}

#[derive(Debug)]
struct CallState<M> {
    out: VecDeque<Outbound>,
    seq: SeqCounter,
    check: SeqCheck,
    window: CreditWindow,
    credit_due: u32,
    /// `None` once this side has closed the call: what still comes is late.
    inbox: Option<mpsc::Sender<M>>,
    cell: Arc<CallCell>,
    listed_urgent: bool,
    listed_bulk: bool,
    listed_background: bool,
}

#[derive(Debug)]
struct Outbound {
    frame: EncodedFrame,
    lane: Lane,
    closes: bool,
}

/// How urgent a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Decode, and all that is no tensor.
    Urgent,
    /// Prefill: other calls may overtake it.
    Bulk,
    /// Files: written only while nothing else waits.
    Background,
}

/// Whether a queue has room for one more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Free,
    Full,
}

/// What became of an inbound frame on a call.
#[derive(Debug)]
pub(crate) enum Delivered<M> {
    /// It is in its inbox, or it was late.
    Done,
    /// It is the first of a new call.
    Opens(Frame<M>),
}

/// The call's side of a call: where its frames arrive and where its end is told.
pub(crate) type CallEnds<M> = (mpsc::Receiver<M>, Arc<CallCell>);

impl<M: WireMessage> State<M> {
    pub(crate) fn new(config: &MuxConfig) -> Self {
        Self {
            side: config.side,
            calls_max: config.calls_max,
            ended: None,
            rtt: None,
            question: QUESTION_FIRST,
            frames_late: 0,
            control: VecDeque::new(),
            refusals: VecDeque::new(),
            calls: HashMap::new(),
            calls_remote: 0,
            next_id: config.side.first_id(),
            urgent: VecDeque::new(),
            bulk: VecDeque::new(),
            background: VecDeque::new(),
        }
    }

    /// A nonce for a ping whose answer is waited for: larger than all before it.
    pub(crate) fn next_question(&mut self) -> u64 {
        self.question += 1;
        self.question
    }

    pub(crate) fn calls_open(&self) -> usize {
        self.calls.len()
    }

    /// Ends everything at once; the first reason stays.
    pub(crate) fn end(&mut self, reason: CloseReason) {
        if self.ended.is_some() {
            return;
        }
        let error = CallError::ConnectionLost { reason: reason.clone() };
        for (_, call) in self.calls.drain() {
            call.cell.end(error.clone());
        }
        self.calls_remote = 0;
        self.ended = Some(reason);
    }

    /// A call of this side.
    pub(crate) fn open_local(&mut self) -> Option<(CallId, CallEnds<M>)> {
        let id = CallId(self.next_id);
        self.next_id = self.next_id.checked_add(2)?;
        Some((id, self.insert(id)))
    }

    /// A call of the other side, whose first frame is `first`; `line` is that of calls which wait
    /// to be attended to. `None`: over a limit, refused; or the connection has just ended.
    pub(crate) fn open_remote(
        &mut self,
        first: Frame<M>,
        line: Room,
    ) -> Result<Option<CallEnds<M>>, Violation> {
        // The end was told to the calls that there were; a call after it would never hear of it.
        if self.ended.is_some() {
            return Ok(None);
        }
        if line == Room::Full || self.calls_remote >= self.calls_max {
            return self.refuse(first.call).map(|()| None);
        }
        self.calls_remote += 1;
        let ends = self.insert(first.call);
        self.deliver(first)?;
        Ok(Some(ends))
    }

    fn insert(&mut self, id: CallId) -> CallEnds<M> {
        let depth = nook_base::limits::CREDIT_WINDOW as usize + INBOX_CONTROL_FRAMES_MAX;
        let (inbox, frames) = mpsc::channel(depth);
        let cell = Arc::new(CallCell::default());
        let call = CallState {
            out: VecDeque::new(),
            seq: SeqCounter::default(),
            check: SeqCheck::default(),
            window: CreditWindow::default(),
            credit_due: 0,
            inbox: Some(inbox),
            cell: Arc::clone(&cell),
            listed_urgent: false,
            listed_bulk: false,
            listed_background: false,
        };
        self.calls.insert(id, call);
        (frames, cell)
    }

    fn refuse(&mut self, id: CallId) -> Result<(), Violation> {
        if self.refusals.len() >= REFUSAL_FRAMES_MAX {
            return Err(Violation::RefusalFlood);
        }
        let code = ErrorCode::Busy;
        let close = Message::Close { code: Some(code) };
        self.refusals.push_back(encode_unsent(id, &Message::refusal(code)).with_seq(0));
        self.refusals.push_back(encode_unsent(id, &close).with_seq(1));
        Ok(())
    }

    /// Routes one inbound frame of a call.
    pub(crate) fn deliver(&mut self, frame: Frame<M>) -> Result<Delivered<M>, Violation> {
        let id = frame.call;
        let Some(call) = self.calls.get_mut(&id) else {
            return self.deliver_unknown(frame);
        };
        call.check.accept(frame.seq).map_err(|error| Violation::Sequence { call: id, error })?;
        let Some(inbox) = &call.inbox else {
            self.frames_late += 1;
            if frame.message.kind() == Kind::Close {
                self.remove(id);
            }
            return Ok(Delivered::Done);
        };
        let message = match frame.message.kind() {
            Kind::Credit | Kind::Close => match frame.message.into_peer() {
                Ok(Message::Credit { chunks }) => {
                    call.window
                        .send
                        .grant(chunks)
                        .map_err(|error| Violation::Credit { call: id, error })?;
                    call.cell.room.notify_one();
                    return Ok(Delivered::Done);
                }
                Ok(Message::Close { code }) => {
                    call.cell.end(CallError::Closed { code });
                    self.remove(id);
                    return Ok(Delivered::Done);
                }
                Ok(other) => M::from_peer(other),
                Err(other) => other,
            },
            Kind::Chunk => {
                call.window
                    .receive
                    .receive()
                    .map_err(|error| Violation::Credit { call: id, error })?;
                frame.message
            }
            _ => frame.message,
        };
        match inbox.try_send(message) {
            Ok(()) => Ok(Delivered::Done),
            Err(InboxError::Full(_)) => Err(Violation::InboxOverrun { call: id }),
            Err(InboxError::Closed(_)) => {
                self.frames_late += 1;
                Ok(Delivered::Done)
            }
        }
    }

    /// A frame whose call is not in the table: the first of a new one, a late one, or nonsense.
    fn deliver_unknown(&mut self, frame: Frame<M>) -> Result<Delivered<M>, Violation> {
        let call = frame.call;
        if self.side.allots(call.0) {
            if call.0 >= self.next_id {
                return Err(Violation::UnknownCall { call });
            }
        } else if frame.seq == 0 {
            match frame.message.kind() {
                Kind::Close => {}
                kind @ (Kind::Chunk | Kind::Credit) => {
                    return Err(Violation::BadOpening { call, kind });
                }
                _ => return Ok(Delivered::Opens(frame)),
            }
        }
        self.frames_late += 1;
        Ok(Delivered::Done)
    }

    fn remove(&mut self, id: CallId) {
        let Some(call) = self.calls.remove(&id) else {
            return;
        };
        // Nothing stays behind in the lines, or a peer that does not read could make them grow.
        if call.listed_urgent {
            self.urgent.retain(|listed| *listed != id);
        }
        if call.listed_bulk {
            self.bulk.retain(|listed| *listed != id);
        }
        if call.listed_background {
            self.background.retain(|listed| *listed != id);
        }
        if !self.side.allots(id.0) {
            self.calls_remote -= 1;
        }
    }

    /// Whether a frame (a chunk: with its credit) may be queued on the call. `None`: it ended.
    pub(crate) fn room(&self, id: CallId, kind: Kind) -> Option<Room> {
        let call = self.calls.get(&id).filter(|call| call.inbox.is_some())?;
        let free = call.out.len() < CALL_OUT_FRAMES_MAX;
        let paid = kind != Kind::Chunk || call.window.send.is_open();
        Some(if free && paid { Room::Free } else { Room::Full })
    }

    /// Queues a frame for which there was room. `false`: the call ended meanwhile.
    pub(crate) fn queue(
        &mut self,
        id: CallId,
        frame: EncodedFrame,
        lane: Lane,
        kind: Kind,
    ) -> bool {
        let Some(call) = self.calls.get_mut(&id).filter(|call| call.inbox.is_some()) else {
            return false;
        };
        if kind == Kind::Chunk && !call.window.send.spend() {
            return false;
        }
        call.out.push_back(Outbound { frame, lane, closes: false });
        self.list(id);
        true
    }

    /// Ends a call from this side: what waits is still written, then CLOSE.
    pub(crate) fn close_call(&mut self, id: CallId, code: Option<ErrorCode>) {
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        if call.inbox.take().is_none() {
            return;
        }
        call.cell.end(CallError::Closed { code });
        let unheard_of = call.seq.is_unused() && call.out.is_empty();
        if unheard_of && self.side.allots(id.0) {
            self.remove(id);
            return;
        }
        let close = M::from_peer(Message::Close { code });
        call.out.push_back(Outbound {
            frame: encode_unsent(id, &close),
            lane: Lane::Urgent,
            closes: true,
        });
        self.list(id);
    }

    /// The consumer of a call took a chunk. Returns whether credit is now to be written.
    pub(crate) fn chunk_taken(&mut self, id: CallId) -> bool {
        let Some(call) = self.calls.get_mut(&id) else {
            return false;
        };
        let Some(credit) = call.window.receive.take() else {
            return false;
        };
        call.credit_due += credit;
        self.list(id);
        true
    }

    /// Queues a frame of the connection itself. `Err`: there is no room.
    pub(crate) fn queue_control(&mut self, frame: EncodedFrame) -> Result<(), EncodedFrame> {
        if self.control.len() >= CONTROL_OUT_FRAMES_MAX {
            return Err(frame);
        }
        self.control.push_back(frame);
        Ok(())
    }

    /// The next frame of the connection itself; it still needs its number.
    pub(crate) fn next_control(&mut self) -> Option<EncodedFrame> {
        self.control.pop_front()
    }

    /// Whether anything waits to be written.
    pub(crate) fn has_frames(&self) -> bool {
        !(self.control.is_empty()
            && self.refusals.is_empty()
            && self.urgent.is_empty()
            && self.bulk.is_empty()
            && self.background.is_empty())
    }

    /// The next frame of a call: refusals, then urgent calls in turn, then bulk calls in turn, then
    /// those in the background in turn.
    pub(crate) fn next_frame(&mut self) -> Result<Option<FrameParts>, SeqError> {
        if let Some(frame) = self.refusals.pop_front() {
            return Ok(Some(frame));
        }
        while let Some(id) = self.urgent.pop_front() {
            if let Some(call) = self.calls.get_mut(&id) {
                call.listed_urgent = false;
                let credit = std::mem::take(&mut call.credit_due);
                if credit > 0 && call.inbox.is_some() {
                    let seq = call.seq.take()?;
                    self.list(id);
                    let message = Message::Credit { chunks: credit };
                    return Ok(Some(encode_unsent(id, &message).with_seq(seq)));
                }
                if let Some(frame) = self.take_front(id, Lane::Urgent)? {
                    return Ok(Some(frame));
                }
            }
        }
        while let Some(id) = self.bulk.pop_front() {
            if let Some(call) = self.calls.get_mut(&id) {
                call.listed_bulk = false;
                if let Some(frame) = self.take_front(id, Lane::Bulk)? {
                    return Ok(Some(frame));
                }
            }
        }
        while let Some(id) = self.background.pop_front() {
            if let Some(call) = self.calls.get_mut(&id) {
                call.listed_background = false;
                if let Some(frame) = self.take_front(id, Lane::Background)? {
                    return Ok(Some(frame));
                }
            }
        }
        Ok(None)
    }

    /// The first frame of a call, if it is of this lane.
    fn take_front(&mut self, id: CallId, lane: Lane) -> Result<Option<FrameParts>, SeqError> {
        let Some(call) = self.calls.get_mut(&id) else {
            return Ok(None);
        };
        let Some(first) = call.out.pop_front_if(|first| first.lane == lane) else {
            return Ok(None);
        };
        let frame = first.frame.with_seq(call.seq.take()?);
        if first.closes {
            self.remove(id);
        } else {
            call.cell.room.notify_one();
            self.list(id);
        }
        Ok(Some(frame))
    }

    /// Puts the call in line for writing, according to what it has to say first.
    fn list(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        let front = call.out.front().map(|first| first.lane);
        let urgent = call.credit_due > 0 || front == Some(Lane::Urgent);
        if urgent && !std::mem::replace(&mut call.listed_urgent, true) {
            self.urgent.push_back(id);
        }
        if front == Some(Lane::Bulk) && !std::mem::replace(&mut call.listed_bulk, true) {
            self.bulk.push_back(id);
        }
        if front == Some(Lane::Background) && !std::mem::replace(&mut call.listed_background, true)
        {
            self.background.push_back(id);
        }
    }
}
