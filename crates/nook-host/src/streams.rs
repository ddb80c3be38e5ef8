//! Streams that do nothing give way to a device that has none and waits for one.
//!
//! There are few streams, and a device that is trusted may open all of them. As long as nobody else
//! asks that harms nobody. When a device without a stream finds none free, the stream that has done
//! nothing for the longest time, of the device with the most of them, ends in order, as if the
//! owner wanted the machine back: its guest hears the goodbye, and may take along what is
//! remembered. Until that stream has come, or is not waited for any more, no second one ends for
//! the same device: a burst of its openings would else end all that rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nook_base::{PeerId, clock};
use tokio_util::sync::CancellationToken;

/// How long a stream must have done nothing: longer than a step of a slow chain, or than a piece of
/// a prompt over a bad link, takes.
pub(crate) const IDLE_MIN: Duration = Duration::from_secs(30);

/// The streams that run, whatever terms they run under. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Streams {
    // Guards a short list, of at most as many as there are streams; never held across an await.
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    running: Vec<Running>,
    /// Devices for which a stream is leaving.
    awaiting: BTreeSet<PeerId>,
    next: u64,
}

#[derive(Debug)]
struct Running {
    number: u64,
    guest: PeerId,
    /// Absent while a step is under way.
    idle_since: Option<Instant>,
    leaves: CancellationToken,
}

/// A stream is leaving for a device; to be kept until the device has it, or waits no more.
#[derive(Debug)]
pub(crate) struct MadeRoom {
    streams: Streams,
    guest: PeerId,
}

/// What one stream does; it is over when this is dropped.
#[derive(Debug)]
pub(crate) struct Activity {
    streams: Streams,
    number: u64,
}

impl Streams {
    /// A stream of `guest` begins, on which nothing was asked yet. `leaves` is cancelled when it is
    /// to give way.
    pub(crate) fn begin(&self, guest: PeerId, leaves: CancellationToken) -> Activity {
        let mut table = self.lock();
        let number = table.next;
        table.next += 1;
        let idle_since = Some(clock::now());
        table.running.push(Running { number, guest, idle_since, leaves });
        drop(table);
        Activity { streams: self.clone(), number }
    }

    /// Ends the stream that gives way to one of `guest`, if there is one.
    pub(crate) fn make_room(&self, guest: PeerId, now: Instant) -> Option<MadeRoom> {
        let mut table = self.lock();
        let mut held: BTreeMap<PeerId, usize> = BTreeMap::new();
        for running in table.running.iter().filter(|running| !running.leaves.is_cancelled()) {
            *held.entry(running.guest).or_default() += 1;
        }
        if held.contains_key(&guest) || table.awaiting.contains(&guest) {
            return None;
        }
        let idle = table.running.iter().filter_map(|running| {
            let since = running.idle_since?;
            let may_leave = !running.leaves.is_cancelled() && now >= since + IDLE_MIN;
            may_leave.then_some((held.get(&running.guest).copied(), since, running))
        });
        let first = idle.min_by_key(|(held, since, _)| (std::cmp::Reverse(*held), *since));
        first?.2.leaves.cancel();
        table.awaiting.insert(guest);
        Some(MadeRoom { streams: self.clone(), guest })
    }

