//! How fast places become free, so that a refused client is told when to come again.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderValue;

/// Where no reply has ended yet.
const UNKNOWN_SECONDS: u64 = 2;

/// A client that waits longer has been told too much by one long reply.
const SECONDS_MAX: u64 = 120;

/// Weight of a new reply's time in the mean.
const NEWEST: f64 = 0.25;

/// How long replies take of late. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pace(Arc<Mutex<Option<f64>>>);

impl Pace {
    /// A reply ended that took so long once it had begun.
    pub(crate) fn note(&self, milliseconds: f64) {
        let mut mean = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *mean = Some(mean.map_or(milliseconds, |mean| mean + NEWEST * (milliseconds - mean)));
    }

    /// In how many seconds a place is likely to be free where so many replies are made at once.
    pub(crate) fn seconds(&self, running: u64) -> u64 {
        let mean = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mean) = mean else { return UNKNOWN_SECONDS };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "it is brought into its limits"
        )]
        let seconds = (mean / 1e3 / running.max(1) as f64).ceil() as u64;
        seconds.clamp(1, SECONDS_MAX)
    }
}

/// The value of `Retry-After`.
pub(crate) fn retry_after(seconds: Option<u64>) -> HeaderValue {
    HeaderValue::from(seconds.unwrap_or(UNKNOWN_SECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_follows_what_replies_take() {
        let pace = Pace::default();
        assert_eq!(pace.seconds(1), UNKNOWN_SECONDS);
        pace.note(40_000.0);
        assert_eq!((pace.seconds(1), pace.seconds(4), pace.seconds(0)), (40, 10, 40));
        pace.note(0.0);
        assert_eq!(pace.seconds(1), 30, "one short reply does not change all");
        (0..100).for_each(|_| pace.note(1.0));
        assert_eq!(pace.seconds(8), 1);
        (0..100).for_each(|_| pace.note(1e9));
        assert_eq!(pace.seconds(1), SECONDS_MAX);
    }
}
