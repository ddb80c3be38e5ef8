//! One reply: from ids to events, over whatever route computes it.
//!
//! ```text
//!            ┌──────────── Walk (one task) ───────────┐
//! Event ───> │ Pipeline ── Action ──> Leg (task each) │ ──> worker or peer
//!   ^        │    └─ Sample ──> Sampler ──> text      │ ──> ReplyPiece ──> door
//!   └────────┴────────────────────────────────────────┘
//! ```
//!
//! The pipeline decides, the walk does: it opens calls, carries bytes, samples, and tells the door.
//! Dropping the door's end of the stream cancels the walk within one token.

mod choosing;
mod handover;
pub(crate) mod leg;
mod telling;
mod trails;
mod walk;

use std::time::Duration;

pub(crate) use handover::CacheCosts;
pub(crate) use telling::{Me, Teller};
pub(crate) use trails::TrailBook;
pub(crate) use walk::{Walk, WalkSetup, local_call};

/// A reader that takes no event for this long has left without saying so; its reply ends.
pub const READER_STALL_LIMIT: Duration = Duration::from_secs(60);
