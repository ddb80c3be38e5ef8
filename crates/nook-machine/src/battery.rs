//! Whether a battery is being drained.
//!
//! Draining counts, not the plug: a weak charger that cannot hold a computing machine empties the
//! battery as well.

use starship_battery::{Manager, State};

#[derive(Debug, Default)]
pub(crate) struct Battery {
    manager: Option<Manager>,
}

impl Battery {
    /// `None` where no battery tells how it is.
    pub(crate) fn is_drained(&mut self) -> Option<bool> {
        if self.manager.is_none() {
            self.manager = Manager::new().inspect_err(unknown).ok();
        }
        let batteries = self.manager.as_ref()?.batteries().inspect_err(unknown).ok()?;
        let mut known = None;
        for battery in batteries {
            let Ok(battery) = battery.inspect_err(unknown) else { continue };
            let drained = match battery.state() {
                State::Discharging | State::Empty => true,
                // Paused: on mains, and held at a level that spares the battery.
                State::Charging | State::Full | State::Paused => false,
                State::Unknown => continue,
            };
            known = Some(known.unwrap_or(false) || drained);
        }
        known
    }
}

fn unknown(error: &starship_battery::Error) {
    tracing::debug!(%error, "a battery does not say how it is");
}
