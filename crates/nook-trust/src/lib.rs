//! Who a device is, how two devices come to trust each other, and what that trust allows.
//!
//! - [`key`]: the Ed25519 key that is this device's identity, and the [`PeerId`] made from it.
//! - [`name`]: what a device calls itself: untrusted text, made harmless.
//! - [`pairing`]: the typed-code handshake as a state machine over bytes, its code and its window.
//! - [`level`], [`purpose`] and [`gate`]: trust levels, what they allow, and the one door that
//!   turns a request into an [`Admitted`] (invariant I-1).
//! - [`safety`]: the number that two people compare on two screens.
//! - [`ticket`]: a requester's signed word that one host may bring steps to another.
//!
//! Nothing here does I/O, spawns or reads a clock: time comes in as an argument, bytes go in and
//! out, so everything can be tested in memory. `nook-link` carries the bytes; `nook-store` keeps
//! the levels; `nook-node` asks the gate.

pub mod gate;
pub mod key;
pub mod level;
pub mod name;
pub mod pairing;
pub mod purpose;
pub mod safety;
pub mod ticket;

pub use gate::{Admitted, Gate, GatePolicy, Refusal};
pub use key::{DeviceKey, DevicePublicKey, KeyError};
pub use level::TrustLevel;
pub use name::DeviceName;
pub use nook_base::{PeerId, Ticket, TicketClaim};
pub use purpose::Purpose;
pub use safety::safety_number;
pub use ticket::TicketRefusal;
