//! How much this device has computed for others, day by day: counted, kept over a restart, shown.
//!
//! The calls of guests add to [`Usage`]; from time to time the house takes that over into the day's
//! number. What is shown changes only then, so that a view is not published for every token.
//!
//! [`Usage`]: crate::lending::Usage

use std::time::{Duration, Instant};

use nook_base::clock;
use nook_store::{LentDays, LentDaysFile};

use crate::state::State;
use crate::views::LentDayView;

/// Between two times that what guests were answered is taken over. A crash loses as much.
const TAKE_EVERY: Duration = Duration::from_secs(10);

/// The days, and where they are kept.
#[derive(Debug)]
pub(crate) struct Tally {
    file: LentDaysFile,
    days: LentDays,
    taken: Option<Instant>,
}

impl Tally {
    pub(crate) fn new(file: LentDaysFile, days: LentDays) -> Self {
        Self { file, days, taken: None }
    }

    /// The days on which something was lent, oldest first.
    pub(crate) fn view(&self) -> Vec<LentDayView> {
        let days = self.days.days().iter();
        days.map(|it| LentDayView { day: it.day, tokens: it.positions }).collect()
    }

    /// Takes `positions` over into `today`; says whether anything has changed.
    fn take(&mut self, today: u32, positions: u64) -> bool {
        let forgot = self.days.forget_old(today);
        if positions > 0 {
            self.days.add(today, positions);
        }
        forgot || positions > 0
    }
}

impl State {
    /// Takes over what guests were answered, if it is time to.
    pub(crate) fn tally_lent(&mut self) {
        let now = clock::now();
        let early = self.tally.taken.is_some_and(|at| now.duration_since(at) < TAKE_EVERY);
        // What the last guest was answered is shown as soon as it has gone.
        if early && self.streams() > 0 {
            return;
        }
        self.tally.taken = Some(now);
        if !self.tally.take(nook_machine::day_of_calendar(), self.lending.usage.take()) {
            return;
        }
        let (file, days) = (self.tally.file.clone(), self.tally.days.clone());
        self.tasks.spawn_until_cancelled("tally", async move { save(file, days).await });
    }

    /// Writes what was computed for others up to now, before the node leaves.
    pub(crate) async fn tally_lent_now(&mut self) {
        if self.tally.take(nook_machine::day_of_calendar(), self.lending.usage.take()) {
            save(self.tally.file.clone(), self.tally.days.clone()).await;
        }
    }
}

async fn save(file: LentDaysFile, days: LentDays) {
    match tokio::task::spawn_blocking(move || file.save(&days)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "how much was lent is not kept"),
        Err(error) => tracing::warn!(%error, "how much was lent is not kept"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_guests_were_answered_is_added_to_the_day_and_a_week_later_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let choice = nook_store::HomeChoice::At(folder.path().to_owned());
        let home = nook_store::Home::open(&choice).unwrap();
        let mut tally = Tally::new(LentDaysFile::of(&home), LentDays::default());
        assert!(!tally.take(100, 0) && tally.view().is_empty());
        assert!(tally.take(100, 65) && tally.take(100, 1) && tally.take(103, 5));
        let shown =
            |tally: &Tally| tally.view().iter().map(|it| (it.day, it.tokens)).collect::<Vec<_>>();
        assert_eq!(shown(&tally), [(100, 66), (103, 5)]);
        assert!(!tally.take(106, 0));
        assert!(tally.take(107, 0), "a day that is over goes without new work");
        assert_eq!(shown(&tally), [(103, 5)]);
    }
}
