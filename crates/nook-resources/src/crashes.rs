//! How long a model rests whose worker ends again and again: a minute, then five, then half an
//! hour. What crashed once may do so for a reason that passes, as memory that another program had.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use nook_base::ModelDigest;

/// Unasked ends within [`CRASH_WINDOW`] after which a model rests.
pub(crate) const CRASHES_MAX: usize = 3;

/// See [`CRASHES_MAX`].
const CRASH_WINDOW: Duration = Duration::from_secs(60);

/// How long it rests the first time, the second, and from then on.
const RESTS: [Duration; 3] =
    [Duration::from_secs(60), Duration::from_secs(5 * 60), Duration::from_secs(30 * 60)];

/// After so long without a crash, a model begins with the first rest again.
const FORGIVEN_AFTER: Duration = Duration::from_secs(60 * 60);

/// The unasked ends of workers.
#[derive(Debug, Default)]
pub(crate) struct Crashes {
    of: BTreeMap<ModelDigest, Record>,
}

#[derive(Debug, Default)]
struct Record {
    /// Those within [`CRASH_WINDOW`] of the last one.
    recent: VecDeque<Instant>,
    rests: usize,
    last: Option<Instant>,
}

impl Crashes {
    /// The worker of `model` has ended unasked; how long the model rests now, if it does.
    pub(crate) fn note(&mut self, model: ModelDigest, now: Instant) -> Option<Duration> {
        let record = self.of.entry(model).or_default();
        let since = record.last.map(|at| now.saturating_duration_since(at));
        if since.is_some_and(|since| since >= FORGIVEN_AFTER) {
            *record = Record::default();
        }
        record.last = Some(now);
        record.recent.push_back(now);
        let is_old = |at: &Instant| now.saturating_duration_since(*at) > CRASH_WINDOW;
        while record.recent.front().is_some_and(is_old) {
            record.recent.pop_front();
        }
        if record.recent.len() < CRASHES_MAX {
            return None;
        }
        record.recent.clear();
        let rest = RESTS[record.rests.min(RESTS.len() - 1)];
        record.rests += 1;
        Some(rest)
    }

    /// Whether anything is remembered of `model`.
    pub(crate) fn knows(&self, model: ModelDigest) -> bool {
        self.of.contains_key(&model)
    }

    /// Forgets what counts no more: models come and go.
    pub(crate) fn forget_old(&mut self, now: Instant) {
        let counts = |at: Instant| now.saturating_duration_since(at) < FORGIVEN_AFTER;
        self.of.retain(|_, record| record.last.is_some_and(counts));
    }
}

#[cfg(test)]
mod tests {
    use nook_base::clock;

    use super::*;

    const MODEL: ModelDigest = ModelDigest([1; 32]);

    /// Three crashes at once; the rest that follows, in minutes.
    fn crash(crashes: &mut Crashes, now: Instant) -> Option<u64> {
        assert_eq!(crashes.note(MODEL, now), None);
        assert_eq!(crashes.note(MODEL, now), None);
        crashes.note(MODEL, now).map(|rest| rest.as_secs() / 60)
    }

    #[test]
    fn f10_three_crashes_within_a_minute_are_a_rest_and_each_rest_is_longer() {
        let (mut crashes, mut now) = (Crashes::default(), clock::now());
        for minutes in [1, 5, 30, 30] {
            assert_eq!(crash(&mut crashes, now), Some(minutes));
            now += Duration::from_secs(minutes * 60);
        }
        now += FORGIVEN_AFTER;
        assert_eq!(crash(&mut crashes, now), Some(1), "an hour without one is forgiven");
    }

    #[test]
    fn f10_crashes_that_are_far_apart_are_no_reason_to_rest() {
        let (mut crashes, mut now) = (Crashes::default(), clock::now());
        for _ in 0..10 {
            assert_eq!(crashes.note(MODEL, now), None);
            now += CRASH_WINDOW / 2 + Duration::from_secs(1);
        }
        assert!(crashes.knows(MODEL));
        crashes.forget_old(now + FORGIVEN_AFTER);
        assert!(!crashes.knows(MODEL));
    }
}
