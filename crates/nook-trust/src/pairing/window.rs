//! When guesses are taken: the window of 120 s in which a code is valid.
//!
//! Counted globally, not by device or address: addresses are free. [`PairingWindows`] lives as long
//! as the process; the owner of the pairing port asks it before each check of a proof, under one
//! lock with that check, so that no fourth guess slips in beside the third.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long a code is valid.
pub const WINDOW: Duration = Duration::from_secs(120);

/// Wrong codes that close the window: three of a million, so a guesser wins 1 of 333,333 windows.
pub const WRONG_CODES_MAX: u8 = 3;

/// Windows that may be opened in [`WINDOWS_PERIOD`]. The next one is refused with the time to wait.
pub const WINDOWS_MAX: usize = 5;

/// The period over which windows are counted.
pub const WINDOWS_PERIOD: Duration = Duration::from_secs(3600);

/// The windows of one device: at most one is open, the recent ones are remembered.
#[derive(Debug, Default)]
pub struct PairingWindows {
    /// When recent windows were opened, oldest first; at most [`WINDOWS_MAX`].
    opened: VecDeque<Instant>,
    current: Option<Open>,
}

#[derive(Debug)]
struct Open {
    since: Instant,
    wrong: u8,
}

/// Why no window was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WindowRefusal {
    /// One is open already.
    #[error("this device is already showing a pairing code")]
    AlreadyOpen,
    /// Too many windows in the last hour.
    #[error("too many pairing attempts; try again in {} minutes", retry_in.as_secs().div_ceil(60))]
    TooMany {
        /// How long to wait.
        retry_in: Duration,
    },
}

/// A guess came when no window was open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this device is not pairing now")]
pub struct WindowClosed;

/// What a wrong code leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrongCode {
    /// More guesses are allowed.
    TriesLeft(u8),
    /// That was the last one; the window is closed and the code is burnt.
    Burnt,
}

impl PairingWindows {
    /// No window, none remembered.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a window; returns when it closes by itself.
    pub fn open(&mut self, now: Instant) -> Result<Instant, WindowRefusal> {
        if self.is_open(now) {
            return Err(WindowRefusal::AlreadyOpen);
        }
        let period_ends = |opened: Instant| opened + WINDOWS_PERIOD;
        self.opened.retain(|opened| period_ends(*opened) > now);
        if let (WINDOWS_MAX.., Some(oldest)) = (self.opened.len(), self.opened.front()) {
            let retry_in = period_ends(*oldest).saturating_duration_since(now);
            return Err(WindowRefusal::TooMany { retry_in });
        }
        self.opened.push_back(now);
        self.current = Some(Open { since: now, wrong: 0 });
        Ok(now + WINDOW)
    }

    /// Counts a wrong code, or a message that no honest device sends.
    pub fn wrong_code(&mut self, now: Instant) -> WrongCode {
        if !self.is_open(now) {
            return WrongCode::Burnt;
        }
        let Some(open) = self.current.as_mut() else {
            return WrongCode::Burnt;
        };
        open.wrong = open.wrong.saturating_add(1);
        match WRONG_CODES_MAX.saturating_sub(open.wrong) {
            0 => {
                self.current = None;
                WrongCode::Burnt
            }
            left => WrongCode::TriesLeft(left),
        }
    }

    /// Closes the window: after success, when the user cancels, before the machine sleeps.
    pub fn close(&mut self) {
        self.current = None;
    }

    /// Passes when a guess may be checked now.
    pub fn check_open(&self, now: Instant) -> Result<(), WindowClosed> {
        if self.is_open(now) { Ok(()) } else { Err(WindowClosed) }
    }

    /// Whether a window is open.
    #[must_use]
    pub fn is_open(&self, now: Instant) -> bool {
        self.current.as_ref().is_some_and(|open| now.saturating_duration_since(open.since) < WINDOW)
    }
}
