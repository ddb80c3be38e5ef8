//! One reply: from ids to events, over whatever route computes it.
//!
//! ```text
//!            ┌──────────── Generation (one task) ───────────┐
//! Event ───> │ Pipeline ── Action ──> SegmentCall (task each) │ ──> worker or peer
//!   ^        │    └─ Sample ──> Sampler ──> text      │ ──> ReplyPiece ──> door
//!   └────────┴────────────────────────────────────────┘
//! ```
//!
//! The pipeline decides, the generation does: it opens calls, carries bytes, samples, and tells the
//! door. Dropping the door's end of the stream cancels the generation within one token. A reply
//! that another device of the same person makes whole begins in `offload`, and becomes a generation
//! where that device does not see it through.

mod choosing;
mod generation;
mod handover;
mod offload;
pub(crate) mod segment_call;
mod sink;
mod timeline;

use std::time::Duration;

pub(crate) use generation::{GenerationSetup, local_call};
pub(crate) use handover::CacheCosts;
pub(crate) use offload::Given;
pub use sink::Me;
pub(crate) use sink::{ReaderLeft, ReplySink};

/// A reader that takes no event for this long has left without saying so; its reply ends.
pub(crate) const READER_STALL_LIMIT: Duration = Duration::from_secs(60);

/// Makes the reply, wherever that was decided to be.
pub(crate) async fn run(mut setup: GenerationSetup) {
    if offload::give_away(&mut setup).await {
        generation::Generation::new(setup).run().await;
    }
}
