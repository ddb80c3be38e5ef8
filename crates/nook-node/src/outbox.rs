//! What this device says on the connection to each linked device: its advert, what it would run
//! whole, which layers it would like to be held or holds itself, and what is not to be kept any
//! more.
//!
//! The node's event loop [posts](Outbox::post) what holds from now on. One task for each link takes
//! it to the connection, in the order in which it was posted. What was overtaken before the
//! connection had room is not said any more: of adverts and offers only the newest waits there, of
//! wishes and their answers the newest for each model. So a burst of changes is a few messages, and
//! no old word ever follows a newer one. Were each word sent by a task of its own, "I share
//! nothing" could come behind "I share this", and would count until the next advert.
//!
//! Each DROP KEPT names something else, so all of them are said. What a link could not be rid of,
//! and what is dropped while there is none, waits for the next one. A connection that has taken a
//! word has not brought it over yet, and one that is dead is noticed late: a word counts as heard
//! when the other end has answered a question that went behind it. Saying one twice changes
//! nothing.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nook_base::PeerId;
use nook_base::tasks::Tasks;
use nook_mux::{Mux, MuxClosed};
use nook_wire::{DeviceFacts, HelpTerms, KeptHistory, Message, WireMessage as _};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Longest wait for room on a connection. Then what is to be said is looked at anew, so that a word
/// that was overtaken meanwhile is left out. A connection that takes nothing at all ends by itself
/// a little later, and everything is said again when it is back.
const ROOM_LIMIT: Duration = Duration::from_secs(5);

/// Words of one kind that wait for one device. Of more, the oldest is not said: an answer to a wish
/// is then missing until it is asked for again, and what was to be dropped is kept there until its
/// time is over.
const WORDS_MAX: usize = 128;

/// Words said without a pause: a quarter of what may wait at the other end, where more is a broken
/// rule.
const BREATH_WORDS: usize = 16;

/// The pause once that many words are there, in which the other end takes them.
const BREATH: Duration = Duration::from_millis(20);

/// What is said on each link. At most one board for each linked device.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    linked: BTreeMap<PeerId, Linked>,
    /// What paired devices without a link are to drop; at most [`WORDS_MAX`] each, as on a board.
    owed: BTreeMap<PeerId, VecDeque<KeptHistory>>,
}

#[derive(Debug)]
struct Linked {
    mux: Mux<Message>,
    board: Arc<Board>,
    /// The terms that were posted last.
    terms: Option<HelpTerms>,
    /// The facts that were posted last.
    facts: Option<DeviceFacts>,
    /// Ends the task with the board.
    _over: DropGuard,
}

/// What waits to be said on one link.
#[derive(Debug, Default)]
struct Board {
    // Guards a short list; never held across an await.
    words: Mutex<Words>,
    /// Rings when a word was posted. One task waits on it.
    posted: Notify,
}

/// What was posted, oldest first.
#[derive(Debug, Default)]
struct Words {
    /// Not said yet.
    waiting: VecDeque<Word>,
    /// What is to be dropped, given to the connection: it may not be there yet. At most
    /// [`BREATH_WORDS`], and what waited when the link was about to be closed.
    on_the_way: VecDeque<(u64, KeptHistory)>,
    /// The number of the last word that was posted.
    last: u64,
}

#[derive(Debug, Clone)]
struct Word {
    number: u64,
    message: Message,
}

impl Outbox {
    /// A device is linked. Nothing has been said on this link; what it is still to drop comes back,
    /// for whoever knows whether it understands that.
    #[must_use]
    pub(crate) fn linked(
        &mut self,
        peer: PeerId,
        mux: Mux<Message>,
        tasks: &Tasks,
    ) -> VecDeque<KeptHistory> {
        self.gone(peer);
        let (board, over) = (Arc::<Board>::default(), CancellationToken::new());
        let saying = say(mux.clone(), board.clone(), over.clone());
        tasks.spawn_until_cancelled("outbox", saying);
        let _over = over.drop_guard();
        self.linked.insert(peer, Linked { mux, board, terms: None, facts: None, _over });
        self.owed.remove(&peer).unwrap_or_default()
    }

    /// Its link is gone, and what was still to be said on it too, but for what it is to drop and
    /// may not have heard.
    pub(crate) fn gone(&mut self, peer: PeerId) {
        let Some(linked) = self.linked.remove(&peer) else { return };
        let words = std::mem::take(&mut *linked.board.words());
        let waiting = words.waiting.into_iter().filter_map(|word| word.drops());
        let on_the_way = words.on_the_way.into_iter().map(|(_, kept)| kept);
        on_the_way.chain(waiting).for_each(|kept| self.owe(peer, kept));
    }

