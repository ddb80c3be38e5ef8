//! What follows while a node starts anew as another version: a state machine, which knows the time
//! and the node only by what it is told.
//!
//! First the old version answers and waits for what is under way; then nobody answers; then the new
//! one does, and says whether all of it has come up. Whatever does not come is put back.

use std::time::{Duration, Instant};

use nook_api::RestartWaits;
use nook_update::SwapStage;

/// Longest wait for a node whose process is there: a slow computer that has just started takes its
/// time.
pub(super) const START_LIMIT: Duration = Duration::from_secs(300);

/// Longest wait for whoever looks after the node (systemd waits ten seconds) to start it again once
/// its process has gone.
pub(super) const KEEPER_LIMIT: Duration = Duration::from_secs(15);

/// Longest wait for a node that has nothing under way and does not leave: it looks several times a
/// second whether it can.
const QUIET_LIMIT: Duration = Duration::from_secs(120);

/// How a wait goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Look again in a moment.
    Wait,
    /// The same, after the node was told again that it is to start anew.
    Order,
    /// The new version runs, all of it.
    Done,
    /// The old version runs, and the new one is not in place any more.
    TakenBack,
    /// The new version does not run.
    Failed(Fault),
}

/// Why a version did not come up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its process has gone.
    Ended,
    /// Its process is there, and no node of it answers.
    Hangs,
    /// Its node answers, and the rest of the program does not come.
    Half,
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// A node of another version than the new one; how far the swap is.
    Old(SwapStage),
    /// The new version; whether all of it has come up.
    New {
        /// As the program says.
        has_come_up: bool,
    },
    /// Nobody.
    Nobody {
        /// Whether the process is there that had the data folder last.
        is_alive: bool,
    },
}

/// How long each stage has lasted.
#[derive(Debug)]
pub(super) struct Watch {
    patience: Duration,
    silent: Option<Instant>,
    /// Since when there is no process either.
    gone: Option<Instant>,
    /// Since when a part of the new version runs.
    half: Option<Instant>,
}

impl Watch {
    /// Nothing was seen yet. `patience`: the longest wait for a process that is there.
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, silent: None, gone: None, half: None }
    }

    /// What follows from what is seen at `now`.
    pub(super) fn on(&mut self, seen: Seen, now: Instant) -> Step {
        let lasts =
            |since: &mut Option<Instant>| now.saturating_duration_since(*since.get_or_insert(now));
        match seen {
            Seen::New { has_come_up: true } => Step::Done,
            Seen::New { has_come_up: false } => {
                (self.silent, self.gone) = (None, None);
                match lasts(&mut self.half) > self.patience {
                    true => Step::Failed(Fault::Half),
                    false => Step::Wait,
                }
            }
            // It took the swap back by itself, and goes on.
            Seen::Old(SwapStage::Nothing) => Step::TakenBack,
            Seen::Old(SwapStage::Prepared | SwapStage::Done) => {
                (self.silent, self.gone) = (None, None);
                Step::Order
            }
            Seen::Nobody { is_alive } => {
                let silence = lasts(&mut self.silent);
                if is_alive {
                    self.gone = None;
                    return match silence > self.patience {
                        true => Step::Failed(Fault::Hangs),
                        false => Step::Wait,
                    };
                }
                match lasts(&mut self.gone) > KEEPER_LIMIT {
                    true => Step::Failed(Fault::Ended),
                    false => Step::Wait,
                }
            }
        }
    }
}

/// How long the replies that are under way are waited for, and what was said of them.
#[derive(Debug)]
pub(super) struct Patience {
    since: Instant,
    limit: Duration,
    said: Option<String>,
    /// Since when nothing is under way.
    quiet: Option<Instant>,
}

/// What is done about a node that has something under way.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// It is waited for; what is new about that.
    GoOn(Option<String>),
    /// It was waited for long enough: for this.
    Enough(String),
    /// It has nothing under way, and stays all the same.
    Stays,
}

impl Patience {
    /// From `since` on, for `limit`.
    pub(super) fn new(since: Instant, limit: Duration) -> Self {
        Self { since, limit, said: None, quiet: None }
    }

    /// The node waits for this at `now`. A node with nothing under way is about to leave.
    pub(super) fn on(&mut self, waits: &RestartWaits, now: Instant) -> Waiting {
        let Some(what) = in_words(waits) else {
            self.said = None;
            let since = *self.quiet.get_or_insert(now);
            return match now.saturating_duration_since(since) >= QUIET_LIMIT {
                true => Waiting::Stays,
                false => Waiting::GoOn(None),
            };
        };
        self.quiet = None;
        if now.saturating_duration_since(self.since) >= self.limit {
            return Waiting::Enough(what);
        }
        let is_new = self.said.as_ref() != Some(&what);
        Waiting::GoOn(is_new.then(|| self.said.insert(what).clone()))
    }
}

