//! One call: an ordered exchange of messages that no other call can slow.
//!
//! A [`Call`] can be split into a sending and a receiving half for two tasks. When both are gone,
//! the other side is told CLOSE `cancelled`, after whatever was already accepted for sending.

use std::sync::Arc;

use bytes::Bytes;
use nook_base::{Activation, ActivationDtype, ErrorCode};
use nook_wire::{CallId, Kind, KvPieceHead, Message, WireMessage, chunks_of, encode_unsent};
use tokio::sync::mpsc;

use crate::reason::{CallError, TensorRecvError, TrySendError};
use crate::shared::CallHandle;
use crate::state::{Lane, Room};
use crate::tensor::TensorReader;

/// One call, both directions.
#[derive(Debug)]
pub struct Call<M: WireMessage> {
    sender: CallSender<M>,
    receiver: CallReceiver<M>,
}

/// The sending half of a call. It has one owner, so the chunks of two tensors cannot mix.
#[derive(Debug)]
pub struct CallSender<M: WireMessage> {
    handle: Arc<CallHandle<M>>,
    /// The lane of the latest head, which its chunks share.
    lane: Lane,
}

/// The receiving half of a call.
///
/// Dropping it while the sending half lives stops the other side after its credit is spent.
#[derive(Debug)]
pub struct CallReceiver<M: WireMessage> {
    handle: Arc<CallHandle<M>>,
    inbox: mpsc::Receiver<M>,
}

impl<M: WireMessage> Call<M> {
    pub(crate) fn new(handle: CallHandle<M>, inbox: mpsc::Receiver<M>) -> Self {
        let handle = Arc::new(handle);
        Self {
            sender: CallSender { handle: Arc::clone(&handle), lane: Lane::Urgent },
            receiver: CallReceiver { handle, inbox },
        }
    }

    /// Which call of its connection it is.
    #[must_use]
    pub fn id(&self) -> CallId {
        self.sender.id()
    }

    /// Whether it has ended, for whatever reason. Messages that came before may still wait.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.sender.is_ended()
    }

    /// Waits for the end of the call, while messages that came before it may still wait to be
    /// taken.
    pub async fn ended(&self) -> CallError {
        self.sender.handle.cell.over().await
    }

    /// As [`CallSender::send`].
    pub async fn send(&mut self, message: M) -> Result<(), CallError> {
        self.sender.send(message).await
    }

    /// As [`CallSender::try_send`].
    pub fn try_send(&mut self, message: M) -> Result<(), TrySendError<M>> {
        self.sender.try_send(message)
    }

    /// As [`CallSender::send_tensor`].
    pub async fn send_tensor(&mut self, head: M, bytes: Bytes) -> Result<(), CallError> {
        self.sender.send_tensor(head, bytes).await
    }

    /// As [`CallReceiver::recv`].
    pub async fn recv(&mut self) -> Result<M, CallError> {
        self.receiver.recv().await
    }

    /// As [`CallReceiver::recv_activation`].
    pub async fn recv_activation(
        &mut self,
        count: u32,
        hidden: u32,
        dtype: ActivationDtype,
    ) -> Result<Activation, TensorRecvError<M>> {
        self.receiver.recv_activation(count, hidden, dtype).await
    }

    /// As [`CallReceiver::recv_logits`].
    pub async fn recv_logits(
        &mut self,
        count: u32,
        vocabulary: u32,
    ) -> Result<Vec<f32>, TensorRecvError<M>> {
        self.receiver.recv_logits(count, vocabulary).await
    }

    /// As [`CallReceiver::recv_kv_piece`].
    pub async fn recv_kv_piece(&mut self, head: &KvPieceHead) -> Result<Bytes, TensorRecvError<M>> {
        self.receiver.recv_kv_piece(head).await
    }

    /// As [`CallSender::close`].
    pub fn close(self, code: Option<ErrorCode>) {
        self.sender.close(code);
    }

    /// The two halves, for two tasks.
    #[must_use]
    pub fn split(self) -> (CallSender<M>, CallReceiver<M>) {
        (self.sender, self.receiver)
    }

    /// The receiving half, for a [`TensorReader`].
    pub fn receiver(&mut self) -> &mut CallReceiver<M> {
        &mut self.receiver
    }
}

impl<M: WireMessage> CallSender<M> {
    /// Which call of its connection it is.
    #[must_use]
    pub fn id(&self) -> CallId {
        self.handle.id
    }

