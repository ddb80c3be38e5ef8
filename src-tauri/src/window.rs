//! The one window: made once, hidden and shown again, never sent anywhere but to its own pages.

use tauri::webview::NewWindowResponse;
use tauri::{AppHandle, Manager, Url, WebviewUrl, WebviewWindow, WebviewWindowBuilder};

use crate::asks::Page;
use crate::news::News;
use crate::opening::Opening;
use crate::{leaving, texts, tray_host};

/// Label of the window; the capability names it too.
pub(crate) const LABEL: &str = "main";

const SIZE: (f64, f64) = (1100.0, 760.0);
/// Narrower, a line of a reply holds too few words.
const SIZE_MIN: (f64, f64) = (360.0, 480.0);

/// Makes the window without showing it.
pub(crate) fn create(app: &AppHandle) -> tauri::Result<WebviewWindow> {
    WebviewWindowBuilder::new(app, LABEL, WebviewUrl::default())
        .title(texts::NAME)
        .inner_size(SIZE.0, SIZE.1)
        .min_inner_size(SIZE_MIN.0, SIZE_MIN.1)
        .visible(false)
        .on_navigation(is_own)
        .on_new_window(|_, _| NewWindowResponse::Deny)
        .build()
}

/// Shows the window and gives it the focus.
pub(crate) fn show(app: &AppHandle) {
    let Some(window) = app.get_webview_window(LABEL) else {
        tracing::warn!("there is no window to show");
        return;
    };
    let shown = window.show().and_then(|()| window.unminimize()).and_then(|()| window.set_focus());
    if let Err(error) = shown {
        tracing::warn!(%error, "the window could not be shown");
    }
}

/// Shows the window at a page.
pub(crate) fn show_page(app: &AppHandle, page: Page) {
    app.state::<News>().go_to(page);
    show(app);
}

/// Puts the window away: into the tray where there is one, else it is only minimised, because nothing
/// could bring a hidden one back.
pub(crate) async fn put_away(app: AppHandle) {
    let Some(window) = app.get_webview_window(LABEL) else {
        return;
    };
    if app.state::<Opening>().has_failed() {
        // There is nothing that could go on in the tray.
        return leaving::leave(app.clone()).await;
    }
    let away = if tray_host::is_there().await {
        window.hide()
    } else {
        app.state::<News>().no_tray();
        window.show().and_then(|()| window.minimize())
    };
    if let Err(error) = away {
        tracing::warn!(%error, "the window could not be put away");
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
