//! How long a GPU rests after its driver failed: two minutes, then twice as long each time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The first rest.
const REST: Duration = Duration::from_secs(120);

/// No rest is longer: a driver may have been updated.
const REST_MAX: Duration = Duration::from_secs(4 * 3600);

/// After so long without a failure, the next rest is the first again.
const FORGIVEN_AFTER: Duration = Duration::from_secs(8 * 3600);

/// GPUs that failed.
#[derive(Debug, Default)]
pub(crate) struct Rests {
    of: BTreeMap<u32, Rest>,
}

#[derive(Debug)]
struct Rest {
    until: Instant,
    last: Duration,
    reason: String,
}

impl Rests {
    /// The GPU `number` failed; how long it rests now.
    pub(crate) fn note(&mut self, number: u32, reason: &str, now: Instant) -> Duration {
        let before = self.of.get(&number);
        let recent = before.filter(|it| now.saturating_duration_since(it.until) < FORGIVEN_AFTER);
        let rest = match recent {
            // Other workers of the same failure.
            Some(before) if now < before.until => before.until.saturating_duration_since(now),
            Some(before) => before.last.saturating_mul(2).min(REST_MAX),
            None => REST,
        };
        let last = recent.filter(|it| now < it.until).map_or(rest, |it| it.last);
        self.of.insert(number, Rest { until: now + rest, last, reason: reason.to_owned() });
        rest
    }

    /// Whether it rests.
    pub(crate) fn rests(&self, number: u32, now: Instant) -> bool {
        self.of(number, now).is_some()
    }

    /// For how long it still rests, and why.
    pub(crate) fn of(&self, number: u32, now: Instant) -> Option<(Duration, &str)> {
        let rest = self.of.get(&number).filter(|it| now < it.until)?;
        Some((rest.until.saturating_duration_since(now), &rest.reason))
    }
}

#[cfg(test)]
mod tests {
    use nook_base::clock;

    use super::*;

    #[test]
    fn a_gpu_that_fails_again_rests_twice_as_long() {
        let (mut rests, mut now) = (Rests::default(), clock::now());
        for minutes in [2, 4, 8, 16, 32, 64, 128, 240, 240] {
            let rest = rests.note(1, "gone", now);
            assert_eq!(rest.as_secs() / 60, minutes);
            let more = rests.note(1, "gone", now);
            assert_eq!(more, rest, "two workers of one failure");
            assert!(rests.rests(1, now + rest - Duration::from_secs(1)));
            now += rest;
            assert!(!rests.rests(1, now));
        }
        assert!(!rests.rests(2, now));
        assert_eq!(rests.note(1, "gone", now + FORGIVEN_AFTER), REST, "that long ago is forgiven");
    }
}
