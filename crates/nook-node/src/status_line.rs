//! How sharing stands, in one English line: what `nook` prints and the views carry (pure).
//!
//! The tray composes the same line from its catalogues, in the window's language; a test of the
//! tray holds its English against this one.

use nook_api::views::{PauseReason, SharingView};

/// `Sharing · 2 devices · idle`. `connected`: paired devices that are connected now.
#[must_use]
pub fn status_line(sharing: &SharingView, connected: usize) -> String {
    let word = match &sharing.paused {
        Some(paused) => format!("Sharing {}", paused.sentence),
        None if sharing.on => "Sharing".to_owned(),
        None => "Not sharing".to_owned(),
    };
    let devices = match connected {
        0 => "no other device".to_owned(),
        1 => "1 device".to_owned(),
        more => format!("{more} devices"),
    };
    let doing = match sharing.streams {
        0 if sharing.answering => "answering".to_owned(),
        0 => "idle".to_owned(),
        1 => "helping with 1 reply".to_owned(),
        more => format!("helping with {more} replies"),
    };
    format!("{word} · {devices} · {doing}")
}

/// Words that continue "Sharing is …". `until`: seconds since 1970; only the owner's own pause has
/// one.
#[must_use]
pub fn pause_words(reason: PauseReason, until: Option<u64>) -> String {
    match (reason, until) {
        (PauseReason::Owner, Some(until)) => {
            format!("paused until {}", nook_machine::seconds_to_clock(until))
        }
        (PauseReason::Owner, None) => "paused".to_owned(),
        (PauseReason::Sleep, _) => "paused while this computer sleeps".to_owned(),
        (PauseReason::QuietHours, _) => "paused in quiet hours".to_owned(),
        (PauseReason::Battery, _) => "paused on battery".to_owned(),
        (PauseReason::FullScreen, _) => "paused while a program fills the screen".to_owned(),
        (PauseReason::Busy, _) => "paused while other programs are busy".to_owned(),
    }
}
