//! The queue of requests for vectors, which are worked on one at a time.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Requests that may wait while one is worked on; one more is told to try again later.
const WAITING_MAX: usize = 16;

/// The queue of requests for vectors.
#[derive(Debug, Clone)]
pub(crate) struct EmbeddingQueue {
    pub(crate) places: Arc<Semaphore>,
    pub(crate) turn: Arc<Semaphore>,
}

impl EmbeddingQueue {
    pub(crate) fn new() -> Self {
        let places = Arc::new(Semaphore::new(WAITING_MAX + 1));
        Self { places, turn: Arc::new(Semaphore::new(1)) }
    }
}
