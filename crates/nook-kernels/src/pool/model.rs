//! The pool in every order in which its threads can run, by loom.
//!
//! `cargo xtask test --only pool` builds this with `--cfg loom`. Loom runs a model again and again,
//! with another order of the threads and another value that a relaxed load may see each time. It
//! notes every access to a [`Slots`] and ends at the first that is not ordered with another one: a
//! piece that runs after `share` returned, twice, or without its writes reaching the caller.
//!
//! Loom takes sequentially consistent accesses for acquiring and releasing ones. So it also sees
//! threads that sleep on while a job is open, which the pool excludes; the models hold for them
//! too.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::Pool;

/// One place for each piece, written without any lock.
struct Slots(Vec<UnsafeCell<u32>>);

// SAFETY: each slot is written by the thread that has its piece, and read when the job is over.
// That this is so is what loom checks.
unsafe impl Sync for Slots {}

impl Slots {
    fn new(count: usize) -> Self {
        Self((0..count).map(|_| UnsafeCell::new(0)).collect())
    }

    fn count_up(&self, index: usize) {
        // SAFETY: see `Sync` above.
        self.0[index].with_mut(|slot| unsafe { *slot += 1 });
    }

    fn counts(&self) -> Vec<u32> {
        // SAFETY: see `Sync` above.
        self.0.iter().map(|slot| slot.with(|slot| unsafe { *slot })).collect()
    }
}

/// Shares a job of `count` pieces, each of which must have run once at the end.
fn share_all(pool: &Pool, count: usize) {
    let slots = Slots::new(count);
    pool.share(count, &|index| slots.count_up(index));
    assert_eq!(slots.counts(), vec![1; count]);
}

#[test]
fn one_helper_takes_part_in_one_job_after_another() {
    loom::model(|| {
        let pool = Pool::start(1).unwrap();
        share_all(&pool, 2);
        share_all(&pool, 2);
    });
}

#[test]
fn two_helpers_never_take_the_same_piece() {
    loom::model(|| {
        let pool = Pool::start(2).unwrap();
        share_all(&pool, 2);
    });
}

#[test]
fn two_callers_take_turns() {
    loom::model(|| {
        let pool = Arc::new(Pool::start(1).unwrap());
        let other = Arc::clone(&pool);
        let caller = loom::thread::spawn(move || share_all(&other, 1));
        share_all(&pool, 1);
        caller.join().unwrap();
    });
}

#[test]
fn a_panic_of_either_thread_comes_out_when_nobody_is_inside() {
    loom::model(|| {
        let pool = Pool::start(1).unwrap();
        let slots = Slots::new(2);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            pool.share(2, &|index| {
                slots.count_up(index);
                if index == 1 {
                    resume_unwind(Box::new("piece 1"));
                }
            });
        }));
        assert!(ended.is_err());
        assert_eq!(slots.counts(), [1, 1]);
        // No second job: loom's mutex cannot be taken again once its holder panicked, std's can
        // (`a_panic_comes_out_and_the_pool_goes_on`).
    });
}

#[test]
fn a_pool_that_never_had_a_job_ends() {
    loom::model(|| drop(Pool::start(2).unwrap()));
}
