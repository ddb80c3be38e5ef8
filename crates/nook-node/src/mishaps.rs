//! Tasks that panicked: a part without which nothing goes ends the node, another one is shown as a
//! problem. Whoever holds the handle learns of the first kind there.

use nook_base::tasks::TaskPanic;

use nook_api::views::{Trouble, TroubleView};

/// Under which name problems of this kind are kept.
pub(crate) const PROBLEM: &str = "mishaps";

/// A task that panicked, as it is shown. It stays until the program is started again, because what
/// it should have done may be missing until then.
pub(crate) fn shown(panic: &TaskPanic) -> TroubleView {
    let part = panic.task;
    let words = format!(
        "A part of Inglenook ended because of a mistake in the program ({part}). The rest goes on; if \
         something does not work, start Inglenook again."
    );
    TroubleView::new(words, Trouble::PartEnded { part: part.to_owned() })
}
