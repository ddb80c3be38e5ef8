//! The batteries of this computer: whether one is being drained, and how full they are.
//!
//! Draining counts, not the plug: a weak charger that cannot hold a computing machine empties the
//! battery as well.

use starship_battery::units::energy::watt_hour;
use starship_battery::{Manager, State};

/// What a computer runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// On mains, and it has no battery that tells how full it is.
    Mains,
    /// It has a battery.
    Battery {
        /// How full its batteries are together, 0 to 100.
        percent: u8,
        /// Whether one of them is being drained; else it runs on mains.
        is_drained: bool,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Battery {
    manager: Option<Manager>,
}

/// One battery as it is now.
#[derive(Debug, Clone, Copy)]
struct Cell {
    /// `None`: it does not say.
    is_drained: Option<bool>,
    /// Watt hours in it, and when it is full.
    energy: (f32, f32),
}

impl Battery {
    /// `None` where no battery tells how it is.
    pub(crate) fn is_drained(&mut self) -> Option<bool> {
        any_is_drained(&self.cells()?)
    }

    /// `None` where the system does not say.
    pub(crate) fn power(&mut self) -> Option<Power> {
        power_of(&self.cells()?)
    }

    fn cells(&mut self) -> Option<Vec<Cell>> {
        if self.manager.is_none() {
            self.manager = Manager::new().inspect_err(unknown).ok();
        }
        let batteries = self.manager.as_ref()?.batteries().inspect_err(unknown).ok()?;
        let cell = |battery: starship_battery::Battery| Cell {
            is_drained: match battery.state() {
                State::Discharging | State::Empty => Some(true),
                // Paused: on mains, and held at a level that spares the battery.
                State::Charging | State::Full | State::Paused => Some(false),
                State::Unknown => None,
            },
            energy: (battery.energy().get::<watt_hour>(), battery.energy_full().get::<watt_hour>()),
        };
        Some(batteries.filter_map(|battery| battery.inspect_err(unknown).ok()).map(cell).collect())
    }
}

fn any_is_drained(cells: &[Cell]) -> Option<bool> {
    cells.iter().filter_map(|cell| cell.is_drained).reduce(|one, other| one || other)
}

fn power_of(cells: &[Cell]) -> Option<Power> {
    if cells.is_empty() {
        return Some(Power::Mains);
    }
    let sum = |part: fn(&Cell) -> f32| cells.iter().map(part).sum::<f32>();
    let (now, full) = (sum(|cell| cell.energy.0), sum(|cell| cell.energy.1));
    let share = now / full;
    if !share.is_finite() {
        return None;
    }
    // In range, so that nothing is cut.
    let percent = (share * 100.0).round().clamp(0.0, 100.0) as u8;
    Some(Power::Battery { percent, is_drained: any_is_drained(cells)? })
}

fn unknown(error: &starship_battery::Error) {
    tracing::debug!(%error, "a battery does not say how it is");
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Cell = Cell { is_drained: Some(false), energy: (50.0, 50.0) };

    #[test]
    fn batteries_count_together_and_one_that_is_drained_counts_for_all() {
        let low = Cell { is_drained: Some(true), energy: (11.0, 25.0) };
        let both = Power::Battery { percent: 81, is_drained: true };
        assert_eq!(power_of(&[FULL, low]), Some(both));
        assert_eq!(any_is_drained(&[FULL, low]), Some(true));
        let full = Power::Battery { percent: 100, is_drained: false };
        assert_eq!(power_of(&[FULL]), Some(full));
        // Worn: it says that it holds more than when it is full.
        assert_eq!(power_of(&[Cell { energy: (52.0, 50.0), ..FULL }]), Some(full));
    }

    #[test]
    fn without_a_battery_it_is_on_mains_and_one_that_says_nothing_is_no_guess() {
        assert_eq!(power_of(&[]), Some(Power::Mains));
        assert_eq!(any_is_drained(&[]), None);
        let silent = Cell { is_drained: None, energy: (20.0, 50.0) };
        assert_eq!(power_of(&[silent]), None);
        assert_eq!(power_of(&[Cell { energy: (0.0, 0.0), ..FULL }]), None);
        // Beside one that speaks.
        let percent = 70;
        assert_eq!(power_of(&[FULL, silent]), Some(Power::Battery { percent, is_drained: false }));
    }
}
