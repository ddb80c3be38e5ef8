//! Threads that take pieces of one job at a time.
//!
//! A forward pass is a hundred short jobs one after another, so an idle thread first spins, for
//! about as long as the work between two jobs takes, and only then sleeps. The thread that brings a
//! job works on it too, and waits at the end only for threads that have taken a piece: on a busy
//! machine, one that the system has not woken yet costs nothing.
//!
//! One word holds the state: the number of the job, whether it is open, and how many threads are
//! inside. A thread may touch the job only between counting itself in, while it is open, and
//! counting itself out; the job lives until it is closed and nobody is inside.

#![allow(unsafe_code, reason = "lends a job on the caller's stack to other threads")]

#[cfg(all(test, loom))]
mod model;
mod sync;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;

use sync::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, Builder, Condvar, JoinHandle, Mutex, MutexGuard,
    Ordering, UnsafeCell, spin_loop, yield_now,
};

/// Turns of an idle thread before it sleeps: some 50 microseconds. Loom checks the first; more are
/// the same again.
const SPINS: u32 = if cfg!(loom) { 1 } else { 1500 };

/// Turns of the thread that waits for others to finish, before it lets the system run them. Loom
/// needs to be told that another thread must go on.
const SPINS_AT_END: u32 = if cfg!(loom) { 0 } else { 2000 };

/// The job is open: threads may count themselves in.
const OPEN: u64 = 1 << 16;

/// Threads inside: the bits below [`OPEN`].
const INSIDE: u64 = OPEN - 1;

/// The number of the job: the bits above [`OPEN`].
const NUMBER_SHIFT: u32 = 17;

/// Helping threads.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    /// Held for the length of a job: there is one at a time.
    turn: Mutex<()>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    state: AtomicU64,
    job: UnsafeCell<Job>,
    /// The next piece that nobody has taken.
    next: AtomicUsize,
    panicked: AtomicBool,
    ending: AtomicBool,
    sleepers: AtomicUsize,
    bed: Mutex<()>,
    alarm: Condvar,
}

/// What is to be done. Only read by threads that are inside.
#[derive(Clone, Copy)]
struct Job {
    piece: *const (dyn Fn(usize) + Sync),
    count: usize,
}

// SAFETY: `job` is written only while the state says that it is closed and nobody is inside, and
// read only by threads inside (the module's documentation); what it points to is `Sync`. All else
// is made for sharing.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is only followed under that rule.
unsafe impl Send for Shared {}

impl Pool {
    /// Starts `threads` helping threads.
    pub(crate) fn start(threads: usize) -> std::io::Result<Self> {
        let nothing: *const (dyn Fn(usize) + Sync) = &|_| {};
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            job: UnsafeCell::new(Job { piece: nothing, count: 0 }),
            next: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            bed: Mutex::new(()),
            alarm: Condvar::new(),
        });
        let mut pool = Self { shared, turn: Mutex::new(()), threads: Vec::new() };
        for index in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let builder = Builder::new().name(format!("compute-{index}"));
            // On failure, dropping the pool ends the threads that did start.
            pool.threads.push(builder.spawn(move || shared.help())?);
        }
        Ok(pool)
    }

    /// Calls `piece` with each number below `count`, and returns when all calls have.
    pub(crate) fn share(&self, count: usize, piece: &(dyn Fn(usize) + Sync)) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes; `Close` below waits for every thread that may use the
        // pointer before this function returns or unwinds.
        let piece: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(piece) };
        // SAFETY: the last job is closed and nobody is inside, and `turn` keeps other callers out.
        shared.job.with_mut(|job| unsafe { *job = Job { piece, count } });
        shared.next.store(0, Ordering::Relaxed);
        shared.panicked.store(false, Ordering::Relaxed);
        let number = (shared.state.load(Ordering::Relaxed) >> NUMBER_SHIFT).wrapping_add(1);
        // Sequentially consistent, as is the count of sleepers: either this thread sees a sleeper,
        // or the sleeper sees the new number before it sleeps.
        shared.state.store(number << NUMBER_SHIFT | OPEN, Ordering::SeqCst);
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            drop(shared.bed());
            shared.alarm.notify_all();
        }
        let close = Close(shared);
        shared.take_pieces(Job { piece, count });
        drop(close);
        if shared.panicked.load(Ordering::Relaxed) {
            resume_unwind(Box::new("a compute thread panicked"));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        drop(self.shared.bed());
        self.shared.alarm.notify_all();
        for thread in self.threads.drain(..) {
            // It catches the panics of pieces, and has no others.
            let _ = thread.join();
        }
    }
}

