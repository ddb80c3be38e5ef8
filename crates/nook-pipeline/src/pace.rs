//! How long a segment takes, learned from its own steps, and how long to wait for the next one.
//!
//! Each attempt at a stage has its own [`Pace`]: a new host is cold again. The first step of a call
//! counts for nothing but being over. What earlier replies have shown of the device
//! ([`crate::Forecast`]) stands in until this call has shown enough.

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
    /// What a step of decode, and a position of prefill, usually take.
    usual: (Option<Duration>, Option<Duration>),
    /// What its device is expected to take until the layers are in memory.
    load: Option<Duration>,
}

/// What was measured in another reply is forgiven twice of what this one's own figures are.
const FORGIVEN_BEFORE_MEASURED: u32 = 8;

impl Pace {
    /// What a step of one position, and one of `chunk`, are expected to take.
    pub(crate) fn expect(
        &mut self,
        decode: Option<Duration>,
        prefill: Option<Duration>,
        chunk: u32,
    ) {
        self.usual = (decode, prefill.map(|took| took / chunk.max(1)));
    }

    /// What its device is expected to take until the layers are in memory.
    pub(crate) fn expect_load(&mut self, load: Option<Duration>) {
        self.load = load;
    }

    /// Longest wait for another device to accept the call: short where its layers are expected to
    /// be in memory, or nearly so.
    pub(crate) fn patience_to_open(&self, deadlines: &Deadlines) -> Duration {
        let known = self.load.map(|load| {
            deadlines.open_measured.saturating_add(load.saturating_mul(FORGIVEN_BEFORE_MEASURED))
        });
        known.map_or(deadlines.open, |known| known.min(deadlines.open))
    }

    /// The mean of the last `count` steps of decode without the `forgiven` longest of them; `None`
    /// before there are as many. A median would not do: a device that gets a turn now and then
    /// answers most steps at once, and every few of them late.
    pub(crate) fn recent(&self, count: usize, forgiven: usize) -> Option<Duration> {
        let first = self.decode.len().checked_sub(count)?;
        let mut last: Vec<Duration> = self.decode.iter().skip(first).copied().collect();
        last.sort_unstable();
        last.truncate(count.saturating_sub(forgiven));
        let kept = u32::try_from(last.len()).ok().filter(|kept| *kept > 0)?;
        Some(last.into_iter().fold(Duration::ZERO, Duration::saturating_add) / kept)
    }

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
        let usual = self
            .usual
            .1
            .map(|each| each.saturating_mul(count).saturating_mul(FORGIVEN_BEFORE_MEASURED));
        if !self.warm {
            // A device that was measured has shown its kernels before.
            return usual.map_or(deadlines.first_step.saturating_add(unmeasured), |usual| {
                deadlines.first_step_measured.saturating_add(usual.max(deadlines.prefill_floor))
            });
        }
        if count > 1 {
            return self
                .prefill_position
                .map(|each| each * count * 4)
                .or(usual)
                .map_or(unmeasured, |limit| limit.max(deadlines.prefill_floor));
        }
        if self.decode.len() < SAMPLES_MIN {
            return self.usual.0.map_or(deadlines.decode_ceiling, |each| {
                let limit = each.saturating_mul(FORGIVEN_BEFORE_MEASURED);
                limit.max(deadlines.decode_floor).min(deadlines.decode_ceiling).max(each * 2)
            });
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
    fn what_earlier_replies_have_shown_stands_in_until_this_one_has() {
        let seeded = |steps: &[(u32, u64)], count| {
            let mut pace = Pace::default();
            pace.expect(Some(ms(100)), Some(ms(1_280)), 128);
            steps.iter().for_each(|(count, took)| pace.learn(*count, ms(*took)));
            pace.patience(count, &Deadlines::usual())
        };
        assert_eq!(seeded(&[], 1), ms(3_000 + 2_000), "it has shown its kernels before");
        assert_eq!(seeded(&[], 128), ms(3_000 + 10_240));
        assert_eq!(seeded(&[(1, 9_000)], 1), ms(800));
        assert_eq!(seeded(&[(1, 9_000)], 100), ms(8_000));
        let measured = [(1, 9_000), (1, 20), (1, 20), (1, 20), (1, 20), (1, 20), (1, 20)];
        let measured = [&measured[..], &[(1, 20), (1, 20)]].concat();
        assert_eq!(seeded(&measured, 1), ms(500), "its own figures count once there are enough");
    }

    #[test]
    fn a_call_is_waited_for_as_long_as_its_layers_are_expected_to_take() {
        let opening = |load: Option<u64>| {
            let mut pace = Pace::default();
            pace.expect_load(load.map(ms));
            pace.patience_to_open(&Deadlines::usual())
        };
        assert_eq!(opening(None), ms(30_000), "nothing is known");
        assert_eq!(opening(Some(0)), ms(5_000), "they are in memory");
        assert_eq!(opening(Some(1_000)), ms(13_000));
        assert_eq!(opening(Some(60_000)), ms(30_000));
    }

    #[test]
    fn the_pace_at_the_moment_is_a_mean_of_the_last_steps_that_forgives_hiccups() {
        let mut pace = Pace::default();
        [1, 10, 10, 10, 900, 80, 80, 80].iter().for_each(|took| pace.learn(1, ms(*took)));
        assert_eq!(pace.recent(8, 0), None, "the first step counts for nothing");
        assert_eq!(pace.recent(3, 0), Some(ms(80)));
        assert_eq!(pace.recent(6, 1), Some(ms(52)), "10 10 80 80 80");
    }

    #[test]
    fn the_cold_step_counts_for_nothing() {
        let mut steps = vec![(1, 60_000)];
        steps.extend([(1, 200); 8]);
        assert_eq!(after(&steps, 1), ms(800));
    }
}
