//! This device's key: where it is kept, and when a new one may be made.
//!
//! The secret lives in the system's keyring, or in a 0600 file where none answers. The public id
//! lives beside it in a file of its own, which is what makes the one rule checkable: **a new
//! identity is minted only when neither a secret nor a public id exists.** A keyring that is
//! locked, gone or holds another key is a message to the user; a second identity would silently
//! unpair this device from the whole house.
//!
//! [`load_or_mint`] is called once at start, from a thread that may wait a few seconds.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER_PERMISSIVE;
use nook_base::{PeerId, env};
use nook_trust::{DeviceKey, KeyError};
use zeroize::Zeroizing;

use crate::durable::{self, FileError, Readers};
use crate::home::Home;
use crate::keyring::{KeyringTrouble, SecretStore, SystemKeyring};

const PUBLIC_FILE: &str = "identity.pub";
const SECRET_FILE: &str = "identity.key";

/// Switches the keyring off for one process when set to `off`: households on one machine, tests,
/// machines without a session.
pub const KEYRING_VARIABLE: &str = "INGLENOOK_KEYRING";

/// Whether the keyring may be used for a new secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyringChoice {
    /// The system's keyring, else a file.
    System,
    /// A file, always.
    Off,
}

/// Where the secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    /// In the system's keyring.
    Keyring,
    /// In a file that only its owner can read; the app says so.
    File {
        /// Which file.
        path: PathBuf,
        /// Why not in the keyring.
        why: WhyFile,
    },
}

/// Why the secret is in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyFile {
    /// It was found there: earlier starts put it there.
    FoundThere,
    /// The keyring is switched off.
    SwitchedOff,
    /// The keyring did not work when the key was made.
    KeyringFailed(KeyringTrouble),
}

/// No identity. Nothing was minted, and nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// This device has an id, and the keyring that should hold its key does not answer.
    #[error(
        "the key of this device ({id:?}) is in the system's keyring, and {trouble}. Unlock the keyring and start Inglenook again"
    )]
    KeyringUnavailable {
        /// This device.
        id: PeerId,
        /// What the keyring said.
        trouble: KeyringTrouble,
    },
    /// This device has an id, and no key for it is anywhere.
    #[error("the key of this device ({id:?}) is neither in the system's keyring nor in {}. Restore it from a backup, or remove {} to start as a new device that must be paired again", secret_file.display(), public_file.display())]
    SecretMissing {
        /// This device.
        id: PeerId,
        /// Where a key file would be.
        secret_file: PathBuf,
        /// The file that names the id.
        public_file: PathBuf,
    },
    /// The keyring is switched off, and the key is not in the file.
    #[error("the key of this device ({id:?}) is not in {}, and the keyring is switched off. Switch it on, or remove {} to start as a new device that must be paired again", secret_file.display(), public_file.display())]
    KeyringSwitchedOff {
        /// This device.
        id: PeerId,
        /// Where a key file would be.
        secret_file: PathBuf,
        /// The file that names the id.
        public_file: PathBuf,
    },
    /// A key was found, and it is another device's.
    #[error("the key found in {found_in} belongs to {found:?}, but this device is {id:?}. The data folder or the keyring was copied from another device; put the right one back, or remove {} to become {found:?}", public_file.display())]
    WrongKey {
        /// This device, as its data folder says.
        id: PeerId,
        /// Whose key was found.
        found: PeerId,
        /// Where: `the keyring` or a path.
        found_in: String,
        /// The file that names the id.
        public_file: PathBuf,
    },
    /// What is stored as the secret is no key.
    #[error("what is stored in {found_in} is no key of a device; restore it from a backup")]
    BrokenSecret {
        /// Where: `the keyring` or a path.
        found_in: String,
    },
    /// The file that names the id cannot be understood.
    #[error("{} does not name a device; restore it from a backup", path.display())]
    BrokenPublicId {
        /// The file.
        path: PathBuf,
    },
    /// The system gave no random numbers.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A file that the system refuses.
    #[error(transparent)]
    File(#[from] FileError),
}

impl KeyringChoice {
    /// The choice for this process: the environment can switch the keyring off, never on.
    #[must_use]
    pub fn in_force(self) -> Self {
        match env::text(KEYRING_VARIABLE).as_deref() {
            Some("off") => Self::Off,
            _ => self,
        }
    }
}

/// The key of this device, minted at its very first start. [`KEYRING_VARIABLE`] counts before
/// `choice`.
pub fn load_or_mint(
    home: &Home,
    choice: KeyringChoice,
) -> Result<(DeviceKey, Where), IdentityError> {
    let keyring = SystemKeyring::for_home(home);
    let store: Option<&dyn SecretStore> = match choice.in_force() {
        KeyringChoice::System => Some(&keyring),
        KeyringChoice::Off => None,
    };
    Files::of(home).load_or_mint(store)
}

/// The id this home has, if any, without touching the secret: for messages and lists.
pub fn public_id(home: &Home) -> Result<Option<PeerId>, IdentityError> {
    Files::of(home).public_id()
}

struct Files {
    public: PathBuf,
    secret: PathBuf,
}

