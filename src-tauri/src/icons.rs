//! The tray's glyphs, one a state. `icons/source` holds the drawings that they are made from.
//!
//! macOS colours a black template itself; the other systems get an ember tone that can be seen on
//! light and dark panels alike (3:1 against white and against black).

use nook_api::views::SharingState;
use tauri::image::Image;
use tauri::include_image;

/// The glyph of a state.
#[cfg(not(target_os = "macos"))]
pub(crate) fn of(state: SharingState) -> Image<'static> {
    match state {
        SharingState::Idle => include_image!("../icons/tray/idle-ember.png"),
        SharingState::Sharing => include_image!("../icons/tray/sharing-ember.png"),
        SharingState::Busy => include_image!("../icons/tray/busy-ember.png"),
        SharingState::Paused => include_image!("../icons/tray/paused-ember.png"),
        SharingState::Problem => include_image!("../icons/tray/problem-ember.png"),
    }
}

/// The glyph of a state.
#[cfg(target_os = "macos")]
pub(crate) fn of(state: SharingState) -> Image<'static> {
    match state {
        SharingState::Idle => include_image!("../icons/tray/idle-ink.png"),
        SharingState::Sharing => include_image!("../icons/tray/sharing-ink.png"),
        SharingState::Busy => include_image!("../icons/tray/busy-ink.png"),
        SharingState::Paused => include_image!("../icons/tray/paused-ink.png"),
        SharingState::Problem => include_image!("../icons/tray/problem-ink.png"),
    }
}
