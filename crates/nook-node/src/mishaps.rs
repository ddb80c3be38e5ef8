//! Tasks that panicked: a part without which nothing goes ends the node, another one is shown as a
//! problem. Whoever holds the [`House`] handle learns of the first kind here.

use nook_base::tasks::TaskPanic;

use crate::house::House;
use crate::state::State;
use crate::views::{Trouble, TroubleView};

/// Under which name problems of this kind are kept.
const PROBLEM: &str = "mishaps";

impl State {
    /// Shows the tasks that panicked. They stay until the program is started again, because what
    /// they should have done may be missing until then.
    pub(crate) fn note_mishaps(&mut self) {
        let mishaps: Vec<_> = self.tasks.panics().iter().map(shown).collect();
        self.note(PROBLEM, mishaps);
    }
}

fn shown(panic: &TaskPanic) -> TroubleView {
    let part = panic.task;
    let words = format!(
        "A part of Inglenook ended because of a mistake in the program ({part}). The rest goes on; if \
         something does not work, start Inglenook again."
    );
    TroubleView::new(words, Trouble::PartEnded { part: part.to_owned() })
}

impl House {
    /// Waits until the node is over: somebody has ended it, or a part of it has panicked without
    /// which it cannot go on. [`House::shut_down`] ends what is left, and then [`House::broken`]
    /// says which of the two it was.
    pub async fn over(&self) {
        let mut view = self.view();
        let gone = async move { while view.changed().await.is_ok() {} };
        tokio::select! {
            _ = self.tasks.until_broken() => {}
            () = gone => {}
        }
    }

    /// The part that panicked and without which the node cannot go on, if there is one. It is
    /// known at the latest when [`House::shut_down`] has returned.
    #[must_use]
    pub fn broken(&self) -> Option<TaskPanic> {
        self.tasks.broken()
    }
}
