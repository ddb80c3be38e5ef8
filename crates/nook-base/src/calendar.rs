//! Days of the calendar, in UTC and without time zones: for the date of a document.

const DAY_SECONDS: u64 = 86_400;

/// Seconds from 1970 to the beginning of a day in UTC; absent where there is no such day since
/// then, or before the year 10000.
#[must_use]
pub fn day_begins(year: u16, month: u8, day: u8) -> Option<u64> {
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let days_of_year = days_before(month, is_leap(year));
    if day == 0 || u64::from(day) > days_before(month + 1, is_leap(year)) - days_of_year {
        return None;
    }
    let days = days_before_year(year) + days_of_year + u64::from(day) - 1;
    Some(days * DAY_SECONDS)
}

/// The day of a moment as `2026-11-26`, in UTC. `unix`: seconds since 1970.
#[must_use]
pub fn day_of(unix: u64) -> String {
    let days = (unix / DAY_SECONDS).min(days_before_year(9999) + 364);
    // A year has 365.25 days or a little less, so this is the year or the one after it.
    let guess = 1970 + days / 365;
    let year = u16::try_from(guess.min(9999)).unwrap_or(9999);
    let year = (1970..=year).rev().find(|year| days_before_year(*year) <= days).unwrap_or(1970);
    let rest = days - days_before_year(year);
    let month = (1..=12).rev().find(|month| days_before(*month, is_leap(year)) <= rest);
    let month = month.unwrap_or(1);
    let day = rest - days_before(month, is_leap(year)) + 1;
    format!("{year}-{month:02}-{day:02}")
}

fn is_leap(year: u16) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Days from 1970 to the beginning of a year since then.
fn days_before_year(year: u16) -> u64 {
    let (years, before) = (u64::from(year) - 1970, u64::from(year) - 1);
    // Leap days up to the end of the year before; 477 of them before 1970.
    years * 365 + (before / 4 - before / 100 + before / 400) - 477
}

/// Days of a year before a month, 1 to 13.
fn days_before(month: u8, is_leap: bool) -> u64 {
    const DAYS: [u64; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];
    let days = DAYS.get(usize::from(month) - 1).copied().unwrap_or(365);
    days + u64::from(is_leap && month > 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_where_the_calendar_has_it() {
        assert_eq!(day_begins(1970, 1, 1), Some(0));
        assert_eq!(day_begins(2000, 3, 1), Some(951_868_800));
        assert_eq!(day_begins(2026, 11, 26), Some(1_795_651_200));
        assert_eq!(day_of(1_795_651_200 - 1), "2026-11-25");
        for odd in [(1969, 1, 1), (2026, 2, 29), (2100, 2, 29), (2026, 4, 31), (10_000, 1, 1)] {
            assert_eq!(day_begins(odd.0, odd.1, odd.2), None, "{odd:?}");
        }
        for odd in [(2026, 0, 1), (2026, 13, 1), (2026, 1, 0), (2026, 12, 32)] {
            assert_eq!(day_begins(odd.0, odd.1, odd.2), None, "{odd:?}");
        }
        assert!(day_begins(2000, 2, 29).is_some() && day_begins(2024, 2, 29).is_some());
    }

    #[test]
    fn every_day_has_its_own_name_and_follows_the_one_before() {
        let (mut at, mut days) = (0, 0_u32);
        for (year, month) in (1970..2410).flat_map(|year| (1..=12).map(move |month| (year, month)))
        {
            for day in 1..=31 {
                let Some(begins) = day_begins(year, month, day) else { continue };
                assert_eq!(begins, at);
                assert_eq!(day_of(begins + 86_399), format!("{year}-{month:02}-{day:02}"));
                at += 86_400;
                days += 1;
            }
        }
        assert_eq!(days, 160_707);
        assert_eq!(day_of(u64::MAX), "9999-12-31");
    }
}
