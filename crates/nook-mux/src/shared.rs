//! What the handles of a connection and its task share: the state under a lock, and the bells.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use futures_util::task::AtomicWaker;
use tokio::sync::{Notify, watch};

use nook_base::ErrorCode;
use nook_wire::{CallId, EncodedFrame, Kind, WireMessage, encode_unsent};

use crate::config::MuxConfig;
use crate::reason::{CallError, CloseReason, MuxClosed};
use crate::state::{Lane, Room, State};

/// One connection, shared by its task and its handles.
#[derive(Debug)]
pub(crate) struct Shared<M> {
    /// Never held across an await or a call into foreign code.
    state: Mutex<State<M>>,
    /// Wakes the connection task: something waits to be written, or the end was decided.
    pub(crate) task: AtomicWaker,
    /// Rings when the control queue has room, or at the end.
    control_room: Notify,
    /// The nonce of the latest question ([`State::next_question`]) that was answered.
    pub(crate) answered: watch::Sender<u64>,
    /// Tells the end to everybody who asks.
    pub(crate) ended: watch::Sender<Option<CloseReason>>,
}

/// The part of a call that outlives its place in the table.
#[derive(Debug, Default)]
pub(crate) struct CallCell {
    /// Rings when the queue has room, credit came, or the call ended. One sender waits on it.
    pub(crate) room: Notify,
    /// Rings at the call's end, for everybody who waits for it.
    over: Notify,
    ended: OnceLock<CallError>,
}

/// Ends the call when both halves of it are dropped.
#[derive(Debug)]
pub(crate) struct CallHandle<M: WireMessage> {
    pub(crate) id: CallId,
    pub(crate) shared: Arc<Shared<M>>,
    pub(crate) cell: Arc<CallCell>,
}

impl<M: WireMessage> Shared<M> {
    pub(crate) fn new(config: &MuxConfig) -> Self {
        Self {
            state: Mutex::new(State::new(config)),
            task: AtomicWaker::new(),
            control_room: Notify::new(),
            answered: watch::Sender::new(0),
            ended: watch::Sender::new(None),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State<M>> {
        // A panic under this lock would have to come from the standard collections; their content
        // is then still whole, and the connection ends by its own checks.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection for everybody, at once. The first reason stays.
    pub(crate) fn end(&self, reason: CloseReason) {
        let first = {
            let mut state = self.state();
            let first = state.ended.is_none();
            state.end(reason.clone());
            first
        };
        if first {
            self.ended.send_replace(Some(reason));
            self.control_room.notify_waiters();
            self.task.wake();
        }
    }

    /// Waits for room for a frame of the connection itself, and queues it.
    pub(crate) async fn send_control(&self, message: &M) -> Result<(), MuxClosed> {
        let mut frame = encode_unsent(CallId::CONNECTION, message);
        loop {
            let mut room = std::pin::pin!(self.control_room.notified());
            // In line before looking, so that room made in between is not missed.
            room.as_mut().enable();
            {
                let mut state = self.state();
                if let Some(reason) = state.ended.clone() {
                    return Err(MuxClosed { reason });
                }
                match state.queue_control(frame) {
                    Ok(()) => break,
                    Err(refused) => frame = refused,
                }
            }
            room.await;
        }
        self.task.wake();
        Ok(())
    }

    /// The same without waiting; whether it was queued.
    pub(crate) fn try_send_control(&self, message: &M) -> bool {
        let frame = encode_unsent(CallId::CONNECTION, message);
        let queued = {
            let mut state = self.state();
            state.ended.is_none() && state.queue_control(frame).is_ok()
        };
        if queued {
            self.task.wake();
        }
        queued
    }

    /// A frame of the connection itself was taken from its full queue.
    pub(crate) fn control_taken(&self) {
        self.control_room.notify_waiters();
    }
}

impl CallCell {
    /// Tells the call's end; the first one stays.
    pub(crate) fn end(&self, error: CallError) {
        // Losing the race is fine: the first cause is the one to tell.
        let _ = self.ended.set(error);
        self.room.notify_one();
        self.over.notify_waiters();
    }

    /// Waits for the call's end.
    pub(crate) async fn over(&self) -> CallError {
        let mut over = std::pin::pin!(self.over.notified());
        // In line before looking, so that an end in between is not missed.
        over.as_mut().enable();
        if !self.is_ended() {
            over.await;
        }
        self.error()
    }

    /// Why the call ended. Asked only after it did; should the table have dropped the call without
    /// a word, it counts as closed.
    pub(crate) fn error(&self) -> CallError {
        let unnamed = CallError::Closed { code: None };
        self.ended.get().cloned().unwrap_or(unnamed)
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended.get().is_some()
    }
}

impl<M: WireMessage> CallHandle<M> {
    /// Whether there is room, or the call's end.
    pub(crate) fn room(&self, kind: Kind) -> Result<Room, CallError> {
        let room = self.shared.state().room(self.id, kind);
        room.ok_or_else(|| self.cell.error())
    }

    /// Queues an encoded frame for which there was room.
    pub(crate) fn queue(
        &self,
        kind: Kind,
        frame: EncodedFrame,
        lane: Lane,
    ) -> Result<(), CallError> {
        if !self.shared.state().queue(self.id, frame, lane, kind) {
            return Err(self.cell.error());
        }
        self.shared.task.wake();
        Ok(())
    }

    pub(crate) fn chunk_taken(&self) {
        let credit = self.shared.state().chunk_taken(self.id);
        if credit {
            self.shared.task.wake();
        }
    }

    pub(crate) fn close(&self, code: Option<ErrorCode>) {
        self.shared.state().close_call(self.id, code);
        self.shared.task.wake();
    }
}

impl<M: WireMessage> Drop for CallHandle<M> {
    fn drop(&mut self) {
        self.close(Some(ErrorCode::Cancelled));
    }
}
