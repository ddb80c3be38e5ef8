//! The few words that the app understands on its command line.

use std::ffi::OsString;
use std::time::Duration;

use crate::graphics::SAFE_WORD;

/// How the app was asked to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Arguments {
    /// Start in the tray, without a window: what an autostart entry passes.
    pub(crate) hidden: bool,
    /// Draw without the graphics card, for machines on which the window stays blank; the settings
    /// remember it.
    pub(crate) safe_graphics: bool,
    /// Switch sharing to its other side: for desktops without a tray, and for keys that a desktop
    /// lets people set.
    pub(crate) toggle_share: bool,
    /// Show a new chat: for keys that a desktop lets people set.
    pub(crate) ask: bool,
    /// End a page that nobody has seen for so long; absent: after [`crate::window::PAGE_KEPT`].
    pub(crate) page_kept: Option<Duration>,
}

impl Arguments {
    /// Reads the words after the program's name. Unknown ones are named in the log and left alone:
    /// desktops add their own, and names of files need not be Unicode.
    pub(crate) fn read(words: impl Iterator<Item = impl Into<OsString>>) -> Self {
        let mut read = Self::default();
        for word in words.map(Into::<OsString>::into) {
            match word.to_str() {
                Some("--hidden") => read.hidden = true,
                Some(SAFE_WORD) => read.safe_graphics = true,
                Some("--ask") => read.ask = true,
                Some("--toggle-share") => read.toggle_share = true,
                Some(text) if let Some(kept) = page_kept(text) => read.page_kept = Some(kept),
                _ => tracing::warn!(?word, "not understood"),
            }
        }
        read
    }
}

/// `--keep-page=300`, in seconds.
fn page_kept(word: &str) -> Option<Duration> {
    word.strip_prefix("--keep-page=")?.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], expected: Arguments) {
        let read = Arguments::read(words.iter().copied());
        assert_eq!(read, expected);
    }

    #[test]
    fn words_are_understood_in_any_order_and_strange_ones_left_alone() {
        let none = Arguments::default();
        check(&[], none);
        check(&["--hidden"], Arguments { hidden: true, ..none });
        check(&["--ask"], Arguments { ask: true, ..none });
        check(&["--toggle-share"], Arguments { toggle_share: true, ..none });
        let kept = Some(Duration::from_secs(2));
        check(&["--keep-page=2"], Arguments { page_kept: kept, ..none });
        check(&["--keep-page=soon"], none);
        let both = Arguments { hidden: true, safe_graphics: true, ..none };
        check(&["--gapplication-service", "--safe-graphics", "--hidden"], both);
    }

    #[cfg(unix)]
    #[test]
    fn a_word_that_is_no_text_is_left_alone() {
        use std::os::unix::ffi::OsStringExt as _;
        let words = [OsString::from_vec(b"caf\xe9".to_vec()), "--hidden".into()];
        let hidden = Arguments { hidden: true, ..Arguments::default() };
        assert_eq!(Arguments::read(words.into_iter()), hidden);
    }
}
