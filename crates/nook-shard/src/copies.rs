//! A conversation that begins with a copy of another's beginning: many chats share a system prompt.
//!
//! Whatever is kept of earlier calls (`retained`) serves as the cache of their beginnings: it is
//! found by the same requester alone, under the same mark, goes first when memory is wanted and
//! after its time. A call that goes on with a beginning takes a copy, so that the earlier
//! conversation can go on too, and the next one that begins alike.
//!
//! What the host learns: that two conversations of one requester begin alike, and how far. It could
//! tell that from the numbers in any case. Between requesters nothing is shared, because a mark is
//! keyed by a secret of the requester's own.
//!
//! That holds among the devices of one owner too, where sharing was considered. It would save next
//! to nothing: the last layers of the model are on the asking device, and what they remember of a
//! beginning is made from the rows that this host answers for it. A device that has never computed
//! the beginning needs those rows, so the host has to compute them; one that has, has its own copy
//! here. And it would cost something: a host that answers sooner tells each member what another one
//! has asked before.

use nook_base::{ErrorCode, clock};
use nook_model::Session;
use nook_wire::ResumePoint;

use crate::account::Slot;
use crate::failure::Failure;
use crate::history::History;
use crate::retained::{Kept, RetainedKey};

/// Copies the first positions of `kept`, which goes back to where it was, into `empty`. What cannot
/// be copied, because it remembers in one state, is gone on with itself.
pub(crate) async fn copied(
    slot: &Slot,
    key: Option<RetainedKey>,
    kept: Kept<Session>,
    ResumePoint { position, .. }: ResumePoint,
    mut empty: Session,
) -> Result<(Session, History), Failure> {
    let Kept { session, history } = kept;
    let mut beginning = history.clone();
    beginning.truncate(position);
    let (session, copy) = apart(move || {
        let exported = session.export(session.part().layers, 0..position);
        let copy = exported.and_then(|layers| empty.import(&layers).map(|()| empty));
        (session, copy)
    })
    .await?;
    match (copy, key) {
        (Ok(copy), Some(key)) => {
            let kept = Kept { session, history };
            let bytes = kept.bytes();
            slot.put_back(key, kept, bytes, clock::now());
            Ok((copy, beginning))
        }
        (Ok(_), None) | (Err(_), _) => Ok((session, beginning)),
    }
}

/// Does what takes milliseconds on a thread where nobody waits behind it.
pub(crate) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Failure::from(ErrorCode::WorkerCrashed))
}
