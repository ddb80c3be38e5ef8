//! Pairing: two devices come to know each other's key through a code that a person types.
//!
//! The construction is that of Android's wireless debugging: a SPAKE2 exchange inside mutual TLS
//! 1.3, whose password holds the code *and* the TLS exporter, so that somebody who sits between two
//! TLS sessions fails although the right code was typed. Device A shows the code, device B types
//! it.
//!
//! ```text
//! A (shows the code)                              B (types the code)
//!   Introduction + SPAKE2 message   ──────────▶
//!                                   ◀──────────   Introduction + SPAKE2 message
//!                                   ◀──────────   Proof (MAC under B's role key)
//!   checks it, stores B durably
//!   Proof (MAC under A's role key)  ──────────▶   checks it, stores A durably
//!                                   ◀──────────   Stored
//! ```
//!
//! B proves first: a stranger who only guesses learns nothing but "wrong", three times per window.
//!
//! - [`code`]: the six digits.
//! - [`window`]: how long and how often guesses are taken at all.
//! - [`exchange`]: the state machine; bytes in, bytes and demands out.
//! - `message`, `pake`: the bytes, and SPAKE2 behind a trait.
//!
//! `nook-link` moves the bytes (`nook_link::pairing`) and calls back to have the device stored.

pub mod code;
pub mod exchange;
mod message;
pub mod pake;
pub mod window;

pub use code::{CodeError, PairingCode};
pub use exchange::{Exchange, PairingChannel, PairingError, Progress, ProvenPeer, Role};
pub use message::{
    APP_VERSION_BYTES_MAX, Introduction, MESSAGE_BYTES_MAX, MalformedMessage, RefusalReason,
    refusal,
};
pub use window::{PairingWindows, WindowClosed, WindowRefusal, WrongCode};

/// Version of the pairing handshake itself.
pub const PAIRING_VERSION: u8 = 1;

/// Bytes of TLS exporter that go into the password and the keys.
pub const EXPORTER_BYTES: usize = 64;

/// Label of the TLS exporter; both sides must use it.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-inglenook-pair-v1";
