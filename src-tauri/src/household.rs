//! A house as the views show it, for tests.

use nook_api::views::HouseholdView;
use serde_json::{Value, json};

/// A house at rest with two connected devices; `sharing` replaces what is said of lending.
pub(crate) fn house(sharing: &Value) -> HouseholdView {
    let mut resting = json!({
        "on": true, "state": "sharing", "answering": false, "streams": 0, "streams_max": 4, "paused": null,
        "status_line": "",
    });
    for (key, value) in sharing.as_object().expect("an object") {
        resting[key] = value.clone();
    }
    serde_json::from_value(json!({
        "me": {
            "id": "a", "short_id": "a", "name": "Kitchen laptop", "app_version": "0.1.0",
            "listen_port": 1, "key_kept_in": "a file", "memory_bytes": null,
            "disk_free_bytes": null,
        },
        "sharing": resting,
        "devices": [device("Study PC", true), device("Attic PC", true)],
        "models": [],
        "catalogue": [],
        "downloads": [],
        "models_folder": {
            "path": "/models", "usual": true, "there": true, "missing": [], "moving": null,
            "problem": null,
        },
        "pairing": null,
        "port": {"on": true, "base_url": "", "problem": null, "keys": [], "requests": []},
        "problems": [],
        "settings": {
            "values": {"window.notifications": true}, "lend_memory_bytes": 1,
            "expose_to_lan": false,
        },
    }))
    .expect("a house")
}

/// A device; one that is not paired shows a pairing code.
pub(crate) fn device(name: &str, paired: bool) -> Value {
    json!({
        "id": name, "short_id": name, "name": name, "paired": paired,
        "trust": if paired { "trusted" } else { "unknown" }, "connected": paired,
        "pairing": !paired, "addresses": [], "rtt_ms": null, "lends": [], "streams_free": null,
        "memory_free_bytes": null, "last_seen": null, "unused_because": null,
    })
}

/// A model.
pub(crate) fn model(name: &str) -> Value {
    json!({
        "name": name, "title": name, "digest": name, "architecture": "llama",
        "quantisation": "Q8_0", "layers": 4, "context_length": 512, "file_bytes": 1,
        "built_in": false, "added": 0, "owned": false, "file": "", "fit": {"kind": "here", "devices": []},
    })
}
