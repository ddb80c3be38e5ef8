//! What the user wants this device to be like.
//!
//! Each setting is declared once, in `declared`; `declare` makes the typed structs and the table
//! [`SETTINGS`] from that. `settings.toml` is read into [`Settings`], where every value is within
//! its
//! range. [`SettingsFile`] reads, changes and saves; the file holds only what differs from the
//! defaults, and what a person wrote into it (comments, order, keys of a later version) survives
//! every save. `renamed` reads keys of earlier versions.

mod choose;
mod declare;
mod declared;
mod documents;
mod edit;
mod file;
mod host_names;
mod kinds;
mod memory;
mod model_names;
mod pausing;
mod renamed;
mod setting;
mod value;

use nook_base::ActivationDtype;
use nook_trust::GatePolicy;

use declare::{Found, Section};
pub use declared::{
    ChatSettings, DeviceSettings, HostSettings, InferenceSettings, ModelsSettings, NetworkSettings,
    PauseSettings, PortSettings, SETTINGS, UpdateSettings, WindowSettings,
};
pub use documents::{document, template, typescript};
pub use file::{GlanceError, SettingsError, SettingsFile};
pub use host_names::HostNames;
pub use memory::usual_shard_bytes;
pub use model_names::ModelNames;
pub use pausing::{NoQuietHours, QuietHours};
pub use setting::{Acts, Setting, Side, Takes};
pub use value::SettingValue;

/// What this machine will do. Every field is within its range.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `[device]`
    pub device: DeviceSettings,
    /// `[port]`
    pub port: PortSettings,
    /// `[gate]`: the least trust for each purpose.
    pub gate: GatePolicy,
    /// `[network]`
    pub network: NetworkSettings,
    /// `[models]`
    pub models: ModelsSettings,
    /// `[chat]`
    pub chat: ChatSettings,
    /// `[window]`
    pub window: WindowSettings,
    /// `[updates]`
    pub updates: UpdateSettings,
    /// `[distributed_inference]`
    pub inference: InferenceSettings,
    /// `[distributed_inference.host]`
    pub host: HostSettings,
}

/// The code of a language: two or three letters, as ISO 639 has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Language(String);

/// An amount of memory in units of a million bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Megabytes(pub u64);

/// In which format activations travel between devices.
///
/// What each costs, over the built-in model, seven small trained ones and one of random weights,
/// cut in
/// four (`cargo xtask bench pipeline --only fidelity`; the figures are those of 2026-11-21).
/// *Apart*: root
/// mean square of the logits' differences from f32, as a part of the logits' own spread.
///
/// | format | bytes of 32 numbers | apart | same likeliest token | same 72 greedy tokens |
/// | --- | --- | --- | --- | --- |
/// | f32 | 128 | 0 | 100 % | 100 % |
/// | f16 | 64 | 0.0002 to 0.0004 | 99.9 to 100 % | 100 % |
/// | q8 | 34 | 0.005 to 0.009 | 98.7 to 100 % | 38 to 75 % |
///
/// So f16, the default, is as good as exact, and q8 is not: the reply is a good one, but often
/// another
/// one. No large model was measured. Whatever is chosen, numbers too large for it are noticed where
/// they
/// are made, and the reply goes on in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivationChoice {
    /// f16, and q8 for a reply that is predicted to become much shorter by it (`auto`); see
    /// `nook_plan::NARROW_GAIN_MIN_PERCENT`. `nook doctor pipeline` tells which was chosen and why.
    ByLink,
    /// Always this one (`fp16`, `fp32`, `q8`).
    Always(ActivationDtype),
}

/// When the layers of other devices are used for replies of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// When the reply is predicted to be faster with them, or this device cannot make it alone. A
    /// device whose speed nobody has measured is used in the second case only.
    WhenFaster,
    /// Whenever they offer all the layers between the two ends of this device, however slow: for
    /// demonstration households and for people who try things out.
    Always,
}

/// Keys that bring the window up for a question, whichever program is in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskKeys {
    /// None.
    Off,
    /// Ctrl, Alt and the space bar.
    CtrlAltSpace,
    /// Ctrl, Shift and the space bar.
    CtrlShiftSpace,
    /// Ctrl, Alt and I.
    CtrlAltI,
}

/// What happens with new versions of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewVersions {
    /// Nobody is asked.
    Off,
    /// A new version is shown, and nothing is done.
    Tell,
    /// It is installed once nothing is under way.
    Install,
}

/// How layers are divided among the devices that are asked to hold some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitChoice {
    /// As predicted to be best; with [`Pooling::Always`] in proportion to speed.
    Planned,
    /// In equal parts: for comparison.
    Uniform,
    /// In proportion to speed, as far as memory allows, and no device left out.
    Weighted,
}

/// A value that its key does not take, before it is known where in the file it stands.
#[derive(Debug)]
struct OutOfRange {
    key: &'static str,
    value: String,
    expected: String,
}

/// The setting with this key.
#[must_use]
pub fn setting(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

impl Default for Settings {
    fn default() -> Self {
        Self::read(&Found::NOTHING).expect("defaults are typed values, and a test checks them")
    }
}

impl Settings {
    fn read(found: &Found<'_>) -> Result<Self, OutOfRange> {
        let settings = Self {
            device: Section::read(found)?,
            port: Section::read(found)?,
            gate: Section::read(found)?,
            network: Section::read(found)?,
            models: Section::read(found)?,
            chat: Section::read(found)?,
            window: Section::read(found)?,
            updates: Section::read(found)?,
            inference: Section::read(found)?,
            host: Section::read(found)?,
        };
        settings.port.check()?;
        Ok(settings)
    }

    /// Every key with its value, in the order of the file; [`SettingValue::Unset`] for what is
    /// absent.
    #[must_use]
    pub fn values(&self) -> Vec<(&'static str, SettingValue)> {
        let Self { device, port, gate, network, models, chat, window, updates, inference, host } =
            self;
        let mut values = Vec::with_capacity(SETTINGS.len());
        device.write(&mut values);
        port.write(&mut values);
        gate.write(&mut values);
        network.write(&mut values);
        models.write(&mut values);
        chat.write(&mut values);
        window.write(&mut values);
        updates.write(&mut values);
        inference.write(&mut values);
        host.write(&mut values);
        values
    }

    /// The value of one key; [`SettingValue::Unset`] where it is absent, or no such setting exists.
    #[must_use]
    pub fn value(&self, key: &str) -> SettingValue {
        let found = self.values().into_iter().find(|(known, _)| *known == key);
        found.map_or(SettingValue::Unset, |(_, value)| value)
    }
}

impl PortSettings {
    /// An address that others reach takes a second word of the owner.
    fn check(&self) -> Result<(), OutOfRange> {
        if self.address.ip().is_loopback() || self.expose_to_lan {
            return Ok(());
        }
        Err(OutOfRange {
            key: "port.address",
            value: self.address.to_string(),
            expected:
                "a loopback address, or `expose_to_lan = true` beside it: then every program \
                       in your network that has the key can use this computer"
                    .to_owned(),
        })
    }
}

impl Language {
    fn of(text: &str) -> Option<Self> {
        let code = text.trim();
        let is_code =
            (2..=3).contains(&code.len()) && code.bytes().all(|it| it.is_ascii_lowercase());
        is_code.then(|| Self(code.to_owned()))
    }
}

impl AsRef<str> for Language {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<Language> for String {
    fn from(language: Language) -> Self {
        language.0
    }
}

impl Megabytes {
    /// The same in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0.saturating_mul(1_000_000)
    }
}
