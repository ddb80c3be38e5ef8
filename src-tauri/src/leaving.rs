//! The end, in order: 1 the house leaves (prompts end, peers are told, workers end), 2 the process
//! exits. Past the limit it exits anyway: the system frees what is left, and workers end with their
//! node.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tauri::{AppHandle, Manager};

use crate::opening::Opening;

/// Longest that leaving may take; a person who chose Quit waits no longer.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);

/// Whether the end has begun.
#[derive(Debug, Default)]
pub(crate) struct Leaving(AtomicBool);

/// Ends the program. A second call while it leaves changes nothing.
pub(crate) async fn leave(app: AppHandle) {
    if app.state::<Leaving>().0.swap(true, Ordering::SeqCst) {
        return;
    }
    if let Some(house) = app.state::<Opening>().now()
        && tokio::time::timeout(LEAVE_LIMIT, house.shut_down()).await.is_err()
    {
        tracing::warn!("leaving took too long; what is left ends with the process");
    }
    app.exit(0);
}
