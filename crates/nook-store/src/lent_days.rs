//! How much this device computed for others, day by day, for the next start of the node.
//!
//! One file, `lent.json`, private to the owner: for each of the last seven days a number of
//! positions. There is nothing else in it: not who asked, not which model, and nothing of what was
//! said. Like what was measured it is worth no refusal to start: a file that cannot be read is
//! reported, and the next save replaces it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::durable::FileError;
use crate::home::Home;
use crate::json::{self, DocumentError};

const FILE: &str = "lent.json";
const VERSION: u64 = 1;

/// Days that are kept, today among them; older ones are dropped.
pub const LENT_DAYS_MAX: usize = 7;

/// What was computed for others on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LentDay {
    /// Days since 1970-01-01 by the local calendar.
    pub day: u32,
    /// Positions of their prompts and replies that went through layers of this device; one that
    /// came twice counts twice.
    pub positions: u64,
}

/// The last days, oldest first, each at most once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LentDays {
    days: Vec<LentDay>,
}

/// The file of one home.
#[derive(Debug, Clone)]
pub struct LentDaysFile {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u64,
    days: Vec<LentDay>,
}

impl LentDays {
    /// Adds positions to `today`, and drops what is no longer of the last days.
    pub fn add(&mut self, today: u32, positions: u64) {
        self.forget_old(today);
        match self.days.iter_mut().find(|it| it.day == today) {
            Some(it) => it.positions = it.positions.saturating_add(positions),
            None => self.days.push(LentDay { day: today, positions }),
        }
    }

    /// Drops days that are not among the last [`LENT_DAYS_MAX`] before and with `today`. Days that
    /// have not come yet are those of a clock that was set back; they go too. Says whether any
    /// went.
    pub fn forget_old(&mut self, today: u32) -> bool {
        let before = self.days.len();
        let is_recent = |it: &LentDay| {
            today.checked_sub(it.day).is_some_and(|age| (age as usize) < LENT_DAYS_MAX)
        };
        self.days.retain(is_recent);
        before != self.days.len()
    }

    /// The days on which something was computed, oldest first.
    #[must_use]
    pub fn days(&self) -> &[LentDay] {
        &self.days
    }
}

impl LentDaysFile {
    /// The file of `home`, which need not exist.
    #[must_use]
    pub fn of(home: &Home) -> Self {
        Self { path: home.file(FILE) }
    }

    /// The last days as they were on `today`; nothing where there is no file.
    pub fn load(&self, today: u32) -> Result<LentDays, DocumentError> {
        let document: Option<Document> = json::load(&self.path, VERSION)?;
        let mut kept = document.map(|document| document.days).unwrap_or_default();
        kept.sort_by_key(|it| it.day);
        // A file that names a day twice was not written here; both count.
        let mut days = LentDays::default();
        for LentDay { day, positions } in kept {
            days.add(day, positions);
        }
        days.forget_old(today);
        Ok(days)
    }

    /// Replaces the file.
    pub fn save(&self, days: &LentDays) -> Result<(), FileError> {
        json::save(&self.path, &Document { version: VERSION, days: days.days.clone() })
    }
}
