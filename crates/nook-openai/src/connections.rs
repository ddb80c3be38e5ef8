//! Who may be connected: so many at once, and who gives way to whom.
//!
//! A connection is *busy* from the head of a request to the end of its answer, and *waiting*
//! otherwise: nothing was sent on it, half a head, or its last answer is over. Anybody can open
//! waiting ones without a key, so they hold a seat only as long as nobody else wants it. Busy ones
//! are bounded by what the port computes, and by the key.
//!
//! [`Table`] decides and knows no clock and no socket. [`Connections`] and [`Seat`] are its edges.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// One connection in so many is only for this machine.
const OWN_PART: usize = 4;

/// How long a connection waits at least before it gives way: a client that has just connected has
/// not had the time to ask.
const GRACE: Duration = Duration::from_millis(50);

/// How long one may take to read the end of an answer, or this program to read what it sent,
/// without a byte of progress, before it gives way too.
const STALL_MAX: Duration = Duration::from_secs(5);

/// The seats for connections, of all listeners together. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    table: Arc<Mutex<Table>>,
    /// A seat came free, or one that was to leave has become busy.
    changed: Arc<Notify>,
}

/// The seat of one connection; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    connections: Connections,
    number: u64,
    /// Set while the table takes it for waiting, so that most reads need no lock.
    is_waiting: AtomicBool,
    asked_to_leave: Arc<Notify>,
}

/// A request is under way on a connection, until this is dropped.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Seat>);

#[derive(Debug)]
struct Table {
    seats: HashMap<u64, Entry>,
    next: u64,
    count: usize,
}

#[derive(Debug)]
struct Entry {
    from: IpAddr,
    is_away: bool,
    is_busy: bool,
    /// All that was sent has been read, and it is no request; no answer is on its way either.
    is_waiting: bool,
    /// When that began; else when bytes moved last.
    since: Instant,
    is_leaving: bool,
    asked_to_leave: Arc<Notify>,
}

/// What becomes of one who wants a seat.
#[derive(Debug)]
enum Admission {
    Seated(u64, Arc<Notify>),
    /// Nobody can give way to it, and others are not to be held up.
    Refused,
    /// To be asked again when something has changed, or then.
    Later(Option<Instant>),
}

impl Connections {
    pub(crate) fn new(count: usize) -> Self {
        let table = Table { seats: HashMap::new(), next: 0, count };
        Self { table: Arc::new(Mutex::new(table)), changed: Arc::default() }
    }

    /// Waits for a seat. `None` for another machine where all of theirs are busy.
    pub(crate) async fn take(&self, from: IpAddr) -> Option<Arc<Seat>> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // From here on nothing that changes is missed.
            changed.as_mut().enable();
            let admission = self.lock().admit(from, Instant::now());
            match admission {
                Admission::Seated(number, asked_to_leave) => {
                    let connections = self.clone();
                    let is_waiting = AtomicBool::new(false);
                    return Some(Arc::new(Seat {
                        connections,
                        number,
                        is_waiting,
                        asked_to_leave,
                    }));
                }
                Admission::Refused => return None,
                Admission::Later(None) => changed.await,
                Admission::Later(Some(then)) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(then) => {}
                },
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// A request has begun; the connection is busy until the value is dropped.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.set_busy(true);
        Busy(self.clone())
    }

    /// All that was sent has been read, and all that was answered was taken.
    pub(crate) fn has_read_all(&self) {
        if self.is_waiting.load(Ordering::Relaxed) {
            return;
        }
        let mut table = self.connections.lock();
        if let Some(entry) = table.seats.get_mut(&self.number).filter(|entry| !entry.is_busy) {
            (entry.is_waiting, entry.since) = (true, Instant::now());
            self.is_waiting.store(true, Ordering::Relaxed);
            drop(table);
            self.connections.changed.notify_waiters();
        }
    }

    /// Some of an answer was taken.
    pub(crate) fn has_written(&self) {
        let mut table = self.connections.lock();
        if let Some(entry) = table.seats.get_mut(&self.number).filter(|entry| !entry.is_waiting) {
            entry.since = Instant::now();
        }
    }

    /// Waits until the connection gives way to another one.
    pub(crate) async fn must_leave(&self) {
        loop {
            self.asked_to_leave.notified().await;
            // Something may have been asked on it meanwhile.
            if self.connections.lock().is_leaving(self.number) {
                return;
            }
        }
    }

    fn set_busy(&self, is_busy: bool) {
        let mut table = self.connections.lock();
        if let Some(entry) = table.seats.get_mut(&self.number) {
            entry.is_busy = is_busy;
            (entry.is_waiting, entry.since) = (false, Instant::now());
            entry.is_leaving = false;
            self.is_waiting.store(false, Ordering::Relaxed);
        }
        drop(table);
        self.connections.changed.notify_waiters();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.lock().seats.remove(&self.number);
        self.connections.changed.notify_waiters();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set_busy(false);
    }
}

