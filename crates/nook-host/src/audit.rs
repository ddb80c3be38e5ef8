//! What other devices ask of this one, noted as it happens: who, when, how much, and never what.
//!
//! The state machine and the tasks that serve guests share one [`Audit`]. Something that is let in
//! is a [`Line`] as long as it goes on; what was computed or given is added to it by number. No
//! message of a guest comes here, so there is nothing to say what was computed. From time to time
//! the list is handed out to be written down ([`Audit::to_save`]).

mod shown;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nook_api::views::AuditEntryView;
use nook_base::{ErrorCode, LayerRange, ModelDigest, PeerId, clock};
use nook_resources::adverts::AdvertBook;
use nook_store::{AuditAmounts, AuditAsked, AuditList, AuditSubject, AuditWho, AuditWhy};
use tokio::sync::watch;

/// Between two times that the list is written down. A crash loses as much.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// The same while nothing but refusals came: somebody who knocks all day wears out no disk.
const SAVE_REFUSALS_EVERY: Duration = Duration::from_secs(60);

/// Notes what other devices ask. Clones share one list.
#[derive(Debug, Clone)]
pub struct Audit {
    // Guards a list of some hundred entries; never held across an await.
    shared: Arc<Mutex<Shared>>,
    /// What paired devices are called.
    book: watch::Receiver<Arc<AdvertBook>>,
}

#[derive(Debug, Default)]
struct Shared {
    list: AuditList,
    running: BTreeMap<u64, Arc<Running>>,
    unsaved: Option<Unsaved>,
    saved: Option<Instant>,
}

/// What of the list is not written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unsaved {
    Refusals,
    More,
}

/// How much something is that goes on.
#[derive(Debug)]
struct Running {
    since: Instant,
    tokens: AtomicU64,
    bytes: AtomicU64,
}

/// Something that was let in and goes on. Dropped without a word it was ended by this program.
#[derive(Debug)]
pub(crate) struct Line {
    audit: Audit,
    number: u64,
    running: Arc<Running>,
    is_over: bool,
}

/// When something happens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now: Instant,
    /// Seconds since 1970.
    pub(crate) unix: u64,
}

impl Moment {
    /// As the clocks of this machine say, for tasks.
    pub(crate) fn read() -> Self {
        Self { now: clock::now(), unix: clock::unix_seconds() }
    }
}

impl Audit {
    /// Goes on with this list; `book` knows the names of devices.
    pub fn new(list: AuditList, book: watch::Receiver<Arc<AdvertBook>>) -> Self {
        let shared = Shared { list, ..Shared::default() };
        Self { shared: Arc::new(Mutex::new(shared)), book }
    }

    /// `peer` is let in.
    pub(crate) fn begin(&self, at: Moment, peer: PeerId, subject: AuditSubject) -> Line {
        let who = self.device(peer);
        let (tokens, bytes) = (AtomicU64::default(), AtomicU64::default());
        let running = Arc::new(Running { since: at.now, tokens, bytes });
        let mut shared = self.lock();
        let number = shared.list.begin(at.unix, who, subject);
        shared.running.insert(number, running.clone());
        shared.unsaved = Some(Unsaved::More);
        drop(shared);
        Line { audit: self.clone(), number, running, is_over: false }
    }

    /// `peer` is refused.
    pub(crate) fn refuse(&self, unix: u64, peer: PeerId, subject: AuditSubject, why: AuditWhy) {
        let who = self.device(peer);
        self.note_refusal(unix, who, subject, (why, 1));
    }

    /// Somebody who is no paired device, or did not prove to be one, was refused a connection.
    pub(crate) fn turned_away(&self, unix: u64, who: AuditWho, why: AuditWhy, times: u64) {
        let subject = AuditSubject { asked: AuditAsked::Connect, model: None, layers: None };
        self.note_refusal(unix, who, subject, (why, times));
    }

    /// The list for front ends, what was asked last first.
    pub(crate) fn view(&self, now: Instant, unix: u64) -> Vec<AuditEntryView> {
        let mut shared = self.lock();
        shared.look(now);
        let mut all: Vec<_> =
            shared.list.entries().iter().map(|entry| shown::entry(entry, unix)).collect();
        all.sort_by_key(|entry| std::cmp::Reverse((entry.last, entry.number)));
        all
    }

    /// Forgets everything but what goes on; what is to be written down.
    pub(crate) fn clear(&self) -> AuditList {
        let mut shared = self.lock();
        shared.list.clear();
        // Once more later: what was on its way to the disk may come behind.
        shared.unsaved = Some(Unsaved::More);
        shared.list.clone()
    }

