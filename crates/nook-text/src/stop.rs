//! Stop strings: ends a reply where one appears, and never shows any of it.
//!
//! [`StopStrings`] stands between the decoded text and its reader. It holds back the shortest tail
//! that may still become a stop string. The stop string that *ends* first counts (the longest of
//! those), so the outcome does not depend on how the text was cut into tokens.

use nook_base::Sensitive;

/// Most stop strings of one request with those of its template; more are refused. OpenAI allows 4,
/// programs that complete code send dozens.
pub const STOP_STRINGS_MAX: usize = 80;
/// Longest stop string, in bytes; a longer one is refused.
pub const STOP_STRING_BYTES_MAX: usize = 256;

/// What is wrong with a list of stop strings. The client is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StopStringsError {
    /// More than [`STOP_STRINGS_MAX`].
    #[error("there are {count} stop strings, at most {STOP_STRINGS_MAX} are allowed")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// One is longer than [`STOP_STRING_BYTES_MAX`].
    #[error("stop string {index} has {bytes} bytes, at most {STOP_STRING_BYTES_MAX} are allowed")]
    TooLong {
        /// Its place in the list.
        index: usize,
        /// Its length.
        bytes: usize,
    },
    /// One is empty, which would stop every reply at once.
    #[error("stop string {index} is empty")]
    Empty {
        /// Its place in the list.
        index: usize,
    },
}

/// What a piece of text gave.
#[derive(Clone, PartialEq, Eq)]
pub struct StopOutcome {
    /// Text to show now.
    pub emit: String,
    /// The stop string that ended the reply, once.
    pub stopped: Option<String>,
}

impl std::fmt::Debug for StopOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Reply text stays out of logs (invariant I-3).
        let bytes = self.emit.len();
        f.debug_struct("StopOutcome")
            .field("bytes", &bytes)
            .field("stopped", &self.stopped.is_some())
            .finish()
    }
}

/// Watches one reply for its stop strings.
#[derive(Debug, Clone)]
pub struct StopStrings {
    stops: Sensitive<Vec<String>>,
    held: Sensitive<String>,
    stopped: bool,
}

impl StopStrings {
    /// A watch for `stops`, which may be none.
    pub fn new(stops: Vec<String>) -> Result<Self, StopStringsError> {
        if stops.len() > STOP_STRINGS_MAX {
            return Err(StopStringsError::TooMany { count: stops.len() });
        }
        for (index, stop) in stops.iter().enumerate() {
            match stop.len() {
                0 => return Err(StopStringsError::Empty { index }),
                1..=STOP_STRING_BYTES_MAX => {}
                bytes => return Err(StopStringsError::TooLong { index, bytes }),
            }
        }
        Ok(Self { stops: stops.into(), held: String::new().into(), stopped: false })
    }

    /// Takes the next text. After a stop nothing more is emitted.
    pub fn push(&mut self, text: &str) -> StopOutcome {
        if self.stopped {
            return StopOutcome { emit: String::new(), stopped: None };
        }
        self.held.0.push_str(text);
        if let Some((start, stop)) = self.first_stop() {
            self.stopped = true;
            self.held.0.truncate(start);
            return StopOutcome { emit: std::mem::take(&mut self.held.0), stopped: Some(stop) };
        }
        let kept = self.held.0.split_off(self.held.len() - self.possible_stop());
        StopOutcome { emit: std::mem::replace(&mut self.held.0, kept), stopped: None }
    }

    /// Ends the reply: what was held back is text after all.
    #[must_use]
    pub fn finish(self) -> String {
        if self.stopped { String::new() } else { self.held.0 }
    }

    /// Where the stop string that ends first begins, and which it is.
    fn first_stop(&self) -> Option<(usize, String)> {
        let found = self.stops.iter().filter_map(|stop| {
            let start = self.held.find(stop.as_str())?;
            Some((start + stop.len(), start, stop))
        });
        found.min().map(|(_, start, stop)| (start, stop.clone()))
    }

    /// Length of the longest tail that is the beginning of a stop string.
    fn possible_stop(&self) -> usize {
        let held = self.held.as_bytes();
        let tail_of = |stop: &String| {
            let longest = (stop.len() - 1).min(held.len());
            (1..=longest)
                .rev()
                .find(|n| stop.is_char_boundary(*n) && held.ends_with(&stop.as_bytes()[..*n]))
        };
        self.stops.iter().filter_map(tail_of).max().unwrap_or(0)
    }
}
