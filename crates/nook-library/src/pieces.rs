//! Bytes that another device gives, piece by piece, over a call: what copies of models and packages of
//! a release have in common.

use std::future::Future;
use std::ops::Range;

use bytes::Bytes;
use nook_resources::traffic::Traffic;
use nook_wire::{Message, Piece, PieceAssembly};

/// A call on which pieces come.
pub trait PieceCall: Send {
    /// What comes next on the call; why nothing does.
    fn receive(&mut self) -> impl Future<Output = Result<Message, String>> + Send;

    /// What is still to come of what was asked for.
    fn due(&mut self) -> &mut Range<u64>;

    /// What goes first where replies are computed.
    fn traffic(&self) -> &Traffic;
}

/// The next bytes of what was asked for, and the head that they came under; why there are none.
pub async fn next_piece(call: &mut impl PieceCall) -> Result<(Piece, Bytes), String> {
    let odd = || "it sent something else than was asked for".to_owned();
    let Message::Piece(head) = call.receive().await? else { return Err(odd()) };
    let mut assembly = PieceAssembly::new(&head, call.due()).map_err(|wrong| wrong.to_string())?;
    loop {
        let Message::Chunk(chunk) = call.receive().await? else { return Err(odd()) };
        call.traffic().give_way(chunk.bytes.len()).await;
        if let Some(bytes) = assembly.take(chunk).map_err(|wrong| wrong.to_string())? {
            let due = call.due();
            due.start = due.start.saturating_add(u64::from(head.bytes));
            return Ok((head, bytes));
        }
    }
}
