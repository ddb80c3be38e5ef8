//! What panicked in the tasks of a group, kept for its owner.
//!
//! A panic ends the task and nothing else, so without this nobody would notice. What a panic says
//! may hold anything, also what people write, so it is [`Sensitive`] and not logged here (I-3).

use std::any::Any;

use tokio::sync::watch;

use crate::Sensitive;

/// Names of tasks that are kept. There are fewer in the product; a group never grows without a
/// limit.
const NAMES_MAX: usize = 64;

/// A task that panicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPanic {
    /// Name of the task.
    pub task: &'static str,
    /// What the newest panic of that name said.
    pub message: Sensitive<String>,
    /// How many tasks of that name panicked.
    pub times: u32,
}

/// What a panic means for the owner of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// The owner cannot go on without this task.
    Essential,
    /// What the task was to do is lost; everything else goes on.
    Optional,
}

/// All panics of a group and of its children.
#[derive(Debug, Default)]
struct Seen {
    fatal: Option<TaskPanic>,
    others: Vec<TaskPanic>,
}

/// Where panics are noted. Cloning gives another handle to the same notes.
#[derive(Debug, Clone, Default)]
pub(super) struct Panics(watch::Sender<Seen>);

impl Panics {
    /// Notes what `payload` says. The first panic of an essential task is the one that counts.
    pub(super) fn note(&self, task: &'static str, weight: Weight, payload: &(dyn Any + Send)) {
        let is_essential = weight == Weight::Essential;
        tracing::error!(task, is_essential, "a task panicked");
        let message = Sensitive(text_of(payload));
        self.0.send_modify(|seen| match weight {
            Weight::Essential => {
                seen.fatal.get_or_insert(TaskPanic { task, message, times: 1 });
            }
            Weight::Optional => seen.note_other(task, message),
        });
    }

    pub(super) fn fatal(&self) -> Option<TaskPanic> {
        self.0.borrow().fatal.clone()
    }

    pub(super) async fn until_fatal(&self) -> TaskPanic {
        let mut seen = self.0.subscribe();
        let fatal = match seen.wait_for(|seen| seen.fatal.is_some()).await {
            Ok(seen) => seen.fatal.clone(),
            Err(_) => None,
        };
        match fatal {
            Some(panic) => panic,
            // `self` holds a sender, so the wait cannot fail while it lasts.
            None => std::future::pending().await,
        }
    }

    pub(super) fn others(&self) -> Vec<TaskPanic> {
        self.0.borrow().others.clone()
    }
}

impl Seen {
    fn note_other(&mut self, task: &'static str, message: Sensitive<String>) {
        if let Some(known) = self.others.iter_mut().find(|known| known.task == task) {
            known.message = message;
            known.times = known.times.saturating_add(1);
        } else if self.others.len() < NAMES_MAX {
            self.others.push(TaskPanic { task, message, times: 1 });
        }
    }
}

/// `panic!` carries a text; anything else was thrown by `panic_any`.
fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}
