//! The OpenAPI document, kept as a golden file.

use std::path::Path;

use crate::kit::Port;

/// Set by `cargo xtask goldens`: write what came instead of comparing.
const UPDATE: &str = "INGLENOOK_UPDATE";

#[tokio::test(flavor = "multi_thread")]
async fn the_description_is_the_golden_one() {
    let port = Port::open().await;
    let answer = port.ask(&port.request("GET", "/openapi.json")).await;
    assert_eq!(answer.status, 200);
    let document = answer.json();
    let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    if nook_base::env::text(UPDATE).is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&golden).unwrap_or_default();
    assert!(kept == text, "openapi.json is not what is served: run `cargo xtask goldens`");
    // Every path that is described is there, and every reference leads somewhere.
    for (path, operations) in document["paths"].as_object().unwrap() {
        let method = if operations.get("post").is_some() { "GET" } else { "POST" };
        let request = port.request(method, &path.replace("{id}", "ember"));
        let answer = port.ask(&request.with("Content-Type", "application/json")).await;
        assert_eq!(answer.status, 405, "{path}");
    }
    for reference in text.split("\"$ref\": \"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
    port.close().await;
}
