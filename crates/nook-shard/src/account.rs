//! One worker's account: bytes of weights, bytes promised to conversations, conversations kept
//! between two calls, streams lent to guests.
//!
//! There is one accountant for everything that takes memory, so that a promise and its use cannot
//! differ. What is taken is given back by `Drop`, on every way out of a call. What can be computed
//! again (`retained`) goes before anything is refused.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nook_base::{DeviceBytes, PeerId};
use nook_model::Session;
use nook_wire::{KeptHistory, ResumePoint};

use crate::retained::{Evicted, Kept, Requester, Resumable, Retained, RetainedKey};

/// The account of one worker. Cloning gives another handle to the same account.
#[derive(Debug)]
pub(crate) struct Account<S = Session> {
    // Guards numbers and the list of what is kept; never held across an await, a computation, or
    // the freeing of a cache.
    books: Arc<Mutex<Books<S>>>,
}

#[derive(Debug)]
struct Books<S> {
    limits: Limits,
    /// All weights in memory.
    weights: u64,
    /// Weights that were loaded because a guest asked.
    lent_weights: DeviceBytes,
    /// All caches promised.
    caches: u64,
    /// Caches promised to guests.
    lent_caches: DeviceBytes,
    /// Whether the GPU that computes has no memory of its own: what lies there is lent of the
    /// computer's.
    gpu_shares_memory: bool,
    sessions: u16,
    guests: u16,
    retained: Retained<S>,
    /// How often it was said that nothing is to be kept for a device.
    forgets: u64,
    /// For whom that was said while guests have slots, and which time it was; each device once,
    /// `None` stands for all. The end of a call that was open then may come after it, and is not
    /// kept.
    forgotten: Vec<(Option<PeerId>, u64)>,
}

/// What the owner of this device allows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// Bytes of weights and caches that are there for other devices, in the computer's memory and in
    /// a GPU's own. What this device needs for itself is not counted: a cap on lending must not stop
    /// the owner's own model.
    pub(crate) bytes_max: DeviceBytes,
    /// Streams of other devices at once; this device's own are not counted.
    pub(crate) guests_max: u16,
}

/// Whose conversation it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// This device; the mark cannot come over the wire, because only a local message carries it.
    Owner,
    /// Another device, let in by the gate of this node; unnamed when nothing is to be kept for it.
    Guest(Option<PeerId>),
}

/// Why nothing was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// All streams are lent.
    StreamsTaken,
    /// That many bytes are not free.
    NoMemory {
        /// Of which memory.
        memory: Memory,
        /// Bytes asked for.
        wanted: u64,
        /// Bytes free.
        free: u64,
    },
    /// Nothing is kept that goes on there.
    NotKept,
}

/// A memory that is lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// The computer's.
    Computer,
    /// A GPU's own.
    Gpu,
}

/// A conversation's place and memory; dropping it gives both back.
#[derive(Debug)]
pub(crate) struct Slot<S = Session> {
    account: Account<S>,
    caller: Caller,
    /// What was forgotten by then does not concern it.
    since: u64,
    bytes: DeviceBytes,
    /// Whether place and memory are still to be given back.
    is_taken: bool,
}

/// The account as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Balance {
    pub(crate) weights: u64,
    pub(crate) caches: u64,
    pub(crate) sessions: u16,
    pub(crate) guests: u16,
    pub(crate) parked: u16,
    pub(crate) parked_bytes: u64,
    /// Weights and caches of other devices that the cap on the computer's memory counts.
    pub(crate) lent: u64,
    /// Weights and caches of other devices with a GPU.
    pub(crate) lent_on_gpu: u64,
    /// What guests keep there.
    pub(crate) kept_on_gpu: u64,
}

impl<S: Resumable> Account<S> {
    pub(crate) fn allow(&self, limits: Limits) {
        let mut books = self.books();
        books.limits = limits;
        let evicted = books.shrink_lent(DeviceBytes::default());
        free(books, evicted);
    }

    /// Whether the GPU that computes from now on has no memory of its own.
    pub(crate) fn count_gpu_as_memory(&self, shares: bool) {
        self.books().gpu_shares_memory = shares;
    }

