//! The public keys that may sign what a release consists of.

use minisign_verify::{Error, PublicKey, Signature};

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

/// Why a signature does not make a file believable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// No key is known that could have signed it.
    #[error("no key is known that could have signed it")]
    NoKey,
    /// The signature is not one.
    #[error("its signature cannot be read")]
    Unreadable,
    /// Somebody else has signed it.
    #[error("it is signed with a key that is not known here")]
    WrongKey,
    /// The file is not what was signed.
    #[error("it was changed after it was signed")]
    Changed,
    /// It was signed as something else: see [`Keys::check_as`].
    #[error("it was signed as another kind of file")]
    OtherKind,
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
    pub fn check(&self, bytes: &[u8], signature: &[u8]) -> Result<(), SignatureError> {
        self.signature_of(bytes, signature).map(drop)
    }

    /// The same, and that they were signed as a file of this kind: the first word of the trusted
    /// comment, which is signed with them. One key signs files of several kinds, and none of them
    /// is to pass for another one.
    pub fn check_as(
        &self,
        kind: &str,
        bytes: &[u8],
        signature: &[u8],
    ) -> Result<(), SignatureError> {
        let signature = self.signature_of(bytes, signature)?;
        let is_it = signature.trusted_comment().split(' ').next() == Some(kind);
        is_it.then_some(()).ok_or(SignatureError::OtherKind)
    }

    fn signature_of(&self, bytes: &[u8], signature: &[u8]) -> Result<Signature, SignatureError> {
        if self.is_empty() {
            return Err(SignatureError::NoKey);
        }
        let text = std::str::from_utf8(signature).map_err(|_| SignatureError::Unreadable)?;
        let signature = Signature::decode(text).map_err(|_| SignatureError::Unreadable)?;
        let mut refusal = SignatureError::WrongKey;
        for key in &self.0 {
            match key.verify(bytes, &signature, false) {
                Ok(()) => return Ok(signature),
                Err(Error::UnexpectedKeyId) => {}
                Err(Error::InvalidSignature) => refusal = SignatureError::Changed,
                Err(_) => refusal = SignatureError::Unreadable,
            }
        }
        Err(refusal)
    }
}
