//! Connections between devices: mutual TLS, WebSocket frames, pairing over the network.
//!
//! - [`identity`]: this device's certificate.
//! - [`tls`]: who is at the other end; [`AuthenticatedPeer`].
//! - [`pairing`]: the temporary port and the typed code.
//! - [`links`]: the live connections to paired devices.
//!
//! Sockets between devices exist in this crate only.

mod accepting;
mod admission;
pub mod identity;
pub mod links;
mod message_bound;
pub mod pairing;
mod socket;
pub mod tls;
mod websocket;

pub use identity::{Identity, IdentityError};
pub use links::{
    KnownPeer, Link, LinkConfig, LinkEvent, Links, LoopbackPolicy, StartError, TurnedAway,
    WhyTurnedAway,
};
pub use pairing::Pairing;
pub use tls::{AuthenticatedPeer, PeerRefused};
