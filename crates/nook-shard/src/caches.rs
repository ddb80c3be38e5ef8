//! What a conversation remembers here, given to another worker, or taken from one.
//!
//! A piece is the keys and values, or the state, of every layer of the part for some positions:
//!
//! | layer by layer | bytes |
//! | --- | --- |
//! | number of the layer, u32 | 4 |
//! | length of what follows, u64 | 8 |
//! | what `nook_model` exports of the layer | that many |
//!
//! all little-endian. Both ends are workers of this program; the nodes between them pass the bytes
//! on and look at none. They are copied off the tasks of the runtime, which other calls share. A
//! conversation that could not take a piece is over: it is not known how much of it was taken.

use bytes::Bytes;
use nook_base::ErrorCode;
use nook_model::{LayerExport, Session};
use nook_mux::Call;
use nook_wire::{KV_PIECE_BYTES_MAX, KvPieceHead, Message, PrefixHash, WorkerMessage};

use crate::copies::apart;
use crate::failure::Failure;
use crate::opening::Conversation;
use crate::over::Over;

/// About how many bytes a piece has: some chunks, so that the first of them are with the other
/// worker while the last are made.
const PIECE_BYTES: u64 = 4 << 20;

/// Bytes before the numbers of a layer.
const LAYER_HEAD_BYTES: usize = 12;

/// Sends all that `conversation` remembers.
pub(crate) async fn give(
    mut conversation: Conversation,
    call: &mut Call<WorkerMessage>,
) -> Result<Conversation, Over> {
    let position = conversation.session.position();
    let Some(mark) = conversation.history.at(position).filter(|_| position > 0) else {
        return Err(Failure::new(ErrorCode::HistoryMismatch, "nothing is remembered here").into());
    };
    let each = conversation.session.cache_bytes() / u64::from(position);
    let mut count = u32::try_from(PIECE_BYTES / each.max(1)).unwrap_or(position).max(1);
    let mut first = 0;
    while first < position {
        let end = first.saturating_add(count).min(position);
        let (session, piece) = packed(conversation.session, first..end).await?;
        conversation.session = session;
        match piece {
            Ok(bytes) => {
                let head = head(first..end, bytes.len(), (position, mark))?;
                call.send_tensor(Message::KvCachePiece(head).into(), bytes).await?;
                first = end;
            }
            // States that remember all positions in one go whole or not at all.
            Err(_) if first == 0 && end < position => count = position,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(conversation)
}

/// Adds the piece whose `head` was just received; answers once it was the last.
pub(crate) async fn take(
    mut conversation: Conversation,
    head: KvPieceHead,
    call: &mut Call<WorkerMessage>,
) -> Result<Conversation, Over> {
    let here = conversation.session.position();
    let end = head.end().filter(|_| head.first == here);
    let fits = head.position <= conversation.session.positions_max()
        // What is remembered takes no more than was promised for it.
        && head.bytes <= conversation.slot.bytes();
    let (Some(end), true) = (end, fits) else {
        let sentence = format!("positions from {} on do not follow the {here} here", head.first);
        return Err(Failure::new(ErrorCode::HistoryMismatch, sentence).into());
    };
    let bytes = call.recv_kv_piece(&head).await?;
    let (session, taken) = unpacked(conversation.session, bytes).await?;
    conversation.session = session;
    taken?;
    if conversation.session.position() != end {
        return Err(Failure::from(ErrorCode::HistoryMismatch).into());
    }
    if head.is_last() {
        conversation.history.note(end, head.mark);
        call.send(Message::KvCacheTaken { position: end }.into()).await?;
    }
    Ok(conversation)
}

fn head(
    range: std::ops::Range<u32>,
    bytes: usize,
    (position, mark): (u32, PrefixHash),
) -> Result<KvPieceHead, Failure> {
    let (first, count, bytes) = (range.start, range.end - range.start, bytes as u64);
    if bytes > KV_PIECE_BYTES_MAX {
        let sentence = "what is remembered here is too large to be handed over";
        return Err(Failure::new(ErrorCode::OutOfMemory, sentence));
    }
    Ok(KvPieceHead { first, count, bytes, position, mark })
}

/// What `session` remembers of some positions, and the session back.
async fn packed(
    session: Session,
    positions: std::ops::Range<u32>,
) -> Result<(Session, Result<Bytes, Failure>), Failure> {
    apart(move || {
        let exported = session.export(session.part().layers, positions);
        let bytes = exported.map(|layers| pack(&layers).into());
        let refused = |error: nook_model::HandoverError| {
            Failure::new(ErrorCode::BadRequest, error.to_string())
        };
        (session, bytes.map_err(refused))
    })
    .await
}

/// Adds a piece to `session`, and gives it back.
async fn unpacked(
    mut session: Session,
    bytes: Bytes,
) -> Result<(Session, Result<(), Failure>), Failure> {
    apart(move || {
        let taken = unpack(&bytes).and_then(|layers| {
            let refused = |error: nook_model::HandoverError| {
                Failure::new(ErrorCode::HistoryMismatch, error.to_string())
            };
            session.import(&layers).map_err(refused)
        });
        (session, taken)
    })
    .await
}

fn pack(layers: &[LayerExport]) -> Vec<u8> {
    let length = layers.iter().map(|layer| LAYER_HEAD_BYTES + layer.bytes.len()).sum();
    let mut bytes = Vec::with_capacity(length);
    for LayerExport { layer, bytes: numbers } in layers {
        bytes.extend_from_slice(&layer.to_le_bytes());
        bytes.extend_from_slice(&(numbers.len() as u64).to_le_bytes());
        bytes.extend_from_slice(numbers);
    }
    bytes
}

fn unpack(mut bytes: &[u8]) -> Result<Vec<LayerExport>, Failure> {
    let mut layers = Vec::new();
    while !bytes.is_empty() {
        let Some((layer, length, numbers)) = next_layer(bytes) else {
            let sentence = "these bytes are no handed over layers";
            return Err(Failure::new(ErrorCode::BadRequest, sentence));
        };
        let (numbers, rest) = numbers.split_at(length);
        layers.push(LayerExport { layer, bytes: numbers.to_vec() });
        bytes = rest;
    }
    Ok(layers)
}

/// Number, length and the rest, which is at least as long.
fn next_layer(bytes: &[u8]) -> Option<(u32, usize, &[u8])> {
    let (layer, rest) = bytes.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    (length <= rest.len()).then_some((u32::from_le_bytes(*layer), length, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_come_back_as_they_were_packed_and_cut_bytes_are_refused() {
        let layers = [
            LayerExport { layer: 3, bytes: vec![1, 2, 3] },
            LayerExport { layer: 4, bytes: Vec::new() },
            LayerExport { layer: 5, bytes: vec![9; 100] },
        ];
        let bytes = pack(&layers);
        assert_eq!(unpack(&bytes).unwrap(), layers);
        let whole = [0, 15, 27, bytes.len()];
        for length in 0..bytes.len() {
            assert_eq!(unpack(&bytes[..length]).is_ok(), whole.contains(&length), "{length}");
        }
        // A length that no memory has.
        let mut bytes = bytes;
        bytes[4..12].fill(0xff);
        assert_eq!(unpack(&bytes).unwrap_err().code, ErrorCode::BadRequest);
    }
}
