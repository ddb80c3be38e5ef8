//! How long a segment takes, learned from its own steps, and how long to wait for the next one.
//!
//! Each attempt at a stage has its own [`Pace`]: a new host is cold again. The first step of a call
//! counts for nothing but being over.

use std::collections::VecDeque;
use std::time::Duration;

use crate::settings::Deadlines;

/// Steps of decode remembered: p99 of fewer than 100 is their maximum, of 256 it forgives two.
const SAMPLES_MAX: usize = 256;

/// Steps of decode before what was learned counts; until then the ceiling holds.
const SAMPLES_MIN: usize = 8;

#[derive(Default)]
pub(crate) struct Pace {
    warm: bool,
    decode: VecDeque<Duration>,
    prefill_position: Option<Duration>,
}

impl Pace {
    /// A step of `count` positions took `took`.
    pub(crate) fn learn(&mut self, count: u32, took: Duration) {
        if !self.warm {
            self.warm = true;
        } else if count <= 1 {
            if self.decode.len() == SAMPLES_MAX {
                self.decode.pop_front();
            }
            self.decode.push_back(took);
        } else {
            let each = took / count;
            self.prefill_position = Some(self.prefill_position.map_or(each, |max| max.max(each)));
        }
    }

    /// Longest wait for a step of `count` positions.
    pub(crate) fn patience(&self, count: u32, deadlines: &Deadlines) -> Duration {
        let unmeasured = deadlines.prefill_floor + deadlines.prefill_position * count;
        if !self.warm {
            return deadlines.first_step + unmeasured;
        }
        if count > 1 {
            return self
                .prefill_position
                .map_or(unmeasured, |each| (each * count * 4).max(deadlines.prefill_floor));
        }
        if self.decode.len() < SAMPLES_MIN {
            return deadlines.decode_ceiling;
        }
        let p99 = self.decode_p99();
        // The ceiling must not turn a device that is slow, and has shown it, into one that is late
        // at every step.
        (p99 * 4).max(deadlines.decode_floor).min(deadlines.decode_ceiling).max(p99 * 2)
    }

    fn decode_p99(&self) -> Duration {
        let mut sorted: Vec<Duration> = self.decode.iter().copied().collect();
        sorted.sort_unstable();
        let rank = (sorted.len() * 99).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn after(steps: &[(u32, u64)], count: u32) -> Duration {
        let mut pace = Pace::default();
        for (count, took) in steps {
            pace.learn(*count, ms(*took));
        }
        pace.patience(count, &Deadlines::usual())
    }

    #[test]
    fn the_four_waits_have_four_deadlines() {
        assert_eq!(after(&[], 128), ms(10_000 + 2_000 + 12_800)); // first step of a call
        assert_eq!(after(&[(128, 9_000)], 128), ms(2_000 + 12_800)); // unmeasured prefill
        assert_eq!(after(&[(128, 9_000), (10, 1_000)], 100), ms(40_000)); // 100 ms a position, × 4
        assert_eq!(after(&[(128, 9_000)], 1), ms(5_000)); // decode before it is measured
    }

    #[test]
    fn warm_decode_waits_four_times_its_p99_between_floor_and_ceiling() {
        let warm = |took: u64| {
            let mut steps = vec![(1, 9_000)];
            steps.extend([(1, took); 20]);
            after(&steps, 1)
        };
        assert_eq!(warm(10), ms(500));
        assert_eq!(warm(300), ms(1_200));
        assert_eq!(warm(2_000), ms(5_000));
        assert_eq!(warm(4_000), ms(8_000)); // slow is not late
    }

    #[test]
    fn the_cold_step_counts_for_nothing() {
        let mut steps = vec![(1, 60_000)];
        steps.extend([(1, 200); 8]);
        assert_eq!(after(&steps, 1), ms(800));
    }
}