/// Closes the job when dropped, and waits until nobody is inside.
struct Close<'a>(&'a Shared);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        let mut inside = self.0.state.fetch_and(!OPEN, Ordering::AcqRel) & INSIDE;
        let mut turns = 0;
        while inside != 0 {
            turns += 1;
            if turns > SPINS_AT_END {
                yield_now();
            } else {
                spin_loop();
            }
            inside = self.0.state.load(Ordering::Acquire) & INSIDE;
        }
    }
}

impl Shared {
    /// What a helping thread does all its life.
    fn help(&self) {
        let mut last = 0;
        while let Some(number) = self.wait_for_job(last) {
            last = number;
            let Some(job) = self.enter(number) else {
                continue;
            };
            if catch_unwind(AssertUnwindSafe(|| self.take_pieces(job))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.state.fetch_sub(1, Ordering::Release);
        }
    }

    /// The number of a job that is not `last`; `None` when the pool ends.
    fn wait_for_job(&self, last: u64) -> Option<u64> {
        let number = || self.state.load(Ordering::SeqCst) >> NUMBER_SHIFT;
        for _ in 0..SPINS {
            if number() != last {
                return Some(number());
            }
            spin_loop();
        }
        let mut bed = self.bed();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let found = loop {
            if self.ending.load(Ordering::SeqCst) {
                break None;
            }
            let number = number();
            if number != last {
                break Some(number);
            }
            bed = self.alarm.wait(bed).unwrap_or_else(PoisonError::into_inner);
        };
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        found
    }

    /// Counts this thread in, if job `number` is still open, and says what the job is.
    fn enter(&self, number: u64) -> Option<Job> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state >> NUMBER_SHIFT != number || state & OPEN == 0 {
                return None;
            }
            match self.state.compare_exchange_weak(
                state,
                state + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                // SAFETY: this thread is inside an open job, so nobody writes it.
                Ok(_) => return Some(self.job.with(|job| unsafe { *job })),
                Err(now) => state = now,
            }
        }
    }

    /// Takes pieces until none is left.
    fn take_pieces(&self, job: Job) {
        // SAFETY: this thread is inside, or is the one that brought the job.
        let piece = unsafe { &*job.piece };
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= job.count {
                return;
            }
            piece(index);
        }
    }

    fn bed(&self) -> MutexGuard<'_, ()> {
        self.bed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once_and_before_the_return() {
        let pool = Pool::start(3).unwrap();
        for round in 0..2000 {
            let counts: Vec<AtomicUsize> = (0..round % 40).map(|_| AtomicUsize::new(0)).collect();
            pool.share(counts.len(), &|index| {
                counts[index].fetch_add(1, Ordering::Relaxed);
            });
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn several_callers_take_turns() {
        let pool = Pool::start(2).unwrap();
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        pool.share(7, &|index| {
                            total.fetch_add(index, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 4 * 200 * 21);
    }

    #[test]
    fn a_panic_comes_out_and_the_pool_goes_on() {
        let pool = Pool::start(2).unwrap();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            pool.share(50, &|index| assert!(index != 30, "piece 30"));
        }));
        assert!(ended.is_err());
        let done = AtomicUsize::new(0);
        pool.share(50, &|_| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 50);
    }
}
