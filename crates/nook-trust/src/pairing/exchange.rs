//! One pairing exchange as a state machine: bytes in, bytes and demands out; no socket, no clock.
//!
//! Owns the SPAKE2 state and the role keys of one connection. `nook-link` feeds it the messages of
//! that connection and does what [`Progress`] says. The first error ends it: whatever comes after
//! is refused, so no second guess can be made on one exchange.

use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use nook_base::PeerId;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::code::PairingCode;
use super::message::{
    Introduction, MalformedMessage, Message, PROOF_BYTES, RefusalReason, encode_introduction,
    encode_proof, encode_stored,
};
use super::pake::{BadPakeMessage, Pake, Spake2Ed25519};
use super::{EXPORTER_BYTES, PAIRING_VERSION};

/// What a device does in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A: shows the code, checks the first proof.
    ShowCode,
    /// B: has the code typed in, proves first.
    TypeCode,
}

/// The TLS session that the exchange runs in.
#[derive(Debug)]
pub struct PairingChannel {
    own: PeerId,
    peer: PeerId,
    exporter: nook_base::Sensitive<Zeroizing<[u8; EXPORTER_BYTES]>>,
}

/// The other device, once it has proved that it knows the code over this very channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenPeer {
    /// Its id, from its certificate.
    pub id: PeerId,
    /// What it says about itself.
    pub introduction: Introduction,
}

/// What to do after a message.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// Nothing; the next message decides.
    Wait,
    /// Send these bytes.
    Send(Vec<u8>),
    /// Store this device durably, then call [`Exchange::stored`].
    Store(ProvenPeer),
    /// The other device has stored this one too; over.
    Finished,
}

/// Why an exchange failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PairingError {
    /// Both ends hold the same key: this device, or a copy of its data folder.
    #[error("that is this same device, or a copy of it")]
    SameDevice,
    /// The proof does not fit: another code was typed, or somebody sits in between.
    #[error("the code is not the one on the other screen")]
    WrongCode,
    /// A message that no honest device sends.
    #[error("the other device sent something that makes no sense")]
    PeerMisbehaved,
    /// No common version of pairing or of the wire.
    #[error(
        "the devices run versions of Inglenook that do not understand each other; update the older one"
    )]
    VersionMismatch,
    /// The other device ended the exchange.
    #[error("{}", reason.sentence(*tries_left))]
    RefusedByPeer {
        /// Its reason.
        reason: RefusalReason,
        /// Guesses that it says are left.
        tries_left: u8,
    },
    /// A message after the end, or out of turn.
    #[error("the other device sent a pairing message out of turn")]
    OutOfTurn,
}

/// One side of one exchange.
#[derive(Debug)]
pub struct Exchange<P: Pake = Spake2Ed25519> {
    role: Role,
    channel: PairingChannel,
    own: Introduction,
    own_message: Vec<u8>,
    state: State<P>,
}

enum State<P> {
    AwaitIntroduction(P),
    AwaitProof {
        keys: RoleKeys,
        peer: Introduction,
    },
    /// The device was handed out; `reply` goes to the other side once it is stored.
    Storing {
        reply: Vec<u8>,
    },
    AwaitStored,
    Over,
}

/// The proofs that each role must send.
struct RoleKeys {
    shower: Zeroizing<[u8; PROOF_BYTES]>,
    typer: Zeroizing<[u8; PROOF_BYTES]>,
}

impl PairingChannel {
    /// Describes a finished TLS session. `exporter` is its keying material under
    /// [`super::EXPORTER_LABEL`]. Fails when both ends are the same device.
    pub fn new(
        own: PeerId,
        peer: PeerId,
        exporter: Zeroizing<[u8; EXPORTER_BYTES]>,
    ) -> Result<Self, PairingError> {
        if own == peer {
            return Err(PairingError::SameDevice);
        }
        Ok(Self { own, peer, exporter: exporter.into() })
    }
}

