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
//! The requester has opened its own call at both hosts before; a ticket joins the two and opens
//! nothing. `nook-trust` says what the signature covers and checks it.

use nook_base::{ActivationDtype, LayerRange, ModelDigest, PeerId};
use serde::{Deserialize, Serialize};

/// The requester's word that `carrier` may bring the steps of one of its calls at `host`.
///
/// Fixed fields only: keys, ids, digests and numbers (invariant I-2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The requester's public key (Ed25519); the hash of it is the requester's id.
    pub requester: [u8; 32],
    /// Who brings the steps.
    pub carrier: PeerId,
    /// Who takes them.
    pub host: PeerId,
    /// [`crate::Open::session`] of the requester's call at `host`.
    pub session: u64,
    /// As that call was opened.
    pub model: ModelDigest,
    /// As that call was opened.
    pub layers: LayerRange,
    /// As that call was opened.
    pub dtype: ActivationDtype,
    /// As that call was opened.
    pub positions_max: u32,
    /// The Ed25519 signature, in two halves.
    pub signature: [[u8; 32]; 2],
}

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
