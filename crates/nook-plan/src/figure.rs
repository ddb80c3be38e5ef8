//! Numbers with their units, and the one way to say that a number is not known.
//!
//! Everything that is measured elsewhere enters the planner as a [`Figure`]. What is unknown is
//! priced at a pessimistic assumption, never as free, and whatever rests on an assumption says so.
//! Inside the crate times are whole nanoseconds, because sums of integers do not depend on their
//! order.

use std::time::Duration;

/// Longest time that any single term of a price can have: longer ones count as this. Sums of a few
/// thousand such terms still fit their type, and no household waits an hour for one step.
pub const TERM_MAX: Duration = Duration::from_secs(3600);

/// A measured number, or the honest statement that there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure<T> {
    /// Measured, or told by the device that measured it.
    Measured(T),
    /// Nobody has measured it yet.
    #[default]
    Unknown,
}

/// How many bytes move in a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BytesPerSecond(pub u64);

impl<T: Copy> Figure<T> {
    /// The number, if there is one.
    #[must_use]
    pub fn measured(self) -> Option<T> {
        match self {
            Self::Measured(value) => Some(value),
            Self::Unknown => None,
        }
    }

    /// Whether nobody has measured it.
    #[must_use]
    pub fn is_unknown(self) -> bool {
        matches!(self, Self::Unknown)
    }

    pub(crate) fn or(self, assumed: T) -> T {
        self.measured().unwrap_or(assumed)
    }
}

impl<T> From<Option<T>> for Figure<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Unknown, Self::Measured)
    }
}

impl BytesPerSecond {
    /// The rate at which `bytes` moved in `took`; at least 1, so that nothing divides by zero.
    #[must_use]
    pub fn over(bytes: u64, took: Duration) -> Self {
        let nanos = u128::from(nanos(took).max(1));
        let rate = u128::from(bytes).saturating_mul(1_000_000_000) / nanos;
        Self(u64::try_from(rate).unwrap_or(u64::MAX).max(1))
    }

    /// How long `bytes` take; at most [`TERM_MAX`].
    #[must_use]
    pub fn time_for(self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes).saturating_mul(1_000_000_000) / u128::from(self.0.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(TERM_MAX)
    }
}

/// Whole nanoseconds, at most those of [`TERM_MAX`].
pub(crate) fn nanos(time: Duration) -> u64 {
    const NANOS_MAX: u64 = TERM_MAX.as_secs() * 1_000_000_000;
    u64::try_from(time.as_nanos()).unwrap_or(NANOS_MAX).min(NANOS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_undo_each_other_and_never_overflow() {
        let rate = BytesPerSecond::over(3_000_000, Duration::from_millis(1500));
        assert_eq!(rate, BytesPerSecond(2_000_000));
        assert_eq!(rate.time_for(500_000), Duration::from_millis(250));
        assert_eq!(BytesPerSecond(0).time_for(u64::MAX), TERM_MAX);
        assert_eq!(BytesPerSecond::over(u64::MAX, Duration::ZERO), BytesPerSecond(u64::MAX));
        assert_eq!(BytesPerSecond::over(0, Duration::from_secs(1)), BytesPerSecond(1));
    }

    #[test]
    fn the_longest_time_is_a_term_and_no_overflow() {
        assert_eq!(Duration::from_nanos(nanos(Duration::MAX)), TERM_MAX);
    }
}
