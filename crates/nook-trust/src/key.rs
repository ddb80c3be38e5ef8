//! The key that is this device's identity.
//!
//! The secret lives in [`DeviceKey`] and is wiped when that is dropped; `nook-node` keeps it in the
//! system's keychain. Everything public is a [`DevicePublicKey`], whose hash is the [`PeerId`].

use std::fmt;

use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use nook_base::PeerId;
use rand::TryRngCore;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// DER of a SubjectPublicKeyInfo up to the key itself: Ed25519, no parameters (RFC 8410).
const SPKI_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;

/// This device's secret key. `Debug` shows only the id.
#[derive(Clone)]
pub struct DeviceKey {
    secret: SigningKey,
}

/// A device's public key: a valid Ed25519 point of full order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DevicePublicKey {
    key: VerifyingKey,
}

/// Bytes that are no usable key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not a PKCS#8 document with an Ed25519 key.
    #[error("the stored secret is not an Ed25519 key")]
    NotPkcs8,
    /// Not the SubjectPublicKeyInfo of an Ed25519 key, exactly.
    #[error("the certificate does not hold an Ed25519 key")]
    NotEd25519,
    /// An Ed25519 key for which anybody can make signatures.
    #[error("the public key is weak")]
    Weak,
    /// The system gave no random numbers.
    #[error("the system has no random numbers to make a key from")]
    NoRandomness,
}

/// A signature that its key did not make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not belong to this key and message")]
pub struct BadSignature;

impl DeviceKey {
    /// A new identity from the system's random numbers.
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = Zeroizing::new([0; 32]);
        rand::rngs::OsRng
            .try_fill_bytes(seed.as_mut_slice())
            .map_err(|_| KeyError::NoRandomness)?;
        Ok(Self::from_seed(&seed))
    }

    /// The key of a 32-byte seed.
    #[must_use]
    pub fn from_seed(seed: &Zeroizing<[u8; 32]>) -> Self {
        Self { secret: SigningKey::from_bytes(seed) }
    }

    /// The key in a PKCS#8 document (DER).
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        SigningKey::from_pkcs8_der(der)
            .map(|secret| Self { secret })
            .map_err(|_| KeyError::NotPkcs8)
    }

    /// The seed, for the keychain.
    #[must_use]
    pub fn to_seed(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.secret.to_bytes())
    }

    /// The key as a PKCS#8 document (DER).
    pub fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        self.secret
            .to_pkcs8_der()
            .map(|document| Zeroizing::new(document.as_bytes().to_vec()))
            .map_err(|_| KeyError::NotPkcs8)
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> DevicePublicKey {
        DevicePublicKey { key: self.secret.verifying_key() }
    }

    /// This device's id.
    #[must_use]
    pub fn peer_id(&self) -> PeerId {
        self.public().peer_id()
    }

    /// Signs `message`.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.secret.sign(message).to_bytes()
    }
}

impl DevicePublicKey {
    /// The key in a SubjectPublicKeyInfo. Anything but the one DER form of an Ed25519 key is
    /// refused, so one key has one id.
    pub fn from_spki(der: &[u8]) -> Result<Self, KeyError> {
        let raw = der
            .strip_prefix(&SPKI_PREFIX)
            .and_then(|raw| <[u8; 32]>::try_from(raw).ok())
            .ok_or(KeyError::NotEd25519)?;
        Self::from_bytes(&raw)
    }

    /// The key itself. Weak ones, and bytes that are no point of the curve, are refused.
    pub fn from_bytes(raw: &[u8; 32]) -> Result<Self, KeyError> {
        let key = VerifyingKey::from_bytes(raw).map_err(|_| KeyError::NotEd25519)?;
        if key.is_weak() {
            return Err(KeyError::Weak);
        }
        Ok(Self { key })
    }

    /// The key as a SubjectPublicKeyInfo (DER).
    #[must_use]
    pub fn to_spki(&self) -> [u8; 44] {
        let mut der = [0; 44];
        der[..12].copy_from_slice(&SPKI_PREFIX);
        der[12..].copy_from_slice(self.key.as_bytes());
        der
    }

    /// The 32 bytes of the key itself.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.key.as_bytes()
    }

    /// The id: SHA-256 of the SubjectPublicKeyInfo.
    #[must_use]
    pub fn peer_id(&self) -> PeerId {
        PeerId(Sha256::digest(self.to_spki()).into())
    }

    /// Checks a signature, strictly: no malleable form passes.
    pub fn verify(
        &self,
        message: &[u8],
        signature: &[u8; SIGNATURE_BYTES],
    ) -> Result<(), BadSignature> {
        self.key.verify_strict(message, &Signature::from_bytes(signature)).map_err(|_| BadSignature)
    }
}

impl fmt::Debug for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceKey({:?})", self.peer_id())
    }
}

impl fmt::Debug for DevicePublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevicePublicKey({:?})", self.peer_id())
    }
}
