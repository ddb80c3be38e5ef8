//! The end of a whole request, and the name of what the worker keeps of it.
//!
//! The prefix hashes of whole requests are made here, so the asker cannot name what is kept, and
//! could not have it dropped with a chat that its owner deletes. So the name goes out with the end
//! of the reply. An asker that has heard it closes the call in order; of any other end nothing is
//! kept, because nobody could say its name.

use std::time::Duration;

use nook_mux::{CallError, CallReceiver, CallSender};
use nook_wire::{KeptHistory, Message, OffloadFinish, OffloadKept};

use super::{Over, Run, send};
use crate::terms::OwnGuest;
use nook_resources::workers::Workers;

/// Longest wait for the asker to close the call once the end was said to it; it has nothing else to
/// do. What is kept of the request is dropped then.
const HEARD_LIMIT: Duration = Duration::from_secs(10);

impl Run<'_> {
    /// By what the worker knows this request once it was left in order; `None` before the first
    /// step.
    pub(super) fn kept(&self) -> Option<KeptHistory> {
        let (model, position) = (self.model.listed.digest, self.position);
        let mark = self.marks.at(position);
        (position > 0).then_some(KeptHistory { model, position, mark })
    }
}

/// Says that the reply is whole, and what is kept of it.
pub(super) async fn end(
    (finish, kept): (OffloadFinish, Option<KeptHistory>),
    own: &OwnGuest,
    (to_asker, from_asker): (&mut CallSender<Message>, &mut CallReceiver<Message>),
    workers: &Workers,
) -> Result<(), Over> {
    let Some(kept) = kept else {
        return send(Message::OffloadEnd { finish, kept: None }, to_asker).await;
    };
    let name = OffloadKept { position: kept.position, mark: kept.mark };
    let told = send(Message::OffloadEnd { finish, kept: Some(name) }, to_asker).await;
    let heard = tokio::time::timeout(HEARD_LIMIT, is_heard(from_asker));
    if told.is_ok() && heard.await.unwrap_or(false) {
        return Ok(());
    }
    workers.drop_kept(Some(own.pass.peer()), kept);
    Err(Over::Left)
}

/// Whether the asker closes the call in order.
async fn is_heard(from_asker: &mut CallReceiver<Message>) -> bool {
    loop {
        match from_asker.recv().await {
            // It has nothing to say any more, and nobody listens.
            Ok(_) => {}
            Err(error) => return matches!(error, CallError::Closed { code: None }),
        }
    }
}
