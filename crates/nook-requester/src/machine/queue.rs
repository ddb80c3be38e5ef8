//! Who may begin a reply now, and who waits for a turn.
//!
//! Programs at the port ask in bursts, by the dozen and without end. The owner, who looks at a
//! window, goes before them: has a queue of their own that no program fills, begins as soon as any
//! reply has ended, and has one place more than programs have, so that long replies of programs do
//! not keep a window silent.

use std::collections::VecDeque;
use std::sync::Arc;

use nook_api::{Asker, REPLIES_WAITING_MAX};

use super::replies::Waiting;

/// Replies under way, and those that wait.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Each reply under way holds a clone, so that whatever ends it is counted.
    under_way: Arc<()>,
    /// The same for those of the owner.
    of_owner: Arc<()>,
    /// The same for requests for vectors, which take no reply's place.
    embeddings: Arc<()>,
    /// In order, at most [`REPLIES_WAITING_MAX`] of each.
    owner: VecDeque<Waiting>,
    programs: VecDeque<Waiting>,
}

/// A reply's place among those under way; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _under_way: Arc<()>,
    _of_owner: Option<Arc<()>>,
}

/// Work for vectors is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct EmbedMark {
    _under_way: Arc<()>,
}

impl Queue {
    /// Vectors are worked out from now on.
    pub(crate) fn embed(&self) -> EmbedMark {
        EmbedMark { _under_way: Arc::clone(&self.embeddings) }
    }

    /// Requests for vectors that are under way.
    pub(crate) fn embedding(&self) -> usize {
        Arc::strong_count(&self.embeddings).saturating_sub(1)
    }

    /// Replies that are under way.
    pub(crate) fn running(&self) -> usize {
        Arc::strong_count(&self.under_way).saturating_sub(1)
    }

    /// Whether one of them is the owner's.
    pub(crate) fn runs_of_owner(&self) -> bool {
        Arc::strong_count(&self.of_owner) > 1
    }

    /// Replies that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.owner.len() + self.programs.len()
    }

    /// A place for a reply that `asker` wants, where `most` replies may be made at once.
    pub(crate) fn place(&self, asker: Asker, most: usize) -> Option<Place> {
        let most = match asker {
            Asker::Owner if !self.runs_of_owner() => most + 1,
            Asker::Owner | Asker::Program => most,
        };
        (self.running() < most).then(|| Place {
            _under_way: Arc::clone(&self.under_way),
            _of_owner: (asker == Asker::Owner).then(|| Arc::clone(&self.of_owner)),
        })
    }

    /// Lets a reply wait for its turn, or gives it back where too many do.
    pub(crate) fn wait(&mut self, asked: Waiting) -> Result<(), Waiting> {
        let queue = self.of(asked.asker);
        // Whoever has left meanwhile needs no place.
        queue.retain(|waiting| !waiting.answer.is_closed());
        if queue.len() >= REPLIES_WAITING_MAX {
            return Err(asked);
        }
        queue.push_back(asked);
        Ok(())
    }

    /// The next one that may begin, with its place. Whoever has left is passed over.
    pub(crate) fn next(&mut self, most: usize) -> Option<(Waiting, Place)> {
        for asker in [Asker::Owner, Asker::Program] {
            let place = self.place(asker, most);
            let queue = self.of(asker);
            queue.retain(|waiting| !waiting.answer.is_closed());
            if let (Some(place), false) = (place, queue.is_empty()) {
                return queue.pop_front().map(|next| (next, place));
            }
        }
        None
    }

    fn of(&mut self, asker: Asker) -> &mut VecDeque<Waiting> {
        match asker {
            Asker::Owner => &mut self.owner,
            Asker::Program => &mut self.programs,
        }
    }
}
