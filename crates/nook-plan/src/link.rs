//! How far away one device is: round trips and large transfers in, figures out.
//!
//! The owner keeps one [`LinkEstimate`] for each device. Round trips (pings, and the part of a
//! decode step that was neither computing nor waiting) are averaged with their deviation as TCP
//! does it (RFC 6298). Bandwidth is the maximum over the last large transfers: an average over
//! small messages reads low and would route around a good link.

use std::time::Duration;

use crate::figure::{BytesPerSecond, Figure, nanos};

/// Fewest bytes of a transfer that may set the bandwidth. Smaller ones may only raise it.
pub const LARGE_TRANSFER_BYTES: u64 = 256 << 10;

/// Large transfers whose maximum is the bandwidth; older ones are forgotten, so that a link that
/// became slower is noticed.
pub const TRANSFERS_REMEMBERED: usize = 8;

/// Round trip of a small message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoundTrip {
    /// Smoothed mean.
    pub mean: Duration,
    /// Smoothed mean deviation from it.
    pub deviation: Duration,
}

/// What is known of the way to one device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Round trip of a small message.
    pub round_trip: Figure<RoundTrip>,
    /// What large transfers reach, in one direction.
    pub bandwidth: Figure<BytesPerSecond>,
}

/// Measures the way to one device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkEstimate {
    round_trip: Option<RoundTrip>,
    transfers: [Option<BytesPerSecond>; TRANSFERS_REMEMBERED],
    next: usize,
}

impl LinkEstimate {
    /// Goes on from figures of an earlier run.
    #[must_use]
    pub fn known(link: &Link) -> Self {
        let mut estimate = Self { round_trip: link.round_trip.measured(), ..Self::default() };
        estimate.transfers[0] = link.bandwidth.measured();
        estimate.next = 1;
        estimate
    }

    /// Takes in one round trip.
    pub fn observe_round_trip(&mut self, took: Duration) {
        let took = nanos(took);
        let round_trip = match self.round_trip {
            None => (took, took / 2),
            Some(RoundTrip { mean, deviation }) => {
                let (mean, deviation) = (nanos(mean), nanos(deviation));
                let off = mean.abs_diff(took);
                (mean - mean / 8 + took / 8, deviation - deviation / 4 + off / 4)
            }
        };
        self.round_trip = Some(RoundTrip {
            mean: Duration::from_nanos(round_trip.0),
            deviation: Duration::from_nanos(round_trip.1),
        });
    }

    /// Takes in `bytes` that went one way and were confirmed after `took`. The round trip is taken
    /// off; a transfer that took no longer than one says nothing.
    pub fn observe_transfer(&mut self, bytes: u64, took: Duration) {
        let away = self.round_trip.map_or(Duration::ZERO, |round_trip| round_trip.mean);
        let Some(moving) = took.checked_sub(away).filter(|time| !time.is_zero()) else {
            return;
        };
        let rate = BytesPerSecond::over(bytes, moving);
        let best = self.best();
        let raises = best.is_some_and(|best| rate > best);
        if bytes >= LARGE_TRANSFER_BYTES || raises {
            self.transfers[self.next % TRANSFERS_REMEMBERED] = Some(rate);
            self.next = (self.next + 1) % TRANSFERS_REMEMBERED;
        }
    }

    /// The figures now.
    #[must_use]
    pub fn link(&self) -> Link {
        Link { round_trip: self.round_trip.into(), bandwidth: self.best().into() }
    }

    fn best(&self) -> Option<BytesPerSecond> {
        self.transfers.iter().flatten().max().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn round_trips_are_averaged_with_their_deviation() {
        let mut estimate = LinkEstimate::default();
        assert!(estimate.link().round_trip.is_unknown());
        for _ in 0..100 {
            estimate.observe_round_trip(10 * MS);
        }
        let steady = estimate.link().round_trip.measured().unwrap();
        assert!(steady.mean.abs_diff(10 * MS) < MS && steady.deviation < MS / 10, "{steady:?}");
        for round in 0..100 {
            estimate.observe_round_trip(if round % 2 == 0 { 5 * MS } else { 15 * MS });
        }
        let shaky = estimate.link().round_trip.measured().unwrap();
        assert!(shaky.deviation > 4 * MS, "{shaky:?}");
    }

    #[test]
    fn figures_of_an_earlier_run_come_back_as_they_were() {
        let mut estimate = LinkEstimate::default();
        estimate.observe_round_trip(2 * MS);
        estimate.observe_transfer(1_000_000, 102 * MS);
        assert_eq!(LinkEstimate::known(&estimate.link()).link(), estimate.link());
        assert_eq!(
            LinkEstimate::known(&Link::default()),
            LinkEstimate { next: 1, ..LinkEstimate::default() }
        );
    }

    #[test]
    fn small_transfers_may_raise_the_bandwidth_and_never_set_it() {
        let mut estimate = LinkEstimate::default();
        estimate.observe_transfer(1000, MS);
        assert!(estimate.link().bandwidth.is_unknown());
        estimate.observe_transfer(1_000_000, 100 * MS);
        assert_eq!(estimate.link().bandwidth, Figure::Measured(BytesPerSecond(10_000_000)));
        estimate.observe_transfer(1000, MS);
        assert_eq!(estimate.link().bandwidth, Figure::Measured(BytesPerSecond(10_000_000)));
        estimate.observe_transfer(100_000, 5 * MS);
        assert_eq!(estimate.link().bandwidth, Figure::Measured(BytesPerSecond(20_000_000)));
    }

    #[test]
    fn the_round_trip_is_not_bandwidth_and_old_transfers_are_forgotten() {
        let mut estimate = LinkEstimate::default();
        estimate.observe_round_trip(50 * MS);
        estimate.observe_transfer(1_000_000, 50 * MS);
        assert!(estimate.link().bandwidth.is_unknown());
        estimate.observe_transfer(1_000_000, 60 * MS);
        assert_eq!(estimate.link().bandwidth, Figure::Measured(BytesPerSecond(100_000_000)));
        for _ in 0..TRANSFERS_REMEMBERED {
            estimate.observe_transfer(1_000_000, 1050 * MS);
        }
        assert_eq!(estimate.link().bandwidth, Figure::Measured(BytesPerSecond(1_000_000)));
    }
}
