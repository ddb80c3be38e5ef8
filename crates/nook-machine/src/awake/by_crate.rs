//! Windows (`SetThreadExecutionState`) and macOS (`IOPMAssertionCreateWithName`).
//!
//! On Windows a request ends with the thread that made it, so a thread of its own holds it.

use std::sync::mpsc;

use super::WHY;
use crate::PROGRAM;

/// Holds the machine awake until it is dropped.
pub(super) async fn hold() {
    // Nothing is sent: the thread ends when this end is dropped.
    let (_holding, over) = mpsc::sync_channel::<()>(1);
    let thread = tokio::task::spawn_blocking(move || {
        let request =
            keepawake::Builder::default().idle(true).app_name(PROGRAM).reason(WHY).create();
        match request {
            Ok(_request) => drop(over.recv()),
            Err(error) => tracing::debug!(%error, "this machine is not kept awake"),
        }
    });
    // Where it was refused, it would be again.
    let _ = thread.await;
    std::future::pending().await
}
