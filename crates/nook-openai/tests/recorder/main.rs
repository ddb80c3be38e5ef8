//! What waits to be read at `/metrics`, in a process of its own: memory is measured, and nothing
//! else may take any meanwhile.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../src/recorder.rs"]
mod recorder;

use std::time::Duration;

use nook_base::tasks::Tasks;
use nook_testkit::Footprint;

/// Samples between two looks, and how many of those: some 96 MB, were all of them kept.
const SAMPLES: u32 = 100_000;
const LOOKS: u32 = 40;

/// Half of what the samples would take, and many times what those of one look do.
const MUCH_KIB: u64 = 48 << 10;

/// Longer than the pause between two looks.
const A_LOOK: Duration = Duration::from_secs(6);

#[tokio::test(start_paused = true)]
async fn what_nobody_reads_does_not_pile_up() {
    let recorder = recorder::handle();
    let histogram = metrics::histogram!("latency", "shard_id" => "ember:1-4");
    let tasks = Tasks::new();
    tasks.spawn_until_cancelled("port-meters", recorder::condense(recorder.clone()));
    let Some(before) = Footprint::of(std::process::id()) else {
        assert_ne!(std::env::consts::OS, "linux", "this system has /proc");
        return;
    };
    for _ in 0..LOOKS {
        (0..SAMPLES).for_each(|sample| histogram.record(f64::from(sample % 100)));
        // On a clock that leaps: the look is over when this returns.
        tokio::time::sleep(A_LOOK).await;
    }
    let after = Footprint::of(std::process::id()).expect("it was there just now");
    let grown = after.anonymous_kib.saturating_sub(before.anonymous_kib);
    assert!(grown < MUCH_KIB, "{grown} KiB more");
    let told = format!("latency_count{{shard_id=\"ember:1-4\"}} {}", SAMPLES * LOOKS);
    let rendered = recorder.render();
    assert!(rendered.contains(&told), "none is lost");
    let below = u64::from(SAMPLES * LOOKS) / 100 * 51;
    let told = format!("latency_bucket{{shard_id=\"ember:1-4\",le=\"50\"}} {below}");
    assert!(rendered.contains(&told), "{rendered}");
    assert!(tasks.shut_down(Duration::from_secs(60)).await);
}
