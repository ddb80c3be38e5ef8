//! The version in place, while it has still to show that it comes up; and what stays known of one
//! that did not.

use serde::{Deserialize, Serialize};

use super::{InstallError, Portable, failed};
use crate::seen;
use crate::swap::Journal;
use crate::trial::Event;

const TAKEN_BACK: &str = "taken-back.json";

/// A version that did not come up here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TakenBack {
    version: String,
    /// Whether a person was told.
    told: bool,
}

impl Portable {
    /// Whether the version in place has not come up yet.
    #[must_use]
    pub fn is_on_trial(&self) -> bool {
        self.on_trial().ok().flatten().is_some()
    }

    /// Whether a version was put in place and has come up since.
    pub fn has_come_up(&self) -> Result<bool, InstallError> {
        let journal = self.swap().journal()?;
        Ok(journal.is_some_and(|journal| journal.done && !journal.trial.is_pending()))
    }

    /// A program of the version in place starts. If it was started too often without coming up, the
    /// version before is put back: its version.
    pub fn starts(&self) -> Result<Option<String>, InstallError> {
        self.happens(Event::Starts)
    }

    /// All of it has come up: it stays.
    pub fn came_up(&self) -> Result<(), InstallError> {
        self.happens(Event::CameUp).map(|_| ())
    }

    /// It was ended before it came up, and is not to blame: this start does not count.
    pub fn left(&self) -> Result<(), InstallError> {
        self.happens(Event::Left).map(|_| ())
    }

    /// The version in place cannot do what it is there for: the one before is put back, if it is on
    /// trial still; its version.
    pub fn gives_up(&self) -> Result<Option<String>, InstallError> {
        self.happens(Event::GaveUp)
    }

    /// Puts the version before back because the one in place did not come up, as whoever watches
    /// from outside has seen; its version.
    pub fn take_back(&self) -> Result<String, InstallError> {
        let _alone = self.alone()?;
        match self.swap().journal()?.filter(|journal| journal.done) {
            Some(journal) => self.bring_before(journal),
            None => Err(InstallError::NothingBefore),
        }
    }

    /// The last version that was put back because it did not come up.
    #[must_use]
    pub fn taken_back(&self) -> Option<String> {
        self.read_taken_back().map(|it| it.version)
    }

    /// The same, once: whoever gets it tells a person.
    #[must_use]
    pub fn tell_taken_back(&self) -> Option<String> {
        let found = self.read_taken_back().filter(|it| !it.told)?;
        let path = self.folder.join(TAKEN_BACK);
        let told = TakenBack { told: true, ..found };
        // Told again at the next start rather than never.
        drop(seen::write(&path, &told).inspect_err(|error| {
            tracing::warn!(%error, "what was told of an update is not remembered");
        }));
        Some(told.version)
    }

    fn happens(&self, event: Event) -> Result<Option<String>, InstallError> {
        // Nearly always there is none, and then nothing is locked or written.
        if self.on_trial()?.is_none() {
            return Ok(None);
        }
        let _alone = self.alone()?;
        let Some(journal) = self.on_trial()? else { return Ok(None) };
        match journal.trial.after(event) {
            Some(trial) => self.swap().keep_trial(journal, trial)?,
            None => return self.bring_before(journal).map(Some),
        }
        Ok(None)
    }

    fn on_trial(&self) -> Result<Option<Journal>, InstallError> {
        let journal = self.swap().journal()?;
        Ok(journal.filter(|journal| journal.done && journal.trial.is_pending()))
    }

    /// Swaps back, and notes which version it was that did not come up.
    fn bring_before(&self, journal: Journal) -> Result<String, InstallError> {
        let path = self.folder.join(TAKEN_BACK);
        let taken_back = TakenBack { version: journal.to, told: false };
        let from = self.bring_back()?.ok_or(InstallError::NothingBefore)?;
        seen::write(&path, &taken_back).map_err(failed(&path))?;
        Ok(from)
    }

    fn read_taken_back(&self) -> Option<TakenBack> {
        let bytes = std::fs::read(self.folder.join(TAKEN_BACK)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}
