//! Other devices, as front ends show them.

use serde::{Deserialize, Serialize};

use super::{ByCableView, FactsView, LentDayView, Trust};

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
    /// Which way the link goes; absent while there is none.
    #[serde(default)]
    pub way: Option<WayView>,
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
    /// With `left_out`: why the last reply did without it.
    #[serde(default)]
    pub left_out: Option<WhyLeftOut>,
    /// Whether whole requests of this device may go to it now; it then sees what is said.
    #[serde(default)]
    pub takes_whole: bool,
    /// What the owners of the two devices compare: the same digits, in groups, on both screens. Absent for
    /// a device that is not paired.
    #[serde(default)]
    pub safety_number: Option<String>,
    /// Whether the owner has yet to answer *May these two computers help each other?*
    #[serde(default)]
    pub asks_help: bool,
    /// Whether this computer helps it and does not ask it for help.
    #[serde(default)]
    pub only_helped: bool,
    /// What its owner allows, as it says; absent until it has said so.
    #[serde(default)]
    pub their_terms: Option<TheirTerms>,
    /// With `fetching`: how much of the layers has come, 0 to 100.
    #[serde(default)]
    pub fetched_percent: Option<u8>,
    /// Whether it can be woken from here when it sleeps: its owner lets this computer do that.
    #[serde(default)]
    pub wakeable: bool,
    /// Whether it is being woken now.
    #[serde(default)]
    pub waking: bool,
    /// How many seconds it took to be there when it was woken last.
    #[serde(default)]
    pub woke_seconds: Option<u32>,
    /// What it is and how it is, as it says; empty where it says nothing, as one that is not linked.
    #[serde(default)]
    pub facts: FactsView,
    /// What it computed for this device in the last seven days, by this device's own count, oldest
    /// first; days without anything are left out.
    #[serde(default)]
    pub helped_days: Vec<LentDayView>,
}
}

view! {
/// Which way a link goes.
struct WayView {
    /// What carries it on this side.
    pub interface: InterfaceKind,
    /// Where it leads.
    pub address: String,
    /// What large transfers reach in one direction; absent while it was not measured.
    pub bytes_per_second: Option<u64>,
    /// What a cable would have gained for the last reply, where that is much.
    #[serde(default)]
    pub by_cable: Option<ByCableView>,
}
}

view! {
/// What carries a network interface.
#[derive(Copy, Eq)]
enum InterfaceKind {
    /// A network cable.
    Cable,
    /// Wi-Fi.
    Wifi,
    /// Something else: a VPN, a modem, a bridge to virtual machines.
    Other,
    /// The system does not say.
    Unknown,
}
}

view! {
/// What the owner of a device allows, as the device says. For people: it opens nothing.
#[derive(Copy, Eq)]
struct TheirTerms {
    /// Whether they have answered how far the two may help each other.
    pub answered: bool,
    /// Whether this computer may use what is shared there.
    pub helps: bool,
    /// Whether it would use what this computer shares.
    pub asks: bool,
}
}

view! {
/// An answer to *May these two computers help each other?*
#[derive(Copy, Eq)]
enum Help {
    /// Both compute for each other, as far as this side has a say.
    EachOther,
    /// Only this computer helps; it keeps its own questions from the other.
    OnlyThis,
    /// Nothing yet.
    Nothing,
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
    /// The owner has yet to say whether the two may help each other.
    Unanswered,
    /// The owner has not allowed it to compute.
    NotAllowed,
    /// The owner wants this computer to help it, and not the other way round.
    OnlyHelped,
    /// Its owner has yet to say whether the two may help each other.
    UnansweredThere,
    /// Its owner does not let this computer use it.
    NotAllowedThere,
    /// Sharing is switched off there.
    SharingOff,
    /// Sharing pauses there.
    SharingPaused,
    /// It does not share with this device, and has not said why.
    NotSharing,
    /// It holds none of the models that this device uses.
    NoModel,
    /// It has no layers of a model that this device uses yet, and would fetch some.
    LacksLayers,
    /// It is fetching layers that this device asked it to hold.
    Fetching,
    /// Its disk has no room for the layers.
    DiskFull,
    /// Its owner lets it fetch no layers, or no more.
    FetchLimit,
    /// It could not get the layers.
    FetchFailed,
    /// What it got of the model was not the model, or it cannot use it.
    BadModel,
    /// All its streams are taken.
    Busy,
    /// The last reply did without it.
    LeftOut,
}
}

view! {
/// Why a reply did without a device. Times are in milliseconds and of the whole reply.
#[derive(Copy)]
#[serde(tag = "kind")]
enum WhyLeftOut {
    /// Not connected.
    Absent,
    /// Its owner does not share it now.
    NotSharing,
    /// Its owner, or this one, does not allow it at this trust level.
    NotAllowed,
    /// It is pausing or leaving.
    Leaving,
    /// It holds another file under this model's name, or none.
    OtherFile,
    /// It has no layer of this model yet, and would fetch some.
    LacksLayers,
    /// It refused this very thing, and nothing has changed since.
    Refused,
    /// It failed lately and is left alone for a while.
    FailedLately,
    /// It computes the model otherwise than this device.
    ComputesWrongly,
    /// It offers no layer of this model.
    NothingToCompute,
    /// One layer, with this conversation, does not fit.
    Full {
        /// Bytes that it needs.
        needs_bytes: u64,
        /// Bytes that are free there.
        free_bytes: u64,
    },
    /// All its streams are taken.
    StreamsTaken,
    /// Its layers cannot be joined with those of the others.
    DoesNotFitIn,
    /// It is too slow.
    TooSlow {
        /// How much longer the reply would take.
        slower_ms: f64,
    },
    /// The way to it costs more than its computing saves.
    HopCostsMoreThanItSaves {
        /// What the way costs.
        hop_ms: f64,
        /// What its computing saves.
        saves_ms: f64,
    },
    /// Loading its layers takes longer than they save.
    LoadingTakesTooLong {
        /// How long loading takes.
        load_ms: f64,
        /// What they would save.
        saves_ms: f64,
    },
    /// It was never measured, and what is known suffices.
    UnknownSpeed,
    /// It would save, but too little.
    GainIsTooSmall {
        /// How much.
        saves_ms: f64,
    },
    /// The devices in use do it faster.
    OthersAreBetter,
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
    /// First and last of those that are in its memory now, inclusive; absent when none is.
    #[serde(default)]
    pub held: Option<[u32; 2]>,
}
}
