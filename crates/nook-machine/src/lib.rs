//! What this machine is doing, as far as it says whether its owner wants it for himself.
//!
//! [`Machine::look`] reads everything once, blocking for some milliseconds; `nook-node` calls it
//! every few seconds while something hangs on it and decides what follows. Nothing here waits,
//! remembers or decides, but for [`SleepWatch`], which waits until the machine is about to sleep,
//! and [`hold_off_rest`], which keeps it awake for as long as it is told to. What people know a
//! computer by, its kind and its processor, is [`hardware()`]; how it is, [`Sensors`].
//! What a system does not tell is `None`, never a guess; nor does a library that panics here tell
//! anything (`careful`).

mod awake;
mod battery;
mod card_load;
mod cards;
mod careful;
mod hardware;
mod hours;
mod load;
mod screen;
mod sensors;
mod sleep;

pub use awake::{Rest, hold_off_rest};
pub use battery::Power;
pub use cards::{Card, cards, look_for_cards};
pub use hardware::{Hardware, hardware};
pub use hours::{day_of_calendar, next_morning, seconds_to_clock};
pub use sensors::{Readings, Sensors};
pub use sleep::{Sleep, SleepLock, SleepWatch};

use careful::Careful;

/// What systems call whoever asks them for something.
#[cfg(any(windows, target_os = "macos", target_os = "linux"))]
const PROGRAM: &str = "Inglenook";

/// What was seen in one look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// Whether a battery is being drained; `None`: the machine has none, or does not say.
    pub on_battery: Option<bool>,
    /// The share of all processor time that programs other than this one and its workers took since
    /// the look before, 0 to 1; `None` at the first look.
    pub others_load: Option<f32>,
    /// The share of the busiest graphics card that other programs took since the look before, 0 to 1;
    /// `None` where nothing tells.
    pub others_card_load: Option<f32>,
    /// Whether the window in front fills the screen and is not one of ours; `None`: the desktop
    /// does not say.
    pub full_screen: Option<bool>,
    /// Minutes since midnight of the local clock, 0 to 1439.
    pub minute_of_day: u16,
}

/// The machine, with what is kept between two looks: connections, and counters to compare with.
#[derive(Debug, Default)]
pub struct Machine {
    battery: Careful<battery::Battery>,
    load: Careful<load::Load>,
    card: Careful<card_load::CardLoad>,
    screen: Careful<screen::Screen>,
}

impl Machine {
    /// Reads everything once. Blocks for some milliseconds: never on a thread that others wait for.
    pub fn look(&mut self) -> Conditions {
        let load = self.load.look("load", |load| Some((load.of_others(), load.own())));
        let (others_load, own) = load.unwrap_or_default();
        // While it is not known who we are, our own work on a card would count as others'.
        let of_others = |own| self.card.look("card", |card| card.of_others(&own));
        Conditions {
            on_battery: self.battery.look("battery", battery::Battery::is_drained),
            others_load,
            others_card_load: own.and_then(of_others),
            full_screen: self.screen.look("screen", screen::Screen::is_filled),
            minute_of_day: hours::minute_of_day(),
        }
    }
}