    /// Whether the call has ended, for whatever reason.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.handle.cell.is_ended()
    }

    /// Sends a message as soon as the call's queue has room and, for a chunk, there is credit.
    ///
    /// Returns when the message is accepted for writing. Dropped while it waits, nothing is sent.
    pub async fn send(&mut self, message: M) -> Result<(), CallError> {
        let kind = self.check(&message)?;
        while self.handle.room(kind)? == Room::Full {
            self.handle.cell.room.notified().await;
        }
        self.queue(kind, &message)
    }

    /// Sends a message if that needs no waiting; hands it back otherwise.
    pub fn try_send(&mut self, message: M) -> Result<(), TrySendError<M>> {
        let room = self.check(&message).and_then(|kind| Ok((kind, self.handle.room(kind)?)));
        match room {
            Ok((_, Room::Full)) => Err(TrySendError::Full(message)),
            Ok((kind, Room::Free)) => self.queue(kind, &message).map_err(TrySendError::Ended),
            Err(error) => Err(TrySendError::Ended(error)),
        }
    }

    /// Sends a head and then its tensor in chunks.
    ///
    /// Not to be dropped half-way on a call that goes on: the receiver would miss the rest.
    pub async fn send_tensor(&mut self, head: M, bytes: Bytes) -> Result<(), CallError> {
        self.send(head).await?;
        for chunk in chunks_of(bytes) {
            self.send(M::from_peer(Message::Chunk(chunk))).await?;
        }
        Ok(())
    }

    /// Ends the call: what was accepted for sending is still sent, then CLOSE with `code`. Returns
    /// at once. The receiving half ends with it.
    pub fn close(self, code: Option<ErrorCode>) {
        self.handle.close(code);
    }

    /// Refuses what the mux says by itself, and what belongs to the connection.
    fn check(&self, message: &M) -> Result<Kind, CallError> {
        match message.kind() {
            kind if !kind.fits(self.handle.id) => Err(CallError::NotForCalls { kind }),
            kind @ (Kind::Credit | Kind::Close) => Err(CallError::NotForCalls { kind }),
            kind => Ok(kind),
        }
    }

    fn queue(&mut self, kind: Kind, message: &M) -> Result<(), CallError> {
        if kind != Kind::Chunk {
            self.lane = match (message.is_background(), message.is_bulk()) {
                (true, _) => Lane::Background,
                (false, true) => Lane::Bulk,
                (false, false) => Lane::Urgent,
            };
        }
        // Encoded outside the lock. The room cannot vanish meanwhile, because this half has one
        // owner. A chunk's bytes are shared, not copied.
        let frame = encode_unsent(self.handle.id, message);
        self.handle.queue(kind, frame, self.lane)
    }
}

impl<M: WireMessage> CallReceiver<M> {
    /// Which call of its connection it is.
    #[must_use]
    pub fn id(&self) -> CallId {
        self.handle.id
    }

    /// The next message. What came before the call's end is still handed out. Taking a chunk gives
    /// the other side credit for a further one. Dropped while it waits, nothing is lost.
    pub async fn recv(&mut self) -> Result<M, CallError> {
        let Some(message) = self.inbox.recv().await else {
            return Err(self.handle.cell.error());
        };
        if message.kind() == Kind::Chunk {
            self.handle.chunk_taken();
        }
        Ok(message)
    }

    /// The activation whose head was just received. Use a [`TensorReader`] where the wait may be
    /// dropped and taken up again.
    pub async fn recv_activation(
        &mut self,
        count: u32,
        hidden: u32,
        dtype: ActivationDtype,
    ) -> Result<Activation, TensorRecvError<M>> {
        let mut reader =
            TensorReader::activation(count, hidden, dtype).map_err(TensorRecvError::Tensor)?;
        reader.read(self).await
    }

    /// The bytes of the piece whose head was just received.
    pub async fn recv_kv_piece(&mut self, head: &KvPieceHead) -> Result<Bytes, TensorRecvError<M>> {
        let mut reader = TensorReader::kv_piece(head).map_err(TensorRecvError::Tensor)?;
        reader.read(self).await
    }

    /// The logits whose head was just received, row-major; empty at once for no rows.
    pub async fn recv_logits(
        &mut self,
        count: u32,
        vocabulary: u32,
    ) -> Result<Vec<f32>, TensorRecvError<M>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut reader =
            TensorReader::logits(count, vocabulary).map_err(TensorRecvError::Tensor)?;
        reader.read(self).await
    }
}
