//! The budget of one device's memory, counted here because drivers do not refuse in time.
//!
//! Some drivers move memory to the disk or to RAM instead of failing. So every buffer is first
//! booked in the [`Ledger`] of its device, which refuses by figure; only then is it created. A
//! [`Lease`] gives its bytes back when its buffer is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::GpuError;

/// Bytes of a device that may be used, and that are.
#[derive(Debug)]
pub(crate) struct Ledger {
    budget: u64,
    used: AtomicU64,
}

/// Booked bytes; dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Lease {
    ledger: Arc<Ledger>,
    bytes: u64,
}

impl Ledger {
    /// A budget of `budget` bytes, of which nothing is used.
    pub(crate) fn new(budget: u64) -> Arc<Self> {
        Arc::new(Self { budget, used: AtomicU64::new(0) })
    }

    /// Books `bytes` for `what`, or says how many are free.
    pub(crate) fn book(
        self: &Arc<Self>,
        what: &'static str,
        bytes: u64,
    ) -> Result<Lease, GpuError> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.budget);
        match self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits) {
            Ok(_) => Ok(Lease { ledger: Arc::clone(self), bytes }),
            Err(used) => {
                let (budget, free) = (self.budget, self.budget - used);
                Err(GpuError::OutOfMemory { what, needed: bytes, free, budget })
            }
        }
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// Bytes of the whole budget.
    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.ledger.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_refuses_by_figure_and_takes_back_what_is_dropped() {
        let ledger = Ledger::new(100);
        let first = ledger.book("a", 60).unwrap();
        let refused = ledger.book("b", 41).unwrap_err();
        assert_eq!(refused, GpuError::OutOfMemory { what: "b", needed: 41, free: 40, budget: 100 });
        assert_eq!(ledger.used(), 60);
        let second = ledger.book("c", 40).unwrap();
        assert!(ledger.book("d", u64::MAX).is_err());
        drop(first);
        assert_eq!(ledger.used(), 40);
        drop(second);
        assert_eq!(ledger.used(), 0);
    }
}
