//! What `/metrics` says after a reply that another device helped with.

use std::time::Duration;

use nook_openai::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::household::{ASKING, befriend};
use crate::kit::{self, Port, body, long_body};

/// A house that uses the helper, and may go on without it.
const POOLED: &str = "[distributed_inference]\npooling = \"always\"\n";

/// Looks at the port, about one a second: meters are shown as often.
const LOOKS_MAX: u32 = 60;

/// Numbers of the metrics whose line begins with `name`; labels are part of it.
fn values(text: &str, name: &str) -> Vec<f64> {
    let lines = text.lines().filter(|line| line.starts_with(name));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect()
}

async fn read(port: &Port) -> String {
    let answer = port.ask(&port.request("GET", "/metrics")).await;
    assert_eq!(answer.status, 200);
    answer.text()
}

/// Reads until each of `names` shows more than nothing; what is shown then.
async fn until(port: &Port, names: &[&str]) -> String {
    let mut look = tokio::time::interval(Duration::from_secs(1));
    for _ in 0..LOOKS_MAX {
        let text = read(port).await;
        let shows = |name: &&str| values(&text, name).iter().any(|value| *value > 0.0);
        if names.iter().all(shows) {
            return text;
        }
        look.tick().await;
    }
    panic!("not all of {names:?} show anything: {}", read(port).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_with_a_helper_moves_the_meters_of_the_design() {
    let (asking, home) = kit::house("Kitchen laptop", ASKING).await;
    let (lending, _lending_home) = kit::house("Desk", "").await;
    // The port comes first: what moved before somebody could look is not counted.
    let port = Port::of(asking.clone(), home, Limits::USUAL).await;
    befriend(&asking, &lending).await;
    let wish = body(&serde_json::json!({ "max_tokens": 12 }));
    let answer = port.ask(&port.chat(&wish)).await;
    assert_eq!(answer.status, 200);
    let said = answer.json()["usage"]["completion_tokens"].as_f64().unwrap();
    let lender = lending.now().me.short_id.clone();
    let asker = asking.now().me.short_id.clone();
    let bytes = |direction: &str| {
        format!(
            "distributed_inference_link_bytes_total{{peer=\"{lender}\",direction=\"{direction}\"}}"
        )
    };
    let lent = format!("distributed_inference_lent_tokens_total{{peer=\"{asker}\"}}");
    let text = until(
        &port,
        &[
            "distributed_inference_pipeline_construct_ms_count",
            "distributed_inference_first_token_ms_count",
            "distributed_inference_tokens_per_second_count",
            "distributed_inference_shard_latency_ms_count{shard_id=\"ember:",
            "distributed_inference_model_memory_bytes{model=\"ember\"}",
            &bytes("in"),
            &bytes("out"),
            &lent,
        ],
    )
    .await;
    // Nobody waits and nothing streams any more, which is shown too.
    for name in [
        "distributed_inference_queue_depth",
        "distributed_inference_streams{of=\"guests\"}",
        "distributed_inference_streams{of=\"replies\"}",
    ] {
        assert!(!values(&text, name).is_empty(), "{name}: {text}");
    }
    let steps = values(&text, "distributed_inference_shard_latency_ms_count{");
    assert!(steps.iter().sum::<f64>() + 1.0 >= said, "one for each token but the first: {text}");
    lending.shut_down().await;
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_goes_is_counted_and_so_is_whoever_stood_in() {
    let (asking, home) = kit::house("Kitchen laptop", POOLED).await;
    let (lending, _lending_home) = kit::house("Desk", "").await;
    let port = Port::of(asking.clone(), home, Limits::USUAL).await;
    befriend(&asking, &lending).await;
    let before = read(&port).await;
    let mut stream = port.connect().await;
    stream.write_all(&port.chat(&long_body(true)).bytes()).await.unwrap();
    let (mut seen, mut gone) = (String::new(), false);
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.unwrap();
        seen.push_str(&String::from_utf8_lossy(&piece[..count]));
        if count == 0 {
            break;
        }
        if !gone && seen.contains("\"delta\":{\"content\"") {
            gone = true;
            lending.shut_down().await;
        }
    }
    assert!(gone && seen.contains("[DONE]"), "{seen}");
    let text = read(&port).await;
    for name in
        ["distributed_inference_failovers_total", "distributed_inference_fallback_to_local_total"]
    {
        let count = |text: &str| values(text, name).iter().sum::<f64>();
        assert!(count(&text) > count(&before), "{name}: {text}");
    }
    port.close().await;
}
