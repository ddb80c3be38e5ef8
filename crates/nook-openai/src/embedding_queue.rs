//! The queue of requests for vectors, which are worked on one at a time.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ApiError;

/// Requests that may wait while one is worked on; one more is told to try again later, before it is
/// read.
const WAITING_MAX: usize = 16;

/// The queue of requests for vectors. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct EmbeddingQueue {
    places: Arc<Semaphore>,
    turn: Arc<Semaphore>,
}

/// The place of one request in the queue; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    turn: Arc<Semaphore>,
    #[expect(dead_code, reason = "it is held")]
    place: OwnedSemaphorePermit,
}

impl EmbeddingQueue {
    pub(crate) fn new() -> Self {
        let places = Arc::new(Semaphore::new(WAITING_MAX + 1));
        Self { places, turn: Arc::new(Semaphore::new(1)) }
    }

    /// Takes a place, if one is free.
    pub(crate) fn wait(&self) -> Result<Waiting, ApiError> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| busy())?;
        Ok(Waiting { turn: self.turn.clone(), place })
    }
}

impl Waiting {
    /// Waits until no other request is worked on. The turn ends when what comes back is dropped.
    pub(crate) async fn turn(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.turn.clone().acquire_owned().await.map_err(|_| busy())
    }
}

fn busy() -> ApiError {
    ApiError::too_many("Too many requests for embeddings wait. Try again shortly.")
}
