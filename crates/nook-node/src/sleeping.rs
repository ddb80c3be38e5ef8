//! A machine that is about to sleep drains first, and lends again once it is awake.
//!
//! While the owner shares, one task waits for a sleep ([`SleepWatch`]); with sharing off it holds no lock, and
//! nobody's sleep is held up for nothing. When a sleep is near the house pauses: the devices hear that nothing
//! is shared, guests' steps finish, and what is remembered is handed over, as in every pause. Then the lock
//! goes and the machine sleeps. Where nothing says so beforehand, `waking` notices afterwards.

use std::time::Duration;

use futures_util::future::join_all;
use nook_machine::{Sleep, SleepLock, SleepWatch};
use tokio::sync::{mpsc, oneshot, watch};

use crate::house::Sharing;
use crate::sharing;
use crate::state::{Inside, State};

/// Longest time for which a sleep is held up, whatever becomes of the house meanwhile. More than guests and
/// goodbyes may take together, and less than half of the five seconds after which logind waits no longer.
const HELD_LIMIT: Duration = Duration::from_secs(2);

/// Longest wait until the devices have heard everything: a device that is not there any more answers
/// nothing, and a round trip of a bad link takes less.
const HEARD_LIMIT: Duration = Duration::from_millis(300);

impl State {
    /// Waits for sleeps as long as this node runs.
    pub(crate) fn watch_for_sleep(&self) {
        let watched = watch_for_sleep(self.holding_back.chosen.subscribe(), self.inside.clone());
        self.tasks.spawn_until_cancelled("sleep", watched);
    }

    /// Lends nothing from now on, and says `ready` when nothing of others runs here and they know it.
    pub(crate) fn fall_asleep(&mut self, ready: oneshot::Sender<()>) {
        self.holding_back.pausing.sleep_is_near();
        if self.weigh() {
            self.apply_sharing();
        }
        for peer in self.bulletins.peers() {
            self.bulletins.say_now(peer);
        }
        let (streams, links) = (self.lending.streams.clone(), self.links.all());
        let streams_max = self.lending.streams_max;
        self.tasks.spawn_until_cancelled("fall-asleep", async move {
            sharing::drained(&streams, streams_max).await;
            // Links that are closed hear nothing more.
            let heard = join_all(links.iter().map(|link| link.mux().round_trip()));
            let _ = tokio::time::timeout(HEARD_LIMIT, heard).await;
            // Past its limit nobody waits any more.
            let _ = ready.send(());
        });
    }

    /// Lends again, and looks for the devices that have hung up meanwhile.
    pub(crate) fn sleep_is_over(&mut self) {
        self.holding_back.pausing.sleep_is_over();
        if self.weigh() {
            self.apply_sharing();
        }
        self.wake_up();
    }
}

async fn watch_for_sleep(mut chosen: watch::Receiver<Sharing>, inside: mpsc::Sender<Inside>) {
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
                Sleep::Near(lock) => drain(lock, &inside).await,
                Sleep::Over => drop(inside.send(Inside::SleepOver).await),
            }
        }
    }
}

/// Waits until the owner has chosen `wanted`; `false` when the house is gone.
async fn is(chosen: &mut watch::Receiver<Sharing>, wanted: Sharing) -> bool {
    chosen.wait_for(|chosen| *chosen == wanted).await.is_ok()
}

/// Holds the lock until the house is ready, or long enough.
async fn drain(lock: SleepLock, inside: &mpsc::Sender<Inside>) {
    let (ready, wait) = oneshot::channel();
    let drained = async {
        if inside.send(Inside::SleepNear { ready }).await.is_ok() {
            let _ = wait.await;
        }
    };
    if tokio::time::timeout(HELD_LIMIT, drained).await.is_err() {
        tracing::warn!(limit = ?HELD_LIMIT, "this computer sleeps though others wait for it");
    }
    drop(lock);
}