    /// Bytes with a GPU that `caller` may still take for weights, if nothing were kept.
    pub(crate) fn gpu_bytes_free(&self, caller: Caller) -> u64 {
        let books = self.books();
        if caller == Caller::Owner || books.gpu_shares_memory {
            return u64::MAX;
        }
        books.lendable().gpu
    }

    /// Bytes with a GPU that are promised to guests' conversations.
    pub(crate) fn lent_caches_on_gpu(&self) -> u64 {
        self.books().lent_caches.gpu
    }

    /// Takes a place for one conversation, or says at once that there is none. It has no memory
    /// yet.
    pub(crate) fn admit(&self, caller: Caller) -> Result<Slot<S>, Refusal> {
        let mut books = self.books();
        if caller != Caller::Owner {
            if books.guests >= books.limits.guests_max {
                return Err(Refusal::StreamsTaken);
            }
            books.guests += 1;
        }
        books.sessions = books.sessions.saturating_add(1);
        let since = books.forgets;
        drop(books);
        let bytes = DeviceBytes::default();
        Ok(Slot { account: self.clone(), caller, since, bytes, is_taken: true })
    }

    /// Books `additional` bytes of weights as lent when a guest asks for them; fails when they do
    /// not fit beside what is lent. The owner's are never refused.
    pub(crate) fn lend_weights(
        &self,
        caller: Caller,
        additional: DeviceBytes,
    ) -> Result<(), Refusal> {
        if caller == Caller::Owner {
            return Ok(());
        }
        let mut books = self.books();
        let evicted = books.make_room(additional)?;
        books.lent_weights = books.lent_weights.plus(additional);
        free(books, evicted);
        Ok(())
    }

    /// Takes `bytes` of weights off what is lent: they were freed, or became this device's own.
    pub(crate) fn take_back_weights(&self, bytes: DeviceBytes) {
        let mut books = self.books();
        books.lent_weights = books.lent_weights.minus(bytes);
    }

    /// Books what was lent where it came to lie, which may be elsewhere than was asked for.
    pub(crate) fn move_weights(&self, asked: DeviceBytes, lies: DeviceBytes) {
        let mut books = self.books();
        books.lent_weights = books.lent_weights.minus(asked).plus(lies);
    }

    /// Books what the weights really take.
    pub(crate) fn set_weights(&self, bytes: u64) {
        let mut books = self.books();
        books.weights = bytes;
        let most = DeviceBytes { memory: bytes, gpu: bytes };
        books.lent_weights = books.lent_weights.least(most);
    }

    /// Frees what was kept and not used for `life`.
    pub(crate) fn expire(&self, now: Instant, life: Duration) {
        self.evict(|retained| retained.expire(now, life));
    }

    /// Frees what is kept for a device, or for every other device than this one, and keeps nothing
    /// of the calls that they have open.
    pub(crate) fn forget(&self, peer: Option<PeerId>) {
        let mut books = self.books();
        if books.guests > 0 {
            books.forgets += 1;
            let number = books.forgets;
            books.forgotten.retain(|(known, _)| *known != peer);
            books.forgotten.push((peer, number));
        }
        let evicted = books.retained.forget(peer);
        free(books, evicted);
    }

    /// Frees what is kept of one conversation.
    pub(crate) fn drop_kept(&self, requester: Requester, named: KeptHistory, now: Instant) {
        self.evict(|retained| retained.drop_kept(requester, named, now));
    }

    /// Frees everything that is kept; whether that was anything.
    pub(crate) fn free_parked(&self) -> bool {
        self.evict(Retained::clear) > 0
    }

    pub(crate) fn balance(&self) -> Balance {
        let books = self.books();
        let lent = books.lent_weights.plus(books.lent_caches);
        Balance {
            weights: books.weights,
            caches: books.caches,
            sessions: books.sessions,
            guests: books.guests,
            parked: u16::try_from(books.retained.len()).unwrap_or(u16::MAX),
            parked_bytes: books.retained.bytes(),
            lent: books.counted(lent).memory,
            lent_on_gpu: lent.gpu,
            kept_on_gpu: books.retained.lent_bytes().gpu,
        }
    }

