//! What the user wants this device to be like.
//!
//! `settings.toml` is read raw ([`RawSettings`]: what the file says) and resolved once into
//! [`Settings`] (what this machine will do), where every value is checked. [`SettingsFile`] reads,
//! changes and saves; the file holds only what differs from the defaults, and what a person wrote
//! into it (comments, order, keys of a later version) survives every save.

mod file;
mod memory;
mod pausing;
mod raw;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nook_base::{ActivationDtype, LayerRange};
use nook_trust::{DeviceName, GatePolicy, TrustLevel};

pub use file::{
    GlanceError, RESTART_KEYS, SETTINGS_KEYS, SettingValue, SettingsError, SettingsFile,
};
pub use memory::usual_shard_bytes;
pub use pausing::{NoQuietHours, PauseSettings, QuietHours};
use raw::RawSettings;

use crate::identity::KeyringChoice;

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
    /// `[distributed_inference]`
    pub inference: InferenceSettings,
    /// `[distributed_inference.host]`
    pub host: HostSettings,
}

/// This device itself.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSettings {
    /// The name that the user gave it.
    pub name: Option<DeviceName>,
    /// Whether the system's keyring may hold its key.
    pub keyring: KeyringChoice,
}

/// The OpenAI-compatible port.
#[derive(Debug, Clone, PartialEq)]
pub struct PortSettings {
    /// Whether it is open at all.
    pub enabled: bool,
    /// Where it listens; a loopback address unless the user said otherwise twice.
    pub address: SocketAddr,
    /// Whether it may listen where other machines of the network reach it.
    pub expose_to_lan: bool,
    /// Web origins that may use it, as a browser sends them.
    pub allowed_origins: Vec<String>,
}

/// Links to other devices.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkSettings {
    /// The main port; 0 takes any free one.
    pub listen_port: u16,
    /// Whether the whole household lives on this machine, so that loopback addresses count.
    pub loopback: bool,
    /// Whether models are given to devices that the gate lets copy.
    pub give_models: bool,
}

/// Model files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelsSettings {
    /// The folder that the owner has chosen for them; absent: the one in the data folder. A move of the
    /// models writes it last. What is written by hand counts from the next start and moves nothing.
    pub folder: Option<PathBuf>,
}

/// Kept conversations.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatSettings {
    /// How freely the model chooses its words, 0 to 2; 0 always takes the likeliest.
    pub temperature: f32,
}

/// The window and the tray; a node without them ignores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowSettings {
    /// The language that the window speaks, as a code such as `de`, so that the tray speaks it before
    /// there is a page; absent until a page has said it.
    pub language: Option<String>,
    /// Whether the desktop may be asked to show a notice.
    pub notifications: bool,
    /// Whether the window is drawn without the graphics card.
    pub safe_graphics: bool,
}

/// Running prompts over several devices.
#[derive(Debug, Clone, PartialEq)]
pub struct InferenceSettings {
    /// Off: everything between devices is inert.
    pub enabled: bool,
    /// When replies of this device use the others.
    pub pooling: Pooling,
    /// How layers are divided among the devices that are asked to hold some.
    pub split: SplitChoice,
    /// Whether a whole request, prompt and reply, may be given to another device of the same person that
    /// is faster. That device then sees the words; so this is off unless the owner switches it on, and
    /// only devices that both sides mark `own` come into question.
    pub whole_on_own_devices: bool,
    /// Most devices in one route.
    pub max_shards_per_request: u32,
    /// How long a shard may be silent; adverts live four times as long.
    pub shard_health_timeout: Duration,
    /// Whether this device takes over when helpers fail.
    pub fallback_to_local: bool,
    /// After how many failures in one reply this device is preferred.
    pub fallback_to_local_after_failures: u32,
    /// Of each thousand chunks of prefill, how many another device, or this one, computes a second
    /// time, to catch a device whose numbers are wrong and look right.
    pub spot_checks_per_thousand: u32,
    /// How activations travel.
    pub activation_dtype: ActivationChoice,
    /// Whether this device's own shards are used for its own prompts.
    pub allow_self_as_shard: bool,
    /// Prompts at once.
    pub max_concurrent_pipelines: u32,
    /// Layers at the front that never leave this device.
    pub local_prefix_layers: u32,
    /// Layers at the end that never leave this device.
    pub local_suffix_layers: u32,
}

