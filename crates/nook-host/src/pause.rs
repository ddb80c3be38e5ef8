//! Whether sharing pauses: what is known of the machine, and what follows from it.
//!
//! The rule is in [`policy`]. While sharing pauses nothing is lent: no advert, no calls, and memory
//! is given back. Only the owner's choice stays on.

pub(crate) mod policy;

use std::time::{Duration, Instant};

use nook_machine::Conditions;
use nook_store::PauseSettings;

use self::policy::PausePolicy;
use nook_api::views::PauseReason;

/// Between two looks at the machine.
const MACHINE_LOOK: Duration = Duration::from_secs(2);

/// The pause as it stands.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    policy: PausePolicy,
    looked_at: Option<Instant>,
    is_looking: bool,
    conditions: Option<Conditions>,
    reason: Option<PauseReason>,
}

impl Pause {
    /// Why nothing is lent though it is switched on.
    pub(crate) fn reason(&self) -> Option<PauseReason> {
        self.reason
    }

    /// Works out anew whether to pause; whether that changed. `unix_seconds` is the wall clock.
    pub(crate) fn weigh(&mut self, now: Instant, unix_seconds: u64, wish: &PauseSettings) -> bool {
        let reason = self.policy.weigh(now, unix_seconds, self.conditions.as_ref(), wish);
        let changed = reason != self.reason;
        if changed {
            match reason {
                Some(reason) => tracing::info!(?reason, "sharing is paused"),
                None => tracing::info!("sharing is not paused any more"),
            }
        }
        self.reason = reason;
        changed
    }

    /// What the machine did when it was looked at last, unless that is long ago.
    pub(crate) fn conditions(&self, now: Instant) -> Option<Conditions> {
        let is_fresh = |at: Instant| now.saturating_duration_since(at) < 5 * MACHINE_LOOK;
        self.conditions.filter(|_| self.looked_at.is_some_and(is_fresh))
    }

    /// Whether it is time for a look; from here on the machine is looked at.
    pub(crate) fn begin_look(&mut self, now: Instant) -> bool {
        let early = self.looked_at.is_some_and(|at| now.duration_since(at) < MACHINE_LOOK);
        if early || self.is_looking {
            return false;
        }
        self.looked_at = Some(now);
        self.is_looking = true;
        true
    }

    /// The look is over; one that failed has seen nothing.
    pub(crate) fn looked(&mut self, conditions: Option<Conditions>) {
        self.is_looking = false;
        if conditions.is_some() {
            self.conditions = conditions;
        }
    }

    /// The machine is not looked at any more: what it did counts no longer, and the next look is
    /// due at once.
    pub(crate) fn looks_no_more(&mut self) {
        self.policy.forget_machine();
        (self.conditions, self.looked_at) = (None, None);
    }

    /// The machine is about to sleep: nothing is lent from now on.
    pub(crate) fn sleep_is_near(&mut self) {
        self.policy.sleep_is_near();
    }

    /// It is awake, and that counts at once.
    pub(crate) fn sleep_is_over(&mut self) {
        self.policy.sleep_is_over();
    }
}
