//! What `nook doctor` and the problem page say.

use serde::{Deserialize, Serialize};

use crate::views::Condition;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Finding {
    /// How it stands.
    pub verdict: Verdict,
    /// What was looked at.
    pub subject: String,
    /// What was found and, where it is not well, what to do; in English.
    pub sentence: String,
    /// The same for doors that speak other languages; absent where only the sentence says it.
    #[serde(default)]
    pub condition: Option<Condition>,
}

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Well,
    /// Worth knowing.
    Note,
    /// Needs the owner.
    Problem,
}
