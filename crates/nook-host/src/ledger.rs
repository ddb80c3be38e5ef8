//! How much this device has computed for others on each day: counted, kept over a restart, shown.
//!
//! The calls of guests add to [`Usage`]; from time to time that is moved into the day's number.
//! What is shown changes only then, so that a view is not published for every token.
//!
//! [`Usage`]: super::usage::Usage

use std::time::{Duration, Instant};

use nook_store::LentDays;

use nook_api::views::LentDayView;

/// Between two times that what guests were answered is taken over. A crash loses as much.
const TAKE_EVERY: Duration = Duration::from_secs(10);

/// The days on which something was lent.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    days: LentDays,
    taken: Option<Instant>,
}

impl Ledger {
    pub(crate) fn new(days: LentDays) -> Self {
        Self { days, taken: None }
    }

    /// The days on which something was lent, oldest first.
    pub(crate) fn view(&self) -> Vec<LentDayView> {
        let days = self.days.days().iter();
        days.map(|it| LentDayView { day: it.day, tokens: it.positions }).collect()
    }

    /// Whether it is time to take over what guests were answered. While none is here it always is:
    /// what the last guest was answered is shown as soon as it has gone.
    pub(crate) fn is_due(&self, now: Instant, streams: u16) -> bool {
        let early = self.taken.is_some_and(|at| now.saturating_duration_since(at) < TAKE_EVERY);
        !early || streams == 0
    }

    /// Takes `positions` over into `today`; what is to be written down, if anything has changed.
    pub(crate) fn take(&mut self, now: Instant, today: u32, positions: u64) -> Option<LentDays> {
        self.taken = Some(now);
        let forgot = self.days.forget_old(today);
        if positions > 0 {
            self.days.add(today, positions);
        }
        (forgot || positions > 0).then(|| self.days.clone())
    }
}

#[cfg(test)]
mod tests {
    use nook_base::clock;

    use super::*;

    #[test]
    fn what_guests_were_answered_is_added_to_the_day_and_a_week_later_it_is_gone() {
        let (mut ledger, now) = (Ledger::default(), clock::now());
        let take =
            |ledger: &mut Ledger, today, positions| ledger.take(now, today, positions).is_some();
        assert!(!take(&mut ledger, 100, 0) && ledger.view().is_empty());
        assert!(take(&mut ledger, 100, 65) && take(&mut ledger, 100, 1));
        assert!(take(&mut ledger, 103, 5));
        let shown = |ledger: &Ledger| {
            ledger.view().iter().map(|it| (it.day, it.tokens)).collect::<Vec<_>>()
        };
        assert_eq!(shown(&ledger), [(100, 66), (103, 5)]);
        assert!(!take(&mut ledger, 106, 0));
        assert!(take(&mut ledger, 107, 0), "a day that is over goes without new work");
        assert_eq!(shown(&ledger), [(103, 5)]);
    }

    #[test]
    fn it_is_taken_over_from_time_to_time_and_at_once_when_the_last_guest_has_gone() {
        let (mut ledger, now) = (Ledger::default(), clock::now());
        assert!(ledger.is_due(now, 1));
        ledger.take(now, 100, 5);
        assert!(!ledger.is_due(now + TAKE_EVERY / 2, 1));
        assert!(ledger.is_due(now + TAKE_EVERY / 2, 0));
        assert!(ledger.is_due(now + TAKE_EVERY, 1));
    }
}