impl Files {
    fn of(home: &Home) -> Self {
        Self { public: home.file(PUBLIC_FILE), secret: home.file(SECRET_FILE) }
    }

    fn load_or_mint(
        &self,
        keyring: Option<&dyn SecretStore>,
    ) -> Result<(DeviceKey, Where), IdentityError> {
        let known = self.public_id()?;
        // The file first: it exists only where an earlier start had to use it.
        if let Some(secret) = durable::read(&self.secret)?.map(Zeroizing::new) {
            durable::make_private(&self.secret)?;
            let key = self.accept(&secret, known, &self.secret.display().to_string())?;
            return Ok((key, self.in_file(WhyFile::FoundThere)));
        }
        let Some(keyring) = keyring else {
            return match known {
                None => self.mint_into_file(WhyFile::SwitchedOff),
                Some(id) => Err(IdentityError::KeyringSwitchedOff {
                    id,
                    secret_file: self.secret.clone(),
                    public_file: self.public.clone(),
                }),
            };
        };
        match (keyring.read(), known) {
            (Ok(Some(secret)), _) => {
                let key = self.accept(secret.as_bytes(), known, "the keyring")?;
                Ok((key, Where::Keyring))
            }
            (Ok(None), Some(id)) => Err(IdentityError::SecretMissing {
                id,
                secret_file: self.secret.clone(),
                public_file: self.public.clone(),
            }),
            (Ok(None), None) => self.mint_into_keyring(keyring),
            (Err(trouble), Some(id)) => Err(IdentityError::KeyringUnavailable { id, trouble }),
            (Err(trouble), None) => self.mint_into_file(WhyFile::KeyringFailed(trouble)),
        }
    }

    fn public_id(&self) -> Result<Option<PeerId>, IdentityError> {
        let Some(bytes) = durable::read(&self.public)? else {
            return Ok(None);
        };
        let broken = || IdentityError::BrokenPublicId { path: self.public.clone() };
        let text = std::str::from_utf8(&bytes).map_err(|_| broken())?;
        text.trim().parse().map(Some).map_err(|_| broken())
    }

    /// Makes a key of a stored secret, if it is the key of `known`; notes the id where none is
    /// noted (the start that minted it was killed in between).
    fn accept(
        &self,
        secret: &[u8],
        known: Option<PeerId>,
        found_in: &str,
    ) -> Result<DeviceKey, IdentityError> {
        let broken = || IdentityError::BrokenSecret { found_in: found_in.to_owned() };
        let seed = HEXLOWER_PERMISSIVE
            .decode(secret.trim_ascii())
            .map(Zeroizing::new)
            .map_err(|_| broken())?;
        let seed: [u8; 32] = seed.as_slice().try_into().map_err(|_| broken())?;
        let key = DeviceKey::from_seed(&Zeroizing::new(seed));
        match known {
            Some(id) if id == key.peer_id() => {}
            Some(id) => {
                return Err(IdentityError::WrongKey {
                    id,
                    found: key.peer_id(),
                    found_in: found_in.to_owned(),
                    public_file: self.public.clone(),
                });
            }
            None => self.note_public_id(&key)?,
        }
        Ok(key)
    }

    fn mint_into_keyring(
        &self,
        keyring: &dyn SecretStore,
    ) -> Result<(DeviceKey, Where), IdentityError> {
        let key = DeviceKey::generate()?;
        // Written and read back before anybody learns the id: a keyring that only pretends to
        // store would lose it at the next start.
        let kept = keyring.write(&encoded(&key)).and_then(|()| keyring.read());
        match kept {
            Ok(Some(kept)) if *kept == *encoded(&key) => {
                self.note_public_id(&key)?;
                Ok((key, Where::Keyring))
            }
            Ok(_) => self.keep_in_file(key, WhyFile::KeyringFailed(KeyringTrouble::Forgets)),
            Err(trouble) => self.keep_in_file(key, WhyFile::KeyringFailed(trouble)),
        }
    }

    fn mint_into_file(&self, why: WhyFile) -> Result<(DeviceKey, Where), IdentityError> {
        self.keep_in_file(DeviceKey::generate()?, why)
    }

    /// The secret first, then the id: killed in between, the next start completes it.
    fn keep_in_file(
        &self,
        key: DeviceKey,
        why: WhyFile,
    ) -> Result<(DeviceKey, Where), IdentityError> {
        let text = encoded(&key);
        durable::write(&self.secret, text.as_bytes(), Readers::Owner)?;
        self.note_public_id(&key)?;
        tracing::info!(file = %self.secret.display(), "the key of this device is kept in a file");
        Ok((key, self.in_file(why)))
    }

    fn note_public_id(&self, key: &DeviceKey) -> Result<(), FileError> {
        let text = format!("{}\n", key.peer_id());
        durable::write(&self.public, text.as_bytes(), Readers::Default)
    }

    fn in_file(&self, why: WhyFile) -> Where {
        let path: &Path = &self.secret;
        Where::File { path: path.to_owned(), why }
    }
}

fn encoded(key: &DeviceKey) -> Zeroizing<String> {
    Zeroizing::new(HEXLOWER_PERMISSIVE.encode(key.to_seed().as_slice()))
}

#[cfg(test)]
#[path = "identity/tests.rs"]
mod tests;
