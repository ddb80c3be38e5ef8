//! What kind of computer a device is. It is for people, who know their computers by it: nothing is
//! decided by it.

use serde::{Deserialize, Serialize};

/// The kind of a computer, by its case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FormFactor {
    /// One that is carried, with a screen and a battery.
    Laptop,
    /// One that stands on a desk: flat, or all in one with its screen.
    Desktop,
    /// One in an upright case, as most computers for games are.
    Tower,
    /// One of the size of a book or smaller, such as a Raspberry Pi.
    Mini,
    /// One without a place for a person: in a rack, or in a cupboard.
    Server,
}
