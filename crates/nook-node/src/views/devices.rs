//! Other devices, as doors show them.

use serde::{Deserialize, Serialize};

use super::Trust;

view! {
/// Another device.
struct DeviceView {
    /// Full id; for a device that is only seen, the tag that it shows.
    pub id: String,
    /// A short form for lists.
    pub short_id: String,
    /// Its name, cleaned.
    pub name: String,
    /// Whether the two are paired.
    pub paired: bool,
    /// How far it is trusted.
    pub trust: Trust,
    /// Whether a link is up.
    pub connected: bool,
    /// Whether it offers a pairing code now.
    pub pairing: bool,
    /// Where it was last reached or seen, best first.
    pub addresses: Vec<String>,
    /// Round trip of the link in milliseconds, windowed minimum.
    pub rtt_ms: Option<f64>,
    /// What it offers to compute.
    pub lends: Vec<LendView>,
    /// Streams it still has free.
    pub streams_free: Option<u16>,
    /// Memory it still offers, in bytes.
    pub memory_free_bytes: Option<u64>,
    /// Seconds since 1970 when it was last heard; absent when never.
    pub last_seen: Option<u64>,
    /// Why it is not used, in plain English; absent when it is.
    pub unused_because: Option<String>,
    /// The same for doors that speak other languages.
    #[serde(default)]
    pub unused: Option<UnusedReason>,
    /// Whether whole requests of this device may go to it now; it then sees what is said.
    #[serde(default)]
    pub takes_whole: bool,
}
}

view! {
/// Why a device does not compute for this one.
#[derive(Copy, Eq)]
enum UnusedReason {
    /// It is not paired with this device.
    NotPaired,
    /// The owner has blocked it.
    Blocked,
    /// It does not answer.
    Away,
    /// The owner has not allowed it to compute.
    NotAllowed,
    /// It does not share with this device.
    NotSharing,
    /// It holds none of the models that are here.
    NoModel,
    /// All its streams are taken.
    Busy,
    /// The last reply did without it; the sentence says why.
    LeftOut,
}
}

view! {
/// Layers that a device offers.
struct LendView {
    /// The model's name here, or the short digest when it is not on this device.
    pub model: String,
    /// First layer.
    pub first_layer: u32,
    /// Last layer, inclusive.
    pub last_layer: u32,
}
}