/// In which format activations travel between devices.
///
/// What each costs, over the built-in model, seven small trained ones and one of random weights, cut in
/// four (`cargo xtask bench pipeline --only fidelity`; the figures are those of 2026-11-21). *Apart*: root
/// mean square of the logits' differences from f32, as a part of the logits' own spread.
///
/// | format | bytes of 32 numbers | apart | same likeliest token | same 72 greedy tokens |
/// | --- | --- | --- | --- | --- |
/// | f32 | 128 | 0 | 100 % | 100 % |
/// | f16 | 64 | 0.0002 to 0.0004 | 99.9 to 100 % | 100 % |
/// | q8 | 34 | 0.005 to 0.009 | 98.7 to 100 % | 38 to 75 % |
///
/// So f16, the default, is as good as exact, and q8 is not: the reply is a good one, but often another
/// one. No large model was measured. Whatever is chosen, numbers too large for it are noticed where they
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

/// Adverts come every 30 seconds; four times this is a little longer, so that none is forgotten between two.
const SILENCE_SECONDS_MIN: u32 = 8;

/// Hosting layers for others.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSettings {
    /// The switch "Share this computer".
    pub serve_shards: bool,
    /// A shard that nobody used for this long is unloaded.
    pub shard_eviction_idle: Duration,
    /// Most memory for shards, in bytes, as the owner chose it; absent: what
    /// [`HostSettings::shard_bytes`] makes of the machine.
    pub shard_max_bytes: Option<u64>,
    /// Streams at once; a further one is told `busy`.
    pub max_concurrent_streams: u32,
    /// Offer only these layers of any model; for demonstration households.
    pub layers: Option<LayerRange>,
    /// When lending is held back though it is switched on.
    pub pause: PauseSettings,
}

/// A value outside its range, before it is known where in the file it stands.
#[derive(Debug)]
struct OutOfRange {
    key: &'static str,
    value: String,
    expected: String,
}

impl Default for Settings {
    fn default() -> Self {
        RawSettings::default().resolve().expect("a test resolves the defaults")
    }
}

impl RawSettings {
    fn resolve(self) -> Result<Settings, OutOfRange> {
        let (inference, host) =
            (self.distributed_inference.clone(), self.distributed_inference.host);
        Ok(Settings {
            device: DeviceSettings {
                name: self.device.name.as_deref().map(DeviceName::sanitised),
                keyring: keyring("device.keyring", &self.device.keyring)?,
            },
            port: PortSettings {
                enabled: self.port.enabled,
                address: port_address(&self.port.address, self.port.expose_to_lan)?,
                expose_to_lan: self.port.expose_to_lan,
                allowed_origins: origins(self.port.allowed_origins)?,
            },
            gate: GatePolicy {
                lend: level("gate.lend", &self.gate.lend)?,
                borrow: level("gate.borrow", &self.gate.borrow)?,
                copy: level("gate.copy", &self.gate.copy)?,
                remote_whole: level("gate.remote_whole", &self.gate.remote_whole)?,
            },
            network: NetworkSettings {
                listen_port: listen_port("network.listen_port", self.network.listen_port)?,
                loopback: self.network.loopback,
                give_models: self.network.give_models,
            },
            models: ModelsSettings { folder: models_folder(&self.models.folder)? },
            chat: ChatSettings { temperature: temperature(self.chat.temperature)? },
            window: self.window.resolve()?,
            inference: inference.resolve()?,
            host: host.resolve()?,
        })
    }
}

fn temperature(value: f64) -> Result<f32, OutOfRange> {
    if (0.0..=2.0).contains(&value) {
        return Ok(value as f32);
    }
    Err(OutOfRange {
        key: "chat.temperature",
        value: value.to_string(),
        expected: "a number from 0 to 2".to_owned(),
    })
}

impl raw::RawWindow {
    fn resolve(self) -> Result<WindowSettings, OutOfRange> {
        Ok(WindowSettings {
            language: language("window.language", &self.language)?,
            notifications: self.notifications,
            safe_graphics: self.safe_graphics,
        })
    }
}

