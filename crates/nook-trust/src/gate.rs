//! The gate: the one place that decides whether a device may do something here.
//!
//! Owns nothing but a copy of the policy and of the levels; the node rebuilds it whenever either
//! changes, so a decision is always as new as the gate that made it. What it yields, [`Admitted`],
//! is the key to every function that serves or uses another device (invariant I-1). Its type says
//! for what: [`crate::purpose`].

use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;

use nook_base::{ErrorCode, PeerId};

use crate::level::TrustLevel;
use crate::purpose::{AdmissionPurpose, Purpose};

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
    /// Devices that this one helps and does not ask for help.
    only_helped: HashSet<PeerId>,
}

/// Proof that the gate let this device in for the purpose `P`. Only [`Gate::admit`] makes one.
///
/// ```compile_fail,E0451
/// use nook_trust::{Admitted, PeerId, purpose::Lend};
/// // The fields are private: nobody but the gate can write this down.
/// let forged = Admitted::<Lend> { peer: PeerId([0; 32]), purpose: std::marker::PhantomData };
/// ```
///
/// A function names the purpose that it serves:
///
/// ```
/// use nook_trust::{Admitted, Gate, GatePolicy, PeerId, TrustLevel, purpose};
///
/// fn host_layers(guest: &Admitted<purpose::Lend>) -> PeerId {
///     guest.peer()
/// }
///
/// let peer = PeerId([7; 32]);
/// let gate = Gate::new(GatePolicy::DEFAULT, [(peer, TrustLevel::Own)]);
/// let may_borrow_layers = gate.admit::<purpose::Lend>(peer)?;
/// assert_eq!(host_layers(&may_borrow_layers), peer);
/// # Ok::<(), nook_trust::Refusal>(())
/// ```
///
/// and cannot be called with the proof for another one, however far the device is trusted:
///
/// ```compile_fail,E0308
/// use nook_trust::{Admitted, Gate, GatePolicy, PeerId, TrustLevel, purpose};
///
/// fn host_layers(guest: &Admitted<purpose::Lend>) -> PeerId {
///     guest.peer()
/// }
///
/// let peer = PeerId([7; 32]);
/// let gate = Gate::new(GatePolicy::DEFAULT, [(peer, TrustLevel::Own)]);
/// let may_copy_models = gate.admit::<purpose::CopyModels>(peer)?;
/// assert_eq!(host_layers(&may_copy_models), peer);
/// # Ok::<(), nook_trust::Refusal>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted<P> {
    peer: PeerId,
    purpose: PhantomData<P>,
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
    /// Trusted, and helped by this machine, whose owner does not want its help.
    #[error("this device helps {peer} and does not ask it for help")]
    OnlyHelped {
        /// The device.
        peer: PeerId,
    },
}

impl GatePolicy {
    /// The defaults: layers, prompts and files for trusted devices.
    pub const DEFAULT: Self =
        Self { lend: TrustLevel::Trusted, borrow: TrustLevel::Trusted, copy: TrustLevel::Trusted };

    /// The least level for `purpose`. Never below guest: no setting opens the gate to strangers.
    /// Words go to devices of the same person and to no others; no setting changes that.
    #[must_use]
    pub fn minimum(&self, purpose: Purpose) -> TrustLevel {
        let level = match purpose {
            Purpose::Lend => self.lend,
            Purpose::Borrow => self.borrow,
            Purpose::CopyModels => self.copy,
            Purpose::RemoteWhole => TrustLevel::Own,
        };
        level.max(TrustLevel::Guest)
    }
}

impl Gate {
    /// A gate over the devices that this machine knows. Everybody else is unknown.
    pub fn new(policy: GatePolicy, levels: impl IntoIterator<Item = (PeerId, TrustLevel)>) -> Self {
        Self { policy, levels: levels.into_iter().collect(), only_helped: HashSet::new() }
    }

    /// The same gate, which admits these devices to what is lent here and not to this machine's
    /// prompts.
    #[must_use]
    pub fn helping_only(mut self, peers: impl IntoIterator<Item = PeerId>) -> Self {
        self.only_helped = peers.into_iter().collect();
        self
    }

    /// Lets `peer` in for the purpose `P`, or says why not.
    pub fn admit<P: AdmissionPurpose>(&self, peer: PeerId) -> Result<Admitted<P>, Refusal> {
        self.check(peer, P::PURPOSE).map(|()| Admitted { peer, purpose: PhantomData })
    }

    /// Whether `peer` would be let in for `purpose`: an answer to show or to plan with, and no
    /// proof.
    pub fn check(&self, peer: PeerId, purpose: Purpose) -> Result<(), Refusal> {
        let needs = self.policy.minimum(purpose);
        match self.level(peer) {
            TrustLevel::Blocked => Err(Refusal::Blocked { peer }),
            TrustLevel::Unknown => Err(Refusal::NotPaired { peer }),
            has if has < needs => Err(Refusal::TooLittleTrust { peer, has, needs }),
            _ if self.keeps_from(peer, purpose) => Err(Refusal::OnlyHelped { peer }),
            _ => Ok(()),
        }
    }

    /// Whether `purpose` would show something of this machine's prompts to a device that is only
    /// helped.
    fn keeps_from(&self, peer: PeerId, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Borrow | Purpose::RemoteWhole => self.only_helped.contains(&peer),
            Purpose::Lend | Purpose::CopyModels => false,
        }
    }

    /// The level of `peer` on this machine.
    #[must_use]
    pub fn level(&self, peer: PeerId) -> TrustLevel {
        self.levels.get(&peer).copied().unwrap_or_default()
    }
}

impl<P> Admitted<P> {
    /// The device that was let in.
    #[must_use]
    pub fn peer(&self) -> PeerId {
        self.peer
    }
}

impl Refusal {
    /// The code that crosses the wire.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::TrustDenied
    }
}
