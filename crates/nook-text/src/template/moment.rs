//! A point in time, as templates may write it into a prompt.

/// A point in time as the user's clock shows it; templates may write today's date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Moment {
    /// Seconds since 1970 in UTC.
    pub unix_seconds: i64,
    /// The user's offset from UTC, in seconds east.
    pub utc_offset_seconds: i32,
}

impl Moment {
    /// Reads `2025-01-02`, `2025-01-02 03:04` or `2025-01-02T03:04:05`, with `Z` or an offset such
    /// as `+01:00` behind if it is not UTC (ISO 8601, fractions of a second left out).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (date, rest) = text.trim().split_at_checked(10)?;
        let [year, month, day] = numbers(date, '-')?;
        let month = time::Month::try_from(u8::try_from(month).ok()?).ok()?;
        let date = time::Date::from_calendar_date(year, month, u8::try_from(day).ok()?).ok()?;
        let rest = rest.trim_start_matches(['T', ' ']);
        let (clock, offset) = match rest.find(['Z', '+', '-']) {
            Some(at) => rest.split_at(at),
            None => (rest, "Z"),
        };
        let clock = if clock.is_empty() { "00:00" } else { clock };
        let seconds_of_day = seconds(clock).filter(|seconds| *seconds < 24 * 3600)?;
        let utc_offset_seconds = match offset.strip_prefix(['+', '-']) {
            None if offset == "Z" => 0,
            None => return None,
            Some(size) if offset.starts_with('-') => -seconds(size)?,
            Some(size) => seconds(size)?,
        };
        let midnight = date.midnight().assume_utc().unix_timestamp();
        let unix_seconds = midnight + i64::from(seconds_of_day) - i64::from(utc_offset_seconds);
        Some(Self { unix_seconds, utc_offset_seconds })
    }
}

/// `03:04` or `03:04:05` in seconds.
fn seconds(clock: &str) -> Option<i32> {
    let clock =
        if clock.matches(':').count() == 1 { format!("{clock}:00") } else { clock.to_owned() };
    let [hours, minutes, seconds] = numbers(&clock, ':')?;
    let fits = (0..24).contains(&hours) && (0..60).contains(&minutes) && (0..60).contains(&seconds);
    fits.then_some((hours * 60 + minutes) * 60 + seconds)
}

fn numbers(text: &str, between: char) -> Option<[i32; 3]> {
    let mut parts = text.split(between).map(|part| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if digits { part.parse().ok() } else { None }
    });
    let three = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(three)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_people_and_programs_write_them() {
        let check = |text: &str, unix_seconds, utc_offset_seconds| {
            let expected = Moment { unix_seconds, utc_offset_seconds };
            assert_eq!(Moment::parse(text), Some(expected), "{text}");
        };
        check("2025-01-02 03:04:05", 1_735_787_045, 0);
        check("2025-01-02T03:04:05Z", 1_735_787_045, 0);
        check("2025-01-02T04:04:05+01:00", 1_735_787_045, 3600);
        check("2025-01-01T22:04:05-05:00", 1_735_787_045, -18_000);
        check("2025-01-02 03:04", 1_735_787_040, 0);
        check("2025-01-02", 1_735_776_000, 0);
        for wrong in ["", "today", "2025-13-02", "2025-01-02 25:00", "2025-01-02x", "é025-01-02"] {
            assert_eq!(Moment::parse(wrong), None, "{wrong}");
        }
    }
}
