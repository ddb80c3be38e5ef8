//! What the owner of a device allows between it and the one that it tells.
//!
//! It is for people: the other side shows it beside the device, so that its owner knows what is
//! still missing and on which of the two computers. It raises no trust and opens nothing: what a
//! device may do, only the gate of the device that does it decides.

use nook_base::WakeAddress;
use serde::{Deserialize, Serialize};

use crate::bounded;

/// Most addresses at which a device says it can be woken; the sender leaves out the rest, the
/// receiver refuses more.
pub const WAKE_ADDRESSES_MAX: usize = 4;

/// What the sender allows and does now. Said when a link stands, and when it changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelpTerms {
    /// Whether its owner has answered how far the two may help each other.
    pub answered: bool,
    /// Whether the receiver may use what is shared there.
    pub helps: bool,
    /// Whether it would use what the receiver shares.
    pub asks: bool,
    /// Whether it shares at all.
    pub sharing: SharingNow,
    /// Where the receiver may wake it while it sleeps: none, unless its owner lets it.
    #[serde(
        serialize_with = "bounded::write_list::<WAKE_ADDRESSES_MAX, _, _>",
        deserialize_with = "bounded::read_list::<WAKE_ADDRESSES_MAX, _, _>"
    )]
    pub wake: Vec<WakeAddress>,
}

/// Whether a device shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SharingNow {
    /// Its owner has not switched it on.
    Off,
    /// It is switched on and waits: a battery, a game, a pause of its owner.
    Paused,
    /// It is on.
    On,
}