    /// What is to be written down by now, if anything.
    pub(crate) fn to_save(&self, now: Instant) -> Option<AuditList> {
        let mut shared = self.lock();
        if !shared.running.is_empty() {
            shared.unsaved = Some(Unsaved::More);
        }
        let every = match shared.unsaved? {
            Unsaved::Refusals => SAVE_REFUSALS_EVERY,
            Unsaved::More => SAVE_EVERY,
        };
        if shared.saved.is_some_and(|at| now.saturating_duration_since(at) < every) {
            return None;
        }
        shared.saved = Some(now);
        shared.take(now)
    }

    /// The same when the node leaves.
    pub(crate) fn to_save_last(&self, now: Instant) -> Option<AuditList> {
        self.lock().take(now)
    }

    fn note_refusal(&self, unix: u64, who: AuditWho, subject: AuditSubject, of: (AuditWhy, u64)) {
        let mut shared = self.lock();
        shared.list.refuse(unix, who, subject, of);
        shared.unsaved = shared.unsaved.max(Some(Unsaved::Refusals));
    }

    fn device(&self, peer: PeerId) -> AuditWho {
        let name = self.book.borrow().names.get(&peer).cloned();
        AuditWho::Device { id: peer.to_string(), name: name.unwrap_or_else(|| peer.short()) }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Takes over how much everything is that goes on.
    fn look(&mut self, now: Instant) {
        for (number, running) in &self.running {
            self.list.update(*number, running.amounts(now));
        }
    }

    fn take(&mut self, now: Instant) -> Option<AuditList> {
        self.unsaved.take()?;
        self.look(now);
        Some(self.list.clone())
    }
}

impl Running {
    fn amounts(&self, now: Instant) -> AuditAmounts {
        let took = now.saturating_duration_since(self.since);
        AuditAmounts {
            tokens: self.tokens.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl Line {
    /// Positions were computed.
    pub(crate) fn computed(&self, positions: u32) {
        self.running.tokens.fetch_add(u64::from(positions), Ordering::Relaxed);
    }

    /// Bytes were given.
    pub(crate) fn gave(&self, bytes: u64) {
        self.running.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes are held.
    pub(crate) fn holds(&self, bytes: u64) {
        self.running.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether no bytes are held or given yet.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.running.bytes.load(Ordering::Relaxed) == 0
    }

    /// It ends: by whoever asked, or for this reason.
    pub(crate) fn end(mut self, at: Moment, why: Option<AuditWhy>) {
        self.close(at, why);
    }

    /// It is refused after all.
    pub(crate) fn refuse(mut self, at: Moment, why: AuditWhy) {
        self.is_over = true;
        let mut shared = self.audit.lock();
        shared.running.remove(&self.number);
        shared.list.refuse_begun(self.number, at.unix, why);
        shared.unsaved = shared.unsaved.max(Some(Unsaved::Refusals));
    }

    /// It fails: it is refused where nothing was given yet, else it ends.
    pub(crate) fn fail(self, at: Moment, why: AuditWhy) {
        let amounts = self.running.amounts(at.now);
        if (amounts.tokens, amounts.bytes) == (0, 0) {
            self.refuse(at, why);
        } else {
            self.end(at, Some(why));
        }
    }

    fn close(&mut self, at: Moment, why: Option<AuditWhy>) {
        self.is_over = true;
        let mut shared = self.audit.lock();
        shared.running.remove(&self.number);
        shared.list.end(self.number, at.unix, self.running.amounts(at.now), why);
        shared.unsaved = Some(Unsaved::More);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.is_over {
            self.close(Moment::read(), Some(AuditWhy::Leaving));
        }
    }
}

/// What is asked of a model, under its name here.
pub(crate) fn subject(
    asked: AuditAsked,
    model: ModelDigest,
    name: Option<&str>,
    layers: Option<LayerRange>,
) -> AuditSubject {
    let model = Some(name.map_or_else(|| model.short(), str::to_owned));
    AuditSubject { asked, model, layers }
}

/// What a refusal's code means to the owner.
pub(crate) fn why(code: ErrorCode) -> AuditWhy {
    match code {
        ErrorCode::TrustDenied => AuditWhy::TooLittleTrust,
        ErrorCode::SwitchedOff => AuditWhy::SwitchedOff,
        ErrorCode::Busy => AuditWhy::Busy,
        ErrorCode::OutOfMemory
        | ErrorCode::GpuOutOfMemory
        | ErrorCode::DiskFull
        | ErrorCode::FetchLimit => AuditWhy::NoRoom,
        ErrorCode::ShardUnavailable | ErrorCode::WeightsMismatch | ErrorCode::NotFound => {
            AuditWhy::NotLent
        }
        ErrorCode::RateLimited => AuditWhy::TooOften,
        ErrorCode::BadRequest
        | ErrorCode::TooLong
        | ErrorCode::HistoryMismatch
        | ErrorCode::PipelineStalled
        | ErrorCode::Cancelled => AuditWhy::BadRequest,
        ErrorCode::Draining => AuditWhy::Leaving,
        _ => AuditWhy::Failed,
    }
}

#[cfg(test)]
mod tests;
