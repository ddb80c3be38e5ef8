//! Panics that a test orders, to see what follows from them. Only builds with the feature
//! `test-panics` and debug assertions have this: no package is built with either.

use std::path::PathBuf;

use nook_base::env;
use nook_base::tasks::Tasks;

/// Names a file. Once it is there, it is deleted, and what is written in it says who panics.
const ORDER: &str = "INGLENOOK_TEST_PANIC";

/// What the file says to end the event loop, and to end some other task.
const LOOP: &str = "loop";
const TASK: &str = "task";

/// Panics if that is ordered now. Called by the event loop.
pub(crate) fn obey(tasks: &Tasks) {
    let Some(file) = env::raw(ORDER).map(PathBuf::from) else { return };
    let Ok(order) = std::fs::read_to_string(&file) else { return };
    // Else the next start would do it again.
    std::fs::remove_file(&file).expect("a test's file can be deleted");
    match order.trim() {
        LOOP => panic!("a test ordered it"),
        TASK => drop(tasks.spawn("test-task", async { panic!("a test ordered it") })),
        other => panic!("nobody knows the order {other:?}"),
    }
}
