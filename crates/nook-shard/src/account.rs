//! One worker's account: bytes of weights, bytes promised to conversations, streams lent to guests.
//!
//! There is one accountant for everything that takes memory, so that a promise and its use cannot
//! differ. What is taken is given back by `Drop`, on every way out of a call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The account of one worker. Cloning gives another handle to the same account.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    // Guards plain numbers; never held across an await or a computation.
    books: Arc<Mutex<Books>>,
}

#[derive(Debug, Default)]
struct Books {
    limits: Limits,
    /// All weights in memory.
    weights: u64,
    /// Weights that were loaded because a guest asked.
    lent_weights: u64,
    /// All caches promised.
    caches: u64,
    /// Caches promised to guests.
    lent_caches: u64,
    sessions: u16,
    guests: u16,
}

/// What the owner of this device allows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// Bytes of weights and caches that are there for other devices. What this device needs for
    /// itself is not counted: a cap on lending must not stop the owner's own model.
    pub(crate) bytes_max: u64,
    /// Streams of other devices at once; this device's own are not counted.
    pub(crate) guests_max: u16,
}

/// Whose conversation it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// This device; the mark cannot come over the wire, because only a local message carries it.
    Owner,
    /// Another device, let in by the gate of this node.
    Guest,
}

/// Why nothing was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// All streams are lent.
    StreamsTaken,
    /// That many bytes are not free.
    NoMemory {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes free.
        free: u64,
    },
}

/// A conversation's place and memory; dropping it gives both back.
#[derive(Debug)]
pub(crate) struct Seat {
    account: Account,
    caller: Caller,
    bytes: u64,
}

/// The account as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Balance {
    pub(crate) weights: u64,
    pub(crate) caches: u64,
    pub(crate) sessions: u16,
    pub(crate) guests: u16,
}

impl Account {
    pub(crate) fn allow(&self, limits: Limits) {
        self.books().limits = limits;
    }

    /// Takes a place and `cache_bytes` for one conversation, whole or not at all.
    pub(crate) fn seat(&self, caller: Caller, cache_bytes: u64) -> Result<Seat, Refusal> {
        let mut books = self.books();
        if caller == Caller::Guest && books.guests >= books.limits.guests_max {
            return Err(Refusal::StreamsTaken);
        }
        if caller == Caller::Guest {
            books.check_room(cache_bytes)?;
            books.lent_caches = books.lent_caches.saturating_add(cache_bytes);
            books.guests += 1;
        }
        books.caches = books.caches.saturating_add(cache_bytes);
        books.sessions = books.sessions.saturating_add(1);
        drop(books);
        Ok(Seat { account: self.clone(), caller, bytes: cache_bytes })
    }

    /// Books `additional` bytes of weights as lent when a guest asks for them; fails when they do not
    /// fit beside what is lent. The owner's are never refused.
    pub(crate) fn lend_weights(&self, caller: Caller, additional: u64) -> Result<(), Refusal> {
        if caller == Caller::Owner {
            return Ok(());
        }
        let mut books = self.books();
        books.check_room(additional)?;
        books.lent_weights = books.lent_weights.saturating_add(additional);
        Ok(())
    }

    /// Books what the weights really take.
    pub(crate) fn set_weights(&self, bytes: u64) {
        let mut books = self.books();
        books.weights = bytes;
        books.lent_weights = books.lent_weights.min(bytes);
    }

    pub(crate) fn balance(&self) -> Balance {
        let books = self.books();
        Balance {
            weights: books.weights,
            caches: books.caches,
            sessions: books.sessions,
            guests: books.guests,
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // The numbers are valid at every instant, so a panic elsewhere does not spoil them.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn check_room(&self, wanted: u64) -> Result<(), Refusal> {
        let taken = self.lent_weights.saturating_add(self.lent_caches);
        let free = self.limits.bytes_max.saturating_sub(taken);
        if wanted <= free { Ok(()) } else { Err(Refusal::NoMemory { wanted, free }) }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut books = self.account.books();
        books.caches = books.caches.saturating_sub(self.bytes);
        books.sessions = books.sessions.saturating_sub(1);
        if self.caller == Caller::Guest {
            books.lent_caches = books.lent_caches.saturating_sub(self.bytes);
            books.guests = books.guests.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        let account = Account::default();
        account.allow(Limits { bytes_max: 1_000, guests_max: 2 });
        account
    }

    #[test]
    fn guests_are_limited_exactly_and_the_owner_is_not() {
        let account = account();
        let first = account.seat(Caller::Guest, 1).unwrap();
        let _second = account.seat(Caller::Guest, 1).unwrap();
        assert_eq!(account.seat(Caller::Guest, 1).unwrap_err(), Refusal::StreamsTaken);
        let _own = account.seat(Caller::Owner, 1).unwrap();
        drop(first);
        assert!(account.seat(Caller::Guest, 1).is_ok());
    }

    #[test]
    fn a_refusal_takes_nothing_and_dropping_gives_everything_back() {
        let account = account();
        account.lend_weights(Caller::Guest, 600).unwrap();
        account.set_weights(600);
        for _ in 0..10 {
            let refused = account.seat(Caller::Guest, 500).unwrap_err();
            assert_eq!(refused, Refusal::NoMemory { wanted: 500, free: 400 });
        }
        let seat = account.seat(Caller::Guest, 400).unwrap();
        assert_eq!(account.balance().caches, 400);
        drop(seat);
        let after = account.balance();
        assert_eq!((after.caches, after.sessions, after.guests), (0, 0, 0));
    }

    #[test]
    fn a_cap_on_lending_does_not_bind_the_owner() {
        let account = account();
        account.lend_weights(Caller::Owner, 5_000).unwrap();
        account.set_weights(5_000);
        let _own = account.seat(Caller::Owner, 9_000).unwrap();
        assert!(account.seat(Caller::Guest, 900).is_ok());
    }

    #[test]
    fn a_thousand_simultaneous_openers_never_exceed_the_limit() {
        let account = Account::default();
        account.allow(Limits { bytes_max: u64::MAX, guests_max: 4 });
        let seats: Vec<_> = std::thread::scope(|scope| {
            let openers: Vec<_> =
                (0..1_000).map(|_| scope.spawn(|| account.seat(Caller::Guest, 1).ok())).collect();
            openers.into_iter().filter_map(|opener| opener.join().unwrap()).collect()
        });
        assert_eq!(seats.len(), 4);
        assert_eq!(account.balance().guests, 4);
    }
}
