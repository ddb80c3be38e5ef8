//! Quiet hours: a part of every day in which nothing is lent.

use std::fmt;
use std::str::FromStr;

const MINUTES_OF_DAY: u16 = 24 * 60;

/// A part of every day by the local clock, in minutes since midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuietHours {
    from: u16,
    to: u16,
}

impl QuietHours {
    /// Whether `minute` of the day lies in it. The end does not; where it comes before the
    /// beginning,
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
            let hours: QuietHours = text.parse().unwrap();
            assert_eq!(hours.contain(minute), quiet, "{text} at minute {minute}");
        }
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
            assert_eq!(text.parse::<QuietHours>(), Err(NoQuietHours), "{text}");
        }
    }
}
