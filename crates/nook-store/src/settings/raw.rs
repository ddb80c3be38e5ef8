//! `settings.toml` as it stands: every key optional, no value checked beyond its kind.
//!
//! The defaults are here, and nowhere else. They are never written to the file.

use nook_base::limits::OPENAI_PORT;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RawSettings {
    pub(super) device: RawDevice,
    pub(super) port: RawPort,
    pub(super) gate: RawGate,
    pub(super) network: RawNetwork,
    pub(super) models: RawModels,
    pub(super) chat: RawChat,
    pub(super) window: RawWindow,
    pub(super) distributed_inference: RawInference,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RawDevice {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) keyring: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RawPort {
    pub(super) enabled: bool,
    pub(super) address: String,
    pub(super) expose_to_lan: bool,
    pub(super) allowed_origins: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RawGate {
    pub(super) lend: String,
    pub(super) borrow: String,
    pub(super) copy: String,
    pub(super) remote_whole: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RawNetwork {
    pub(super) listen_port: i64,
    pub(super) loopback: bool,
    pub(super) give_models: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RawModels {
    pub(super) folder: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RawChat {
    pub(super) temperature: f64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RawWindow {
    pub(super) language: String,
    pub(super) notifications: bool,
    pub(super) safe_graphics: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RawInference {
    pub(super) enabled: bool,
    pub(super) pooling: String,
    pub(super) split: String,
    pub(super) whole_on_own_devices: bool,
    pub(super) max_shards_per_request: i64,
    pub(super) shard_health_timeout_seconds: i64,
    pub(super) fallback_to_local: bool,
    pub(super) fallback_to_local_after_failures: i64,
    pub(super) spot_checks_per_thousand: i64,
    pub(super) activation_dtype: String,
    pub(super) allow_self_as_shard: bool,
    pub(super) max_concurrent_pipelines: i64,
    pub(super) local_prefix_layers: i64,
    pub(super) local_suffix_layers: i64,
    pub(super) host: RawHost,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RawHost {
    pub(super) serve_shards: bool,
    pub(super) shard_eviction_idle_seconds: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shard_max_vram_mb: Option<i64>,
    pub(super) max_concurrent_streams: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) layers: Option<String>,
    pub(super) pause: RawPauses,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RawPauses {
    pub(super) on_battery: bool,
    pub(super) in_full_screen: bool,
    pub(super) when_busy_percent: i64,
    pub(super) quiet_hours: String,
    pub(super) until: i64,
}

impl Default for RawDevice {
    fn default() -> Self {
        Self { name: None, keyring: "system".to_owned() }
    }
}

impl Default for RawPort {
    fn default() -> Self {
        Self {
            enabled: true,
            address: format!("127.0.0.1:{OPENAI_PORT}"),
            expose_to_lan: false,
            allowed_origins: Vec::new(),
        }
    }
}

impl Default for RawGate {
    fn default() -> Self {
        Self {
            lend: "trusted".to_owned(),
            borrow: "trusted".to_owned(),
            copy: "trusted".to_owned(),
            remote_whole: "own".to_owned(),
        }
    }
}

impl Default for RawNetwork {
    fn default() -> Self {
        // Trust was given by hand; a copy costs the giver nothing but idle time of its line, and a model
        // that the household has fetched is nothing private. Guests get none.
        Self { listen_port: 0, loopback: false, give_models: true }
    }
}

impl Default for RawChat {
    fn default() -> Self {
        Self { temperature: 0.7 }
    }
}

impl Default for RawWindow {
    fn default() -> Self {
        Self { language: String::new(), notifications: true, safe_graphics: false }
    }
}

impl Default for RawInference {
    fn default() -> Self {
        Self {
            enabled: true,
            pooling: "when_faster".to_owned(),
            split: "planned".to_owned(),
            whole_on_own_devices: false,
            max_shards_per_request: 16,
            shard_health_timeout_seconds: 30,
            fallback_to_local: true,
            fallback_to_local_after_failures: 2,
            spot_checks_per_thousand: 0,
            activation_dtype: "fp16".to_owned(),
            allow_self_as_shard: true,
            max_concurrent_pipelines: 4,
            local_prefix_layers: 1,
            local_suffix_layers: 1,
            host: RawHost::default(),
        }
    }
}

impl Default for RawHost {
    fn default() -> Self {
        Self {
            serve_shards: false,
            shard_eviction_idle_seconds: 600,
            shard_max_vram_mb: None,
            max_concurrent_streams: 4,
            layers: None,
            pause: RawPauses::default(),
        }
    }
}

impl Default for RawPauses {
    fn default() -> Self {
        Self {
            on_battery: true,
            in_full_screen: true,
            when_busy_percent: 0,
            quiet_hours: String::new(),
            until: 0,
        }
    }
}
