//! The system's keyring, asked with a limit and not believed too early.
//!
//! Each question runs in a thread of its own that may take [`ANSWER_LIMIT`]: a keyring that waits
//! for a password on a screen that nobody sees would hold up the start for ever. A keyring that is
//! locked answers "no such secret" (gnome-keyring does), so that answer is believed only after the
//! keyring has stored, returned and deleted a trial secret.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use keyring::Entry;
use zeroize::Zeroizing;

use crate::home::Home;

/// How long the keyring may take for one question. Past it the thread is left to itself and the
/// keyring counts as silent.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Under what the entries are filed; visible in the system's keyring program.
const SERVICE: &str = "Inglenook";

const TRIAL_SECRET: &str = "this entry is a test and can be deleted";

/// Why the keyring is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringTrouble {
    /// No keyring program answers here.
    #[error("no keyring answers here ({reason})")]
    Absent {
        /// The system's words.
        reason: String,
    },
    /// It refuses to store: locked, or set up without a password.
    #[error("it is locked")]
    Locked,
    /// It did not answer in time: perhaps it asks for a password somewhere.
    #[error("it did not answer within {} s", ANSWER_LIMIT.as_secs())]
    Silent,
    /// It took a secret and did not return it.
    #[error("it does not keep what it is given")]
    Forgets,
    /// It failed in another way.
    #[error("it failed ({reason})")]
    Failed {
        /// The system's words.
        reason: String,
    },
}

/// A place for the one secret of this device.
pub(crate) trait SecretStore {
    /// The secret; `None` only where there is certainly none.
    fn read(&self) -> Result<Option<Zeroizing<String>>, KeyringTrouble>;

    /// Keeps the secret.
    fn write(&self, secret: &str) -> Result<(), KeyringTrouble>;
}

/// The entry of one home in the system's keyring.
#[derive(Debug)]
pub(crate) struct SystemKeyring {
    user: String,
}

impl SystemKeyring {
    pub(crate) fn for_home(home: &Home) -> Self {
        // Several homes on one machine are several devices.
        let user = if home.is_default() {
            "device key".to_owned()
        } else {
            format!("device key {}", home.tag())
        };
        Self { user }
    }
}

impl SecretStore for SystemKeyring {
    fn read(&self) -> Result<Option<Zeroizing<String>>, KeyringTrouble> {
        let user = self.user.clone();
        in_time(move || {
            if let Some(secret) = get(&user)? {
                return Ok(Some(secret));
            }
            try_out(&format!("{user} (trial)"))?;
            Ok(None)
        })
    }

    fn write(&self, secret: &str) -> Result<(), KeyringTrouble> {
        let user = self.user.clone();
        let secret = Zeroizing::new(secret.to_owned());
        in_time(move || entry(&user)?.set_password(&secret).map_err(trouble))
    }
}

/// Runs `question` in a thread and waits for [`ANSWER_LIMIT`].
fn in_time<T: Send + 'static>(
    question: impl FnOnce() -> Result<T, KeyringTrouble> + Send + 'static,
) -> Result<T, KeyringTrouble> {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::Builder::new()
        .name("keyring".to_owned())
        .spawn(move || {
            // Nobody waits for a late answer.
            let _ = sender.send(question());
        })
        .map_err(|error| KeyringTrouble::Failed { reason: error.to_string() })?;
    match receiver.recv_timeout(ANSWER_LIMIT) {
        Ok(answer) => answer,
        Err(mpsc::RecvTimeoutError::Timeout) => Err(KeyringTrouble::Silent),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Err(KeyringTrouble::Failed { reason: "its library panicked".to_owned() })
        }
    }
}

fn entry(user: &str) -> Result<Entry, KeyringTrouble> {
    if let Err(error) = Entry::store_status() {
        return Err(KeyringTrouble::Absent { reason: error.to_string() });
    }
    Entry::new(SERVICE, user).map_err(trouble)
}

fn get(user: &str) -> Result<Option<Zeroizing<String>>, KeyringTrouble> {
    match entry(user)?.get_password() {
        Ok(secret) => Ok(Some(Zeroizing::new(secret))),
        Err(keyring::Error::NoEntry) => Ok(None),
        Err(error) => Err(trouble(error)),
    }
}

/// Stores, reads and deletes a trial secret.
fn try_out(user: &str) -> Result<(), KeyringTrouble> {
    let entry = entry(user)?;
    entry.set_password(TRIAL_SECRET).map_err(trouble)?;
    let kept = entry.get_password();
    let deleted = entry.delete_credential();
    match kept {
        Ok(kept) if kept == TRIAL_SECRET => deleted.map_err(trouble),
        Ok(_) | Err(keyring::Error::NoEntry) => Err(KeyringTrouble::Forgets),
        Err(error) => Err(trouble(error)),
    }
}

fn trouble(error: keyring::Error) -> KeyringTrouble {
    match error {
        keyring::Error::NoStorageAccess(_) => KeyringTrouble::Locked,
        keyring::Error::NoDefaultStore => KeyringTrouble::Absent { reason: error.to_string() },
        other => KeyringTrouble::Failed {
            // Some variants carry the stored bytes; their names alone are shown.
            reason: match other {
                keyring::Error::BadEncoding(_) => "the entry is not text".to_owned(),
                keyring::Error::BadDataFormat(..) => "the entry cannot be read".to_owned(),
                other => other.to_string(),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_is_never_answered_ends_as_silence() {
        let (_never, forever) = mpsc::sync_channel::<()>(1);
        let silent = in_time(move || {
            let _ = forever.recv();
            Ok(())
        });
        assert_eq!(silent, Err(KeyringTrouble::Silent));
    }

    #[test]
    fn a_panic_in_the_library_is_trouble_and_no_crash() {
        let outcome: Result<(), _> = in_time(|| panic!("as a library may"));
        assert!(matches!(outcome, Err(KeyringTrouble::Failed { .. })));
    }
}
