//! What `/metrics` says after a reply that another device helped with.

use std::time::Duration;

use nook_api::views::Trust;
use nook_base::LayerRange;
use nook_openai::Limits;
use nook_testkit::{Device, Garbage, Lender, Signal, files_below, signal};

use crate::household::{ASKING, befriend};
use crate::kit::{self, Port, body};

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
    let slow = port.slow().await;
    let seen = port
        .stream_and(async || {
            lending.shut_down().await;
            drop(slow);
        })
        .await;
    assert!(seen.contains("[DONE]"), "{seen}");
    let text = read(&port).await;
    for name in
        ["distributed_inference_failovers_total", "distributed_inference_fallback_to_local_total"]
    {
        let count = |text: &str| values(text, name).iter().sum::<f64>();
        assert!(count(&text) > count(&before), "{name}: {text}");
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_cannot_be_right_are_counted() {
    let exact = format!("{POOLED}activation_dtype = \"fp32\"\n");
    let (asking, home) = kit::house("Kitchen laptop", &exact).await;
    let file = files_below(home.path())
        .unwrap()
        .into_iter()
        .map(|(path, _)| path)
        .find(|path| path.extension().is_some_and(|end| end == "gguf"))
        .expect("the built-in model lies in the home");
    let model = asking.now().models[0].digest.parse().unwrap();
    let port = Port::of(asking.clone(), home, Limits::USUAL).await;
    let mut device = Device::start("Study PC").unwrap();
    let peer = device.join(&asking.show_code().await.unwrap()).await.unwrap();
    asking.set_trust("Study PC".to_owned(), Trust::Trusted).await.unwrap();
    device.until_linked(peer).await.unwrap();
    let offer = (LayerRange::with_len(1, 4), 1 << 30);
    let lender = Lender::lend(device, peer, (file, model), offer).await.unwrap();
    let mut view = asking.view();
    let lends = view.wait_for(|view| view.devices.iter().any(|known| !known.lends.is_empty()));
    drop(
        tokio::time::timeout(Duration::from_secs(60), lends)
            .await
            .expect("it should lend")
            .unwrap(),
    );
    let before = read(&port).await;
    lender.answer_with(Some(Garbage::NotANumber));
    // The reply is as whole as any: this device computes what the other one could not.
    let wish = body(&serde_json::json!({ "max_tokens": 12 }));
    let answer = port.ask(&port.chat(&wish)).await;
    assert_eq!(answer.status, 200);
    assert!(answer.json()["usage"]["completion_tokens"].as_f64().is_some_and(|count| count > 0.0));
    let name = "distributed_inference_shard_corruption_detected_total";
    let count = |text: &str| values(text, name).iter().sum::<f64>();
    assert!(count(&until(&port, &[name]).await) > count(&before));
    drop(lender);
    port.close().await;
}

/// The worker of a house that serves a guest now.
async fn serving(house: &nook_api::NodeHandle) -> Option<u32> {
    let vitals = house.vitals().await.unwrap();
    vitals.workers.iter().find(|worker| worker.guest_sessions > 0).map(|worker| worker.pid)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_is_late_is_relieved_by_a_spare_and_that_is_counted() {
    let (asking, home) = kit::house("Kitchen laptop", POOLED).await;
    let (first, _first_home) = kit::house("Desk", "").await;
    let (second, _second_home) = kit::house("Study PC", "").await;
    let port = Port::of(asking.clone(), home, Limits::USUAL).await;
    befriend(&asking, &first).await;
    befriend(&asking, &second).await;
    let mut view = asking.view();
    let both = view
        .wait_for(|view| view.devices.iter().filter(|known| !known.lends.is_empty()).count() == 2);
    drop(tokio::time::timeout(Duration::from_secs(60), both).await.expect("both lend").unwrap());
    let name = "distributed_inference_hedges_total{won=\"yes\"}";
    let before = values(&read(&port).await, name).iter().sum::<f64>();
    let mut frozen = None;
    let seen = port
        .stream_and(async || {
            frozen = match serving(&first).await {
                Some(pid) => Some(pid),
                None => serving(&second).await,
            };
            signal(frozen.expect("one of them serves"), Signal::Stop);
        })
        .await;
    signal(frozen.expect("the reply has begun"), Signal::Continue);
    assert!(seen.contains("[DONE]"), "{seen}");
    let text = until(&port, &[name]).await;
    assert!(values(&text, name).iter().sum::<f64>() > before, "{text}");
    first.shut_down().await;
    second.shut_down().await;
    port.close().await;
}
