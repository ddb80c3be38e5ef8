//! What people know a device by, and how it is.

use serde::{Deserialize, Serialize};

view! {
/// What kind of computer a device is.
#[derive(Copy, Eq)]
enum DeviceKind {
    /// One that is carried.
    Laptop,
    /// One that stands on a desk: flat, or all in one with its screen.
    Desktop,
    /// One in an upright case, as most computers for games are.
    Tower,
    /// One of the size of a book or smaller.
    Mini,
    /// One without a place for a person.
    Server,
}
}

view! {
/// What a device is and how it is, as far as it tells; what it does not tell is absent.
#[derive(Eq, Default)]
struct FactsView {
    /// What kind of computer it is.
    pub kind: Option<DeviceKind>,
    /// Its processor, cleaned and short: `AMD Ryzen 7 5800X`.
    pub processor: Option<String>,
    /// The graphics card that would compute, the same way.
    pub gpu: Option<String>,
    /// All of its memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// What it runs on.
    pub power: Option<PowerView>,
    /// How warm its processor is, in degrees Celsius.
    pub temperature: Option<u8>,
}
}

view! {
/// What a device runs on.
#[derive(Copy, Eq)]
#[serde(tag = "kind")]
enum PowerView {
    /// On mains; it has no battery.
    Mains,
    /// On mains.
    Charging {
        /// How full its battery is, 0 to 100.
        percent: u8,
    },
    /// On its battery.
    Battery {
        /// How full that is, 0 to 100.
        percent: u8,
    },
}
}
