//! Identifiers: which device, which model.

use std::fmt;
use std::str::FromStr;

use data_encoding::{BASE32_NOPAD, HEXLOWER};
use serde::{Deserialize, Serialize};

/// A device: the SHA-256 of the DER-encoded SubjectPublicKeyInfo of its Ed25519 key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PeerId(pub [u8; 32]);

/// A model, exactly: the BLAKE3 root over its GGUF header and the digest of every tensor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ModelDigest(pub [u8; 32]);

/// A text that is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseIdError {
    /// Not base32 (devices) or not hexadecimal (models).
    #[error("an id holds only letters and digits in groups, as the other device shows it")]
    BadCharacters,
    /// The wrong number of bytes.
    #[error("an id is {expected} bytes long, this one has {got}")]
    BadLength {
        /// Bytes an id has.
        expected: usize,
        /// Bytes found.
        got: usize,
    },
}

impl PeerId {
    /// The first eight base32 characters, for lists and logs. Not unique; never compare by it.
    #[must_use]
    pub fn short(&self) -> String {
        BASE32_NOPAD.encode(&self.0[..5])
    }
}

impl ModelDigest {
    /// The first twelve hexadecimal digits, for lists and logs.
    #[must_use]
    pub fn short(&self) -> String {
        HEXLOWER.encode(&self.0[..6])
    }
}

impl fmt::Display for PeerId {
    /// Base32 in groups of four, as shown to people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = BASE32_NOPAD.encode(&self.0);
        for (index, group) in text.as_bytes().chunks(4).enumerate() {
            if index > 0 {
                f.write_str("-")?;
            }
            f.write_str(&String::from_utf8_lossy(group))?;
        }
        Ok(())
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl fmt::Display for ModelDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for ModelDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl FromStr for PeerId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let compact: String = text
            .chars()
            .filter(|c| !matches!(c, '-' | ' '))
            .map(|c| c.to_ascii_uppercase())
            .collect();
        let bytes =
            BASE32_NOPAD.decode(compact.as_bytes()).map_err(|_| ParseIdError::BadCharacters)?;
        into_array(bytes).map(Self)
    }
}

impl FromStr for ModelDigest {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let bytes = HEXLOWER
            .decode(text.to_ascii_lowercase().as_bytes())
            .map_err(|_| ParseIdError::BadCharacters)?;
        into_array(bytes).map(Self)
    }
}

fn into_array(bytes: Vec<u8>) -> Result<[u8; 32], ParseIdError> {
    let got = bytes.len();
    bytes.try_into().map_err(|_| ParseIdError::BadLength { expected: 32, got })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_being_shown_and_typed() {
        let peer = PeerId([0xa7; 32]);
        assert_eq!(peer.to_string().parse(), Ok(peer));
        assert_eq!(peer.to_string().to_lowercase().replace('-', " ").parse(), Ok(peer));
        let model = ModelDigest([0x3c; 32]);
        assert_eq!(model.to_string().parse(), Ok(model));
    }

    #[test]
    fn a_short_or_odd_id_is_refused_with_a_reason() {
        assert_eq!("1".parse::<PeerId>(), Err(ParseIdError::BadCharacters));
        assert_eq!(
            "MFRGG".parse::<PeerId>(),
            Err(ParseIdError::BadLength { expected: 32, got: 3 })
        );
    }
}