    /// A device is not paired any more: nothing waits for it.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.owed.remove(&peer);
    }

    /// A device without a link is to drop this once it is back.
    pub(crate) fn owe(&mut self, peer: PeerId, kept: KeptHistory) {
        let owed = self.owed.entry(peer).or_default();
        owed.retain(|known| *known != kept);
        if owed.len() >= WORDS_MAX {
            owed.pop_front();
        }
        owed.push_back(kept);
    }

    /// Whether a device hears what is posted.
    pub(crate) fn hears(&self, peer: PeerId) -> bool {
        self.linked.contains_key(&peer)
    }

    /// The devices that hear what is posted.
    pub(crate) fn peers(&self) -> Vec<PeerId> {
        self.linked.keys().copied().collect()
    }

    /// Says what the owner allows, unless that is what was said last on this link.
    pub(crate) fn post_terms(&mut self, peer: PeerId, terms: HelpTerms) {
        let Some(linked) = self.linked.get_mut(&peer) else { return };
        if linked.terms.as_ref() != Some(&terms) {
            linked.terms = Some(terms.clone());
            linked.board.post(Message::HelpTerms(terms));
        }
    }

    /// Says what this device is and how it is, unless that is what was said last on this link.
    pub(crate) fn post_facts(&mut self, peer: PeerId, facts: DeviceFacts) {
        let Some(linked) = self.linked.get_mut(&peer) else { return };
        if linked.facts.as_ref() != Some(&facts) {
            linked.facts = Some(facts.clone());
            linked.board.post(Message::DeviceFacts(Box::new(facts)));
        }
    }

    /// Says `message`, which replaces what was to be said of the same thing. A device without a
    /// link hears nothing; whoever is linked is told everything anew.
    pub(crate) fn post(&self, peer: PeerId, message: Message) {
        if let Some(linked) = self.linked.get(&peer) {
            linked.board.post(message);
        }
    }

    /// Says at once what waits, as far as the connection has room for it: the link is about to be
    /// closed, and what was taken by then still gets there.
    pub(crate) fn say_now(&self, peer: PeerId) {
        let Some(linked) = self.linked.get(&peer) else { return };
        let mut words = linked.board.words();
        // The task may be at the first word just now; then that is said twice, which changes
        // nothing.
        while let Some(word) = words.waiting.pop_front_if(|word| linked.mux.try_send(&word.message))
        {
            words.note_on_the_way(word);
        }
    }
}

impl Board {
    fn post(&self, message: Message) {
        self.words().post(message);
        self.posted.notify_one();
    }

    fn first(&self) -> Option<Word> {
        self.words().waiting.front().cloned()
    }

    /// The connection has taken a word.
    fn said(&self, number: u64) {
        let mut words = self.words();
        if let Some(word) = words.waiting.pop_front_if(|word| word.number == number) {
            words.note_on_the_way(word);
        }
    }

    /// The words up to this one are at the other end.
    fn heard(&self, number: u64) {
        self.words().on_the_way.retain(|(on_the_way, _)| *on_the_way > number);
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Words {
    fn post(&mut self, message: Message) {
        self.last += 1;
        self.waiting.retain(|word| !is_overtaken(&word.message, &message));
        let same = |word: &Word| word.message.kind() == message.kind();
        if self.waiting.iter().filter(|word| same(word)).count() >= WORDS_MAX
            && let Some(oldest) = self.waiting.iter().position(same)
        {
            self.waiting.remove(oldest);
        }
        self.waiting.push_back(Word { number: self.last, message });
    }

    fn note_on_the_way(&mut self, word: Word) {
        let number = word.number;
        self.on_the_way.extend(word.drops().map(|kept| (number, kept)));
    }
}

impl Word {
    /// What is to be dropped, where it says so.
    fn drops(self) -> Option<KeptHistory> {
        match self.message {
            Message::DropKept(kept) => Some(kept),
            _ => None,
        }
    }
}

/// Whether `earlier` need not be said any more once `later` is.
fn is_overtaken(earlier: &Message, later: &Message) -> bool {
    match (earlier, later) {
        (Message::Place(earlier), Message::Place(later)) => earlier.model == later.model,
        (Message::Placed(earlier), Message::Placed(later)) => earlier.model == later.model,
        (Message::DropKept(earlier), Message::DropKept(later)) => earlier == later,
        (earlier, later) => earlier.kind() == later.kind(),
    }
}

/// Takes the words of a board to its connection, until either is gone.
async fn say(mux: Mux<Message>, board: Arc<Board>, over: CancellationToken) {
    tokio::select! {
        () = over.cancelled() => {}
        // What must be said waits for the next link.
        Err(closed) = say_all(&mux, &board) => {
            tracing::trace!(%closed, "nothing more is said on a connection");
        }
    }
}

async fn say_all(mux: &Mux<Message>, board: &Board) -> Result<Infallible, MuxClosed> {
    let mut in_a_row = 0;
    loop {
        let Some(last) = say_some(mux, board, &mut in_a_row).await? else {
            // A board that is empty for a moment is no pause: the other end may have taken nothing
            // yet.
            if tokio::time::timeout(BREATH, board.posted.notified()).await.is_err() {
                in_a_row = 0;
                board.posted.notified().await;
            }
            continue;
        };
        // A pause of this end alone would be none over there: a link that had stood still brings
        // all at once.
        mux.round_trip().await?;
        board.heard(last);
        if in_a_row >= BREATH_WORDS {
            tokio::time::sleep(BREATH).await;
            in_a_row = 0;
        }
    }
}

/// Says what waits, up to [`BREATH_WORDS`] in a row; the number of the last word, if there was one.
async fn say_some(
    mux: &Mux<Message>,
    board: &Board,
    in_a_row: &mut usize,
) -> Result<Option<u64>, MuxClosed> {
    let mut last = None;
    while *in_a_row < BREATH_WORDS
        && let Some(Word { number, message }) = board.first()
    {
        let Ok(taken) = tokio::time::timeout(ROOM_LIMIT, mux.send(message)).await else {
            tracing::debug!("a connection takes nothing; what is to be said waits");
            continue;
        };
        taken?;
        board.said(number);
        last = Some(number);
        *in_a_row += 1;
    }
    Ok(last)
}

#[cfg(test)]
mod tests;
