//! How far a download is, and how fast it goes.
//!
//! The fetcher tells [`Progress`] through a watch channel; who shows it feeds a [`Pulse`] with it
//! at regular looks. Pure: time comes as an argument.

use std::time::{Duration, Instant};

/// What a download does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Reads again what an earlier run has left.
    #[default]
    Reading,
    /// Asks the server.
    Asking,
    /// Takes bytes.
    Loading,
    /// Waits before the next try.
    Waiting,
    /// Has all bytes and makes the file whole.
    Finishing,
}

/// How far a download is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// What it does.
    pub phase: Phase,
    /// Bytes on the disk.
    pub have: u64,
    /// Length of the whole file; absent while the server has not said.
    pub bytes: Option<u64>,
    /// What went wrong last; absent while all is well.
    pub trouble: Option<String>,
}

/// Speeds are averaged over about this long: shorter jumps about, longer lags behind.
const MEMORY: Duration = Duration::from_secs(8);

/// Speed of a download, as a moving average.
#[derive(Debug, Clone, Default)]
pub struct Pulse {
    last: Option<(Instant, u64)>,
    per_second: Option<f64>,
}

impl Pulse {
    /// Takes a look: so many bytes are there now.
    pub fn look(&mut self, now: Instant, have: u64) {
        let Some((before, had)) = self.last else {
            self.last = Some((now, have));
            return;
        };
        let span = now.saturating_duration_since(before);
        if span.is_zero() {
            return;
        }
        self.last = Some((now, have));
        // A download that began anew has no speed for a moment.
        let Some(more) = have.checked_sub(had) else {
            self.per_second = None;
            return;
        };
        let rate = more as f64 / span.as_secs_f64();
        let weight = 1.0 - (-span.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        let smooth = |known: f64| known + weight * (rate - known);
        self.per_second = Some(self.per_second.map_or(rate, smooth));
    }

    /// Bytes a second; absent before the second look.
    #[must_use]
    pub fn per_second(&self) -> Option<f64> {
        self.per_second
    }

    /// Seconds until `left` bytes are there at this speed; absent while nothing comes.
    #[must_use]
    pub fn seconds_for(&self, left: u64) -> Option<u64> {
        let rate = self.per_second.filter(|rate| *rate >= 1.0)?;
        // Saturates, which for a time left is what should happen.
        Some((left as f64 / rate).ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_download_has_its_speed_and_its_end() {
        let start = nook_base::clock::now();
        let mut pulse = Pulse::default();
        assert_eq!((pulse.per_second(), pulse.seconds_for(5)), (None, None));
        for second in 0..30 {
            pulse.look(start + Duration::from_secs(second), second * 1000);
        }
        let rate = pulse.per_second().unwrap();
        assert!((rate - 1000.0).abs() < 1.0, "{rate}");
        assert_eq!(pulse.seconds_for(10_000), Some(10));
    }

    #[test]
    fn a_stall_lowers_the_speed_and_a_new_beginning_forgets_it() {
        let start = nook_base::clock::now();
        let mut pulse = Pulse::default();
        pulse.look(start, 0);
        pulse.look(start + Duration::from_secs(1), 1000);
        pulse.look(start + Duration::from_secs(31), 1000);
        assert!(pulse.per_second().unwrap() < 100.0);
        pulse.look(start + Duration::from_secs(32), 10);
        assert_eq!(pulse.per_second(), None);
        // Two looks at one moment change nothing.
        pulse.look(start + Duration::from_secs(32), 20);
        assert_eq!(pulse.per_second(), None);
    }
}
