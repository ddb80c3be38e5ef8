//! Who is helped here now, and how much was computed for others since somebody looked.
//!
//! The calls of all guests share one [`Usage`]: a call is in it for as long as it holds its stream
//! ([`Presence`]), and adds what it has answered. The view names who is there, and the ledger takes
//! the count. Ids of devices and numbers are all that it knows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nook_base::PeerId;

use super::streams::Streams;

/// Shared by all calls of guests, whatever terms they run under.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usage {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    // Guards a short map, of at most as many devices as there are streams; never held across an
    // await.
    guests: Mutex<BTreeMap<PeerId, u16>>,
    /// Not taken yet.
    positions: AtomicU64,
    /// Ever.
    answers: AtomicU64,
    streams: Streams,
}

/// One stream of one guest; it is over when this is dropped.
#[derive(Debug)]
pub(crate) struct Presence {
    guest: PeerId,
    usage: Usage,
}

impl Usage {
    /// A stream of `guest` begins.
    pub(crate) fn enter(&self, guest: PeerId) -> Presence {
        let mut guests = self.shared.guests.lock().unwrap_or_else(PoisonError::into_inner);
        let streams = guests.entry(guest).or_default();
        *streams = streams.saturating_add(1);
        Presence { guest, usage: self.clone() }
    }

    /// The streams that run, and which of them may end for another one.
    pub(crate) fn streams(&self) -> &Streams {
        &self.shared.streams
    }

    /// Positions were computed for somebody.
    pub(crate) fn add(&self, positions: u32) {
        self.shared.positions.fetch_add(u64::from(positions), Ordering::Relaxed);
        self.shared.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// How often something was computed for somebody since the node began.
    pub(crate) fn answers(&self) -> u64 {
        self.shared.answers.load(Ordering::Relaxed)
    }

    /// Takes what was computed since the last time.
    pub(crate) fn take(&self) -> u64 {
        self.shared.positions.swap(0, Ordering::Relaxed)
    }

    /// Who has streams here now, and how many.
    pub(crate) fn guests(&self) -> BTreeMap<PeerId, u16> {
        self.shared.guests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut guests = self.usage.shared.guests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(streams) = guests.get_mut(&self.guest) {
            *streams = streams.saturating_sub(1);
            if *streams == 0 {
                guests.remove(&self.guest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_there_while_one_of_its_streams_is_and_work_is_counted_once() {
        let [a, b] = [1, 2].map(|byte| PeerId([byte; 32]));
        let usage = Usage::default();
        let (first, second, other) = (usage.enter(a), usage.enter(a), usage.enter(b));
        assert_eq!(usage.guests(), BTreeMap::from([(a, 2), (b, 1)]));
        drop(first);
        drop(other);
        assert_eq!(usage.guests(), BTreeMap::from([(a, 1)]));
        drop(second);
        assert!(usage.guests().is_empty());
        let same = usage.clone();
        usage.add(64);
        same.add(1);
        assert_eq!((usage.take(), same.take()), (65, 0));
        assert_eq!(usage.answers(), 2, "taking them does not undo them");
    }
}
