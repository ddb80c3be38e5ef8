//! What this device says of itself on each link: its advert, and what it would run whole.
//!
//! The house loop [posts](Bulletins::post) what holds from now on. One task for each link takes it to the
//! connection, in the order in which it was posted, and of each kind only the newest waits there: what was
//! overtaken before the connection had room is not said any more, so that a burst of changes is a few
//! messages, and no old word ever follows a newer one. Were each word sent by a task of its own, "I share
//! nothing" could come behind "I share this", and would count until the next advert.

use std::collections::BTreeMap;
use std::time::Duration;

use nook_base::PeerId;
use nook_base::tasks::Tasks;
use nook_mux::Mux;
use nook_wire::{Message, WireMessage as _};
use tokio::sync::watch;

/// Longest wait for room on a connection. Then what is to be said is looked at anew, so that a word that was
/// overtaken meanwhile is left out. A connection that takes nothing at all ends by itself a little later, and
/// everything is said again when it is back.
const ROOM_LIMIT: Duration = Duration::from_secs(5);

/// What is said on each link. At most one board for each linked device.
#[derive(Debug, Default)]
pub(crate) struct Bulletins {
    boards: BTreeMap<PeerId, watch::Sender<Board>>,
}

/// The newest word of each kind, oldest first.
#[derive(Debug, Default)]
struct Board {
    words: Vec<Word>,
    /// The number of the last word that was posted.
    last: u64,
}

#[derive(Debug, Clone)]
struct Word {
    number: u64,
    message: Message,
}

impl Bulletins {
    /// A device is linked. Nothing has been said on this link.
    pub(crate) fn linked(&mut self, peer: PeerId, mux: Mux<Message>, tasks: &Tasks) {
        let (board, words) = watch::channel(Board::default());
        // It ends with its board, or with the connection.
        tasks.spawn_until_cancelled("bulletins", say(mux, words));
        self.boards.insert(peer, board);
    }

    /// Its link is gone, and what was still to be said on it too.
    pub(crate) fn gone(&mut self, peer: PeerId) {
        self.boards.remove(&peer);
    }

    /// The devices that hear what is posted.
    pub(crate) fn peers(&self) -> Vec<PeerId> {
        self.boards.keys().copied().collect()
    }

    /// Says `message`, which replaces what was said with a message of the same kind. A device without a
    /// link hears nothing; whoever is linked is told everything anew.
    pub(crate) fn post(&self, peer: PeerId, message: Message) {
        if let Some(board) = self.boards.get(&peer) {
            board.send_modify(|board| board.post(message));
        }
    }
}

impl Board {
    fn post(&mut self, message: Message) {
        self.last += 1;
        self.words.retain(|word| word.message.kind() != message.kind());
        self.words.push(Word { number: self.last, message });
    }

    /// The oldest word that stands behind the one with this number.
    fn after(&self, number: u64) -> Option<Word> {
        self.words.iter().find(|word| word.number > number).cloned()
    }
}

/// Takes the words of a board to its connection, until either is gone.
async fn say(mux: Mux<Message>, mut board: watch::Receiver<Board>) {
    let mut said = 0;
    loop {
        let next = board.borrow_and_update().after(said);
        let Some(Word { number, message }) = next else {
            if board.changed().await.is_err() {
                return;
            }
            continue;
        };
        match tokio::time::timeout(ROOM_LIMIT, mux.send(message)).await {
            Ok(Ok(())) => said = number,
            Ok(Err(_)) => return,
            Err(_) => tracing::debug!("a connection takes nothing; what is to be said waits"),
        }
    }
}

#[cfg(test)]
mod tests;
