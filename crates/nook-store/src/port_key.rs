//! The main bearer key of the local port: 256 random bits, made at the first start, kept 0600.

use std::path::PathBuf;

use data_encoding::BASE64URL_NOPAD;
use nook_base::Sensitive;
use rand::TryRngCore;
use zeroize::Zeroizing;

use crate::durable::{self, FileError, Readers};
use crate::home::Home;

const FILE: &str = "port.key";

/// Marks the text as a key of this product, for people and for secret scanners.
const PREFIX: &str = "nook-";

/// The key that programs present to the local port. `Debug` shows nothing of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortKey(Sensitive<String>);

/// No key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortKeyError {
    /// The file holds something else.
    #[error("{} does not hold a key of the port; remove it and a new key is made", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The system gave no random numbers.
    #[error("the system has no random numbers to make a key from")]
    NoRandomness,
    /// A file that the system refuses.
    #[error(transparent)]
    File(#[from] FileError),
}

impl PortKey {
    /// The key of `home`, made at its first start.
    pub fn load_or_create(home: &Home) -> Result<Self, PortKeyError> {
        let path = home.file(FILE);
        let Some(bytes) = durable::read(&path)?.map(Zeroizing::new) else {
            return Self::replace(home);
        };
        durable::make_private(&path)?;
        let damaged = PortKeyError::Damaged { path };
        match std::str::from_utf8(&bytes).map(str::trim) {
            Ok(text) if is_key(text) => Ok(Self(Sensitive(text.to_owned()))),
            _ => Err(damaged),
        }
    }

    /// Makes a new key; programs that hold the old one are locked out from then on.
    pub fn replace(home: &Home) -> Result<Self, PortKeyError> {
        let key = Self::mint()?;
        let line = Zeroizing::new(format!("{}\n", key.reveal()));
        durable::write(&home.file(FILE), line.as_bytes(), Readers::Owner)?;
        Ok(key)
    }

    /// A key that is nowhere yet.
    pub(crate) fn mint() -> Result<Self, PortKeyError> {
        let mut secret = Zeroizing::new([0_u8; 32]);
        rand::rngs::OsRng
            .try_fill_bytes(secret.as_mut_slice())
            .map_err(|_| PortKeyError::NoRandomness)?;
        let text = format!("{PREFIX}{}", BASE64URL_NOPAD.encode(secret.as_slice()));
        Ok(Self(Sensitive(text)))
    }

    /// The key as the user pastes it into other programs.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `presented` is this key, in a time that tells nothing about how much of it is right.
    #[must_use]
    pub fn is(&self, presented: &str) -> bool {
        // Equal digests of a collision-resistant hash; comparing them is constant in time.
        blake3::hash(self.0.as_bytes()) == blake3::hash(presented.as_bytes())
    }
}

fn is_key(text: &str) -> bool {
    text.strip_prefix(PREFIX)
        .and_then(|secret| BASE64URL_NOPAD.decode(secret.as_bytes()).ok())
        .is_some_and(|secret| secret.len() == 32)
}
