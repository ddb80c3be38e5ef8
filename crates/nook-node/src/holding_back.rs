//! Holding lending back: looking at the machine while that matters, and the owner's own pause.
//!
//! The rule is in `pausing`; here it meets the machine, the settings and what is lent. Lending that is
//! held back is off for everybody else: no advert, no calls, memory given back. Only the owner's choice
//! stays on.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nook_base::clock;
use nook_machine::{Conditions, Machine};
use tokio::sync::watch;

use crate::house::{HouseError, PauseFor, Sharing};
use crate::pausing::Pausing;
use crate::preferences::not_changed;
use crate::state::{Inside, State};
use crate::status_line::pause_words;
use crate::views::{PauseReason, PauseView};
use crate::waking::Looks;

/// Between two looks at the machine.
const MACHINE_LOOK: Duration = Duration::from_secs(2);

/// How long nothing is lent after memory was wanted at once: else the next reply of somebody else
/// takes it again.
const FREED_SECONDS: u64 = 15 * 60;

const HOUR_SECONDS: u64 = 3600;

const UNTIL_KEY: &str = "distributed_inference.host.pause.until";

/// What is known of the machine, and what follows from it.
#[derive(Debug)]
pub(crate) struct HoldingBack {
    /// Absent while it looks, in a thread of its own.
    machine: Option<Box<Machine>>,
    looked_at: Option<Instant>,
    conditions: Option<Conditions>,
    pub(crate) pausing: Pausing,
    pub(crate) looks: Looks,
    /// What the owner chose, for whoever waits for a sleep.
    pub(crate) chosen: watch::Sender<Sharing>,
    /// Why nothing is lent though it is switched on.
    pub(crate) reason: Option<PauseReason>,
}

impl Default for HoldingBack {
    fn default() -> Self {
        Self {
            machine: Some(Box::default()),
            looked_at: None,
            conditions: None,
            pausing: Pausing::default(),
            looks: Looks::default(),
            chosen: watch::Sender::default(),
            reason: None,
        }
    }
}

impl State {
    /// Looks at the machine when it is time and something hangs on it, and weighs what is known.
    pub(crate) fn hold_back_or_not(&mut self) {
        self.look_at_machine(clock::now());
        if self.weigh() {
            self.apply_sharing();
        }
    }

    /// The machine was looked at; a look that panicked has seen nothing.
    pub(crate) fn on_looked(&mut self, machine: Box<Machine>, conditions: Option<Conditions>) {
        self.holding_back.machine = Some(machine);
        if conditions.is_some() {
            self.holding_back.conditions = conditions;
        }
        if self.weigh() {
            self.apply_sharing();
        }
    }

    /// Works out anew why to hold back; says whether that changed.
    pub(crate) fn weigh(&mut self) -> bool {
        let wish = self.settings.settings().host.pause;
        let back = &mut self.holding_back;
        let conditions = back.conditions.as_ref();
        let reason = back.pausing.weigh(clock::now(), clock::unix_seconds(), conditions, &wish);
        let changed = reason != back.reason;
        if changed {
            match reason {
                Some(reason) => tracing::info!(?reason, "sharing is paused"),
                None => tracing::info!("sharing is not paused any more"),
            }
        }
        back.reason = reason;
        changed
    }

    /// What the machine did when it was looked at last, unless that is long ago.
    pub(crate) fn conditions(&self) -> Option<Conditions> {
        let is_fresh = |at: Instant| clock::now().saturating_duration_since(at) < 5 * MACHINE_LOOK;
        self.holding_back.conditions.filter(|_| self.holding_back.looked_at.is_some_and(is_fresh))
    }

    fn look_at_machine(&mut self, now: Instant) {
        let pause = &self.settings.settings().host.pause;
        let matters = self.lending.sharing == Sharing::On
            && (pause.on_battery
                || pause.in_full_screen
                || pause.when_busy_percent.is_some()
                || pause.quiet_hours.is_some()
                || self.is_unmeasured());
        let back = &mut self.holding_back;
        let early = back.looked_at.is_some_and(|at| now.duration_since(at) < MACHINE_LOOK);
        if !matters || early {
            return;
        }
        let Some(machine) = back.machine.take() else { return };
        back.looked_at = Some(now);
        let inside = self.inside.clone();
        self.tasks.spawn_until_cancelled("machine", async move {
            let (machine, conditions) = looked(machine, Machine::look).await;
            let _ = inside.send(Inside::Looked(machine, conditions)).await;
        });
    }

    /// Nothing is lent for a while, because the owner says so; kept over a restart.
    pub(crate) fn pause_sharing(&mut self, span: PauseFor) -> Result<(), HouseError> {
        let until = match span {
            PauseFor::Hour => clock::unix_seconds().saturating_add(HOUR_SECONDS),
            PauseFor::UntilTomorrow => nook_machine::next_morning(),
        };
        self.pause_until(until)
    }

    /// Ends the owner's own pause; other reasons stay.
    pub(crate) fn resume_sharing(&mut self) -> Result<(), HouseError> {
        self.pause_until(0)
    }

    /// Gives back all memory that no reply of this device needs, at once, and lends nothing for a
    /// quarter of an hour.
    pub(crate) fn free_memory(&mut self) -> Result<(), HouseError> {
        let all: BTreeSet<_> =
            self.catalogue.iter().map(crate::resources::catalogue::Entry::digest).collect();
        let lends = self.lending.terms.is_some();
        if self.lending.sharing == Sharing::On {
            let until = clock::unix_seconds().saturating_add(FREED_SECONDS);
            let asked = self.settings.settings().host.pause.until;
            self.pause_until(until.max(asked))?;
        }
        if lends {
            // Freed when the steps of guests that run now are done, which `drain` says.
            self.lending.owed.extend(all);
        } else {
            self.free(all);
        }
        Ok(())
    }

    fn pause_until(&mut self, until: u64) -> Result<(), HouseError> {
        let until = i64::try_from(until).unwrap_or(i64::MAX);
        self.settings.change(&[(UNTIL_KEY, until.into())]).map_err(|error| not_changed(&error))?;
        if self.weigh() {
            self.apply_sharing();
        }
        Ok(())
    }

    /// Why nothing is lent though it is switched on, for people.
    pub(crate) fn pause_view(&self) -> Option<PauseView> {
        if self.lending.sharing == Sharing::Off {
            return None;
        }
        let reason = self.holding_back.reason?;
        let until = self.settings.settings().host.pause.until;
        let until = (reason == PauseReason::Owner).then_some(until);
        Some(PauseView { reason, sentence: pause_words(reason, until), until })
    }
}

/// One look, in a thread of its own. One that panics has seen nothing, and costs the machine what it
/// kept for the next one: that begins anew.
async fn looked(
    mut machine: Box<Machine>,
    look: impl FnOnce(&mut Machine) -> Conditions + Send + 'static,
) -> (Box<Machine>, Option<Conditions>) {
    let looked = tokio::task::spawn_blocking(move || {
        let conditions = look(&mut machine);
        (machine, conditions)
    });
    match looked.await {
        Ok((machine, conditions)) => (machine, Some(conditions)),
        Err(error) => {
            tracing::error!(%error, "a look at the machine failed; it is looked at again");
            (Box::default(), None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn after_a_look_that_panics_there_is_a_machine_to_look_at_again() {
        let (machine, seen) = looked(Box::default(), |_| panic!("on purpose")).await;
        assert_eq!(seen, None);
        let (_, seen) = looked(machine, Machine::look).await;
        assert!(seen.is_some());
    }
}
