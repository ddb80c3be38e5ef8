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

#[cfg(test)]
mod tests {
    use metrics::{Key, Label, Metadata, Recorder as _};
    use nook_base::tasks::Tasks;
    use nook_testkit::Footprint;

    use super::*;

    /// Samples between two looks, and how many of those: some 96 MB, were all of them kept.
    const SAMPLES: u32 = 100_000;
    const LOOKS: u32 = 40;

    /// Growth that is none of theirs: other tests run in this process meanwhile.
    const MUCH_KIB: u64 = 48 << 10;

    #[tokio::test(start_paused = true)]
    async fn what_nobody_reads_does_not_pile_up() {
        let recorder = builder().build_recorder();
        let key = Key::from_parts("latency", vec![Label::new("shard_id", "ember:1-4")]);
        let metadata = Metadata::new("test", metrics::Level::INFO, None);
        let histogram = recorder.register_histogram(&key, &metadata);
        let tasks = Tasks::new();
        tasks.spawn_until_cancelled("port-meters", condense(recorder.handle()));
        let Some(before) = Footprint::of(std::process::id()) else {
            assert_ne!(std::env::consts::OS, "linux", "this system has /proc");
            return;
        };
        for _ in 0..LOOKS {
            (0..SAMPLES).for_each(|sample| histogram.record(f64::from(sample % 100)));
            // On a clock that leaps: the look is due when this returns.
            tokio::time::sleep(CONDENSE_EVERY).await;
        }
        let after = Footprint::of(std::process::id()).expect("it was there just now");
        let grown = after.anonymous_kib.saturating_sub(before.anonymous_kib);
        assert!(grown < MUCH_KIB, "{grown} KiB more");
        let told = format!("latency_count{{shard_id=\"ember:1-4\"}} {}", SAMPLES * LOOKS);
        let rendered = recorder.handle().render();
        assert!(rendered.contains(&told), "none is lost");
        let below = u64::from(SAMPLES * LOOKS) / 100 * 51;
        let told = format!("latency_bucket{{shard_id=\"ember:1-4\",le=\"50\"}} {below}");
        assert!(rendered.contains(&told), "{rendered}");
        assert!(tasks.shut_down(Duration::from_secs(60)).await);
    }
}
