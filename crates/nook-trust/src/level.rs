//! Trust levels: local, asymmetric, raised only by the owner of this machine.
//!
//! A level is never sent and never read from a frame: no message type has a place for it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How far the owner of this machine trusts a device, from least to most.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum TrustLevel {
    /// Shut out: not even a connection.
    Blocked,
    /// Never paired.
    #[default]
    Unknown,
    /// Paired, nothing more.
    Guest,
    /// May lend to and borrow from this machine.
    Trusted,
    /// Another device of the same owner.
    Own,
}

/// A text that names no trust level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no trust level has this name: use blocked, guest, trusted or own")]
pub struct UnknownLevelName;

impl TrustLevel {
    /// Every level, from least to most.
    pub const ALL: [Self; 5] =
        [Self::Blocked, Self::Unknown, Self::Guest, Self::Trusted, Self::Own];

    /// The name in files, commands and on the port.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Unknown => "unknown",
            Self::Guest => "guest",
            Self::Trusted => "trusted",
            Self::Own => "own",
        }
    }

    /// Whether a device of this level may hold a connection at all: paired and not blocked.
    #[must_use]
    pub fn may_connect(self) -> bool {
        self >= Self::Guest
    }
}

impl fmt::Display for TrustLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TrustLevel {
    type Err = UnknownLevelName;

    fn from_str(text: &str) -> Result<Self, UnknownLevelName> {
        Self::ALL.into_iter().find(|level| level.name() == text).ok_or(UnknownLevelName)
    }
}
