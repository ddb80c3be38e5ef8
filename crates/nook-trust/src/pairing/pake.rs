//! The password-authenticated key exchange, behind a trait: SPAKE2 over the Ed25519 group.
//!
//! `spake2` decodes whatever decompresses to a point. Here only the canonical encoding of a point
//! in the prime-order group passes: an honest message always is one, and everything else is an
//! attempt to learn the secret exponent piecewise.

use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::traits::IsIdentity;
use nook_base::PeerId;
use spake2::{Ed25519Group, Identity, Password, Spake2};
use zeroize::Zeroizing;

use super::exchange::Role;

/// Bytes of one SPAKE2 message: the side, then a point.
pub const PAKE_MESSAGE_BYTES: usize = 33;

/// A message that no honest device sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key exchange message is not valid")]
pub struct BadPakeMessage;

/// A balanced password-authenticated key exchange of one message each way.
pub trait Pake: Sized + Send {
    /// Starts one side. `shower` and `typer` are the two identities, in role order on both sides.
    fn start(
        role: Role,
        password: &[u8],
        shower: PeerId,
        typer: PeerId,
    ) -> (Self, [u8; PAKE_MESSAGE_BYTES]);

    /// The shared key; equal on both sides exactly when the passwords and identities were.
    fn finish(
        self,
        message: &[u8; PAKE_MESSAGE_BYTES],
    ) -> Result<Zeroizing<Vec<u8>>, BadPakeMessage>;
}

/// SPAKE2 with the Ed25519 group, SHA-256.
#[derive(Debug)]
pub struct Spake2Ed25519(Spake2<Ed25519Group>);

impl Pake for Spake2Ed25519 {
    fn start(
        role: Role,
        password: &[u8],
        shower: PeerId,
        typer: PeerId,
    ) -> (Self, [u8; PAKE_MESSAGE_BYTES]) {
        let password = Password::new(password);
        let shower = Identity::new(&shower.0);
        let typer = Identity::new(&typer.0);
        let (state, message) = match role {
            Role::ShowCode => Spake2::start_a(&password, &shower, &typer),
            Role::TypeCode => Spake2::start_b(&password, &shower, &typer),
        };
        let message =
            message.try_into().expect("SPAKE2 over Ed25519 always makes a message of 33 bytes");
        (Self(state), message)
    }

    fn finish(
        self,
        message: &[u8; PAKE_MESSAGE_BYTES],
    ) -> Result<Zeroizing<Vec<u8>>, BadPakeMessage> {
        let [_side, point @ ..] = message;
        check_point(point)?;
        self.0.finish(message).map(Zeroizing::new).map_err(|_| BadPakeMessage)
    }
}

/// Passes the canonical encoding of a point of prime order other than the neutral one.
fn check_point(encoded: &[u8; 32]) -> Result<(), BadPakeMessage> {
    let encoded = CompressedEdwardsY(*encoded);
    let point = encoded.decompress().ok_or(BadPakeMessage)?;
    let honest = point.compress() == encoded && !point.is_identity() && point.is_torsion_free();
    honest.then_some(()).ok_or(BadPakeMessage)
}
