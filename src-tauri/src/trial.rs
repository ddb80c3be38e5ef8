//! A new version of this program shows that it comes up, or the one before comes back.
//!
//! Only the portable package puts versions in place by itself; whatever came otherwise is on no
//! trial. A version has come up once its node is open and a page has shown itself. Where it was
//! started in the tray, a window that nobody sees is made for that: else a version whose window
//! never opens would be noticed only by a person who wants to see it, and then nobody would be there
//! to put the one before back. A version that notices itself that it cannot go on becomes the one
//! before at once; one that crashes is taken back by its next start but two, or by `nook update`,
//! which watches from outside.

use nook_api::NodeHandle;
use nook_node::StartError;
use nook_update::RunningProgram;
use tauri::{AppHandle, Manager};

use crate::background::Background;
use crate::leaving::{self, StartAnew};
use crate::page_watch::PageWatch;
use crate::window;

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

/// Says that the program has come up, once it has.
pub(crate) async fn follow(app: AppHandle, house: NodeHandle) {
    if is_pending(&app).await {
        if !window::make_unseen(&app) {
            return gives_up(&app, "its window cannot be made");
        }
        app.state::<PageWatch>().until_one_came().await;
        on_disk(&app, |own| noted(own.came_up())).await;
        tracing::info!("the new version has come up");
    }
    house.restart().come_up();
}

/// The program ends in order, whoever wished that: a start that was ended before the program had come
/// up says nothing of it.
pub(crate) async fn left(app: &AppHandle) {
    on_disk(app, |own| noted(own.left())).await;
}

/// The node did not start. Whether the version before takes over.
pub(crate) async fn is_to_blame(app: &AppHandle, error: &StartError) -> bool {
    if error.is_taken() {
        left(app).await;
        return false;
    }
    let is_on_trial = is_pending(app).await;
    if is_on_trial {
        gives_up(app, "its node does not start");
    }
    is_on_trial
}

/// The page does not come. Whether the version before takes over; with that one it came.
pub(crate) async fn is_without_page(app: &AppHandle) -> bool {
    let is_on_trial = is_pending(app).await;
    if is_on_trial {
        gives_up(app, "its page does not come");
    }
    is_on_trial
}

/// A version that did not come up here, once: whoever gets it tells a person.
pub(crate) async fn tell_taken_back(app: &AppHandle) -> Option<String> {
    on_disk(app, |own| own.portable()?.tell_taken_back()).await
}

fn gives_up(app: &AppHandle, reason: &str) {
    tracing::error!(reason, "the new version does not come up: the one before comes back");
    let leaving = leaving::start_anew(app.clone(), StartAnew::VersionBefore);
    app.state::<Background>().run("version-before", leaving);
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
