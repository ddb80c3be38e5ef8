//! When lending holds itself back, so that it never gets in the owner's way.

use std::fmt;
use std::str::FromStr;

use super::raw::RawPauses;
use super::{OutOfRange, out_of_range, ranged};

const MINUTES_OF_DAY: u16 = 24 * 60;

/// `[distributed_inference.host.pause]`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PauseSettings {
    /// While a battery is drained.
    pub on_battery: bool,
    /// While a program other than Inglenook fills the screen.
    pub in_full_screen: bool,
    /// While other programs take more than this share of the processor, in percent; `None`: never.
    pub when_busy_percent: Option<u32>,
    /// Between two times of every day; `None`: never.
    pub quiet_hours: Option<QuietHours>,
    /// Until this moment, in seconds since 1970, because the owner said so; 0: not.
    pub until: u64,
}

/// A part of every day by the local clock, in minutes since midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuietHours {
    from: u16,
    to: u16,
}

impl QuietHours {
    /// Whether `minute` of the day lies in it. The end does not; where it comes before the beginning,
    /// the hours go over midnight.
    #[must_use]
    pub fn contain(self, minute: u16) -> bool {
        if self.from <= self.to {
            (self.from..self.to).contains(&minute)
        } else {
            minute >= self.from || minute < self.to
        }
    }
}

impl RawPauses {
    pub(super) fn resolve(&self) -> Result<PauseSettings, OutOfRange> {
        let busy = ranged(
            "distributed_inference.host.pause.when_busy_percent",
            self.when_busy_percent,
            0,
            100,
        )?;
        Ok(PauseSettings {
            on_battery: self.on_battery,
            in_full_screen: self.in_full_screen,
            when_busy_percent: (busy > 0).then_some(busy),
            quiet_hours: quiet_hours(&self.quiet_hours)?,
            // A time before 1970 is over as well.
            until: u64::try_from(self.until).unwrap_or(0),
        })
    }
}

/// `22:00-07:00`; nothing: none.
fn quiet_hours(text: &str) -> Result<Option<QuietHours>, OutOfRange> {
    const KEY: &str = "distributed_inference.host.pause.quiet_hours";
    if text.trim().is_empty() {
        return Ok(None);
    }
    let expected = "two different times such as `22:00-07:00`, or nothing";
    text.parse().map(Some).map_err(|NoQuietHours| out_of_range(KEY, text, expected))
}

impl fmt::Display for QuietHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [from, to] = [self.from, self.to].map(|minute| (minute / 60, minute % 60));
        write!(f, "{:02}:{:02}-{:02}:{:02}", from.0, from.1, to.0, to.1)
    }
}

/// A text that is no part of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("these are not two different times such as `22:00-07:00`")]
pub struct NoQuietHours;

impl FromStr for QuietHours {
    type Err = NoQuietHours;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (from, to) = text.split_once('-').ok_or(NoQuietHours)?;
        let hours = minute(from).zip(minute(to)).map(|(from, to)| Self { from, to });
        hours.filter(|hours| hours.from != hours.to).ok_or(NoQuietHours)
    }
}

/// `07:30`, up to `24:00`.
fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.trim().split_once(':')?;
    let two_digits = |text: &str| {
        let digits = text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u16>().ok()).flatten()
    };
    let (hour, minute) = (two_digits(hour)?, two_digits(minute)?);
    let whole = hour * 60 + minute;
    (minute < 60 && whole <= MINUTES_OF_DAY).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_hours_may_go_over_midnight() {
        for (text, minute, quiet) in [
            ("22:00-07:00", 21 * 60 + 59, false),
            ("22:00-07:00", 22 * 60, true),
            ("22:00-07:00", 0, true),
            ("22:00-07:00", 7 * 60 - 1, true),
            ("22:00-07:00", 7 * 60, false),
            (" 9:30 - 10:15 ", 9 * 60 + 30, true),
            (" 9:30 - 10:15 ", 10 * 60 + 15, false),
            ("00:00-24:00", 1439, true),
            ("00:00-24:00", 0, true),
        ] {
            let hours = quiet_hours(text).unwrap().unwrap();
            assert_eq!(hours.contain(minute), quiet, "{text} at minute {minute}");
        }
        assert_eq!(quiet_hours("  ").unwrap(), None);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "22-7",
            "22:00",
            "25:00-07:00",
            "22:60-07:00",
            "24:01-1:00",
            "7:00-7:00",
            "+1:00-2:00",
            "١:00-2:00",
        ] {
            let error = quiet_hours(text).unwrap_err();
            assert_eq!(error.value, text);
            assert!(error.expected.contains("22:00-07:00"));
        }
    }
}
