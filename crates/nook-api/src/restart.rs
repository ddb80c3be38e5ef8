//! A restart that waits for the replies that run: for a new version of the program.
//!
//! The node's event loop decides when, and the program around it starts anew; both hold the same
//! [`Restart`]. A program that cannot start itself again never says that it can, and is not asked.

use std::sync::atomic::{AtomicBool, Ordering};

/// What a node and the program that runs it know of a restart. Each flag is set once.
#[derive(Debug, Default)]
pub struct Restart {
    can: AtomicBool,
    ordered: AtomicBool,
}

impl Restart {
    /// The program starts itself again once the node has left.
    pub fn can_be_ordered(&self) {
        self.can.store(true, Ordering::Release);
    }

    /// Orders it, for when nothing is under way; whether the program can.
    pub fn order(&self) -> bool {
        let can = self.can.load(Ordering::Acquire);
        self.ordered.fetch_or(can, Ordering::AcqRel);
        can
    }

    /// Whether it was ordered.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.ordered.load(Ordering::Acquire)
    }
}
