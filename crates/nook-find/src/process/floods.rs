//! How long nothing is looked for after a flood.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::discovery::Heard;

/// The rest after a first flood.
const REST_FIRST: Duration = Duration::from_secs(2);

/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(60);

/// A flood so long after the end of the last rest is a first one.
const CALM: Duration = Duration::from_secs(300);

/// Rests get longer while floods follow one another: the processor time that they take is bounded by
/// that.
#[derive(Debug, Default)]
pub(super) struct Floods {
    /// The last rest, and when it was over.
    last: Option<(Duration, Instant)>,
}

impl Floods {
    /// The rest after a flood that was noticed `now`, and whether it is the first one for long.
    pub(super) fn rest_after(&mut self, now: Instant) -> (Duration, bool) {
        let following = self
            .last
            .filter(|(_, over)| now.saturating_duration_since(*over) < CALM)
            .map(|(rest, _)| (2 * rest).min(REST_MAX));
        let rest = following.unwrap_or(REST_FIRST);
        self.last = Some((rest, now + rest));
        (rest, following.is_none())
    }
}

/// Keeps a subscription open to which only `reason` comes, for so long.
pub(super) async fn rest(rest: Duration, reason: String, finder: mpsc::Sender<Heard>) {
    // Nobody listens any more where that fails.
    let _ = finder.send(Heard::Trouble { reason }).await;
    tokio::select! {
        () = tokio::time::sleep(rest) => {}
        () = finder.closed() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_get_longer_while_floods_follow_one_another_and_short_again_after_a_calm() {
        let (mut floods, mut now) = (Floods::default(), nook_base::clock::now());
        let (mut rests, mut firsts) = (Vec::new(), 0);
        for _ in 0..7 {
            let (rest, is_first) = floods.rest_after(now);
            rests.push(rest.as_secs());
            firsts += u32::from(is_first);
            now += rest + Duration::from_secs(5);
        }
        assert_eq!((rests.as_slice(), firsts), (&[2, 4, 8, 16, 32, 60, 60][..], 1));
        assert_eq!(floods.rest_after(now + CALM), (REST_FIRST, true));
    }
}
