//! What people know a device by, and how it is: its kind, its hardware, mains or battery.
//!
//! It is for people, and since protocol [`FACTS_SINCE`]. Whom a device tells how much of itself is
//! decided where it is sent; what is not told is empty.

use nook_base::FormFactor;
use serde::{Deserialize, Serialize};

use crate::bounded;

/// The first protocol version in which [`DeviceFacts`] are said; a device that speaks an older one
/// is not told.
pub const FACTS_SINCE: u16 = 2;

/// Longest name of a part of the hardware, in bytes. Cut by the sender, refused by the receiver. It
/// is untrusted text; whoever shows it cleans it.
pub const HARDWARE_BYTES_MAX: usize = 96;

/// Said when a link stands, and when something of it changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// What kind of computer it is.
    pub form: Option<FormFactor>,
    /// Name of its processor; empty where it is not told.
    #[serde(
        serialize_with = "bounded::write_text::<HARDWARE_BYTES_MAX, _>",
        deserialize_with = "bounded::read_text::<HARDWARE_BYTES_MAX, _>"
    )]
    pub processor: String,
    /// Name of its GPU; empty where there is none or it is not told.
    #[serde(
        serialize_with = "bounded::write_text::<HARDWARE_BYTES_MAX, _>",
        deserialize_with = "bounded::read_text::<HARDWARE_BYTES_MAX, _>"
    )]
    pub gpu: String,
    /// All of its memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// What it runs on.
    pub power: Option<PowerNow>,
    /// Of its processor, in degrees Celsius.
    pub temperature: Option<u8>,
    /// Bytes of weights that its processor goes through in a second while it makes a reply, as it has
    /// measured itself.
    pub weights_per_second: Option<u64>,
}

/// What a device runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PowerNow {
    /// On mains; it has no battery.
    Mains,
    /// On mains; how full its battery is, in percent.
    Charging(u8),
    /// On its battery; how full that is, in percent.
    Battery(u8),
}
