//! Every key of the settings is read by something that acts on it.
//!
//! A key that is parsed, checked and saved, and then looked at by nobody, is a promise that nobody keeps.
//! The table names for each key the file and the words that read it, outside of the crate that stores it
//! and of what only shows it. Keys that cannot act while the program runs are the stored list of those that
//! wait for the next start, and are read where it starts.

use std::collections::BTreeMap;
use std::path::Path;

use nook_store::{RESTART_KEYS, SETTINGS_KEYS};

const START: &str = "crates/nook-node/src/start.rs";
const DEVICES: &str = "crates/nook-node/src/devices.rs";
const REPLIES: &str = "crates/nook-node/src/requester/replies.rs";
const SHARING: &str = "crates/nook-node/src/host/machine/sharing.rs";
const OFFERS: &str = "crates/nook-node/src/host/machine/offers.rs";
const UPKEEP: &str = "crates/nook-node/src/host/machine/upkeep.rs";
const PAUSE: &str = "crates/nook-node/src/host/pause/policy.rs";
const SERVER: &str = "crates/nook-openai/src/server.rs";
/// Has the gate's own words, and is handed all of them at once where the house makes one.
const GATE: &str = "crates/nook-trust/src/gate.rs";
const GATE_IS_MADE: &str = "Gate::new(settings.gate, ";

/// Key, the file that acts on it, and the words there that read it.
const READERS: &[(&str, &str, &str)] = &[
    ("device.name", START, "settings.settings().device.name"),
    ("device.keyring", START, "settings.settings().device.keyring"),
    ("port.enabled", "crates/nook-openai/src/lib.rs", "if settings.on"),
    ("port.address", SERVER, "let address = settings.address;"),
    ("port.expose_to_lan", SERVER, "&& !settings.exposed"),
    ("port.allowed_origins", SERVER, "settings.allowed_origins"),
    ("gate.lend", GATE, "Purpose::Lend => (self.lend,"),
    ("gate.borrow", GATE, "Purpose::Borrow => (self.borrow,"),
    ("gate.copy", GATE, "Purpose::Copy => (self.copy,"),
    ("gate.remote_whole", GATE, "Purpose::RemoteWhole => (self.remote_whole,"),
    ("network.listen_port", START, "network.listen_port"),
    ("network.loopback", START, "settings().network.loopback"),
    ("network.give_models", OFFERS, "settings.network.give_models"),
    ("models.folder", START, "settings.settings().models.folder"),
    ("chat.temperature", "crates/nook-node/src/chats/turns.rs", "settings().chat.temperature"),
    ("window.language", "src-tauri/src/main.rs", "choices.language"),
    ("window.notifications", "src-tauri/src/notices.rs", "settings.notifications"),
    ("window.safe_graphics", "src-tauri/src/main.rs", "choices.safe_graphics"),
    ("distributed_inference.enabled", SHARING, "settings.inference.enabled"),
    ("distributed_inference.pooling", REPLIES, "inference.pooling"),
    ("distributed_inference.split", REPLIES, "inference.split"),
    ("distributed_inference.whole_on_own_devices", REPLIES, "inference.whole_on_own_devices"),
    ("distributed_inference.max_shards_per_request", REPLIES, "inference.max_shards_per_request"),
    (
        "distributed_inference.shard_health_timeout_seconds",
        DEVICES,
        "inference.shard_health_timeout",
    ),
    ("distributed_inference.fallback_to_local", REPLIES, "inference.fallback_to_local "),
    (
        "distributed_inference.fallback_to_local_after_failures",
        REPLIES,
        "inference.fallback_to_local_after_failures",
    ),
    (
        "distributed_inference.spot_checks_per_thousand",
        REPLIES,
        "inference.spot_checks_per_thousand",
    ),
    ("distributed_inference.activation_dtype", REPLIES, "inference.activation_dtype"),
    ("distributed_inference.allow_self_as_shard", REPLIES, "inference.allow_self_as_shard"),
    (
        "distributed_inference.max_concurrent_pipelines",
        REPLIES,
        "inference.max_concurrent_pipelines",
    ),
    ("distributed_inference.local_prefix_layers", REPLIES, "inference.local_prefix_layers"),
    ("distributed_inference.local_suffix_layers", REPLIES, "inference.local_suffix_layers"),
    ("distributed_inference.host.serve_shards", SHARING, "settings.host.serve_shards"),
    ("distributed_inference.host.shard_eviction_idle_seconds", UPKEEP, "host.shard_eviction_idle"),
    ("distributed_inference.host.shard_max_vram_mb", OFFERS, "host.shard_bytes"),
    (
        "distributed_inference.host.max_concurrent_streams",
        SHARING,
        "settings.host.max_concurrent_streams",
    ),
    ("distributed_inference.host.layers", OFFERS, "host.layers"),
    ("distributed_inference.host.pause.on_battery", PAUSE, "wish.on_battery {"),
    ("distributed_inference.host.pause.in_full_screen", PAUSE, "wish.in_full_screen {"),
    ("distributed_inference.host.pause.when_busy_percent", PAUSE, "wish.when_busy_percent {"),
    ("distributed_inference.host.pause.quiet_hours", PAUSE, "wish.quiet_hours"),
    ("distributed_inference.host.pause.until", PAUSE, "wish.until >"),
];

/// A file's text without its tests.
fn acting_part(root: &Path, file: &str) -> String {
    let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|_| panic!("no {file}"));
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned()
}

#[test]
fn every_setting_is_read_by_what_acts_on_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut readers: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for (key, file, words) in READERS {
        assert!(readers.insert(key, (file, words)).is_none(), "{key} stands twice in the table");
    }
    for key in SETTINGS_KEYS {
        let (file, words) = readers.remove(key).unwrap_or_else(|| panic!("nothing reads {key}"));
        assert!(!file.starts_with("crates/nook-store/"), "{key} is only stored");
        assert!(acting_part(&root, file).contains(words), "{file} does not read {key} any more");
    }
    assert!(acting_part(&root, DEVICES).contains(GATE_IS_MADE), "the gate has other settings");
    assert!(readers.is_empty(), "no setting any more: {:?}", readers.keys());
    for key in RESTART_KEYS {
        assert!(SETTINGS_KEYS.contains(key), "{key}");
    }
}
