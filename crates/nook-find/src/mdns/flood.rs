//! What happens when a network is flooded with records of multicast DNS.
//!
//! Anybody on a network can send any number of records, and the daemon keeps all of a message that
//! holds no pointer to another service. Its cache has no cap; but it says how much it holds. So it
//! is asked often, and is ended when it holds more than any household has. Then nothing is looked
//! for during a rest, which gets longer while floods follow one another: memory is bounded by what
//! comes between two looks (but see below), and the processor by the rests. Links that stand, and
//! addresses that are remembered, do without discovery.
//!
//! What this does not bound: the daemon reads a socket until it is empty before it listens to us.
//! Records that come faster than it takes them keep it from answering, and from ending. Only a
//! process of its own could be ended then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mdns_sd::{Metrics, ServiceDaemon};
use tokio::sync::mpsc;

use crate::discovery::Heard;

/// Records that the daemon may hold; with more it ends. A device has about six, and a large office
/// a few hundred devices, of which the daemon keeps only the kind that is asked for.
pub(super) const RECORDS_MAX: i64 = 2_000;

/// Timers that the daemon may hold: each record brings up to four.
const TIMERS_MAX: i64 = 4 * RECORDS_MAX;

/// How often the daemon is asked: what comes in between, as far as it answers, is kept that long.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// The rest after a first flood.
const REST_FIRST: Duration = Duration::from_secs(2);

/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(60);

/// A flood so long after the end of the last rest is a first one.
const CALM: Duration = Duration::from_secs(300);

/// How long nothing is looked for.
#[derive(Debug, Default)]
pub(super) struct Floods {
    /// The last rest, and when it was over.
    last: Option<(Duration, Instant)>,
}

impl Floods {
    /// The rest after a flood that was noticed `now`.
    pub(super) fn rest_after(&mut self, now: Instant) -> Duration {
        let rest = match self.last {
            Some((rest, over)) if now.saturating_duration_since(over) < CALM => {
                (2 * rest).min(REST_MAX)
            }
            _ => {
                tracing::warn!(
                    "the network is flooded with records of multicast DNS; looking for devices rests"
                );
                REST_FIRST
            }
        };
        self.last = Some((rest, now + rest));
        rest
    }
}

/// Ends the daemon once it holds too much, and says so in `flooded`.
pub(super) async fn watch(daemon: ServiceDaemon, flooded: Arc<AtomicBool>) {
    loop {
        tokio::time::sleep(LOOK_PAUSE).await;
        let metrics = match daemon.get_metrics() {
            Ok(metrics) => metrics.recv_async().await,
            // Its queue of commands is full: it has not read yet what was said before.
            Err(mdns_sd::Error::Again) => continue,
            Err(_) => return,
        };
        let Ok(metrics) = metrics else { return };
        if holds_too_much(&metrics) {
            flooded.store(true, Ordering::Relaxed);
            // It has ended where that is refused.
            let _ = daemon.shutdown();
            return;
        }
    }
}

/// Keeps a subscription open to which nothing comes, for so long.
pub(super) async fn rest(rest: Duration, finder: mpsc::Sender<Heard>) {
    let reason = "the network is flooded with records of multicast DNS".to_owned();
    // Nobody listens any more where that fails.
    let _ = finder.send(Heard::Trouble { reason }).await;
    tokio::select! {
        () = tokio::time::sleep(rest) => {}
        () = finder.closed() => {}
    }
}

fn holds_too_much(metrics: &Metrics) -> bool {
    let cached = metrics.iter().filter(|(name, _)| name.starts_with("cached-"));
    let timers = metrics.get("timer").copied().unwrap_or_default();
    cached.map(|(_, count)| count).sum::<i64>() > RECORDS_MAX || timers > TIMERS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_get_longer_while_floods_follow_one_another_and_short_again_after_a_calm() {
        let (mut floods, mut now) = (Floods::default(), nook_base::clock::now());
        let mut rests = Vec::new();
        for _ in 0..7 {
            let rest = floods.rest_after(now);
            rests.push(rest.as_secs());
            now += rest + Duration::from_secs(5);
        }
        assert_eq!(rests, [2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(floods.rest_after(now + CALM), REST_FIRST);
    }

    #[test]
    fn what_a_household_holds_is_no_flood() {
        let metrics = |cached: i64, timer: i64| {
            let pairs = [("cached-ptr", cached), ("cached-nsec", cached), ("timer", timer)];
            pairs.into_iter().map(|(name, count)| (name.to_owned(), count)).collect::<Metrics>()
        };
        assert!(!holds_too_much(&metrics(60, 480)));
        assert!(holds_too_much(&metrics(1_001, 0)));
        assert!(holds_too_much(&metrics(0, TIMERS_MAX + 1)));
        assert!(!holds_too_much(&Metrics::new()));
    }
}
