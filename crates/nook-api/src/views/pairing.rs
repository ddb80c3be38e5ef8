//! Pairing by a code that is shown here.

use serde::{Deserialize, Serialize};

view! {
/// The device that typed the code that was shown here.
#[derive(Eq)]
struct PairedByCodeView {
    /// Its id.
    pub device: String,
    /// How often a device paired so since the node started.
    pub times: u32,
}
}

view! {
/// An open pairing window.
struct PairingView {
    /// Six digits to type on the other device.
    pub code: String,
    /// Addresses to type where multicast does not work, `host:port`.
    pub addresses: Vec<String>,
    /// Seconds since 1970 when it closes.
    pub expires: u64,
    /// Wrong codes that may still be typed.
    pub tries_left: u8,
}
}
