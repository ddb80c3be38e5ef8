//! The words of one call of a requester: open a session, a step, its result.

use nook_base::{ActivationDtype, LayerRange, ModelDigest, PrefixHash};
use serde::{Deserialize, Serialize};

/// Please compute these layers for a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The requester's name for this call, drawn at random: what a [`crate::Ticket`] means.
    pub session: u64,
    /// The model.
    pub model: ModelDigest,
    /// The layers.
    pub layers: LayerRange,
    /// How activations are written, both ways.
    pub dtype: ActivationDtype,
    /// Positions that the session will need at most.
    pub positions_max: u32,
    /// Where to go on, if the host still remembers an earlier call of this conversation.
    pub resume: Option<ResumePoint>,
}

/// Where a conversation goes on that a host may remember from an earlier call of the same
/// requester.
///
/// The host truncates what it remembers to `position`, or copies so much of it, and answers OPENED
/// with it, or refuses with `history_mismatch`; then nothing is lost but a round trip, and the
/// requester opens from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumePoint {
    /// Positions to go on after: a place where a step of the earlier call ended.
    pub position: u32,
    /// Prefix hash of the history up to there, as that step said it.
    pub mark: PrefixHash,
    /// Whether the earlier call is to stay as it is, for others to go on with: this one begins with
    /// a copy.
    pub copy: bool,
}

/// The head of a step. Its activation, `count` x `hidden`, follows in chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepHead {
    /// Number of the step within its call; the result repeats it.
    pub step: u64,
    /// Position of the first row; must be the length of the host's cache.
    pub position: u32,
    /// Rows.
    pub count: u32,
    /// Numbers in a row.
    pub hidden: u32,
    /// How a number is written.
    pub dtype: ActivationDtype,
    /// Prefix hash of the history up to `position`.
    pub history_before: PrefixHash,
    /// Prefix hash of the history up to `position + count`.
    pub history_after: PrefixHash,
    /// Prefill: the frames of other calls may overtake this one's.
    pub bulk: bool,
}

/// The head of a step's result. Its activation, `count` x `hidden`, follows in chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultHead {
    /// Number of the step that it answers.
    pub step: u64,
    /// Position of the first row.
    pub position: u32,
    /// Rows.
    pub count: u32,
    /// Numbers in a row.
    pub hidden: u32,
    /// How a number is written.
    pub dtype: ActivationDtype,
    /// Time spent computing, in µs.
    pub compute_us: u32,
    /// Time spent waiting for a turn, in µs.
    pub queue_us: u32,
    /// Prefill: the frames of other calls may overtake this one's.
    pub bulk: bool,
}
