//! What the installed package knows of this version: whether it has still to show that it comes up.
//!
//! Only the portable package puts versions in place by itself; whatever came otherwise is on no
//! trial. What follows from it, `coming_up` and `leaving` decide.

use nook_update::RunningProgram;
use tauri::{AppHandle, Manager};

/// This start counts. Does not return where the version was started too often without coming up:
/// the one before takes its place.
pub(crate) fn starts(own: &RunningProgram) -> std::io::Result<()> {
    match own.starts() {
        Ok(None) => Ok(()),
        Ok(Some(version)) => {
            tracing::error!("this version did not come up three times: {version} is back");
            crate::start_again::as_what_lies_there(own)
        }
        // A version that cannot be put on trial may still work.
        Err(error) => {
            tracing::error!(%error, "whether this version comes up is not noted");
            Ok(())
        }
    }
}

/// Whether this version has still to show that it comes up.
pub(crate) async fn is_pending(app: &AppHandle) -> bool {
    on_disk(app, |own| Some(own.is_on_trial())).await == Some(true)
}

/// All of it has come up: it stays.
pub(crate) async fn came_up(app: &AppHandle) {
    on_disk(app, |own| noted(own.came_up())).await;
}

/// The program ends in order, whoever wished that: a start that was ended before the program had come
/// up says nothing of it.
pub(crate) async fn left(app: &AppHandle) {
    on_disk(app, |own| noted(own.left())).await;
}

/// A version that did not come up here, once: whoever gets it tells a person.
pub(crate) async fn tell_taken_back(app: &AppHandle) -> Option<String> {
    on_disk(app, |own| own.portable()?.tell_taken_back()).await
}

/// What cannot be noted of a version costs it a start, and nothing else.
fn noted(done: Result<(), nook_update::InstallError>) -> Option<()> {
    done.inspect_err(|error| tracing::warn!(%error, "what became of a version is not noted")).ok()
}

/// Asks the installed package, on a thread that may wait for the disk.
async fn on_disk<T: Send + 'static>(
    app: &AppHandle,
    ask: impl FnOnce(&RunningProgram) -> Option<T> + Send + 'static,
) -> Option<T> {
    let own = app.state::<RunningProgram>().inner().clone();
    tokio::task::spawn_blocking(move || ask(&own)).await.ok().flatten()
}
