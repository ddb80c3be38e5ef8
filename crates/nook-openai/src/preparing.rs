//! How many requests for replies are prepared at once: read as JSON, brought into a prompt, and
//! waiting in the node's queue.
//!
//! A request of a megabyte costs more to read than to send, and one that is refused at once is sent
//! again at once. So what comes beyond the places is not looked at before one is free, and is
//! refused only after a while; a refusal for want of time takes as long. A flood of programs then
//! costs this device a few requests a second, whatever is in them.

use std::sync::Arc;
use std::time::Duration;

use nook_api::REPLIES_WAITING_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests that are made ready while the queue is full: as many as replies are usually made at
/// once.
const SPARE: usize = 4;

/// How long a request waits for a place, unread, and how long a refusal as busy takes.
const PAUSE: Duration = Duration::from_secs(1);

/// The places of all requests for replies. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Preparing(Arc<Semaphore>);

/// The place of one request; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

impl Preparing {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(REPLIES_WAITING_MAX + SPARE)))
    }

    /// Waits for a place; `None` where none comes free soon. Whoever has waited longest is first.
    pub(crate) async fn take(&self) -> Option<Place> {
        let taken = tokio::time::timeout(PAUSE, self.0.clone().acquire_owned()).await;
        taken.ok()?.ok().map(Place)
    }
}

/// Before a request is refused as busy. Its place stays taken meanwhile.
pub(crate) async fn pause() {
    tokio::time::sleep(PAUSE).await;
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_more_waits_for_a_place_and_not_for_long() {
        let preparing = Preparing::new();
        let mut places = Vec::new();
        for _ in 0..REPLIES_WAITING_MAX + SPARE {
            places.push(preparing.take().await.unwrap());
        }
        let begun = Instant::now();
        assert!(preparing.take().await.is_none());
        assert_eq!(begun.elapsed(), PAUSE);
        let half = PAUSE / 2;
        let (next, ()) = tokio::join!(preparing.take(), async {
            tokio::time::sleep(half).await;
            places.pop();
        });
        assert!(next.is_some());
        assert_eq!(begun.elapsed(), PAUSE + half);
    }
}
