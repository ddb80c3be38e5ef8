//! What is said so that a host can hand its results to the next host instead of the requester.
//!
//! ```text
//! requester ──FORWARD ticket──► first ──RELAY ticket──► next     once, before the first step
//! requester ◄──ONWARD────────── first ◄──ONWARD──────── next     it stands, or a code says why not
//! requester ──STEP────────────► first ──STEP──────────► next     each step, with its rows
//! requester ◄──PASSED────────── first                            it is out of the first host
//! requester ◄──RESULT───────────────────────────────── next
//! ```
//!
//! The requester has opened its own call at both hosts before; a ticket ([`nook_base::Ticket`])
//! joins the two and opens nothing. `nook-trust` says what the signature covers and checks it.

use serde::{Deserialize, Serialize};

/// A step's result has gone on to the next host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Number of the step.
    pub step: u64,
    /// Time spent computing, in µs.
    pub compute_us: u32,
    /// Time spent waiting for a turn, in µs.
    pub queue_us: u32,
}
