//! The public keys that may sign a list of versions.

use minisign_verify::{Error, PublicKey, Signature};

use crate::refusal::Refusal;
use crate::release;

/// Public keys. There may be none: then nothing is believed.
#[derive(Debug, Clone)]
pub struct Keys(Vec<PublicKey>);

/// A text that is no public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{shown}` is no public key of minisign; write the second line of the file minisign.pub, several \
     with commas between them"
)]
pub struct KeyError {
    shown: String,
}

impl Keys {
    /// Those that were built into this program.
    pub fn built_in() -> Result<Self, KeyError> {
        Self::read(&release::KEYS.join(","))
    }

    /// Keys as minisign writes them, with commas or white space between them.
    pub fn read(text: &str) -> Result<Self, KeyError> {
        let words = text.split(|c: char| c == ',' || c.is_whitespace());
        let keys = words.filter(|word| !word.is_empty()).map(|word| {
            PublicKey::from_base64(word).map_err(|_| KeyError {
                shown: word.chars().take(80).flat_map(char::escape_debug).collect(),
            })
        });
        keys.collect::<Result<_, _>>().map(Self)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of the keys has signed these bytes, in the form that minisign writes since 2020.
    pub fn check(&self, bytes: &[u8], signature: &[u8]) -> Result<(), Refusal> {
        if self.is_empty() {
            return Err(Refusal::NoKey);
        }
        let text = std::str::from_utf8(signature).map_err(|_| Refusal::NoSignature)?;
        let signature = Signature::decode(text).map_err(|_| Refusal::NoSignature)?;
        let mut refusal = Refusal::WrongKey;
        for key in &self.0 {
            match key.verify(bytes, &signature, false) {
                Ok(()) => return Ok(()),
                Err(Error::UnexpectedKeyId) => {}
                Err(Error::InvalidSignature) => refusal = Refusal::Changed,
                Err(_) => refusal = Refusal::NoSignature,
            }
        }
        Err(refusal)
    }
}