impl<P: Pake> Exchange<P> {
    /// Starts one side; the bytes are the first message to send, without waiting for the other's.
    #[must_use]
    pub fn start(
        role: Role,
        code: &PairingCode,
        channel: PairingChannel,
        own: Introduction,
    ) -> (Self, Vec<u8>) {
        let (shower, typer) = role.order(channel.own, channel.peer);
        let password = password(code, &channel.exporter);
        let (pake, pake_message) = P::start(role, &password, shower, typer);
        let own_message = encode_introduction(&own, &pake_message);
        let exchange = Self {
            role,
            channel,
            own,
            own_message: own_message.clone(),
            state: State::AwaitIntroduction(pake),
        };
        (exchange, own_message)
    }

    /// Takes the next message of the other side. After an error nothing is taken any more.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Progress, PairingError> {
        let state = std::mem::replace(&mut self.state, State::Over);
        let message = Message::decode(bytes)?;
        if let Message::Refused { reason, tries_left } = message {
            return Err(PairingError::RefusedByPeer { reason, tries_left });
        }
        match (state, message) {
            (_, Message::OtherVersion(_)) => Err(PairingError::VersionMismatch),
            (
                State::AwaitIntroduction(pake),
                Message::Introduction { introduction, pake: theirs },
            ) => {
                self.check_versions(&introduction)?;
                let keys = self.derive(&pake.finish(&theirs)?, bytes);
                Ok(self.introduced(keys, introduction))
            }
            (State::AwaitProof { keys, peer }, Message::Proof(proof)) => {
                self.check_proof(&keys, &proof)?;
                self.state = State::Storing {
                    reply: match self.role {
                        Role::ShowCode => encode_proof(&keys.shower),
                        Role::TypeCode => encode_stored(),
                    },
                };
                Ok(Progress::Store(ProvenPeer { id: self.channel.peer, introduction: peer }))
            }
            (State::AwaitStored, Message::Stored) => Ok(Progress::Finished),
            _ => Err(PairingError::OutOfTurn),
        }
    }

    /// The device that [`Progress::Store`] named is stored durably: what to send now. For the
    /// device that typed the code the exchange is over with that.
    pub fn stored(&mut self) -> Result<Vec<u8>, PairingError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Storing { reply } => {
                if self.role == Role::ShowCode {
                    self.state = State::AwaitStored;
                }
                Ok(reply)
            }
            _ => Err(PairingError::OutOfTurn),
        }
    }

    /// Keys in hand: the side that typed the code proves at once, the other waits for that.
    fn introduced(&mut self, keys: RoleKeys, peer: Introduction) -> Progress {
        let progress = match self.role {
            Role::ShowCode => Progress::Wait,
            Role::TypeCode => Progress::Send(encode_proof(&keys.typer)),
        };
        self.state = State::AwaitProof { keys, peer };
        progress
    }

    fn check_versions(&self, peer: &Introduction) -> Result<(), PairingError> {
        let lowest = self.own.protocol.0.max(peer.protocol.0);
        let highest = self.own.protocol.1.min(peer.protocol.1);
        if lowest <= highest { Ok(()) } else { Err(PairingError::VersionMismatch) }
    }

    fn check_proof(&self, keys: &RoleKeys, proof: &[u8; PROOF_BYTES]) -> Result<(), PairingError> {
        let expected = match self.role {
            Role::ShowCode => &keys.typer,
            Role::TypeCode => &keys.shower,
        };
        if bool::from(expected.as_slice().ct_eq(proof)) {
            Ok(())
        } else {
            Err(PairingError::WrongCode)
        }
    }

    /// The proofs of both roles: an HMAC over the transcript, each under a key of its own, so that
    /// a reflected proof is worthless.
    fn derive(&self, shared: &[u8], their_message: &[u8]) -> RoleKeys {
        let transcript = self.transcript(their_message);
        let mut material = Zeroizing::new(shared.to_vec());
        material.extend_from_slice(&**self.channel.exporter);
        let hkdf = Hkdf::<Sha256>::new(Some(&transcript), &material);
        let proof = |info: &[u8]| {
            let mut key = Zeroizing::new([0; 32]);
            hkdf.expand(info, key.as_mut_slice()).expect("HKDF-SHA256 always yields 32 bytes");
            let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key.as_slice())
                .expect("HMAC takes keys of any length");
            mac.update(&transcript);
            Zeroizing::new(<[u8; PROOF_BYTES]>::from(mac.finalize().into_bytes()))
        };
        RoleKeys {
            shower: proof(b"inglenook-pair-v1 proof of the device that shows the code"),
            typer: proof(b"inglenook-pair-v1 proof of the device that types the code"),
        }
    }

    /// A hash of everything both sides have said: version, ids, names, versions, SPAKE2 messages.
    fn transcript(&self, their_message: &[u8]) -> [u8; 32] {
        let (shower, typer) = self.role.order(
            (self.channel.own, self.own_message.as_slice()),
            (self.channel.peer, their_message),
        );
        let mut hash = Sha256::new();
        hash.update(b"inglenook-pair transcript");
        hash.update([PAIRING_VERSION]);
        for (id, message) in [shower, typer] {
            hash.update(id.0);
            hash.update((message.len() as u64).to_be_bytes());
            hash.update(message);
        }
        hash.finalize().into()
    }
}

