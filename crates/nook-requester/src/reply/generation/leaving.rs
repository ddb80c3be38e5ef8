//! How a generation leaves its hosts: what they hold is kept for the next prompt, or they are told
//! to drop it.
//!
//! The generation has told its calls to close their calls in order, which is what makes a host keep
//! what it has. Only where every call was rid of that word is the entry worth anything; where one
//! was not, the hosts that have heard it would keep what nobody goes on with, so they are told that
//! it is unwanted.

use std::time::Duration;

use nook_pipeline::PrefixCacheEntry;
use tokio::task::JoinHandle;

use crate::reply::generation::Generation;
use nook_resources::prefix_cache::{PrefixCache, Unwanted};

/// Longest wait for the calls of a reply that ended in order to be closed as such: handing a
/// message over takes no time unless a link is stuck. Beyond it nothing of the reply is kept
/// anywhere.
const CLOSE_LIMIT: Duration = Duration::from_millis(250);

impl Generation {
    /// Keeps what the hosts hold, once each was told to: the next prompt may come at once.
    pub(super) async fn keep_prefix(&mut self) {
        let Some(prefix) = self.pipeline.take_prefix() else {
            return;
        };
        // What this one went on with is in it.
        self.resumed = None;
        let leaving = std::mem::take(&mut self.leaving);
        let unwanted = keep(prefix, leaving, &self.model.prefix_cache, self.conversation).await;
        let digest = self.model.listed.digest;
        self.sink.unwanted(digest, unwanted).await;
        // Whoever was trusted less before it was kept has been looked for too early.
        let book = self.sink.book.borrow().clone();
        let unwanted =
            self.model.prefix_cache.revoke(|peer| book.keepers.contains(&peer), |_| true);
        self.sink.unwanted(digest, unwanted).await;
    }

    /// A reply that went on with an earlier one and has left nothing itself: hosts that were not
    /// asked before it ended have that earlier one still, and nobody will go on with it.
    pub(super) async fn leave_nothing_behind(&mut self) {
        if let Some(prefix) = self.resumed.take() {
            self.sink.unwanted(self.model.listed.digest, prefix.into()).await;
        }
    }
}

/// Keeps `entry` once the calls have told their hosts; what nobody will go on with comes back.
async fn keep(
    prefix: PrefixCacheEntry,
    leaving: Vec<JoinHandle<()>>,
    book: &PrefixCache,
    conversation: Option<i64>,
) -> Unwanted {
    let told = async {
        for task in leaving {
            // A call that was cancelled has not told its host, which then refuses to go on.
            let _ = task.await;
        }
    };
    match tokio::time::timeout(CLOSE_LIMIT, told).await {
        Ok(()) => book.keep(prefix, conversation),
        Err(_) => prefix.into(),
    }
}

#[cfg(test)]
mod tests {
    use nook_base::tasks::Tasks;

    use super::*;
    use nook_resources::testing::prefix;

    fn names(unwanted: &Unwanted) -> Vec<u32> {
        unwanted.entries.iter().map(|prefix| prefix.name().0).collect()
    }

    #[tokio::test]
    async fn a_prefix_is_kept_when_every_host_was_told_and_unwanted_when_one_was_not() {
        let book = PrefixCache::default();
        let tasks = Tasks::new();
        let told = || tasks.spawn("told", async {});
        let stuck = || tasks.spawn("stuck", std::future::pending::<()>());
        let unwanted = keep(prefix(&[1, 2]), vec![told(), told()], &book, Some(7)).await;
        assert!(unwanted.is_empty());
        // Those that were told keep it: they hear its name.
        let unwanted = keep(prefix(&[1, 2, 3]), vec![told(), stuck()], &book, Some(7)).await;
        assert_eq!(names(&unwanted), [3]);
        assert_eq!(names(&book.forget(7)), [2], "the other one was not kept here either");
        tasks.cancel();
    }
}
