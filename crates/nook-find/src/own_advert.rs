//! What became of this device's own advert: heard by itself, swallowed by the network, or also said
//! by somebody else.

use std::time::{Duration, Instant};

/// How long this device's own advert may stay unheard before multicast counts as blocked.
const UNHEARD_LIMIT: Duration = Duration::from_secs(10);

/// How long somebody who says this device's tag counts, when nothing more is heard of them. A copy
/// that goes on running is heard again at each renewal of the subscription, three times in this time.
const TWIN_SILENCE: Duration = Duration::from_secs(120);

/// What is known.
#[derive(Debug, Default)]
pub(crate) struct OwnAdvert {
    sent: Option<Instant>,
    heard: bool,
    twin: Option<Instant>,
}

/// What that means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing can be said yet.
    Unknown,
    /// It came back.
    Heard,
    /// It should have come back by now.
    Unheard,
    /// Somebody else says it too.
    Twin,
}

impl OwnAdvert {
    /// It went out.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.sent.get_or_insert(now);
    }

    /// It is not said any more.
    pub(crate) fn withdrawn(&mut self) {
        (self.sent, self.heard) = (None, false);
    }

    /// It came with an address of this machine.
    pub(crate) fn heard(&mut self) {
        self.heard = true;
    }

    /// It came with addresses of another machine.
    pub(crate) fn heard_of_another(&mut self, now: Instant) {
        self.twin = Some(now);
    }

    pub(crate) fn standing(&self, now: Instant) -> Standing {
        let within = |since: Instant, limit: Duration| now.saturating_duration_since(since) < limit;
        match (self.twin, self.sent) {
            (Some(twin), _) if within(twin, TWIN_SILENCE) => Standing::Twin,
            _ if self.heard => Standing::Heard,
            (_, Some(sent)) if !within(sent, UNHEARD_LIMIT) => Standing::Unheard,
            _ => Standing::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use nook_base::clock;

    use super::*;

    #[test]
    fn an_advert_that_does_not_come_back_is_unheard_after_a_while() {
        let (mut own, now) = (OwnAdvert::default(), clock::now());
        assert_eq!(own.standing(now), Standing::Unknown);
        own.sent(now);
        own.sent(now + UNHEARD_LIMIT / 2);
        assert_eq!(own.standing(now), Standing::Unknown);
        assert_eq!(own.standing(now + UNHEARD_LIMIT), Standing::Unheard, "since the first one");
        own.heard();
        assert_eq!(own.standing(now + UNHEARD_LIMIT), Standing::Heard);
        own.withdrawn();
        assert_eq!(own.standing(now + UNHEARD_LIMIT), Standing::Unknown);
    }

    #[test]
    fn d8_a_tag_that_was_forged_once_is_forgotten_and_a_copy_that_stays_is_not() {
        let (mut own, now) = (OwnAdvert::default(), clock::now());
        own.sent(now);
        own.heard();
        own.heard_of_another(now);
        assert_eq!(own.standing(now + TWIN_SILENCE / 2), Standing::Twin);
        assert_eq!(own.standing(now + TWIN_SILENCE), Standing::Heard, "nothing more was heard");
        for seconds in (0..600).step_by(40) {
            let at = now + Duration::from_secs(seconds);
            own.heard_of_another(at);
            assert_eq!(own.standing(at + Duration::from_secs(39)), Standing::Twin);
        }
    }
}
