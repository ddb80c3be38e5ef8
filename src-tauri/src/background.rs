//! Where the app's own work runs, so that a click or a window event waits for nothing.
//!
//! `app` makes it; tray, window and notices hand their work to it. What belongs to the node runs in
//! the node's own tasks instead.

use std::future::Future;

use nook_base::tasks::Tasks;

/// Work of the app itself, beside that of the house: starting it, ending it, single clicks.
pub(crate) struct Background {
    tasks: Tasks,
    runtime: tokio::runtime::Handle,
}

impl Background {
    /// Nothing runs yet. Its work runs in `runtime`.
    pub(crate) fn new(runtime: tokio::runtime::Handle) -> Self {
        Self { tasks: Tasks::new(), runtime }
    }

    /// Runs `work`; callable from the window system's thread.
    pub(crate) fn run(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let _inside = self.runtime.enter();
        self.tasks.spawn(name, work);
    }
}
