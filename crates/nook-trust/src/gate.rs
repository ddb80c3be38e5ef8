//! The gate: the one place that decides whether a device may do something here.
//!
//! Owns nothing but a copy of the policy and of the levels; the node rebuilds it whenever either
//! changes, so a decision is always as new as the gate that made it. What it yields, [`Admitted`],
//! is the key to every function that serves or uses another device (invariant I-1).

use std::collections::HashMap;

use nook_base::{ErrorCode, PeerId};

use crate::TrustLevel;

/// What a device wants to do, or what this machine wants it for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Use layers hosted here.
    Lend,
    /// Compute on this machine's prompts.
    Borrow,
    /// Fetch model files from here. Each side asks its own gate, the one that gives and the one that takes.
    Copy,
    /// Run a whole request: prompt and reply are seen by the device that runs it. Each side asks its
    /// own gate, the one that gives the request away and the one that takes it.
    RemoteWhole,
}

/// The least trust that each purpose takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatePolicy {
    /// Who may use layers hosted here.
    pub lend: TrustLevel,
    /// Who may compute on this machine's prompts.
    pub borrow: TrustLevel,
    /// Who may fetch model files from here, and from whom this machine takes some.
    pub copy: TrustLevel,
}

/// Decides who may do what, by the levels it was made with.
#[derive(Debug, Clone)]
pub struct Gate {
    policy: GatePolicy,
    levels: HashMap<PeerId, TrustLevel>,
}

/// Proof that the gate let this device in for this purpose. Only [`Gate::admit`] makes one.
///
/// ```compile_fail
/// use nook_trust::{Admitted, PeerId, Purpose};
/// // The fields are private: nobody but the gate can write this down.
/// let forged = Admitted { peer: PeerId([0; 32]), purpose: Purpose::Lend };
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    peer: PeerId,
    purpose: Purpose,
}

/// Why the gate stayed shut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The owner has blocked the device.
    #[error("{peer} is blocked on this device")]
    Blocked {
        /// The device.
        peer: PeerId,
    },
    /// Never paired.
    #[error("{peer} is not paired with this device")]
    NotPaired {
        /// The device.
        peer: PeerId,
    },
    /// Paired, but not trusted enough.
    #[error("{peer} is {has} here, and this takes {needs}")]
    TooLittleTrust {
        /// The device.
        peer: PeerId,
        /// Its level.
        has: TrustLevel,
        /// The level asked for.
        needs: TrustLevel,
    },
}

impl GatePolicy {
    /// The defaults: layers, prompts and files for trusted devices.
    pub const DEFAULT: Self =
        Self { lend: TrustLevel::Trusted, borrow: TrustLevel::Trusted, copy: TrustLevel::Trusted };

    /// The least level for `purpose`. Never below guest: no setting opens the gate to strangers. Words
    /// go to devices of the same person and to no others; no setting changes that.
    #[must_use]
    pub fn minimum(&self, purpose: Purpose) -> TrustLevel {
        let level = match purpose {
            Purpose::Lend => self.lend,
            Purpose::Borrow => self.borrow,
            Purpose::Copy => self.copy,
            Purpose::RemoteWhole => TrustLevel::Own,
        };
        level.max(TrustLevel::Guest)
    }
}

impl Gate {
    /// A gate over the devices that this machine knows. Everybody else is unknown.
    pub fn new(policy: GatePolicy, levels: impl IntoIterator<Item = (PeerId, TrustLevel)>) -> Self {
        Self { policy, levels: levels.into_iter().collect() }
    }

    /// Lets `peer` in for `purpose`, or says why not.
    pub fn admit(&self, peer: PeerId, purpose: Purpose) -> Result<Admitted, Refusal> {
        let needs = self.policy.minimum(purpose);
        match self.level(peer) {
            TrustLevel::Blocked => Err(Refusal::Blocked { peer }),
            TrustLevel::Unknown => Err(Refusal::NotPaired { peer }),
            has if has < needs => Err(Refusal::TooLittleTrust { peer, has, needs }),
            _ => Ok(Admitted { peer, purpose }),
        }
    }

    /// The level of `peer` on this machine.
    #[must_use]
    pub fn level(&self, peer: PeerId) -> TrustLevel {
        self.levels.get(&peer).copied().unwrap_or_default()
    }
}

impl Admitted {
    /// The device that was let in.
    #[must_use]
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// What it was let in for.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }
}

impl Refusal {
    /// The code that crosses the wire.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::TrustDenied
    }
}
