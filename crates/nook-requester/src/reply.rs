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
//! Dropping the door's end of the stream cancels the walk within one token. A reply that another
//! device of the same person makes whole begins in `elsewhere`, and becomes a walk where that
//! device does not see it through.

mod choosing;
mod elsewhere;
mod handover;
pub(crate) mod leg;
mod telling;
mod timeline;
mod walk;

use std::time::Duration;

pub(crate) use elsewhere::Given;
pub(crate) use handover::CacheCosts;
pub use telling::Me;
pub(crate) use telling::Teller;
pub(crate) use walk::{WalkSetup, local_call};

/// A reader that takes no event for this long has left without saying so; its reply ends.
pub(crate) const READER_STALL_LIMIT: Duration = Duration::from_secs(60);

/// Makes the reply, wherever that was decided to be.
pub(crate) async fn run(mut setup: WalkSetup) {
    if elsewhere::give_away(&mut setup).await {
        walk::Walk::new(setup).run().await;
    }
}
