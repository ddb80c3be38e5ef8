//! The one window: hidden and shown again, never sent anywhere but to its own pages.
//!
//! A page in the tray costs memory that this program exists to give to models: one that has been
//! away for [`PAGE_KEPT`] ends, and is made anew when somebody wants to see it. What it showed is
//! kept by the house.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tauri::webview::NewWindowResponse;
use tauri::{AppHandle, Manager, Url, WebviewUrl, WebviewWindow, WebviewWindowBuilder};

use crate::asks::Page;
use crate::background::Background;
use crate::news::News;
use crate::opening::Opening;
use crate::replies::Replies;
use crate::{leaving, page_watch, texts, tray_host};

/// Label of the window; the capability names it too.
pub(crate) const LABEL: &str = "main";

const SIZE: (f64, f64) = (1100.0, 760.0);
/// Narrower, a line of a reply holds too few words.
const SIZE_MIN: (f64, f64) = (360.0, 480.0);

/// How long a page stays that nobody sees.
pub(crate) const PAGE_KEPT: Duration = Duration::from_secs(5 * 60);

/// How often the window was shown or put away, and how long its page is kept.
#[derive(Debug)]
pub(crate) struct Whereabouts {
    /// Whoever waits for something to stay as it is compares this.
    changes: AtomicU64,
    page_kept: Duration,
    /// Whether the page has what would be gone with it.
    is_needed: AtomicBool,
}

impl Whereabouts {
    /// `page_kept`: see [`PAGE_KEPT`].
    pub(crate) fn new(page_kept: Duration) -> Self {
        Self { changes: AtomicU64::new(0), page_kept, is_needed: AtomicBool::new(false) }
    }

    /// Something changed; the number of this change.
    fn change(&self) -> u64 {
        self.changes.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Whether the page has what nothing else keeps. A new page begins with nothing.
    pub(crate) fn page_holds(&self, unkept: bool) {
        self.is_needed.store(unkept, Ordering::SeqCst);
    }

    fn is_still(&self, change: u64) -> bool {
        self.changes.load(Ordering::SeqCst) == change
    }
}

/// Makes the window without showing it. Not on the thread of the window system once that runs: on
/// Windows it would wait for itself.
fn create(app: &AppHandle) -> tauri::Result<WebviewWindow> {
    WebviewWindowBuilder::new(app, LABEL, WebviewUrl::default())
        .title(texts::NAME)
        .inner_size(SIZE.0, SIZE.1)
        .min_inner_size(SIZE_MIN.0, SIZE_MIN.1)
        .visible(false)
        .on_navigation(is_own)
        .on_new_window(|_, _| NewWindowResponse::Deny)
        .build()
        .inspect(page_watch::watch_over)
}

/// Shows the window and gives it the focus; makes it where it is not there.
pub(crate) fn show(app: &AppHandle) {
    app.state::<Whereabouts>().change();
    if let Some(window) = app.get_webview_window(LABEL) {
        bring_up(&window);
        return;
    }
    app.state::<Background>().run("window", show_anew(app.clone()));
}

/// Shows a window that may have to be made; it is there when this returns.
pub(crate) async fn show_anew(app: AppHandle) {
    if let Some(window) = there(&app) {
        bring_up(&window);
    }
}

/// Puts away a window that may have to be made. It is not brought up before: the desktop may follow
/// the wish for the focus after the one to minimise it.
pub(crate) async fn put_away_anew(app: AppHandle) {
    if there(&app).is_some() {
        put_away(app).await;
    }
}

/// Makes a window that nobody sees, where none is there; whether there is one. Its page ends like
/// that of one that was put away.
pub(crate) fn make_unseen(app: &AppHandle) -> bool {
    if app.get_webview_window(LABEL).is_some() {
        return true;
    }
    let change = app.state::<Whereabouts>().change();
    app.state::<Background>().run("page", give_up_page(app.clone(), change));
    there(app).is_some()
}

/// The window, made where it is not there.
fn there(app: &AppHandle) -> Option<WebviewWindow> {
    let made = app.get_webview_window(LABEL).map_or_else(
        || {
            app.state::<Whereabouts>().page_holds(false);
            create(app)
        },
        Ok,
    );
    made.inspect_err(|error| tracing::warn!(%error, "the window could not be made")).ok()
}

fn bring_up(window: &WebviewWindow) {
    let shown = window.show().and_then(|()| window.unminimize()).and_then(|()| window.set_focus());
    if let Err(error) = shown {
        tracing::warn!(%error, "the window could not be shown");
    }
}

/// Whether somebody may be looking at the window.
pub(crate) fn is_in_sight(app: &AppHandle) -> bool {
    app.get_webview_window(LABEL).is_some_and(|window| window.is_visible().unwrap_or(true))
}

/// Shows the window at a page.
pub(crate) fn show_page(app: &AppHandle, page: Page) {
    app.state::<News>().go_to(page);
    show(app);
}

/// Shows the window with a new chat.
pub(crate) fn ask(app: &AppHandle) {
    app.state::<News>().ask();
    show(app);
}

/// Puts the window away: into the tray where there is one, else it is only minimised, because
/// nothing could bring a hidden one back.
pub(crate) async fn put_away(app: AppHandle) {
    let Some(window) = app.get_webview_window(LABEL) else {
        return;
    };
    if app.state::<Opening>().has_failed() {
        // There is nothing that could go on in the tray.
        return leaving::leave(app.clone()).await;
    }
    let change = app.state::<Whereabouts>().change();
    let away = if tray_host::is_there().await {
        app.state::<Background>().run("page", give_up_page(app.clone(), change));
        window.hide()
    } else {
        app.state::<News>().no_tray();
        window.show().and_then(|()| window.minimize())
    };
    if let Err(error) = away {
        tracing::warn!(%error, "the window could not be put away");
    }
}

/// Ends the page of a window that stays away. One that shows a reply under way is kept until that
/// is over, as a new page would not follow it; and one that has what would be gone with it.
async fn give_up_page(app: AppHandle, change: u64) {
    let whereabouts = app.state::<Whereabouts>();
    loop {
        tokio::time::sleep(whereabouts.page_kept).await;
        if !whereabouts.is_still(change) {
            return;
        }
        let is_needed = whereabouts.is_needed.load(Ordering::SeqCst);
        if !is_needed && !app.state::<Replies>().are_running() {
            break;
        }
    }
    let Some(window) = app.get_webview_window(LABEL) else {
        return;
    };
    match window.destroy() {
        Ok(()) => tracing::info!("the page that nobody looked at has ended"),
        Err(error) => tracing::warn!(%error, "the page could not be ended"),
    }
}

/// The addresses under which the program serves its own pages.
fn is_own(url: &Url) -> bool {
    match (url.scheme(), url.host_str()) {
        ("tauri", Some("localhost")) => true,
        ("http" | "https", Some("tauri.localhost")) => true,
        ("about", _) => url.path() == "blank",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_goes_nowhere_but_to_its_own_pages() {
        for (address, own) in [
            ("tauri://localhost/", true),
            ("http://tauri.localhost/index.html", true),
            ("about:blank", true),
            ("https://example.org/", false),
            ("http://127.0.0.1:4587/v1/models", false),
            ("file:///etc/passwd", false),
            ("tauri://elsewhere/", false),
        ] {
            assert_eq!(is_own(&Url::parse(address).unwrap()), own, "{address}");
        }
    }
}