impl raw::RawInference {
    fn resolve(self) -> Result<InferenceSettings, OutOfRange> {
        let number = |key, value, low, high| ranged(key, value, low, high);
        Ok(InferenceSettings {
            enabled: self.enabled,
            pooling: pooling("distributed_inference.pooling", &self.pooling)?,
            split: split("distributed_inference.split", &self.split)?,
            whole_on_own_devices: self.whole_on_own_devices,
            max_shards_per_request: number(
                "distributed_inference.max_shards_per_request",
                self.max_shards_per_request,
                1,
                nook_base::limits::HOPS_MAX as u32,
            )?,
            shard_health_timeout: Duration::from_secs(u64::from(number(
                "distributed_inference.shard_health_timeout_seconds",
                self.shard_health_timeout_seconds,
                SILENCE_SECONDS_MIN,
                3600,
            )?)),
            fallback_to_local: self.fallback_to_local,
            fallback_to_local_after_failures: number(
                "distributed_inference.fallback_to_local_after_failures",
                self.fallback_to_local_after_failures,
                1,
                100,
            )?,
            spot_checks_per_thousand: number(
                "distributed_inference.spot_checks_per_thousand",
                self.spot_checks_per_thousand,
                0,
                1000,
            )?,
            activation_dtype: activations(
                "distributed_inference.activation_dtype",
                &self.activation_dtype,
            )?,
            allow_self_as_shard: self.allow_self_as_shard,
            max_concurrent_pipelines: number(
                "distributed_inference.max_concurrent_pipelines",
                self.max_concurrent_pipelines,
                1,
                64,
            )?,
            local_prefix_layers: number(
                "distributed_inference.local_prefix_layers",
                self.local_prefix_layers,
                0,
                1024,
            )?,
            local_suffix_layers: number(
                "distributed_inference.local_suffix_layers",
                self.local_suffix_layers,
                0,
                1024,
            )?,
        })
    }
}

impl raw::RawHost {
    fn resolve(self) -> Result<HostSettings, OutOfRange> {
        const MEMORY: &str = "distributed_inference.host.shard_max_vram_mb";
        let megabytes = |value| ranged(MEMORY, value, 1, 16_000_000).map(u64::from);
        let megabytes = self.shard_max_vram_mb.map(megabytes).transpose()?;
        Ok(HostSettings {
            serve_shards: self.serve_shards,
            shard_eviction_idle: Duration::from_secs(u64::from(ranged(
                "distributed_inference.host.shard_eviction_idle_seconds",
                self.shard_eviction_idle_seconds,
                1,
                7 * 24 * 3600,
            )?)),
            shard_max_bytes: megabytes.map(|megabytes| megabytes * 1_000_000),
            max_concurrent_streams: ranged(
                "distributed_inference.host.max_concurrent_streams",
                self.max_concurrent_streams,
                1,
                64,
            )?,
            layers: match self.layers {
                Some(text) => Some(layers("distributed_inference.host.layers", &text)?),
                None => None,
            },
            pause: self.pause.resolve()?,
        })
    }
}

fn ranged(key: &'static str, value: i64, low: u32, high: u32) -> Result<u32, OutOfRange> {
    u32::try_from(value).ok().filter(|value| (low..=high).contains(value)).ok_or_else(|| {
        OutOfRange {
            key,
            value: value.to_string(),
            expected: format!("a number from {low} to {high}"),
        }
    })
}

/// Nothing, or a path from the root of a disk.
fn models_folder(text: &str) -> Result<Option<PathBuf>, OutOfRange> {
    let folder = Path::new(text);
    match text {
        "" => Ok(None),
        _ if folder.is_absolute() => Ok(Some(folder.to_owned())),
        _ => Err(out_of_range("models.folder", text, "a whole path, or nothing")),
    }
}

/// 0, or a port that needs no rights.
fn listen_port(key: &'static str, value: i64) -> Result<u16, OutOfRange> {
    u16::try_from(value).ok().filter(|port| *port == 0 || *port >= 1024).ok_or_else(|| OutOfRange {
        key,
        value: value.to_string(),
        expected: "0 (any free port) or a number from 1024 to 65535".to_owned(),
    })
}

