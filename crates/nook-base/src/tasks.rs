//! Background tasks that are all joined on shutdown (invariant I-7).
//!
//! A [`Tasks`] is a tracker with a cancellation token. Children made with [`Tasks::child`] are
//! cancelled with their parent and tracked by it too. [`Tasks::shut_down`] cancels, then waits up
//! to a limit; it says which limit was hit instead of waiting for ever.
//!
//! A task that panics is noted with its name, for the owner of the group: one that was started
//! with [`Tasks::essential`] ends what the owner does ([`Tasks::until_broken`]), others are a
//! problem to show ([`Tasks::panics`]).

mod panics;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use panics::TaskPanic;
use panics::{Panics, Weight};

/// A group of tasks with one owner. Cloning gives another handle to the same group.
#[derive(Debug, Clone)]
pub struct Tasks {
    tracker: TaskTracker,
    token: CancellationToken,
    panics: Panics,
}

/// Starts tasks without which the owner of a group cannot go on.
#[derive(Debug, Clone, Copy)]
pub struct Essential<'a>(&'a Tasks);

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl Tasks {
    /// An empty group.
    #[must_use]
    pub fn new() -> Self {
        Self {
            tracker: TaskTracker::new(),
            token: CancellationToken::new(),
            panics: Panics::default(),
        }
    }

    /// A group that is cancelled with this one, or by itself; its tasks are waited for here too,
    /// and their panics noted here.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { token: self.token.child_token(), ..self.clone() }
    }

    /// For tasks without which the owner cannot go on: when one of them panics, the group is
    /// broken.
    #[must_use]
    pub fn essential(&self) -> Essential<'_> {
        Essential(self)
    }

    /// The token that ends this group: `select!` on `cancelled()` first.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Runs `work` to its end. It must watch [`Tasks::token`] itself where it can wait long.
    pub fn spawn<F>(&self, name: &'static str, work: F) -> tokio::task::JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.start(name, Weight::Optional, work)
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
        self.spawn(name, self.unless_cancelled(work))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the sanctioned wrapper")]
    fn start<F>(&self, name: &'static str, weight: Weight, work: F) -> tokio::task::JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let panics = self.panics.clone();
        // The note is taken inside what is tracked: whoever has joined the group knows of it.
        let task = self.tracker.track_future(async move {
            if let Err(panic) = AssertUnwindSafe(work).catch_unwind().await {
                panics.note(name, weight, &*panic);
                // Whoever holds the task's handle hears of it as from any task.
                resume_unwind(panic);
            }
        });
        tokio::spawn(async move {
            tracing::trace!(task = name, "started");
            task.await;
            tracing::trace!(task = name, "ended");
        })
    }

    fn unless_cancelled<F>(&self, work: F) -> impl Future<Output = ()> + Send + use<F>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let token = self.token.clone();
        async move {
            tokio::select! {
                biased;
                () = token.cancelled() => {}
                () = work => {}
            }
        }
    }

    /// The essential task that panicked, if one did.
    #[must_use]
    pub fn broken(&self) -> Option<TaskPanic> {
        self.panics.fatal()
    }

    /// Waits until an essential task has panicked.
    pub async fn until_broken(&self) -> TaskPanic {
        self.panics.until_fatal().await
    }

    /// The other tasks that panicked since the group was made, by name.
    #[must_use]
    pub fn panics(&self) -> Vec<TaskPanic> {
        self.panics.others()
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

impl Essential<'_> {
    /// As [`Tasks::spawn`].
    pub fn spawn<F>(self, name: &'static str, work: F) -> tokio::task::JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.0.start(name, Weight::Essential, work)
    }

    /// As [`Tasks::spawn_until_cancelled`].
    pub fn spawn_until_cancelled<F>(
        self,
        name: &'static str,
        work: F,
    ) -> tokio::task::JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn(name, self.0.unless_cancelled(work))
    }

    /// Runs `work`, which blocks, in a thread of its own. It is not waited for on shutdown: it ends
    /// when nobody sends it anything any more.
    pub fn spawn_thread<F>(self, name: &'static str, work: F) -> std::io::Result<()>
    where
        F: FnOnce() + Send + 'static,
    {
        let panics = self.0.panics.clone();
        let guarded = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                panics.note(name, Weight::Essential, &*panic);
            }
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(guarded).map(drop)
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

    #[tokio::test]
    async fn an_essential_task_that_panics_breaks_the_group_and_says_how() {
        let tasks = Tasks::new();
        let child = tasks.child();
        tasks.spawn("bystander", async {});
        assert_eq!(tasks.broken(), None);
        child.essential().spawn_until_cancelled("loop", async { panic!("at {}", 7) });
        let panic = tasks.until_broken().await;
        assert_eq!((panic.task, panic.message.0.as_str()), ("loop", "at 7"));
        child.essential().spawn("second", async { panic!("later") });
        assert!(tasks.shut_down(Duration::from_secs(60)).await);
        assert_eq!(tasks.broken(), Some(panic), "the first one is the reason");
        assert_eq!(tasks.panics(), []);
    }

    #[tokio::test]
    async fn another_task_that_panics_is_noted_by_name_and_breaks_nothing() {
        let tasks = Tasks::new();
        for message in ["first", "second"] {
            let handle = tasks.child().spawn("reply", async move { panic!("{message}") });
            assert!(handle.await.unwrap_err().is_panic(), "its handle tells of it as ever");
        }
        tasks.spawn("odd", async { std::panic::panic_any(3_u8) });
        assert!(tasks.shut_down(Duration::from_secs(60)).await, "the group is joined all the same");
        let seen = tasks.panics();
        let seen: Vec<_> =
            seen.iter().map(|it| (it.task, it.message.0.as_str(), it.times)).collect();
        assert_eq!(seen, [("reply", "second", 2), ("odd", "", 1)]);
        assert_eq!(tasks.broken(), None);
    }

    #[tokio::test]
    async fn who_has_joined_a_group_knows_what_panicked_in_it() {
        let tasks = Tasks::new();
        tasks.essential().spawn("loop", async { panic!("now") });
        assert!(tasks.shut_down(Duration::from_secs(60)).await);
        assert_eq!(tasks.broken().unwrap().task, "loop");
    }

    #[tokio::test]
    async fn a_thread_that_panics_breaks_the_group_too() {
        let tasks = Tasks::new();
        tasks.essential().spawn_thread("chats", || panic!("disk")).unwrap();
        let panic = tasks.until_broken().await;
        assert_eq!((panic.task, panic.message.0.as_str()), ("chats", "disk"));
    }

    #[test]
    fn what_a_panic_says_is_not_shown_by_accident() {
        let message = crate::Sensitive("said to a model".to_owned());
        let panic = TaskPanic { task: "reply", message, times: 1 };
        assert!(!format!("{panic:?}").contains("said to a model"));
    }
}
