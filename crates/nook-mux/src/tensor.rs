//! Collects the chunks behind a head, message by message.

use bytes::Bytes;
use nook_base::{Activation, ActivationDtype};
use nook_wire::{
    Chunk, KvPieceAssembly, KvPieceHead, LogitsAssembly, Message, TensorAssembly, TensorError,
    WireMessage,
};

use crate::call::CallReceiver;
use crate::reason::TensorRecvError;

/// The state between a head and the last chunk of its tensor.
///
/// [`TensorReader::read`] may be dropped and called again: chunks taken so far are kept here.
#[derive(Debug)]
pub struct TensorReader<A> {
    assembly: A,
}

/// What can be put together from chunks.
pub trait Assembly {
    /// The whole.
    type Tensor;

    /// Adds the next chunk; the whole with the last one.
    fn take(&mut self, chunk: Chunk) -> Result<Option<Self::Tensor>, TensorError>;
}

impl TensorReader<TensorAssembly> {
    /// For the activation that a STEP or RESULT announces.
    pub fn activation(
        count: u32,
        hidden: u32,
        dtype: ActivationDtype,
    ) -> Result<Self, TensorError> {
        TensorAssembly::new(count, hidden, dtype).map(|assembly| Self { assembly })
    }
}

impl TensorReader<LogitsAssembly> {
    /// For the rows that LOGITS announces; there must be at least one.
    pub fn logits(count: u32, vocabulary: u32) -> Result<Self, TensorError> {
        LogitsAssembly::new(count, vocabulary).map(|assembly| Self { assembly })
    }
}

impl TensorReader<KvPieceAssembly> {
    /// For the bytes that KV CACHE PIECE announces.
    pub fn kv_piece(head: &KvPieceHead) -> Result<Self, TensorError> {
        KvPieceAssembly::new(head).map(|assembly| Self { assembly })
    }
}

impl<A: Assembly> TensorReader<A> {
    /// Takes chunks from the call until the tensor is whole.
    pub async fn read<M: WireMessage>(
        &mut self,
        call: &mut CallReceiver<M>,
    ) -> Result<A::Tensor, TensorRecvError<M>> {
        loop {
            let message = call.recv().await.map_err(TensorRecvError::Call)?;
            let chunk = match message.into_peer() {
                Ok(Message::Chunk(chunk)) => chunk,
                Ok(other) => return Err(TensorRecvError::Interrupted(M::from_peer(other))),
                Err(other) => return Err(TensorRecvError::Interrupted(other)),
            };
            if let Some(tensor) = self.assembly.take(chunk).map_err(TensorRecvError::Tensor)? {
                return Ok(tensor);
            }
        }
    }
}

impl Assembly for TensorAssembly {
    type Tensor = Activation;

    fn take(&mut self, chunk: Chunk) -> Result<Option<Activation>, TensorError> {
        self.take(chunk)
    }
}

impl Assembly for KvPieceAssembly {
    type Tensor = Bytes;

    fn take(&mut self, chunk: Chunk) -> Result<Option<Bytes>, TensorError> {
        self.take(chunk)
    }
}

impl Assembly for LogitsAssembly {
    type Tensor = Vec<f32>;

    fn take(&mut self, chunk: Chunk) -> Result<Option<Vec<f32>>, TensorError> {
        self.take(chunk)
    }
}