/// What is waited for; absent where it is nothing.
fn in_words(waits: &RestartWaits) -> Option<String> {
    let own = match waits.replies {
        0 => None,
        1 => Some("1 reply on this computer".to_owned()),
        replies => Some(format!("{replies} replies on this computer")),
    };
    let of_others = match waits.streams {
        0 => None,
        1 => Some("1 reply of another computer".to_owned()),
        streams => Some(format!("{streams} replies of other computers")),
    };
    match (own, of_others) {
        (Some(own), Some(of_others)) => Some(format!("{own} and {of_others}")),
        (own, of_others) => own.or(of_others),
    }
}

#[cfg(test)]
mod tests {
    use nook_base::clock;

    use super::*;

    const ALIVE: Seen = Seen::Nobody { is_alive: true };
    const GONE: Seen = Seen::Nobody { is_alive: false };
    const HALF: Seen = Seen::New { has_come_up: false };

    fn at(start: Instant) -> impl Fn(u64) -> Instant {
        move |seconds| start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_slow_start_is_waited_for_and_a_process_that_has_gone_is_not() {
        let at = at(clock::now());
        let mut slow = Watch::new(START_LIMIT);
        assert!((0..=300).all(|second| slow.on(ALIVE, at(second)) == Step::Wait));
        assert_eq!(slow.on(ALIVE, at(301)), Step::Failed(Fault::Hangs));
        let mut gone = Watch::new(START_LIMIT);
        assert!((0..=15).all(|second| gone.on(GONE, at(second)) == Step::Wait));
        assert_eq!(gone.on(GONE, at(16)), Step::Failed(Fault::Ended));
        // Started again by whoever looks after it, and ended again, more than once.
        let mut again = Watch::new(START_LIMIT);
        for round in 0..14 {
            assert_eq!(again.on(GONE, at(20 * round)), Step::Wait);
            assert_eq!(again.on(ALIVE, at(20 * round + 10)), Step::Wait);
        }
        assert_eq!(again.on(ALIVE, at(301)), Step::Failed(Fault::Hangs));
    }

    #[test]
    fn a_version_of_which_only_the_node_comes_is_no_better_than_none() {
        let at = at(clock::now());
        let mut half = Watch::new(START_LIMIT);
        assert_eq!(half.on(Seen::Old(SwapStage::Prepared), at(0)), Step::Order);
        assert_eq!(half.on(ALIVE, at(1)), Step::Wait);
        assert!((2..=302).all(|second| half.on(HALF, at(second)) == Step::Wait));
        assert_eq!(half.on(HALF, at(303)), Step::Failed(Fault::Half));
        let mut whole = Watch::new(START_LIMIT);
        assert_eq!(whole.on(HALF, at(0)), Step::Wait);
        assert_eq!(whole.on(Seen::New { has_come_up: true }, at(1)), Step::Done);
        let mut back = Watch::new(START_LIMIT);
        assert_eq!(back.on(HALF, at(0)), Step::Wait);
        assert_eq!(back.on(Seen::Old(SwapStage::Nothing), at(1)), Step::TakenBack);
    }

    fn waits(replies: usize, streams: u16) -> RestartWaits {
        RestartWaits { replies, streams }
    }

    #[test]
    fn what_is_waited_for_is_said_when_it_changes_and_not_for_ever() {
        let at = at(clock::now());
        let mut patience = Patience::new(at(0), Duration::from_secs(60));
        let said = |text: &str| Waiting::GoOn(Some(text.to_owned()));
        assert_eq!(patience.on(&waits(1, 0), at(0)), said("1 reply on this computer"));
        assert_eq!(patience.on(&waits(1, 0), at(1)), Waiting::GoOn(None));
        let both = "2 replies on this computer and 1 reply of another computer";
        assert_eq!(patience.on(&waits(2, 1), at(2)), said(both));
        assert_eq!(patience.on(&waits(0, 3), at(3)), said("3 replies of other computers"));
        assert_eq!(patience.on(&waits(0, 0), at(4)), Waiting::GoOn(None));
        assert_eq!(patience.on(&waits(0, 3), at(5)), said("3 replies of other computers"));
        let enough = Waiting::Enough("1 reply on this computer".to_owned());
        assert_eq!(patience.on(&waits(1, 0), at(60)), enough);
        // It leaves: that is not cut off.
        assert_eq!(patience.on(&waits(0, 0), at(61)), Waiting::GoOn(None));
    }

    #[test]
    fn a_node_that_has_nothing_to_do_and_stays_is_not_waited_for_without_end() {
        let at = at(clock::now());
        let mut patience = Patience::new(at(0), Duration::from_secs(3_600));
        assert_eq!(patience.on(&waits(0, 0), at(0)), Waiting::GoOn(None));
        assert_eq!(patience.on(&waits(0, 0), at(119)), Waiting::GoOn(None));
        assert_eq!(patience.on(&waits(0, 0), at(120)), Waiting::Stays);
        // Somebody asked meanwhile.
        assert_eq!(
            patience.on(&waits(1, 0), at(121)),
            Waiting::GoOn(Some("1 reply on this computer".to_owned()))
        );
        assert_eq!(patience.on(&waits(0, 0), at(122)), Waiting::GoOn(None));
    }
}
