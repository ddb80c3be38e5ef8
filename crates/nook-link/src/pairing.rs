//! Pairing over the network: the temporary port on one side, the typed code on the other.
//!
//! [`Pairing`] owns the windows of this device and nothing else. [`Pairing::offer`] opens the
//! temporary port and answers with the code to show; what happens there arrives as
//! [`PairingEvent`]s, the last of which says how the window ended. [`Pairing::join`] is the other
//! side: one address, one code, one answer. Who may be trusted is decided by
//! [`nook_trust::pairing::Exchange`]; here are only sockets, deadlines and limits.
//!
//! Both sides hand the new device to a [`StorePeer`] and report success only after that has
//! returned: a crash before it leaves nothing, a crash after it leaves a whole entry.

mod conversation;
mod join;
mod offer;

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use nook_base::PeerId;
use nook_trust::DeviceName;
use nook_trust::pairing::{Introduction, PairingCode, PairingWindows, ProvenPeer, WindowRefusal};
use tokio_util::sync::DropGuard;

use crate::Identity;

pub use join::JoinError;

/// A device that has just been paired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairedPeer {
    /// Its id.
    pub id: PeerId,
    /// What it calls itself.
    pub name: DeviceName,
    /// Version of its program.
    pub app_version: String,
    /// Where it takes links, as far as this session shows: the address it was met at, with its main
    /// port. Empty when it takes none.
    pub addresses: Vec<SocketAddr>,
}

/// The new device could not be stored; it is not paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the new device could not be saved on this one")]
pub struct NotStored;

/// What a [`StorePeer`] returns.
pub type Storing = Pin<Box<dyn Future<Output = Result<(), NotStored>> + Send>>;

/// Stores a paired device durably. Called once per pairing, before success is shown anywhere.
pub type StorePeer = Arc<dyn Fn(PairedPeer) -> Storing + Send + Sync>;

/// Pairing on this device, both ways. Lives as long as the process: it counts the windows.
#[derive(Debug)]
pub struct Pairing {
    identity: Identity,
    windows: Windows,
}

/// Guards the count of wrong codes; locked together with each check of a proof, never across a
/// wait.
type Windows = Arc<Mutex<PairingWindows>>;

/// Where and as whom a device offers itself.
#[derive(Debug, Clone)]
pub struct OfferConfig {
    /// Addresses to listen on; all share one port.
    pub listen: Vec<IpAddr>,
    /// The port; 0: a random one.
    pub port: u16,
    /// What this device says about itself, its main port included.
    pub introduction: Introduction,
}

/// An open window. Dropping it closes the window: the user has cancelled.
#[derive(Debug)]
pub struct PairingOffer {
    /// What to show. On the screen only.
    pub code: PairingCode,
    /// The temporary port; discovery announces it as `pair`, people type it behind the address.
    pub port: u16,
    /// When the window closes by itself.
    pub expires: Instant,
    _cancel: DropGuard,
}

/// What happens at an open window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairingEvent {
    /// A wrong code was typed, or nonsense was sent.
    WrongCode {
        /// Guesses left.
        tries_left: u8,
    },
    /// Paired and stored; the window is closed.
    Paired {
        /// The new device.
        peer: PairedPeer,
        /// Whether the other device has confirmed that it stored this one. If not, it may have
        /// failed there, and pairing again mends it.
        confirmed: bool,
    },
    /// The right code, but this device could not store the other; the window is closed.
    NotStored,
    /// The third wrong code: the window is closed and its code is void.
    Burnt,
    /// The time is over; the window is closed.
    Expired,
    /// The offer was dropped; the window is closed.
    Cancelled,
}

/// Why no window was opened.
#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    /// One is open, or there were too many.
    #[error("{refusal}")]
    Refused {
        /// Which.
        refusal: WindowRefusal,
    },
    /// The temporary port could not be opened.
    #[error("no port could be opened for pairing")]
    Port {
        /// Why.
        source: std::io::Error,
    },
}

impl Pairing {
    /// No window yet.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        Self { identity, windows: Windows::default() }
    }
}

impl PairedPeer {
    fn new(peer: ProvenPeer, met_at: SocketAddr) -> Self {
        let ProvenPeer { id, introduction } = peer;
        let mut address = met_at;
        address.set_ip(met_at.ip().to_canonical());
        address.set_port(introduction.port);
        Self {
            id,
            name: introduction.name,
            app_version: introduction.app_version,
            addresses: if introduction.port == 0 { Vec::new() } else { vec![address] },
        }
    }
}

impl PairingEvent {
    /// Whether nothing follows.
    #[must_use]
    pub fn is_last(&self) -> bool {
        !matches!(self, Self::WrongCode { .. })
    }
}
