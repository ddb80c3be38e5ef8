//! The end, in order: 1 the house leaves (prompts end, peers are told, workers end), 2 the process
//! exits, or the program starts anew. Past the limit it does so anyway: the system frees what is
//! left, and workers end with their node.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nook_api::NodeHandle;
use nook_update::RunningProgram;
use tauri::{AppHandle, Manager};

use crate::arguments::Arguments;
use crate::opening::Opening;
use crate::{start_again, trial, window};

/// Longest that leaving may take; a person who chose Quit waits no longer.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);

/// Whether the end has begun.
#[derive(Debug, Default)]
pub(crate) struct Leaving(AtomicBool);

impl Leaving {
    /// The end begins; whether this call was the one that began it.
    pub(crate) fn begin(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }

    /// Whether the program ends or starts anew already.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// How the program starts anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartAnew {
    /// As it was started, after a fault.
    AsItWas,
    /// As the new version that lies ready.
    NewVersion,
    /// As the version before, because this one does not come up.
    VersionBefore,
    /// Without the graphics card. Only Linux has such a start; elsewhere nothing happens.
    WithoutCard,
}

/// Ends the program. A second call while it leaves changes nothing.
pub(crate) async fn leave(app: AppHandle) {
    if close_house(&app).await {
        trial::left(&app).await;
        app.exit(0);
    }
}

/// Ends the house and starts the program anew. A process of its own, not only another node in this
/// one: after a fault nobody knows what else in this one is wrong.
pub(crate) async fn start_anew(app: AppHandle, how: StartAnew) {
    if how == StartAnew::WithoutCard && !cfg!(target_os = "linux") {
        return tracing::debug!("starting anew would change nothing here");
    }
    if !close_house(&app).await {
        return;
    }
    let is_hidden = !window::is_in_sight(&app);
    // Else the new one would take itself for a second one, and end.
    tauri_plugin_single_instance::destroy(&app);
    let own = app.state::<RunningProgram>();
    // What was asked for, because a window that does not open is in nobody's sight.
    let was_hidden = app.state::<Arguments>().hidden;
    let started = match how {
        StartAnew::AsItWas => start_again::as_it_was(&own),
        StartAnew::NewVersion => start_again::as_new_version(&own, is_hidden),
        StartAnew::VersionBefore => start_again::as_version_before(&own, was_hidden),
        StartAnew::WithoutCard => start_again::safely(&own),
    };
    match started {
        Ok(()) => app.exit(0),
        Err(error) => {
            tracing::error!(%error, "the program could not start anew");
            app.exit(1);
        }
    }
}

/// This version does not come up: where it is on trial, it becomes the one before, with which all was
/// well. Whether it does.
pub(crate) async fn give_way(app: &AppHandle, reason: &str) -> bool {
    let is_pending = trial::is_pending(app).await;
    if is_pending {
        tracing::error!(reason, "the new version does not come up: the one before comes back");
        start_anew(app.clone(), StartAnew::VersionBefore).await;
    }
    is_pending
}

/// Ends what is left of a node, within the limit.
pub(crate) async fn shut_down(house: &NodeHandle) {
    if tokio::time::timeout(LEAVE_LIMIT, house.shut_down()).await.is_err() {
        tracing::warn!("leaving took too long; what is left ends with the process");
    }
}

/// Whether this call was the one that ended it.
async fn close_house(app: &AppHandle) -> bool {
    if !app.state::<Leaving>().begin() {
        return false;
    }
    if let Some(house) = app.state::<Opening>().now() {
        shut_down(&house).await;
    }
    true
}
