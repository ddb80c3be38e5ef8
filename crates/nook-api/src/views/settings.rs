//! What the owner has chosen, as doors show it and change it.

use serde::{Deserialize, Serialize};

use super::{PoolingView, Trust};

view! {
/// What the owner has chosen, as far as the window shows it. The file may hold more.
struct SettingsView {
    /// Least trust of a device that may use what is shared here.
    pub lend: Trust,
    /// Least trust of a device that may compute on prompts of this one.
    pub borrow: Trust,
    /// Least trust of a device that may copy models from this one, and that this one copies from.
    pub copy: Trust,
    /// Whether models are given to such devices.
    #[serde(default)]
    pub give_models: bool,
    /// Most memory that is lent, in bytes.
    pub lend_memory_bytes: u64,
    /// Most streams of other devices at once.
    pub lend_streams: u32,
    /// When other devices are used.
    pub pooling: PoolingView,
    /// Whether whole requests may be given to faster devices of the same person, which then see the
    /// words.
    #[serde(default)]
    pub whole_on_own_devices: bool,
    /// Layers at the front that never leave this device.
    pub local_prefix_layers: u32,
    /// Layers at the end that never leave this device.
    pub local_suffix_layers: u32,
    /// Of each thousand pieces of a prompt, how many are computed a second time elsewhere.
    pub spot_checks_per_thousand: u32,
    /// Whether nothing is lent while a battery is drained.
    pub pause_on_battery: bool,
    /// Whether nothing is lent while another program fills the screen.
    pub pause_in_full_screen: bool,
    /// Nothing is lent while other programs take more than this share of the processor; 0: never.
    pub pause_when_busy_percent: u32,
    /// Nothing is lent between these two times of every day, `22:00-07:00`; empty: never.
    pub quiet_hours: String,
    /// Whether the desktop may be asked to show a notice.
    #[serde(default)]
    pub notifications: bool,
    /// Whether the window is drawn without the graphics card, from the next start on.
    #[serde(default)]
    pub safe_graphics: bool,
    /// Whether other machines of the network may use the port, from the next start on.
    #[serde(default)]
    pub expose_to_lan: bool,
}
}

view! {
/// One setting and its new value.
#[serde(tag = "key", content = "value")]
enum SettingAsk {
    /// Least trust of a device that may use what is shared here.
    Lend(Trust),
    /// Least trust of a device that may compute on prompts of this one.
    Borrow(Trust),
    /// Least trust of a device that may copy models from this one, and that this one copies from.
    Copy(Trust),
    /// Whether models are given to such devices.
    GiveModels(bool),
    /// Most memory that is lent, in bytes; kept in whole megabytes.
    LendMemoryBytes(u64),
    /// Most streams of other devices at once.
    LendStreams(u32),
    /// When other devices are used.
    Pooling(PoolingView),
    /// Whether whole requests may be given to faster devices of the same person.
    WholeOnOwnDevices(bool),
    /// Layers at the front that never leave this device.
    LocalPrefixLayers(u32),
    /// Layers at the end that never leave this device.
    LocalSuffixLayers(u32),
    /// Of each thousand pieces of a prompt, how many are computed a second time elsewhere.
    SpotChecksPerThousand(u32),
    /// Whether nothing is lent while a battery is drained.
    PauseOnBattery(bool),
    /// Whether nothing is lent while another program fills the screen.
    PauseInFullScreen(bool),
    /// Above which share of the processor, in percent, other programs stop lending; 0: never.
    PauseWhenBusyPercent(u32),
    /// Between which times of every day nothing is lent, `22:00-07:00`; empty: never.
    QuietHours(String),
    /// Whether the desktop may be asked to show a notice.
    Notifications(bool),
    /// Whether the window is drawn without the graphics card, from the next start on.
    SafeGraphics(bool),
    /// Whether other machines of the network may use the port, from the next start on.
    ExposeToLan(bool),
    /// The language that the window speaks, as a code such as `de`.
    Language(String),
}
}
