//! A reply whose layers are computed on another device, and what its client sees when that ends.

use nook_api::views::Trust;
use nook_api::{NodeHandle, PairTarget, Sharing};
use nook_openai::Limits;
use serde_json::json;

use crate::kit::{self, Port, until};

/// The asking house must not compute the middle layers itself, though it would be faster.
pub(crate) const ASKING: &str =
    "[distributed_inference]\nfallback_to_local = false\npooling = \"always\"\n";

/// Pairs the two through the real code path, and waits until one knows what the other lends.
pub(crate) async fn befriend(asking: &NodeHandle, lending: &NodeHandle) {
    let window = lending.show_code().await.unwrap();
    let address = window
        .addresses
        .iter()
        .filter_map(|address| address.rsplit_once(':'))
        .map(|(_, port)| format!("127.0.0.1:{port}"))
        .next()
        .expect("a window has an address");
    let device = asking.join(PairTarget::Address(address), window.code.into()).await.unwrap();
    let me = asking.now().me.id.clone();
    asking.set_trust(device.id.clone(), Trust::Trusted).await.unwrap();
    until(lending, |view| view.devices.iter().any(|known| known.id == me)).await;
    lending.set_trust(me, Trust::Trusted).await.unwrap();
    lending.set_sharing(Sharing::On).await.unwrap();
    until(asking, |view| view.devices.iter().any(|known| !known.lends.is_empty())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_4_a_reply_that_breaks_ends_in_an_error_and_in_no_false_stop() {
    let (asking, home) = kit::house("Kitchen laptop", ASKING).await;
    let (lending, _lending_home) = kit::house("Desk", "").await;
    befriend(&asking, &lending).await;
    let port = Port::of(asking, home, Limits::USUAL).await;
    let slow = port.slow().await;
    let seen = port
        .stream_and(async || {
            lending.shut_down().await;
            drop(slow);
        })
        .await;
    assert!(seen.contains("data: {\"error\":{\"message\":"), "{seen}");
    assert!(!seen.contains("\"finish_reason\":\""), "{seen}");
    assert!(!seen.contains("[DONE]"), "{seen}");
    assert!(seen.ends_with("\n0\r\n\r\n"), "the answer itself ends in order: {seen}");
    port.wait_until_idle().await;
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_is_told_who_computed_and_nobody_else_is() {
    let (asking, home) = kit::house("Kitchen laptop", ASKING).await;
    let (lending, _lending_home) = kit::house("Desk", "").await;
    befriend(&asking, &lending).await;
    let port = Port::of(asking, home, Limits::USUAL).await;
    let mut wish = json!({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4});
    let silent = port.post("/v1/chat/completions", &wish).await.json();
    assert_eq!(silent.get("inglenook"), None, "{silent}");
    wish["inglenook"] = true.into();
    let whole = port.post("/v1/chat/completions", &wish).await.json();
    wish["stream"] = true.into();
    let chunks = port.post("/v1/chat/completions", &wish).await.chunks();
    let last = chunks.iter().rfind(|chunk| chunk.get("inglenook").is_some()).unwrap();
    assert_eq!(last["inglenook"]["event"], "done");
    for told in [&whole["inglenook"], &last["inglenook"]] {
        let route = told["route"].as_array().unwrap();
        let devices: Vec<_> = route.iter().map(|part| part["device"].as_str().unwrap()).collect();
        assert_eq!(devices, ["Kitchen laptop", "Desk", "Kitchen laptop"], "{told}");
        assert!(route[1]["layers"].is_array() && told["failovers"] == json!([]), "{told}");
    }
    port.close().await;
    lending.shut_down().await;
}