fn level(key: &'static str, text: &str) -> Result<TrustLevel, OutOfRange> {
    let allowed = [TrustLevel::Guest, TrustLevel::Trusted, TrustLevel::Own];
    allowed
        .into_iter()
        .find(|level| level.name() == text)
        .ok_or_else(|| out_of_range(key, text, "`guest`, `trusted` or `own`"))
}

/// Two or three letters, as ISO 639 has them; nothing: none.
fn language(key: &'static str, text: &str) -> Result<Option<String>, OutOfRange> {
    let code = text.trim();
    let is_code =
        (2..=3).contains(&code.len()) && code.bytes().all(|letter| letter.is_ascii_lowercase());
    match code {
        "" => Ok(None),
        code if is_code => Ok(Some(code.to_owned())),
        _ => Err(out_of_range(key, text, "the code of a language, such as `de`")),
    }
}

fn keyring(key: &'static str, text: &str) -> Result<KeyringChoice, OutOfRange> {
    match text {
        "system" => Ok(KeyringChoice::System),
        "off" => Ok(KeyringChoice::Off),
        _ => Err(out_of_range(key, text, "`system` or `off`")),
    }
}

fn pooling(key: &'static str, text: &str) -> Result<Pooling, OutOfRange> {
    match text {
        "when_faster" => Ok(Pooling::WhenFaster),
        "always" => Ok(Pooling::Always),
        _ => Err(out_of_range(key, text, "`when_faster` or `always`")),
    }
}

fn split(key: &'static str, text: &str) -> Result<SplitChoice, OutOfRange> {
    match text {
        "planned" => Ok(SplitChoice::Planned),
        "uniform" => Ok(SplitChoice::Uniform),
        "weighted" => Ok(SplitChoice::Weighted),
        _ => Err(out_of_range(key, text, "`planned`, `uniform` or `weighted`")),
    }
}

fn activations(key: &'static str, text: &str) -> Result<ActivationChoice, OutOfRange> {
    match text {
        "auto" => Ok(ActivationChoice::ByLink),
        _ => text
            .parse()
            .map(ActivationChoice::Always)
            .map_err(|_| out_of_range(key, text, "`auto`, `fp16`, `fp32` or `q8`")),
    }
}

/// `2-5`: both included, as people count.
fn layers(key: &'static str, text: &str) -> Result<LayerRange, OutOfRange> {
    let bad = || out_of_range(key, text, "first and last layer, such as `2-5`");
    let (first, last) = text.split_once('-').ok_or_else(bad)?;
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| bad());
    let end = number(last)?.checked_add(1).ok_or_else(bad)?;
    LayerRange::new(number(first)?, end).ok().filter(|range| !range.is_empty()).ok_or_else(bad)
}

fn port_address(text: &str, expose_to_lan: bool) -> Result<SocketAddr, OutOfRange> {
    const KEY: &str = "port.address";
    let address: SocketAddr = text
        .parse()
        .map_err(|_| out_of_range(KEY, text, "an address with a port, such as `127.0.0.1:4587`"))?;
    if !address.ip().is_loopback() && !expose_to_lan {
        let expected = "a loopback address, or `expose_to_lan = true` beside it: then every \
                        program in your network that has the key can use this computer";
        return Err(out_of_range(KEY, text, expected));
    }
    Ok(address)
}

fn origins(list: Vec<String>) -> Result<Vec<String>, OutOfRange> {
    const ORIGINS_MAX: usize = 32; // More is a mistake; the file is refused.
    const KEY: &str = "port.allowed_origins";
    if list.len() > ORIGINS_MAX {
        let found = format!("{} origins", list.len());
        return Err(out_of_range(KEY, &found, "at most 32 origins"));
    }
    for origin in &list {
        let host = origin.split_once("://").map(|(_, host)| host);
        let is_origin = host
            .is_some_and(|host| !host.is_empty() && !host.contains(['/', '*', ' ', '?', '#', '@']));
        if !is_origin {
            let expected = "exact origins such as `http://localhost:3000`, without a path or `*`";
            return Err(out_of_range(KEY, origin, expected));
        }
    }
    Ok(list)
}

fn out_of_range(key: &'static str, value: &str, expected: &str) -> OutOfRange {
    OutOfRange { key, value: value.to_owned(), expected: expected.to_owned() }
}