impl Table {
    fn admit(&mut self, from: IpAddr, now: Instant) -> Admission {
        let from = from.to_canonical();
        let is_away = !from.is_loopback();
        let shares_away = self.count - self.count / OWN_PART;
        let away = self.seats.values().filter(|entry| entry.is_away).count();
        let is_share_full = is_away && away >= shares_away;
        if !is_share_full && self.seats.len() < self.count {
            return self.seat(counted_as(from), is_away, now);
        }
        let may_leave = |entry: &Entry| entry.is_away || !is_share_full;
        if self.seats.values().any(|entry| entry.is_leaving && may_leave(entry)) {
            return Admission::Later(None);
        }
        let Some((_, then, number)) = self.first_to_leave(may_leave, now) else {
            return if is_share_full { Admission::Refused } else { Admission::Later(None) };
        };
        if now < then {
            return Admission::Later(Some(then));
        }
        if let Some(entry) = self.seats.get_mut(&number) {
            entry.is_leaving = true;
            entry.asked_to_leave.notify_one();
        }
        Admission::Later(None)
    }

    fn seat(&mut self, from: IpAddr, is_away: bool, now: Instant) -> Admission {
        let (number, asked_to_leave) = (self.next, Arc::new(Notify::new()));
        self.next += 1;
        let entry = Entry {
            from,
            is_away,
            is_busy: false,
            is_waiting: false,
            since: now,
            is_leaving: false,
            asked_to_leave: asked_to_leave.clone(),
        };
        self.seats.insert(number, entry);
        Admission::Seated(number, asked_to_leave)
    }

    /// The oldest waiting one of the address that has the most of them, so that a crowd from one
    /// address gives way before anybody else does; and when it may be told to. Those that may be
    /// told now come first.
    fn first_to_leave(
        &self,
        may_leave: impl Fn(&Entry) -> bool,
        now: Instant,
    ) -> Option<(bool, Instant, u64)> {
        let idle = self.seats.iter().filter(|(_, entry)| !entry.is_busy && may_leave(entry));
        let idle: Vec<_> = idle.collect();
        let mut crowds: HashMap<IpAddr, usize> = HashMap::new();
        for (_, entry) in &idle {
            *crowds.entry(entry.from).or_default() += 1;
        }
        let largest = crowds.values().max()?;
        let of_a_crowd = idle.iter().filter(|(_, entry)| crowds.get(&entry.from) == Some(largest));
        let first = of_a_crowd.map(|(number, entry)| {
            let then = entry.since + if entry.is_waiting { GRACE } else { STALL_MAX };
            (then > now, then, **number)
        });
        first.min()
    }

    fn is_leaving(&self, number: u64) -> bool {
        self.seats.get(&number).is_some_and(|entry| entry.is_leaving)
    }
}

/// One machine has a whole /64 of IPv6 for itself.
fn counted_as(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn there(n: u8) -> IpAddr {
        [192, 168, 1, n].into()
    }

    fn take(seats: &Connections, from: IpAddr) -> Option<Option<Arc<Seat>>> {
        seats.take(from).now_or_never()
    }

    #[tokio::test(start_paused = true)]
    async fn other_machines_leave_a_quarter_of_the_connections_to_this_one() {
        let seats = Connections::new(64);
        let taken: Vec<_> = (0..48).map(|_| take(&seats, there(5)).flatten().unwrap()).collect();
        let busy: Vec<_> = taken.iter().map(Seat::busy).collect();
        assert!(take(&seats, there(5)).is_some_and(|seat| seat.is_none()), "closed at once");
        let mapped = "::ffff:127.0.0.1".parse().unwrap();
        let own: Vec<_> = (0..16).map(|_| take(&seats, mapped).flatten().unwrap()).collect();
        let own_busy: Vec<_> = own.iter().map(Seat::busy).collect();
        assert!(take(&seats, HERE).is_none(), "it waits");
        drop((own_busy, own));
        assert!(take(&seats, there(5)).is_some_and(|seat| seat.is_none()));
        drop((busy, taken));
        assert!(take(&seats, there(5)).flatten().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_the_largest_crowd_gives_way_and_busy_ones_never() {
        let seats = Connections::new(4);
        let sit = |from| take(&seats, from).flatten().unwrap();
        let (lone, busy, first, second) = (sit(HERE), sit(there(1)), sit(there(1)), sit(there(1)));
        let under_way = busy.busy();
        for seat in [&lone, &busy, &first, &second] {
            seat.has_read_all();
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let begun = Instant::now();
        assert!(take(&seats, HERE).is_none(), "it had no time to ask");
        let next = tokio::join!(seats.take(HERE), async {
            first.must_leave().await;
            drop(first);
        });
        assert!(next.0.is_some() && begun.elapsed() <= GRACE);
        for seat in [&lone, &busy, &second] {
            assert!(seat.must_leave().now_or_never().is_none());
        }
        drop(under_way);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_asked_something_before_it_has_left_stays() {
        let seats = Connections::new(1);
        let seat = take(&seats, HERE).flatten().unwrap();
        seat.has_read_all();
        let mut next = std::pin::pin!(seats.take(HERE));
        assert!(tokio::time::timeout(GRACE * 2, next.as_mut()).await.is_err());
        let busy = seat.busy();
        assert!(seat.must_leave().now_or_never().is_none());
        drop(busy);
        assert!(tokio::time::timeout(GRACE * 2, next.as_mut()).await.is_err(), "not read yet");
        // One that reads slowly is waited for as long as it reads.
        tokio::time::advance(STALL_MAX - GRACE * 2).await;
        seat.has_written();
        assert!(tokio::time::timeout(STALL_MAX / 2, next.as_mut()).await.is_err());
        assert!(seat.must_leave().now_or_never().is_none());
        let (_, next) = tokio::join!(
            async {
                seat.must_leave().await;
                drop(seat)
            },
            next
        );
        assert!(next.is_some());
    }
}