/// `"inglenook-pair-v1\0" ‖ code ‖ 0 ‖ exporter`.
fn password(code: &PairingCode, exporter: &[u8; EXPORTER_BYTES]) -> Zeroizing<Vec<u8>> {
    let label = b"inglenook-pair-v1\0";
    let mut password = Zeroizing::new(Vec::with_capacity(label.len() + 7 + exporter.len()));
    password.extend_from_slice(label);
    password.extend_from_slice(code.as_bytes());
    password.push(0);
    password.extend_from_slice(exporter);
    password
}

impl Role {
    /// Own and other thing as (of the device that shows the code, of the one that types it).
    fn order<T>(self, own: T, other: T) -> (T, T) {
        match self {
            Self::ShowCode => (own, other),
            Self::TypeCode => (other, own),
        }
    }
}

impl PairingError {
    /// Whether the device that shows the code counts this as a guess.
    #[must_use]
    pub fn is_attempt(&self) -> bool {
        matches!(self, Self::WrongCode | Self::PeerMisbehaved | Self::OutOfTurn)
    }
}

impl RefusalReason {
    /// For the person who typed the code.
    fn sentence(self, tries_left: u8) -> String {
        match self {
            Self::WrongCode if tries_left == 0 => {
                "That was the wrong code. Show a new one on the other device.".to_owned()
            }
            Self::WrongCode => format!("That was the wrong code; tries left: {tries_left}."),
            Self::NotPairing => "The other device is not showing a code any more.".to_owned(),
            Self::Version => nook_base::ErrorCode::VersionMismatch.sentence().to_owned(),
            Self::NotStored => "The other device could not save this one.".to_owned(),
            Self::Busy => "Too many connections keep the other device busy. Try again.".to_owned(),
            Self::Other => "The other device ended the pairing.".to_owned(),
        }
    }
}

impl From<MalformedMessage> for PairingError {
    fn from(_: MalformedMessage) -> Self {
        Self::PeerMisbehaved
    }
}

impl From<BadPakeMessage> for PairingError {
    fn from(_: BadPakeMessage) -> Self {
        Self::PeerMisbehaved
    }
}

impl<P> std::fmt::Debug for State<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::AwaitIntroduction(_) => "AwaitIntroduction",
            Self::AwaitProof { .. } => "AwaitProof",
            Self::Storing { .. } => "Storing",
            Self::AwaitStored => "AwaitStored",
            Self::Over => "Over",
        })
    }
}
