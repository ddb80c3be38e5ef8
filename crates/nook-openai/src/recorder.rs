//! What `/metrics` reads: one recorder a process, kept small whether or not anybody reads it.
//!
//! The node counts through the `metrics` macros and knows no recorder. Every sample of a histogram waits in
//! a list until it is counted into buckets. Reading does that, and most people never read: so the open
//! port does it too, every [`CONDENSE_EVERY`].

use std::sync::OnceLock;
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// Samples wait no longer than this: a token of a reply is one for each device that helps, so some hundred
/// a second at most.
const CONDENSE_EVERY: Duration = Duration::from_secs(5);

/// Upper ends of the buckets, as coins are coined: for milliseconds and for tokens a second alike.
const BUCKETS: [f64; 19] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4,
    5e4, 1e5,
];

fn builder() -> PrometheusBuilder {
    PrometheusBuilder::new().set_buckets(&BUCKETS).expect("there are buckets")
}

/// The recorder of this process: a second port (tests) shares the first one's.
pub(crate) fn handle() -> PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER
        .get_or_init(|| match builder().install_recorder() {
            Ok(handle) => handle,
            Err(error) => {
                tracing::warn!(%error, "another recorder is set: /metrics shows nothing");
                builder().build_recorder().handle()
            }
        })
        .clone()
}

/// Counts what was recorded, again and again.
pub(crate) async fn condense(recorder: PrometheusHandle) {
    let mut look = tokio::time::interval(CONDENSE_EVERY);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        look.tick().await;
        recorder.run_upkeep();
    }
}
