//! The node: one event loop that owns the house.

pub mod doctor;
pub mod house;
pub mod views;

/// Reply streams.
pub mod reply {
    use std::time::Duration;

    /// A reader that takes no event for this long has left without saying so; its reply ends.
    pub const READER_STALL_LIMIT: Duration = Duration::from_secs(60);
}

pub use house::{
    ChatMessage, GenerateRequest, House, HouseError, PairTarget, Prompt, Reach, Reply, ReplyPiece,
    Sampling, Sharing, StartedTurn, Turn, TurnText,
};
