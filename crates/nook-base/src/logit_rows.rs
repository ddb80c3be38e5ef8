//! Which logits a step is to give.

use serde::{Deserialize, Serialize};

/// For which positions of a step logits are wanted. Counts only for a part with the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogitRows {
    /// For none: the step only extends the KV cache, and the head is not computed.
    None,
    /// For the last one.
    Last,
    /// For each.
    All,
}
