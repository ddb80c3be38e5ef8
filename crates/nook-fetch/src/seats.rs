//! Seats for files that load at once. Whoever loads holds one; a copy that only waits until a
//! device has served others gives it back meanwhile, and then waits for the next one that is free.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// As many files as this may load at once.
#[derive(Debug, Clone)]
pub struct Seats {
    free: Arc<Semaphore>,
}

/// One of them, free again when this is dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Seats,
    /// Absent while it is given back.
    held: Option<OwnedSemaphorePermit>,
}

impl Seats {
    /// So many, and all of them free.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)) }
    }

    /// A free one. Who waits for one that was given back comes first.
    #[must_use]
    pub fn take(&self) -> Option<Seat> {
        let held = self.free.clone().try_acquire_owned().ok()?;
        Some(Seat { seats: self.clone(), held: Some(held) })
    }

    /// Whether there is one to take.
    #[must_use]
    pub fn has_free(&self) -> bool {
        self.free.available_permits() > 0
    }
}

impl Seat {
    /// Others may have it.
    pub(crate) fn give_back(&mut self) {
        self.held = None;
    }

    /// Waits until one is free, behind those that waited before; not at all where it was never
    /// given back.
    pub(crate) async fn take_again(&mut self) {
        if self.held.is_none() {
            // Nobody closes it.
            self.held = self.seats.free.clone().acquire_owned().await.ok();
        }
    }
}
