//! A machine that is about to sleep drains first, and lends again once it is awake.
//!
//! While the owner shares, one task waits for a sleep ([`SleepWatch`]); with sharing off it holds
//! no lock, and nobody's sleep is held up for nothing. When a sleep is near sharing pauses: the
//! devices hear that nothing is shared, guests' steps finish, and what is remembered is handed
//! over, as in every pause. Then the lock goes and the machine sleeps. Where nothing says so
//! beforehand, `waking` notices afterwards.

use std::time::Duration;

use futures_util::future::join_all;
use nook_link::Link;
use nook_machine::{Sleep, SleepLock, SleepWatch};
use tokio::sync::{mpsc, oneshot, watch};

use super::events::HostEvent;
use nook_api::Sharing;

/// Longest time for which a sleep is held up, whatever becomes of the node meanwhile. More than
/// guests and goodbyes may take together, and less than half of the five seconds after which logind
/// waits no longer.
const HELD_LIMIT: Duration = Duration::from_secs(2);

/// Longest wait until the devices have heard everything: a device that is not there any more
/// answers nothing, and a round trip of a bad link takes less.
const HEARD_LIMIT: Duration = Duration::from_millis(300);

/// Waits until the devices have heard everything, but not for long.
pub(crate) async fn heard(links: &[Link]) {
    // Links that are closed hear nothing more.
    let heard = join_all(links.iter().map(|link| link.mux().round_trip()));
    let _ = tokio::time::timeout(HEARD_LIMIT, heard).await;
}

/// Waits for sleeps while the owner shares.
pub(crate) async fn watch_for_sleep(
    mut chosen: watch::Receiver<Sharing>,
    events: mpsc::Sender<HostEvent>,
) {
    while is(&mut chosen, Sharing::On).await {
        let mut watch = SleepWatch::default();
        let mut is_near = false;
        loop {
            let sleep = tokio::select! {
                biased;
                // A sleep that has begun is followed to its end: else lending would stay held back.
                _ = is(&mut chosen, Sharing::Off), if !is_near => break,
                sleep = watch.next() => sleep,
            };
            is_near = matches!(sleep, Sleep::Near(_));
            match sleep {
                Sleep::Near(lock) => drain(lock, &events).await,
                Sleep::Over => drop(events.send(HostEvent::SleepOver).await),
            }
        }
    }
}

/// Waits until the owner has chosen `wanted`; `false` when the node is gone.
async fn is(chosen: &mut watch::Receiver<Sharing>, wanted: Sharing) -> bool {
    chosen.wait_for(|chosen| *chosen == wanted).await.is_ok()
}

/// Holds the lock until nothing of others runs here and they know it, or long enough.
async fn drain(lock: SleepLock, events: &mpsc::Sender<HostEvent>) {
    let (ready, wait) = oneshot::channel();
    let drained = async {
        if events.send(HostEvent::SleepNear { ready }).await.is_ok() {
            let _ = wait.await;
        }
    };
    if tokio::time::timeout(HELD_LIMIT, drained).await.is_err() {
        tracing::warn!(limit = ?HELD_LIMIT, "this computer sleeps though others wait for it");
    }
    drop(lock);
}
