//! The one place that reads the clocks. Pure crates take `now` as an argument instead.

use std::time::{Instant, SystemTime};

/// The monotonic clock.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the sanctioned wrapper")]
pub fn now() -> Instant {
    Instant::now()
}

/// The wall clock, for showing and for file stamps; never for time-outs or authentication.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the sanctioned wrapper")]
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// Seconds since 1970 on the wall clock; 0 when the clock stands before that.
#[must_use]
pub fn unix_seconds() -> u64 {
    wall().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
