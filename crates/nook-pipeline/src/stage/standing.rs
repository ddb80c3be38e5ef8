//! Where a stage stands in what concerns it beside its own steps: being one of a chain, getting
//! what another host remembered, being slow, being compared with somebody else.
//!
//! A [`Stage`](super::Stage) holds them; `chain`, `kv_migration`, `slow` and `verification` act on
//! them.

use std::time::Instant;

use nook_base::{LayerRange, PeerId};

use crate::message::AttemptId;

/// Where the results of a stage go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Onward {
    /// Here.
    Home,
    /// Its host was asked to hand them to the next one; neither gets a step until it has answered.
    Asked,
    /// To the host of the next stage.
    Linked,
    /// Here, because its host cannot hand them on.
    Refused,
}

impl Onward {
    /// Whether it and the next stage stand and fall together.
    pub(crate) fn is_joined(self) -> bool {
        matches!(self, Self::Asked | Self::Linked)
    }
}

/// What a host remembered, on its way to the next.
#[derive(Debug)]
pub(crate) struct Migration {
    /// The call of the host that left.
    pub(crate) from: AttemptId,
    pub(crate) peer: PeerId,
    pub(crate) layers: LayerRange,
    /// Positions that are remembered.
    pub(crate) position: u32,
    /// When to stop waiting for the new host to have taken it; `None` while it lies with the node.
    pub(crate) due: Option<Instant>,
}

/// How a device does against its own pace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Slowness {
    /// As usual, or nothing is known.
    #[default]
    Usual,
    /// Slow: somebody else is looked for.
    Slow,
    /// Somebody else is catching up; so many steps were answered meanwhile.
    Chased(u32),
    /// Slow, and nobody would be so much faster; so many steps were answered since. Its pace over
    /// the next steps says more, and then it is looked again.
    Endured(u32),
    /// Slow, and nobody caught up.
    Settled,
}

/// Which answers of a stage are compared with somebody else's: positions `from..until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drawn {
    pub(crate) from: u32,
    pub(crate) until: u32,
    /// Whether another device has answered these positions before, or may have.
    pub(crate) replayed: bool,
}
