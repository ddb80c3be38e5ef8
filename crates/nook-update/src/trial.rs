//! Whether a version that was put in place just now may stay: a state machine, kept in the journal
//! of the swap.
//!
//! A version is on trial from the moment that its files are in place until a program of it has come
//! up. Each start is counted before anything that can fail, so a version that crashes again and
//! again is taken back by its own next start, also where nobody watches from outside, after a power
//! cut for instance.

use serde::{Deserialize, Serialize};

/// Starts that a version gets.
const STARTS_MAX: u8 = 3;

/// How far a version is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Trial {
    /// It has come up once; what it does later is no matter of the update. Also what a journal says
    /// that knows no trials.
    #[default]
    Passed,
    /// It has not come up yet.
    Pending {
        /// Times that a program of it was started.
        starts: u8,
    },
}

/// What happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Its files are in place.
    InPlace,
    /// A program of it starts.
    Starts,
    /// All of that program has come up.
    CameUp,
    /// It was ended before, by somebody who wished that: this start says nothing.
    Left,
    /// It cannot do what it is there for.
    GaveUp,
}

impl Trial {
    /// After `event`; absent where the version before has to come back.
    pub(crate) fn after(self, event: Event) -> Option<Self> {
        match (self, event) {
            (_, Event::InPlace) => Some(Self::Pending { starts: 0 }),
            (Self::Passed, _) | (_, Event::CameUp) => Some(Self::Passed),
            (Self::Pending { starts }, Event::Starts) => {
                (starts < STARTS_MAX).then(|| Self::Pending { starts: starts + 1 })
            }
            (Self::Pending { starts }, Event::Left) => {
                Some(Self::Pending { starts: starts.saturating_sub(1) })
            }
            (Self::Pending { .. }, Event::GaveUp) => None,
        }
    }

    /// Whether it has still to show that it comes up.
    pub(crate) fn is_pending(self) -> bool {
        self != Self::Passed
    }
}

#[cfg(test)]
mod tests {
    use super::Event::{CameUp, GaveUp, InPlace, Left, Starts};
    use super::*;

    fn after(events: &[Event]) -> Option<Trial> {
        let fresh = Trial::Pending { starts: 0 };
        events.iter().try_fold(fresh, |trial, event| trial.after(*event))
    }

    #[test]
    fn a_version_that_never_comes_up_is_taken_back_at_the_start_after_the_third() {
        assert_eq!(after(&[Starts, Starts, Starts]), Some(Trial::Pending { starts: 3 }));
        assert_eq!(after(&[Starts, Starts, Starts, Starts]), None);
        assert_eq!(after(&[Starts, GaveUp]), None, "at once where it knows itself");
    }

    #[test]
    fn what_somebody_ended_says_nothing_and_what_came_up_once_stays() {
        let ended = [Starts, Left, Starts, Left, Starts, Left, Starts, Left, Starts];
        assert_eq!(after(&ended), Some(Trial::Pending { starts: 1 }));
        let later = [Starts, CameUp, Starts, Starts, Starts, Starts, GaveUp];
        assert_eq!(after(&later), Some(Trial::Passed));
        assert_eq!(after(&[Starts, CameUp, InPlace]), Some(Trial::Pending { starts: 0 }));
        assert_eq!(Trial::default().after(Starts), Some(Trial::Passed));
    }
}
