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
        /// What the owner chose, as the setting `distributed_inference.backend` names it.
        backend: String,
        /// Where workers compute now, in the same words; none where no model is loaded.
        now: Vec<String>,
    },
    /// A graphics card, and whether it is used.
    Gpu {
        /// Its number: `gpu:0`.
        number: u32,
        /// Its name.
        name: String,
        /// How it is reached: `vulkan`, `dx12` or `metal`.
        api: String,
        /// Name and version of its driver.
        driver: String,
        /// Bytes of its own memory, where the system tells.
        memory_bytes: Option<u64>,
        /// Why it is used, or why not.
        used: GpuUseView,
        /// What lies there now, if anything does.
        holds: Option<GpuHoldsView>,
    },
    /// Graphics cards are there, and their drivers offer no way to compute on them.
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

view! {
/// What of the models that are loaded lies on a graphics card.
#[derive(Copy, Eq)]
struct GpuHoldsView {
    /// Layers there.
    pub layers: u32,
    /// Layers that are loaded of those models; the processor computes the others.
    pub of_layers: u32,
    /// Bytes of its memory that are taken.
    pub bytes: u64,
    /// Those of them that other devices take; this computer's own replies have the rest.
    #[serde(default)]
    pub lent_bytes: u64,
}
}

view! {
/// A graphics card that may compute, and for whom something lies there now.
#[derive(Eq)]
struct GpuView {
    /// Its number: `gpu:0`.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Bytes of its own memory, where the system tells.
    pub memory_bytes: Option<u64>,
    /// Whether it computes from the memory of the computer, having none of its own.
    pub shares_memory: bool,
    /// Bytes for this computer's own replies, in whole MiB.
    pub own_bytes: u64,
    /// Bytes for other devices, in whole MiB.
    pub lent_bytes: u64,
}
}

view! {
/// Why a graphics card is used, or why not.
#[serde(tag = "kind")]
enum GpuUseView {
    /// The owner chose it.
    Chosen,
    /// The owner chose something else.
    NotChosen,
    /// The processor, by a driver that plays graphics card: only if it is named.
    Software,
    /// It is measured when this computer has nothing else to do.
    Unmeasured,
    /// It was measured, as the processor was, with the same model; in tokens of a usual reply in a
    /// second.
    Measured {
        /// Whether it computes that model.
        is_used: bool,
        /// The processor.
        cpu: f64,
        /// This card.
        gpu: f64,
    },
    /// This computer runs on its battery, of which the card would take much.
    OnBattery,
    /// Another program uses it.
    UsedByOthers,
    /// It failed, and is asked again.
    Resting {
        /// In so many minutes.
        minutes: u32,
        /// What happened.
        reason: String,
    },
    /// It cannot compute the model that was tried last.
    Unfit {
        /// Why.
        reason: String,
    },
}
}
