//! A new version of this program shows that it comes up, or the one before comes back.
//!
//! A version has come up once its node is open and a page has shown itself. Where it was started in
//! the tray, a window that nobody sees is made for that: else a version whose window never opens would
//! be noticed only by a person who wants to see it, and then nobody would be there to put the one
//! before back. A version that notices itself that it cannot go on becomes the one before at once; one
//! that crashes is taken back by its fourth start, or by `nook update`, which watches from outside.

use nook_api::NodeHandle;
use nook_node::StartError;
use tauri::{AppHandle, Manager};

use crate::page_watch::PageWatch;
use crate::{leaving, trial, window};

/// Says that the program has come up, once it has.
pub(crate) async fn follow(app: AppHandle, house: NodeHandle) {
    if trial::is_pending(&app).await {
        if !window::make_unseen(&app) {
            leaving::give_way(&app, "its window cannot be made").await;
            return;
        }
        app.state::<PageWatch>().until_one_came().await;
        trial::came_up(&app).await;
        tracing::info!("the new version has come up");
    }
    house.restart().come_up();
}

/// The node did not start. Whether the version before takes over.
pub(crate) async fn is_to_blame(app: &AppHandle, error: &StartError) -> bool {
    if error.is_taken() {
        trial::left(app).await;
        return false;
    }
    leaving::give_way(app, "its node does not start").await
}