    fn evict(&self, choose: impl FnOnce(&mut Retained<S>) -> Evicted<S>) -> usize {
        let mut books = self.books();
        let evicted = choose(&mut books.retained);
        let count = evicted.len();
        free(books, evicted);
        count
    }
}

impl<S> Account<S> {
    fn books(&self) -> MutexGuard<'_, Books<S>> {
        // The numbers are valid at every instant, so a panic elsewhere does not spoil them.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Slot<S> {
    /// Bytes that were promised.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.total()
    }
}

impl<S: Resumable> Slot<S> {
    /// Takes memory for the conversation; what is kept of others goes first.
    pub(crate) fn promise(&mut self, bytes: DeviceBytes) -> Result<(), Refusal> {
        let mut books = self.account.books();
        let evicted = match self.caller {
            Caller::Owner => Evicted::new(),
            Caller::Guest(_) => books.make_room(bytes)?,
        };
        books.promise(self.caller, bytes);
        free(books, evicted);
        self.bytes = self.bytes.plus(bytes);
        Ok(())
    }

    /// Promises `bytes` instead of what was promised: the layers came to lie elsewhere meanwhile.
    pub(crate) fn promise_instead(&mut self, bytes: DeviceBytes) -> Result<(), Refusal> {
        if bytes == self.bytes {
            return Ok(());
        }
        let mut books = self.account.books();
        books.take_back(self.caller, self.bytes);
        self.bytes = DeviceBytes::default();
        drop(books);
        self.promise(bytes)
    }

    /// Takes a kept conversation out, and memory for its going on. A refusal leaves it where it is.
    pub(crate) fn resume(
        &mut self,
        key: &RetainedKey,
        point: ResumePoint,
        positions_max: u32,
        bytes: DeviceBytes,
    ) -> Result<Kept<S>, Refusal> {
        let mut books = self.account.books();
        let index = books.retained.find(key, point, positions_max).ok_or(Refusal::NotKept)?;
        if self.caller != Caller::Owner {
            books.check_room(bytes)?;
        }
        let kept = books.retained.take(index).ok_or(Refusal::NotKept)?;
        let evicted = match self.caller {
            Caller::Owner => Evicted::new(),
            // It is out by now, so its bytes are free like any.
            Caller::Guest(_) => books.make_room(bytes)?,
        };
        books.promise(self.caller, bytes);
        free(books, evicted);
        self.bytes = self.bytes.plus(bytes);
        Ok(kept)
    }

    /// Gives place and memory back but for `bytes`, with which the conversation is kept.
    pub(crate) fn park(
        mut self,
        key: RetainedKey,
        kept: Kept<S>,
        bytes: DeviceBytes,
        now: Instant,
    ) {
        let mut books = self.account.books();
        // The last guest's leaving ends what was forgotten meanwhile.
        let is_forgotten = books.has_forgotten(self.caller, self.since);
        books.give_back(self.caller, self.bytes);
        self.is_taken = false;
        let evicted = if is_forgotten { vec![kept] } else { books.park(key, kept, bytes, now) };
        free(books, evicted);
    }

    /// Keeps again what was taken out to be copied, as used just now; not if nothing is to be kept
    /// for this caller any more.
    pub(crate) fn put_back(
        &self,
        key: RetainedKey,
        kept: Kept<S>,
        bytes: DeviceBytes,
        now: Instant,
    ) {
        let mut books = self.account.books();
        let is_forgotten = books.has_forgotten(self.caller, self.since);
        let evicted = if is_forgotten { vec![kept] } else { books.park(key, kept, bytes, now) };
        free(books, evicted);
    }
}

impl<S: Resumable> Books<S> {
    /// Bytes that could be lent if nothing were kept.
    fn lendable(&self) -> DeviceBytes {
        let taken = self.lent_weights.plus(self.lent_caches);
        self.limits.bytes_max.minus(self.counted(taken))
    }

