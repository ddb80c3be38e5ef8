//! A part of a file between its visits to the disk.
//!
//! Whoever loads a file, from a server ([`crate::run`]) or from another device
//! ([`crate::copying`]), waits for the network; the disk is visited on threads that may wait. A
//! [`Held`] lends its part to such a visit and has it back behind it, so the part has one owner at
//! any moment. A visit that was lost takes the part with it; what was made durable is found again
//! by the next start.

use tokio::task::spawn_blocking;

use crate::answer::Version;
use crate::error::FetchError;
use crate::fetching::Fetcher;
use crate::limits::DISK_RESERVE_BYTES;
use crate::part::{Part, Whole};

/// A part, or the place of one that is gone.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Away while it visits the disk.
    part: Option<Part>,
}

impl Held {
    pub(crate) fn of(part: Part) -> Self {
        Self { part: Some(part) }
    }

    /// Visits the disk with the part.
    pub(crate) async fn visit<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Part) -> Result<T, FetchError> + Send + 'static,
    ) -> Result<T, FetchError> {
        let mut part = self.part.take().ok_or(FetchError::Lost)?;
        let visit = spawn_blocking(move || {
            let outcome = work(&mut part);
            (part, outcome)
        });
        let (part, outcome) = visit.await.map_err(|_| FetchError::Lost)?;
        self.part = Some(part);
        outcome
    }

    /// Ends with `error`: what came is durable before anybody is told that it is kept.
    pub(crate) async fn kept(mut self, error: FetchError) -> (FetchError, Option<Part>) {
        let kept = match self.part {
            Some(_) => self.visit(Part::keep).await,
            None => Ok(()),
        };
        let error = match error {
            FetchError::Stopped => kept.err().unwrap_or(FetchError::Stopped),
            error => error,
        };
        (error, self.part)
    }

    /// Checks the whole file and gives it its name, as [`Part::finish`] does.
    pub(crate) async fn finish(&mut self, expected: Option<&str>) -> Result<Whole, FetchError> {
        let part = self.part.take().ok_or(FetchError::Lost)?;
        let expected = expected.map(str::to_owned);
        let finished = spawn_blocking(move || part.finish(expected.as_deref())).await;
        finished.map_err(|_| FetchError::Lost)?
    }

    /// Deletes everything: what came cannot be the file.
    pub(crate) async fn discard(&mut self) -> Result<(), FetchError> {
        let part = self.part.take().ok_or(FetchError::Lost)?;
        spawn_blocking(move || part.discard()).await.map_err(|_| FetchError::Lost)?
    }

    /// Whether what is still to come leaves the reserve free; without a promise of a length, what
    /// may come until the next look. Where the system does not say, a full disk is noticed when it
    /// is full.
    pub(crate) async fn has_room(&self, fetcher: &Fetcher) -> Result<(), FetchError> {
        let bytes = self.version().and_then(|version| version.bytes);
        let until_next = fetcher.limits.sync_every_bytes;
        let needed = bytes.map_or(until_next, |bytes| bytes.saturating_sub(self.written()));
        if needed == 0 {
            return Ok(());
        }
        match self.free(fetcher).await? {
            Some(free) if free < needed.saturating_add(DISK_RESERVE_BYTES) => {
                Err(FetchError::NoRoom { needed, free })
            }
            _ => Ok(()),
        }
    }

    /// Bytes free on the disk of the part, where the system says.
    pub(crate) async fn free(&self, fetcher: &Fetcher) -> Result<Option<u64>, FetchError> {
        let Some(part) = &self.part else { return Err(FetchError::Lost) };
        let (folder, room) = (part.folder().to_owned(), fetcher.room.clone());
        let free =
            spawn_blocking(move || room.free(&folder)).await.map_err(|_| FetchError::Lost)?;
        if let Err(error) = &free {
            tracing::debug!(%error, "the system does not say how much room there is");
        }
        Ok(free.ok())
    }

    /// Bytes that are there.
    pub(crate) fn written(&self) -> u64 {
        self.part.as_ref().map_or(0, Part::written)
    }

    /// Bytes that outlast a power cut.
    pub(crate) fn synced(&self) -> u64 {
        self.part.as_ref().map_or(0, Part::synced)
    }

    /// Which version of the file the bytes that are here belong to.
    pub(crate) fn version(&self) -> Option<&Version> {
        self.part.as_ref().and_then(Part::version)
    }
}
