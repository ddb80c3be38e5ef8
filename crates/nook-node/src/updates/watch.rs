//! When a node looks for a new version, and when it lets it be installed. A state machine: it knows
//! the time and the network only by what it is told.

use nook_store::NewVersions;
use semver::Version;

/// How often a node looks, in seconds.
pub(super) const LOOK_EVERY_SECONDS: u64 = 24 * 3600;

/// How long it waits after a look that failed, in seconds.
pub(super) const RETRY_AFTER_SECONDS: u64 = 3600;

/// How long nothing must have been under way before a computer updates by itself, in seconds: a
/// person who reads a long reply is not to see the program start anew.
pub(super) const QUIET_SECONDS: u64 = 600;

/// What happens to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// Some time has passed.
    Tick {
        /// What the owner wants now.
        choice: NewVersions,
        /// Whether a reply is under way here, or a stream of another device.
        is_busy: bool,
    },
    /// A person wants to know now, whatever is chosen.
    Asked,
    /// The look that was ordered brought this: the newer version, if there is one.
    Looked(Option<Version>),
    /// It brought nothing.
    LookFailed,
    /// Nobody was asked: a device of the house had a newer list, and this is what it brought.
    Heard(Option<Version>),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// Ask for the list of versions, and tell what came.
    Look,
    /// Install this version.
    Install(Version),
}

/// When it looked, and what it knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Watch {
    /// In seconds since 1970, as every time here.
    next_look: u64,
    is_looking: bool,
    newer: Option<Version>,
    /// What was installed or tried: once is enough, until there is another version.
    tried: Option<Version>,
    quiet_since: Option<u64>,
}

impl Watch {
    /// A watch that last looked at `looked`, in seconds since 1970; 0 for never. `tried`: a version
    /// that is not to be installed by itself.
    pub(super) fn new(looked: u64, tried: Option<Version>) -> Self {
        let next_look = if looked == 0 { 0 } else { looked.saturating_add(LOOK_EVERY_SECONDS) };
        Self { next_look, is_looking: false, newer: None, tried, quiet_since: None }
    }

    /// Whether a look is under way.
    pub(super) fn is_looking(&self) -> bool {
        self.is_looking
    }

