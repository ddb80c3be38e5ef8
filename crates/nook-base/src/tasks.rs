//! Background tasks that are all joined on shutdown (invariant I-7).
//!
//! A [`Tasks`] is a tracker with a cancellation token. Children made with [`Tasks::child`] are
//! cancelled with their parent and tracked by it too. [`Tasks::shut_down`] cancels, then waits up to
//! a limit; it says which limit was hit instead of waiting for ever.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A group of tasks with one owner. Cloning gives another handle to the same group.
#[derive(Debug, Clone)]
pub struct Tasks {
    tracker: TaskTracker,
    token: CancellationToken,
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl Tasks {
    /// An empty group.
    #[must_use]
    pub fn new() -> Self {
        Self { tracker: TaskTracker::new(), token: CancellationToken::new() }
    }

    /// A group that is cancelled with this one, or by itself; its tasks are waited for here too.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { tracker: self.tracker.clone(), token: self.token.child_token() }
    }

    /// The token that ends this group: `select!` on `cancelled()` first.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Runs `work` to its end. It must watch [`Tasks::token`] itself where it can wait long.
    #[expect(clippy::disallowed_methods, reason = "this is the sanctioned wrapper")]
    pub fn spawn<F>(&self, name: &'static str, work: F) -> tokio::task::JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = self.tracker.track_future(work);
        tokio::spawn(async move {
            tracing::trace!(task = name, "started");
            task.await;
            tracing::trace!(task = name, "ended");
        })
    }

    /// Runs `work`, dropping it at its next await when the group is cancelled.
    pub fn spawn_until_cancelled<F>(
        &self,
        name: &'static str,
        work: F,
    ) -> tokio::task::JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let token = self.token.clone();
        self.spawn(name, async move {
            tokio::select! {
                biased;
                () = token.cancelled() => {}
                () = work => {}
            }
        })
    }

    /// Tasks that run now, over all groups of the same tracker.
    #[must_use]
    pub fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Asks every task of this group to end, without waiting.
    pub fn cancel(&self) {
        self.token.cancel();
    }

    /// Cancels, then waits for every task of the tracker for at most `limit`.
    ///
    /// Returns whether all ended in time.
    pub async fn shut_down(&self, limit: Duration) -> bool {
        self.token.cancel();
        self.tracker.close();
        let ended = tokio::time::timeout(limit, self.tracker.wait()).await.is_ok();
        if !ended {
            tracing::warn!(left = self.tracker.len(), "tasks did not end in time");
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn shutting_down_joins_children_too() {
        let tasks = Tasks::new();
        let child = tasks.child();
        child.spawn_until_cancelled("sleeper", std::future::pending());
        assert!(tasks.shut_down(Duration::from_secs(5)).await);
    }

    #[tokio::test]
    async fn a_task_that_ignores_cancellation_is_reported_not_waited_for() {
        let tasks = Tasks::new();
        tasks.spawn("deaf", std::future::pending());
        assert!(!tasks.shut_down(Duration::from_millis(20)).await);
    }
}
