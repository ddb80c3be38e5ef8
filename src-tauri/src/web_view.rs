//! What draws the window. Linux and macOS have it as a library without which the program does not
//! even start; on Windows it is a part of its own (Microsoft Edge WebView2), which Windows 11 has
//! and an older Windows 10 may lack.
//!
//! Looked for before a window system exists: a window that cannot be drawn has no place to say so.

use crate::texts::{self, Texts};

/// Where Microsoft gives it to people, in their own language.
const ADDRESS: &str = "https://developer.microsoft.com/microsoft-edge/webview2/consumer/";

/// This computer cannot draw a window.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this computer has no Microsoft Edge WebView2, which draws the window: install it from {ADDRESS} and \
     start Inglenook again. `nook up` runs Inglenook without a window"
)]
pub(crate) struct NoWebView;

/// Makes sure that a window can be drawn. Where it cannot, a person is told so and may have the page
/// opened that helps. `language`: the one that the window spoke last.
#[cfg(windows)]
pub(crate) fn ensure(language: Option<&str>) -> Result<(), NoWebView> {
    use rfd::{MessageButtons, MessageDialog, MessageDialogResult, MessageLevel};

    let Err(error) = tauri::webview_version() else { return Ok(()) };
    tracing::debug!(%error, "the system names no version of WebView2");
    let asked = MessageDialog::new()
        .set_level(MessageLevel::Warning)
        .set_title(texts::NAME)
        .set_description(question(texts::Speech::new(language).now()))
        .set_buttons(MessageButtons::YesNo)
        .show();
    if asked == MessageDialogResult::Yes
        && let Err(error) = open::that_detached(ADDRESS)
    {
        tracing::warn!(%error, "the page about WebView2 could not be opened");
    }
    Err(NoWebView)
}

/// What draws the window was found when this program was loaded.
#[cfg(not(windows))]
pub(crate) fn ensure(_language: Option<&str>) -> Result<(), NoWebView> {
    Ok(())
}

/// What a person is asked.
#[cfg_attr(not(any(windows, test)), expect(dead_code, reason = "only Windows has to ask"))]
fn question(texts: &Texts) -> String {
    texts::fill(&texts.no_web_view, "address", ADDRESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_learns_in_their_language_what_is_missing_and_where_it_is() {
        for code in ["en", "de"] {
            let asked = question(Texts::of(code).unwrap());
            assert!(asked.contains("WebView2") && asked.contains(ADDRESS), "{asked}");
            assert!(!asked.contains('{'), "{asked}");
        }
        assert!(NoWebView.to_string().contains(ADDRESS));
    }
}