    /// Takes in what happened at `now`, in seconds since 1970; what is to be done.
    pub(super) fn on(&mut self, event: Event, now: u64) -> Vec<Effect> {
        match event {
            Event::Tick { choice: NewVersions::Off, .. } => {
                self.quiet_since = None;
                Vec::new()
            }
            Event::Tick { choice, is_busy } => {
                self.tick(choice == NewVersions::Install, is_busy, now)
            }
            Event::Asked => self.look(),
            Event::Looked(newer) => {
                (self.is_looking, self.newer) = (false, newer);
                self.next_look = now.saturating_add(LOOK_EVERY_SECONDS);
                Vec::new()
            }
            Event::Heard(newer) => {
                self.newer = newer;
                self.next_look = now.saturating_add(LOOK_EVERY_SECONDS);
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
        // A clock that was set back does not put the next look off for longer than a day.
        self.next_look = self.next_look.min(now.saturating_add(LOOK_EVERY_SECONDS));
        let mut effects = if now >= self.next_look { self.look() } else { Vec::new() };
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

    /// One at a time.
    fn look(&mut self) -> Vec<Effect> {
        match std::mem::replace(&mut self.is_looking, true) {
            true => Vec::new(),
            false => vec![Effect::Look],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_790_000_000;

    fn tick(choice: NewVersions, is_busy: bool) -> Event {
        Event::Tick { choice, is_busy }
    }

    fn newer() -> Version {
        Version::new(9, 0, 0)
    }

    #[test]
    fn off_asks_nobody_and_tell_asks_once_a_day_and_installs_nothing() {
        let mut watch = Watch::new(0, None);
        for seconds in (0..10 * LOOK_EVERY_SECONDS).step_by(3600) {
            assert!(watch.on(tick(NewVersions::Off, false), NOW + seconds).is_empty());
        }
        let mut looks = 0;
        for seconds in (0..10 * LOOK_EVERY_SECONDS).step_by(30) {
            for effect in watch.on(tick(NewVersions::Tell, false), NOW + seconds) {
                assert_eq!(effect, Effect::Look);
                looks += 1;
                watch.on(Event::Looked(Some(newer())), NOW + seconds);
            }
        }
        assert_eq!(looks, 10);
    }

    #[test]
    fn a_person_who_asks_is_answered_whatever_is_chosen() {
        let mut watch = Watch::new(NOW, None);
        assert!(watch.on(tick(NewVersions::Off, false), NOW).is_empty());
        assert_eq!(watch.on(Event::Asked, NOW), [Effect::Look]);
        assert!(watch.is_looking());
        assert!(watch.on(Event::Asked, NOW).is_empty(), "one look at a time");
        watch.on(Event::LookFailed, NOW);
        assert!(!watch.is_looking());
        assert_eq!(watch.on(Event::Asked, NOW), [Effect::Look], "at once, if a person wants it");
    }

    #[test]
    fn install_waits_until_nothing_is_under_way_and_tries_each_version_once() {
        let mut watch = Watch::new(NOW, None);
        watch.on(Event::Looked(Some(newer())), NOW);
        let mut at = NOW;
        for _ in 0..100 {
            at += 1;
            let effects = watch.on(tick(NewVersions::Install, true), at);
            assert!(effects.is_empty(), "a reply is under way");
        }
        for _ in 0..QUIET_SECONDS {
            at += 1;
            let effects = watch.on(tick(NewVersions::Install, false), at);
            assert!(effects.is_empty(), "not quiet for long");
        }
        // A reply in between begins the wait anew.
        assert!(watch.on(tick(NewVersions::Install, true), at).is_empty());
        assert!(watch.on(tick(NewVersions::Install, false), at + 1).is_empty());
        at += 1 + QUIET_SECONDS;
        assert_eq!(watch.on(tick(NewVersions::Install, false), at), [Effect::Install(newer())]);
        // Whatever came of it: not again and again.
        assert!(watch.on(tick(NewVersions::Install, false), at + 1000).is_empty());
        watch.on(Event::Looked(Some(Version::new(9, 0, 1))), at + 1000);
        let again = watch.on(tick(NewVersions::Install, false), at + 1001);
        assert_eq!(again, [Effect::Install(Version::new(9, 0, 1))]);
        // Nor after a restart, if it did not come up.
        let mut later = Watch::new(NOW, Some(newer()));
        later.on(Event::Looked(Some(newer())), NOW);
        for at in [NOW, NOW + QUIET_SECONDS, NOW + 2 * QUIET_SECONDS] {
            assert!(later.on(tick(NewVersions::Install, false), at).is_empty());
        }
    }

    #[test]
    fn what_a_device_of_the_house_brings_counts_as_a_look_and_ends_none() {
        let mut watch = Watch::new(0, None);
        assert_eq!(watch.on(tick(NewVersions::Install, false), NOW), [Effect::Look]);
        assert!(watch.on(Event::Heard(Some(newer())), NOW).is_empty());
        assert!(watch.is_looking(), "the server may still answer");
        watch.on(Event::LookFailed, NOW);
        watch.on(Event::Heard(Some(newer())), NOW);
        let later = NOW + QUIET_SECONDS;
        assert_eq!(watch.on(tick(NewVersions::Install, false), later), [Effect::Install(newer())]);
        let day_later = NOW + LOOK_EVERY_SECONDS;
        assert!(watch.on(tick(NewVersions::Tell, false), day_later - 1).is_empty());
        assert_eq!(watch.on(tick(NewVersions::Tell, false), day_later), [Effect::Look]);
    }

    #[test]
    fn a_look_that_failed_is_tried_again_later_and_a_clock_set_back_stops_nothing() {
        let mut watch = Watch::new(0, None);
        assert_eq!(watch.on(tick(NewVersions::Tell, false), NOW), [Effect::Look]);
        assert!(watch.on(tick(NewVersions::Tell, false), NOW + 1).is_empty(), "one at a time");
        watch.on(Event::LookFailed, NOW + 2);
        assert!(watch.on(tick(NewVersions::Tell, false), NOW + RETRY_AFTER_SECONDS).is_empty());
        assert_eq!(
            watch.on(tick(NewVersions::Tell, false), NOW + 2 + RETRY_AFTER_SECONDS),
            [Effect::Look]
        );
        watch.on(Event::Looked(None), NOW + 4000);
        let back = NOW - 1_000_000;
        assert!(watch.on(tick(NewVersions::Tell, false), back).is_empty());
        let day_later = back + LOOK_EVERY_SECONDS;
        assert_eq!(watch.on(tick(NewVersions::Tell, false), day_later), [Effect::Look]);
        // Asked for at a later start: a day after the last look, not at each start.
        let mut later = Watch::new(NOW, None);
        assert!(later.on(tick(NewVersions::Tell, false), NOW + 10).is_empty());
    }
}
