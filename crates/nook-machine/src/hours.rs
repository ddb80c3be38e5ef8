//! The local clock.

use jiff::civil::{Date, Time};
use jiff::{Span, Zoned};

/// When "tomorrow" begins for whoever says "not before tomorrow".
const MORNING_HOUR: i8 = 6;

/// A morning nearer than this is still the same night.
const NIGHT_SECONDS: i64 = 3 * 3600;

/// Minutes since midnight, 0 to 1439.
pub(crate) fn minute_of_day() -> u16 {
    let now = Zoned::now();
    u16::from(now.hour().unsigned_abs()) * 60 + u16::from(now.minute().unsigned_abs())
}

/// Today by the local calendar, as days since 1970-01-01.
#[must_use]
pub fn day_of_calendar() -> u32 {
    days_since_1970(Zoned::now().date())
}

/// The next morning of the local clock in seconds since 1970: six o'clock, but not one that is less
/// than three hours away.
#[must_use]
pub fn next_morning() -> u64 {
    let now = Zoned::now();
    // A calendar ends in the year 9999; there is no morning after it.
    morning_after(&now).map_or(u64::MAX, |morning| seconds(&morning))
}

/// How late it is at `unix_seconds` by the local clock, as `06:00`; empty outside the calendar.
#[must_use]
pub fn seconds_to_clock(unix_seconds: u64) -> String {
    let at = i64::try_from(unix_seconds).ok().and_then(|at| jiff::Timestamp::from_second(at).ok());
    at.map_or_else(String::new, |at| {
        at.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M").to_string()
    })
}

/// 0 before 1970.
fn days_since_1970(date: Date) -> u32 {
    let hours = date.duration_since(Date::constant(1970, 1, 1)).as_hours();
    u32::try_from(hours / 24).unwrap_or(0)
}

fn morning_after(now: &Zoned) -> Result<Zoned, jiff::Error> {
    let six = Time::constant(MORNING_HOUR, 0, 0, 0);
    let today = now.with().time(six).build()?;
    if today.timestamp().as_second() - now.timestamp().as_second() >= NIGHT_SECONDS {
        return Ok(today);
    }
    let tomorrow = now.checked_add(Span::new().days(1))?.with().time(six).build()?;
    if tomorrow.timestamp().as_second() - now.timestamp().as_second() >= NIGHT_SECONDS {
        return Ok(tomorrow);
    }
    tomorrow.checked_add(Span::new().days(1))
}

fn seconds(at: &Zoned) -> u64 {
    u64::try_from(at.timestamp().as_second()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tomorrow_begins_at_six_but_not_in_the_same_night() {
        for (now, expected) in [
            ("2026-11-21T22:30:00[Europe/Berlin]", "2026-11-22T06:00:00+01:00[Europe/Berlin]"),
            ("2026-11-21T01:00:00[Europe/Berlin]", "2026-11-21T06:00:00+01:00[Europe/Berlin]"),
            ("2026-11-21T04:00:00[Europe/Berlin]", "2026-11-22T06:00:00+01:00[Europe/Berlin]"),
            ("2026-11-21T06:00:00[Europe/Berlin]", "2026-11-22T06:00:00+01:00[Europe/Berlin]"),
            // The night of the change to winter time is an hour longer.
            ("2026-10-24T23:00:00[Europe/Berlin]", "2026-10-25T06:00:00+01:00[Europe/Berlin]"),
            ("2026-12-31T12:00:00[Asia/Kolkata]", "2027-01-01T06:00:00+05:30[Asia/Kolkata]"),
        ] {
            let now: Zoned = now.parse().unwrap();
            assert_eq!(morning_after(&now).unwrap().to_string(), expected, "from {now}");
        }
    }

    #[test]
    fn the_next_morning_is_between_three_hours_and_a_day_and_a_half_away() {
        let away = next_morning() - nook_base::clock::unix_seconds();
        assert!((3 * 3600 - 2..36 * 3600).contains(&away), "{away} seconds");
        assert!(minute_of_day() < 24 * 60);
    }

    #[test]
    fn days_are_counted_by_the_calendar() {
        for (date, day) in
            [("1970-01-01", 0), ("1970-01-02", 1), ("2026-11-22", 20_779), ("1969-12-31", 0)]
        {
            assert_eq!(days_since_1970(date.parse().unwrap()), day, "{date}");
        }
        let utc = nook_base::clock::unix_seconds() / 86_400;
        assert!(u64::from(day_of_calendar()).abs_diff(utc) <= 1);
    }

    #[test]
    fn a_time_outside_the_calendar_is_shown_as_nothing() {
        assert_eq!(seconds_to_clock(u64::MAX), "");
        assert_eq!(seconds_to_clock(0).len(), 5);
    }
}
