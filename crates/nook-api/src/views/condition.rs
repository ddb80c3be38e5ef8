//! How the things stand that the doctor looks at, as facts with their values.

use serde::{Deserialize, Serialize};

use super::{KeyPlace, Trouble};

view! {
/// What was found of one thing, for doors that speak other languages than English.
#[serde(tag = "kind")]
enum Condition {
    /// Who this device is.
    Identity {
        /// Its name.
        name: String,
        /// First characters of its id.
        short_id: String,
        /// Where its secret key is.
        key: KeyPlace,
    },
    /// It listens for paired devices.
    Listening {
        /// On this port.
        port: u16,
        /// Devices that are connected.
        connected: u32,
    },
    /// It hears itself, so devices find each other.
    DiscoveryWorks {
        /// Devices that are seen.
        seen: u32,
    },
    /// It has not heard itself yet.
    DiscoveryUncertain,
    /// This machine cannot look for devices.
    DiscoveryAbsent,
    /// The port for other programs is open.
    PortOpen {
        /// Where.
        base_url: String,
    },
    /// It is not.
    PortClosed,
    /// A paired device does not answer.
    DeviceAway {
        /// Its name.
        device: String,
    },
    /// A paired device is connected.
    DeviceConnected {
        /// Its name.
        device: String,
        /// Round trip of a small message, in milliseconds; absent while it was not measured.
        round_trip_ms: Option<f64>,
        /// Whether it may compute for this device.
        may_compute: bool,
        /// Whether it may use what is shared here.
        may_use: bool,
    },
    /// It is connected over Wi-Fi, and a cable leads to it.
    CableUnused {
        /// Its name.
        device: String,
        /// Where the cable leads.
        address: String,
    },
    /// Models are here.
    Models {
        /// How many; 0 is a problem.
        count: u32,
    },
    /// Room on the disk of chats and models.
    DiskRoom {
        /// Bytes that are free.
        free_bytes: u64,
    },
    /// What computes the models.
    Computes {
        /// The graphics card that was chosen, as `INGLENOOK_DEVICE` names it; absent: the processor.
        card: Option<String>,
    },
    /// Graphics cards are there, and models are computed on the processor all the same.
    CardsUnused {
        /// What they are called.
        cards: Vec<String>,
    },
    /// Something is not well.
    Trouble {
        /// What.
        trouble: Trouble,
    },
}
}