    /// `bytes` as the two caps count them.
    fn counted(&self, bytes: DeviceBytes) -> DeviceBytes {
        match self.gpu_shares_memory {
            true => DeviceBytes::in_memory(bytes.total()),
            false => bytes,
        }
    }

    fn check_room(&self, wanted: DeviceBytes) -> Result<(), Refusal> {
        let (wanted, free) = (self.counted(wanted), self.lendable());
        let refused = |memory, wanted, free| Err(Refusal::NoMemory { memory, wanted, free });
        if wanted.gpu > free.gpu {
            return refused(Memory::Gpu, wanted.gpu, free.gpu);
        }
        if wanted.memory > free.memory {
            return refused(Memory::Computer, wanted.memory, free.memory);
        }
        Ok(())
    }

    /// Frees what guests keep until `wanted` bytes can be lent; frees nothing when they cannot.
    fn make_room(&mut self, wanted: DeviceBytes) -> Result<Evicted<S>, Refusal> {
        self.check_room(wanted)?;
        Ok(self.shrink_lent(wanted))
    }

    /// Frees what guests keep until it has room beside `wanted`.
    fn shrink_lent(&mut self, wanted: DeviceBytes) -> Evicted<S> {
        let left = self.lendable().minus(self.counted(wanted));
        let shares = self.gpu_shares_memory;
        self.retained.shrink_lent(left, shares)
    }

    /// Keeps a conversation, as far as it may be lent memory; what has to go for it comes back.
    fn park(
        &mut self,
        key: RetainedKey,
        kept: Kept<S>,
        bytes: DeviceBytes,
        now: Instant,
    ) -> Evicted<S> {
        let mut evicted = self.retained.park(key, kept, bytes, now);
        evicted.extend(self.shrink_lent(DeviceBytes::default()));
        evicted
    }

    fn promise(&mut self, caller: Caller, bytes: DeviceBytes) {
        self.caches = self.caches.saturating_add(bytes.total());
        if caller != Caller::Owner {
            self.lent_caches = self.lent_caches.plus(bytes);
        }
    }
}

impl<S> Books<S> {
    /// Whether it was said after the time `since` that nothing is to be kept for `caller`.
    fn has_forgotten(&self, caller: Caller, since: u64) -> bool {
        let Caller::Guest(peer) = caller else { return false };
        self.forgotten
            .iter()
            .any(|(who, number)| *number > since && (who.is_none() || *who == peer))
    }

    /// Takes back what was promised.
    fn take_back(&mut self, caller: Caller, bytes: DeviceBytes) {
        self.caches = self.caches.saturating_sub(bytes.total());
        if caller != Caller::Owner {
            self.lent_caches = self.lent_caches.minus(bytes);
        }
    }

    fn give_back(&mut self, caller: Caller, bytes: DeviceBytes) {
        self.take_back(caller, bytes);
        self.sessions = self.sessions.saturating_sub(1);
        if caller != Caller::Owner {
            self.guests = self.guests.saturating_sub(1);
        }
        if self.guests == 0 {
            self.forgotten.clear();
        }
    }
}

/// Closes the books, then frees: giving large caches back takes longer than anybody should wait.
fn free<S>(books: MutexGuard<'_, Books<S>>, evicted: Evicted<S>) {
    drop(books);
    drop(evicted);
}

impl<S> Drop for Slot<S> {
    fn drop(&mut self) {
        if self.is_taken {
            self.account.books().give_back(self.caller, self.bytes);
        }
    }
}

impl<S> Clone for Account<S> {
    fn clone(&self) -> Self {
        Self { books: Arc::clone(&self.books) }
    }
}

impl<S> Default for Account<S> {
    fn default() -> Self {
        Self { books: Arc::default() }
    }
}

impl<S> Default for Books<S> {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            weights: 0,
            lent_weights: DeviceBytes::default(),
            caches: 0,
            lent_caches: DeviceBytes::default(),
            gpu_shares_memory: false,
            sessions: 0,
            guests: 0,
            retained: Retained::default(),
            forgets: 0,
            forgotten: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
