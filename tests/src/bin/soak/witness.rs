//! What the machine did while a reply was made: whether a slow one was slow because the program
//! computed, because its device had used up its share, or because the machine was taken away.

use std::fs;
use std::time::Duration;

use nook_testkit::ShareMeter;

/// Time of all processors that another machine on the same host took, and all of it, in ticks
/// (proc_stat(5)).
#[derive(Debug, Clone, Copy, Default)]
struct Ticks {
    stolen: u64,
    idle: u64,
    all: u64,
}

/// Looks at the machine, and at the share of each device.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    shares: Vec<(String, ShareMeter)>,
}

/// What it saw at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    ticks: Option<Ticks>,
    stood_still: Vec<Option<Duration>>,
}

impl Witness {
    /// Of these devices and their shares.
    pub(crate) fn of(shares: Vec<(String, ShareMeter)>) -> Self {
        Self { shares }
    }

    pub(crate) fn look(&self) -> Look {
        let stood_still = self.shares.iter().map(|(_, meter)| meter.stood_still()).collect();
        let ticks = fs::read_to_string("/proc/stat").ok().and_then(|text| Ticks::read(&text));
        Look { ticks, stood_still }
    }

    /// What has happened since an earlier look, in words: how much of the machine was stolen and idle,
    /// and how long each device stood still because its share was used up.
    pub(crate) fn since(&self, earlier: &Look) -> String {
        let now = self.look();
        let mut said = Vec::new();
        if let (Some(now), Some(then)) = (now.ticks, earlier.ticks) {
            said.push(now.since(then));
        }
        let stood = now.stood_still.iter().zip(&earlier.stood_still);
        for ((name, _), (now, then)) in self.shares.iter().zip(stood) {
            if let (Some(now), Some(then)) = (now, then) {
                let milliseconds = now.saturating_sub(*then).as_millis();
                said.push(format!("{name} stood still {milliseconds} ms"));
            }
        }
        said.join(", ")
    }
}

impl Ticks {
    /// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
    fn read(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let all: Vec<u64> =
            line.split_whitespace().take(8).filter_map(|it| it.parse().ok()).collect();
        let [_, _, _, idle, waiting, _, _, stolen] = *all.as_slice() else { return None };
        Some(Self { stolen, idle: idle + waiting, all: all.iter().sum() })
    }

    fn since(self, then: Self) -> String {
        let all = self.all.saturating_sub(then.all).max(1) as f64;
        let percent = |now: u64, then: u64| 100.0 * now.saturating_sub(then) as f64 / all;
        let (stolen, idle) = (percent(self.stolen, then.stolen), percent(self.idle, then.idle));
        format!("stolen {stolen:.0} %, idle {idle:.0} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stolen_and_idle_is_of_the_time_between() {
        let before = Ticks::read("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2\n").unwrap();
        let after = Ticks::read("cpu  140 0 70 820 50 0 0 20 0 0\n").unwrap();
        assert_eq!(after.since(before), "stolen 20 %, idle 20 %");
        assert!(Ticks::read("cpu  1 2 3\n").is_none());
    }
}
