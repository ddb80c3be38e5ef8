//! Everything that can happen to the actor: what its tasks and the handle tell it.

use std::net::SocketAddr;

use nook_base::PeerId;
use nook_wire::{Move, VersionMismatch, WayFigures};
use tokio::sync::oneshot;

use super::exchange::TrialSocket;
use super::session::Greeted;
use super::ways::Ending;
use crate::websocket::Probe;

/// Everything that can happen to the actor.
#[derive(Debug)]
pub(super) enum Input {
    /// Discovery has seen a device.
    Sighted { peer: PeerId, addresses: Vec<SocketAddr> },
    /// A dial asks whether it may say HELLO.
    MayGreet { peer: PeerId, number: u64, answer: oneshot::Sender<bool> },
    /// A dial is over.
    Dialled(Dialled),
    /// A device has connected and said HELLO.
    Arrived(Greeted),
    /// A device with another version has connected.
    Incompatible { peer: PeerId, versions: VersionMismatch },
    /// The link of this number was asked for a sign of life.
    Probed { peer: PeerId, number: u64, alive: bool },
    /// The link of this number has ended.
    Ended { peer: PeerId, number: u64 },
    /// A device tries another way to this one.
    Knocked { peer: PeerId },
    /// A trial for the link of this number asks whether it may offer to go on elsewhere.
    MayMove { peer: PeerId, number: u64, answer: oneshot::Sender<bool> },
    /// A trial is over, and the link did not move.
    Tried(Tried),
    /// A device offers to go on over the connection that it has tried.
    Offered(Box<Offered>),
    /// The link of this number goes on over another way.
    Moved { peer: PeerId, number: u64, passage: Passage },
    /// An offer of the device was taken, and the link did not move.
    NotMoved { peer: PeerId, number: u64 },
}

/// What a trial found out.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) peer: PeerId,
    pub(super) number: u64,
    /// Where the device answered.
    pub(super) answered: Vec<SocketAddr>,
    /// What went wrong at which address.
    pub(super) failures: Vec<(SocketAddr, AddressFailure)>,
    pub(super) ending: Ending,
}

/// A connection that was tried, on which its device asks to go on.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) trial: TrialSocket,
    pub(super) offer: Move,
}

/// The way that a link takes from now on.
#[derive(Debug, Clone)]
pub(super) struct Passage {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// Where the device takes links on this way.
    pub(super) listens_at: Option<SocketAddr>,
    pub(super) probe: Probe,
    /// What was measured.
    pub(super) found: Option<WayFigures>,
}

/// What an attempt found out.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) peer: PeerId,
    pub(super) number: u64,
    /// What went wrong at which address.
    pub(super) failures: Vec<(SocketAddr, AddressFailure)>,
    pub(super) outcome: Result<Greeted, DialFailure>,
}

/// Why one address led to no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressFailure {
    /// Nobody there, too slow, or nothing that speaks the protocol.
    NoAnswer,
    /// Somebody else.
    SomebodyElse,
    /// The device is there and does not take this one.
    NotTaken,
}

/// Why an attempt led to no link.
#[derive(Debug)]
pub(super) enum DialFailure {
    /// At no address.
    NoConnection,
    /// Connected, but HELLO was not answered: most likely another connection won.
    NotAnswered,
    /// No common version; absent where the other side has not said its own.
    Incompatible { versions: Option<VersionMismatch> },
}
