//! The end, in order: 1 the house leaves (prompts end, peers are told, workers end), 2 the process
//! exits, or starts anew in its own place. Past the limit it does so anyway: the system frees what is
//! left, and workers end with their node.

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
    if close_house(&app).await {
        app.exit(0);
    }
}

/// Ends the house and starts the program anew without the graphics card.
#[cfg(target_os = "linux")]
pub(crate) async fn start_anew(app: AppHandle) {
    if !close_house(&app).await {
        return;
    }
    // Else the new one would take itself for a second one, and end.
    tauri_plugin_single_instance::destroy(&app);
    let error = crate::graphics::start_safely();
    tracing::error!(%error, "the program could not start anew");
    app.exit(1);
}

/// Other systems have no such way to start.
#[cfg(not(target_os = "linux"))]
pub(crate) async fn start_anew(app: AppHandle) {
    tracing::debug!(app = %app.package_info().name, "starting anew would change nothing here");
}

/// Whether this call was the one that ended it.
async fn close_house(app: &AppHandle) -> bool {
    if app.state::<Leaving>().0.swap(true, Ordering::SeqCst) {
        return false;
    }
    if let Some(house) = app.state::<Opening>().now()
        && tokio::time::timeout(LEAVE_LIMIT, house.shut_down()).await.is_err()
    {
        tracing::warn!("leaving took too long; what is left ends with the process");
    }
    true
}
