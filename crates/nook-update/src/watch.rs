//! When a node looks for a new version, and when it lets it be installed. A state machine: it knows
//! the time and the network only by what it is told.

use semver::Version;

use crate::limits::{CHECK_EVERY_SECONDS, QUIET_SECONDS, RETRY_AFTER_SECONDS};

/// What the owner wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Nobody is asked.
    Off,
    /// A new version is shown, and nothing is done.
    Tell,
    /// It is installed once nothing is under way here.
    Install,
}

/// What happens to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Some time has passed.
    Tick {
        /// What the owner wants now.
        choice: Choice,
        /// Whether a reply is under way here, or a stream of another device.
        is_busy: bool,
    },
    /// The look that was ordered brought this: the newer version, if there is one.
    Looked(Option<Version>),
    /// It brought nothing.
    LookFailed,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Ask for the list of versions, and tell what came.
    Look,
    /// Install this version.
    Install(Version),
}

/// When it looked, and what it knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    next_look: u64,
    is_looking: bool,
    newer: Option<Version>,
    /// What was installed or tried: once is enough, until there is another version.
    tried: Option<Version>,
    quiet_since: Option<u64>,
}

impl Watch {
    /// A watch that last looked at `checked`, in seconds since 1970; 0 for never.
    #[must_use]
    pub fn new(checked: u64) -> Self {
        let next_look = if checked == 0 { 0 } else { checked.saturating_add(CHECK_EVERY_SECONDS) };
        Self { next_look, is_looking: false, newer: None, tried: None, quiet_since: None }
    }

    /// The newer version that is known of.
    #[must_use]
    pub fn newer(&self) -> Option<&Version> {
        self.newer.as_ref()
    }

    /// Takes in what happened at `now`, in seconds since 1970; what is to be done.
    pub fn on(&mut self, event: Event, now: u64) -> Vec<Effect> {
        match event {
            Event::Tick { choice: Choice::Off, .. } => {
                // Who switches it off does not want to be told either.
                (self.newer, self.quiet_since) = (None, None);
                Vec::new()
            }
            Event::Tick { choice, is_busy } => self.tick(choice == Choice::Install, is_busy, now),
            Event::Looked(newer) => {
                (self.is_looking, self.newer) = (false, newer);
                self.next_look = now.saturating_add(CHECK_EVERY_SECONDS);
                Vec::new()
            }
            Event::LookFailed => {
                self.is_looking = false;
                self.next_look = now.saturating_add(RETRY_AFTER_SECONDS);
                Vec::new()
            }
        }
    }

    fn tick(&mut self, may_install: bool, is_busy: bool, now: u64) -> Vec<Effect> {
        let mut effects = Vec::new();
        // A clock that was set back does not put the next look off for longer than a day.
        self.next_look = self.next_look.min(now.saturating_add(CHECK_EVERY_SECONDS));
        if !self.is_looking && now >= self.next_look {
            self.is_looking = true;
            effects.push(Effect::Look);
        }
        self.quiet_since = match self.quiet_since {
            _ if is_busy => None,
            Some(since) => Some(since.min(now)),
            None => Some(now),
        };
        let is_quiet = self.quiet_since.is_some_and(|since| now - since >= QUIET_SECONDS);
        if may_install && is_quiet && !self.is_looking && self.tried != self.newer {
            self.tried.clone_from(&self.newer);
            effects.extend(self.newer.clone().map(Effect::Install));
        }
        effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_790_000_000;

    fn tick(choice: Choice, is_busy: bool) -> Event {
        Event::Tick { choice, is_busy }
    }

    fn newer() -> Version {
        Version::new(9, 0, 0)
    }

    #[test]
    fn off_asks_nobody_and_tell_asks_once_a_day_and_installs_nothing() {
        let mut watch = Watch::new(0);
        for seconds in (0..10 * CHECK_EVERY_SECONDS).step_by(3600) {
            assert!(watch.on(tick(Choice::Off, false), NOW + seconds).is_empty());
        }
        let mut looks = 0;
        for seconds in (0..10 * CHECK_EVERY_SECONDS).step_by(30) {
            for effect in watch.on(tick(Choice::Tell, false), NOW + seconds) {
                assert_eq!(effect, Effect::Look);
                looks += 1;
                watch.on(Event::Looked(Some(newer())), NOW + seconds);
            }
        }
        assert_eq!(looks, 10);
        assert_eq!(watch.newer(), Some(&newer()));
        watch.on(tick(Choice::Off, false), NOW);
        assert_eq!(watch.newer(), None);
    }

    #[test]
    fn install_waits_until_nothing_is_under_way_and_tries_each_version_once() {
        let mut watch = Watch::new(NOW);
        watch.on(Event::Looked(Some(newer())), NOW);
        let mut at = NOW;
        for _ in 0..100 {
            at += 1;
            assert!(watch.on(tick(Choice::Install, true), at).is_empty(), "a reply is under way");
        }
        for _ in 0..QUIET_SECONDS {
            at += 1;
            assert!(watch.on(tick(Choice::Install, false), at).is_empty(), "not quiet for long");
        }
        // A reply in between begins the wait anew.
        assert!(watch.on(tick(Choice::Install, true), at).is_empty());
        assert!(watch.on(tick(Choice::Install, false), at + 1).is_empty());
        at += 1 + QUIET_SECONDS;
        assert_eq!(watch.on(tick(Choice::Install, false), at), [Effect::Install(newer())]);
        // Whatever came of it: not again and again.
        assert!(watch.on(tick(Choice::Install, false), at + 1000).is_empty());
        watch.on(Event::Looked(Some(Version::new(9, 0, 1))), at + 1000);
        let again = watch.on(tick(Choice::Install, false), at + 1001);
        assert_eq!(again, [Effect::Install(Version::new(9, 0, 1))]);
    }

    #[test]
    fn a_look_that_failed_is_tried_again_later_and_a_clock_set_back_stops_nothing() {
        let mut watch = Watch::new(0);
        assert_eq!(watch.on(tick(Choice::Tell, false), NOW), [Effect::Look]);
        assert!(watch.on(tick(Choice::Tell, false), NOW + 1).is_empty(), "one at a time");
        watch.on(Event::LookFailed, NOW + 2);
        assert!(watch.on(tick(Choice::Tell, false), NOW + RETRY_AFTER_SECONDS).is_empty());
        assert_eq!(
            watch.on(tick(Choice::Tell, false), NOW + 2 + RETRY_AFTER_SECONDS),
            [Effect::Look]
        );
        watch.on(Event::Looked(None), NOW + 4000);
        let back = NOW - 1_000_000;
        assert!(watch.on(tick(Choice::Tell, false), back).is_empty());
        assert_eq!(watch.on(tick(Choice::Tell, false), back + CHECK_EVERY_SECONDS), [Effect::Look]);
        // Asked for at a later start: a day after the last look, not at each start.
        let mut later = Watch::new(NOW);
        assert!(later.on(tick(Choice::Tell, false), NOW + 10).is_empty());
    }
}
