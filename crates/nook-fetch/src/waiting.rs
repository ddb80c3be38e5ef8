//! What happens when a device brings nothing: another one is asked, or a moment is waited.
//!
//! Shared by copies of files ([`crate::copying`]) and of ranges ([`crate::ranges`]).

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::copying::Halt;
use crate::error::FetchError;
use crate::limits::Pace;
use crate::progress::{Phase, Progress};
use crate::seats::Seat;

/// What a copy waits with.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    pub(crate) pace: Pace,
    pub(crate) seat: &'a mut Seat,
    pub(crate) stop: &'a CancellationToken,
    pub(crate) told: &'a watch::Sender<Progress>,
}

/// Tries in a row that brought nothing new.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    pub(crate) count: u32,
    furthest: u64,
}

impl Tries {
    /// `have` bytes are here before anything is asked for.
    pub(crate) fn from(have: u64) -> Self {
        Self { count: 0, furthest: have }
    }

    /// So many are here now; more than ever before begin the count anew.
    pub(crate) fn note(&mut self, have: u64) {
        if have > self.furthest {
            *self = Self::from(have);
        }
    }
}

impl Waiting<'_> {
    /// Waits as long as `halt` asks for; an error where nothing more is to be tried. `device`: whom
    /// the last try asked.
    pub(crate) async fn after(
        &mut self,
        halt: Halt,
        tries: &mut Tries,
        have: u64,
        device: impl FnOnce() -> String,
    ) -> Result<(), FetchError> {
        let (why, wait) = match halt {
            Halt::Nobody => return Err(FetchError::Nobody),
            Halt::Another { why } => {
                tracing::debug!(why, "a copy asks another device");
                return Ok(());
            }
            Halt::Busy { why } => {
                self.seat.give_back();
                (why, self.pace.wait_max)
            }
            Halt::Later { why } => {
                tries.count += 1;
                (why, self.pace.wait(tries.count))
            }
        };
        if tries.count >= self.pace.tries_max {
            return Err(FetchError::GaveUp { host: device(), tries: tries.count, last: why });
        }
        self.told.send_modify(|progress| {
            (progress.phase, progress.have) = (Phase::Waiting, have);
            progress.trouble = Some(why);
        });
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(FetchError::Stopped),
            () = async {
                tokio::time::sleep(wait).await;
                self.seat.take_again().await;
            } => Ok(()),
        }
    }
}

/// Waits for `next`, but not beyond the end of the copy, and not for a device that stands still.
pub(crate) async fn watched<T>(
    stop: &CancellationToken,
    stall: Duration,
    next: impl Future<Output = Result<T, Halt>>,
) -> Result<Result<T, Halt>, FetchError> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(FetchError::Stopped),
        outcome = timeout(stall, next) => Ok(outcome.unwrap_or_else(|_| {
            Err(Halt::Another { why: "no byte came for too long".to_owned() })
        })),
    }
}