    /// Whether no stream of `guest` does anything now.
    #[cfg(test)]
    pub(crate) fn rests(&self, guest: PeerId, now: Instant) -> bool {
        let table = self.lock();
        let mut of_guest = table.running.iter().filter(|running| running.guest == guest);
        of_guest.all(|running| running.idle_since.is_some_and(|since| now >= since + IDLE_MIN))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MadeRoom {
    fn drop(&mut self) {
        self.streams.lock().awaiting.remove(&self.guest);
    }
}

impl Activity {
    /// A step is to be computed.
    pub(crate) fn computes(&self) {
        self.note(|since| *since = None);
    }

    /// All steps were answered.
    pub(crate) fn rests(&self) {
        self.note(|since| *since = Some(clock::now()));
    }

    /// Something comes that is no whole step yet.
    pub(crate) fn hears(&self) {
        self.note(|since| *since = since.map(|_| clock::now()));
    }

    fn note(&self, change: impl FnOnce(&mut Option<Instant>)) {
        let mut table = self.streams.lock();
        let own = table.running.iter_mut().find(|running| running.number == self.number);
        if let Some(running) = own {
            change(&mut running.idle_since);
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        self.streams.lock().running.retain(|running| running.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PeerId = PeerId([1; 32]);
    const OTHER: PeerId = PeerId([2; 32]);
    const NEW: PeerId = PeerId([3; 32]);

    fn begin(streams: &Streams, guest: PeerId) -> (Activity, CancellationToken) {
        let leaves = CancellationToken::new();
        (streams.begin(guest, leaves.clone()), leaves)
    }

    /// Whether a stream gives way to `guest`, which does not wait for it then.
    fn gives_way(streams: &Streams, guest: PeerId, now: Instant) -> bool {
        streams.make_room(guest, now).is_some()
    }

    #[test]
    fn t13_the_stream_that_rests_longest_of_who_has_most_gives_way_to_who_has_none() {
        let streams = Streams::default();
        let alone = begin(&streams, OTHER);
        let [first, second, busy] = [(); 3].map(|()| begin(&streams, ONE));
        first.0.hears();
        busy.0.computes();
        assert!(!gives_way(&streams, NEW, clock::now()), "they may only be slow");
        let later = clock::now() + IDLE_MIN;
        assert!(!gives_way(&streams, ONE, later), "it has streams of its own");
        assert!(gives_way(&streams, NEW, later));
        assert!(second.1.is_cancelled() && !first.1.is_cancelled());
        assert!(gives_way(&streams, NEW, later));
        assert!(first.1.is_cancelled() && !busy.1.is_cancelled());
        // Each has one now that stays; one of them computes.
        assert!(gives_way(&streams, NEW, later) && alone.1.is_cancelled());
        assert!(!gives_way(&streams, NEW, later));
        busy.0.rests();
        assert!(gives_way(&streams, NEW, clock::now() + IDLE_MIN) && busy.1.is_cancelled());
        drop((alone, first, second, busy));
        assert!(streams.lock().running.is_empty());
    }

    #[test]
    fn t13_one_stream_at_a_time_gives_way_to_a_device_however_often_it_asks() {
        let streams = Streams::default();
        let [first, second, third] = [(); 3].map(|()| begin(&streams, ONE));
        let later = clock::now() + IDLE_MIN;
        let room = streams.make_room(NEW, later);
        assert!(room.is_some() && first.1.is_cancelled());
        assert!(streams.make_room(NEW, later).is_none() && !second.1.is_cancelled());
        // It has left, and the other one has not come yet.
        drop(first);
        assert!(streams.make_room(NEW, later).is_none() && !second.1.is_cancelled());
        let other = streams.make_room(OTHER, later);
        assert!(other.is_some() && second.1.is_cancelled(), "another device waits too");
        // The wait is over, and nothing came of it.
        drop(room);
        assert!(gives_way(&streams, NEW, later) && third.1.is_cancelled());
    }

    #[test]
    fn t13_a_stream_has_rested_when_its_time_is_over_and_not_before() {
        let streams = Streams::default();
        let (activity, leaves) = begin(&streams, ONE);
        let since = clock::now();
        activity.note(|idle_since| *idle_since = Some(since));
        let just_before = since + IDLE_MIN - Duration::from_nanos(1);
        assert!(!gives_way(&streams, NEW, just_before) && !leaves.is_cancelled());
        assert!(gives_way(&streams, NEW, since + IDLE_MIN) && leaves.is_cancelled());
    }

    #[test]
    fn what_comes_beside_a_step_does_not_make_the_stream_rest() {
        let streams = Streams::default();
        let (activity, leaves) = begin(&streams, ONE);
        activity.computes();
        activity.hears();
        assert!(!gives_way(&streams, NEW, clock::now() + 2 * IDLE_MIN) && !leaves.is_cancelled());
    }

    #[test]
    fn a_stream_that_ends_takes_no_other_with_it() {
        let streams = Streams::default();
        let [first, second, third] = [(); 3].map(|()| begin(&streams, ONE));
        drop(second);
        assert_eq!(streams.lock().running.len(), 2);
        let later = clock::now() + IDLE_MIN;
        assert!(gives_way(&streams, NEW, later) && first.1.is_cancelled());
        assert!(gives_way(&streams, NEW, later) && third.1.is_cancelled());
    }
}
