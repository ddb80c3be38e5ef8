//! A requester's word that one host may bring the steps of a call to another, with its signature.
//!
//! Fixed fields only: keys, ids, digests and numbers (invariant I-2). `nook-wire` carries a ticket;
//! `nook-trust` signs and checks it and says what the signature covers.

use serde::{Deserialize, Serialize};

use crate::{ActivationDtype, LayerRange, ModelDigest, PeerId};

/// A claim with its signature, as it travels; nothing of it is proved yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The public key (Ed25519) that is said to have signed; its hash is the requester's id.
    pub requester: [u8; 32],
    /// What it is said to have signed.
    pub claim: TicketClaim,
    /// The Ed25519 signature, in two halves.
    pub signature: [[u8; 32]; 2],
}

/// What a requester says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketClaim {
    /// Who brings the steps.
    pub carrier: PeerId,
    /// Who takes them.
    pub host: PeerId,
    /// The requester's name for its call at `host`: random.
    pub session: u64,
    /// The model of that call.
    pub model: ModelDigest,
    /// Its layers.
    pub layers: LayerRange,
    /// How its activations are written.
    pub dtype: ActivationDtype,
    /// Its longest position.
    pub positions_max: u32,
}
