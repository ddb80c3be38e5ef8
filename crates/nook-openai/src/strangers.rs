//! Requests without a fitting key, told to the owner together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nook_api::NodeHandle;
use nook_api::views::PortRequestKind;
use tokio::sync::Notify;

use crate::error::ApiError;
use crate::report;

/// Pause between two words to the owner about requests without a fitting key; those that come
/// meanwhile are counted.
const STRANGERS_EVERY: Duration = Duration::from_secs(1);

/// Requests without a fitting key. Any program of this machine can send them as fast as it likes,
/// so the owner is told of them all together, and what they say of themselves is not listed.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// Those of which the owner was not told yet: what they asked for, how that is listed, and how
    /// often. Only the few ends that the guard's check of keys knows are in it. Never held across
    /// an await.
    untold: Mutex<BTreeMap<(PortRequestKind, String), u32>>,
    came: Notify,
}

impl Strangers {
    pub(crate) fn note(&self, kind: PortRequestKind, error: &ApiError) {
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        let times = untold.entry((kind, error.listed())).or_default();
        *times = times.saturating_add(1);
        self.came.notify_one();
    }

    fn take(&self) -> BTreeMap<(PortRequestKind, String), u32> {
        std::mem::take(&mut *self.untold.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells the owner of the first one at once, of more no faster than every [`STRANGERS_EVERY`].
    pub(crate) async fn tell(self: Arc<Self>, house: NodeHandle) {
        loop {
            self.came.notified().await;
            for ((kind, error), times) in self.take() {
                report::strangers(&house, kind, error, times);
            }
            tokio::time::sleep(STRANGERS_EVERY).await;
        }
    }
}
