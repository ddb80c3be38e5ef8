//! What `nook doctor` and the problem page say.

use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How it stands.
    pub verdict: Verdict,
    /// What was looked at.
    pub subject: String,
    /// What was found and, where it is not well, what to do.
    pub sentence: String,
}

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Well,
    /// Worth knowing.
    Note,
    /// Needs the owner.
    Problem,
}
