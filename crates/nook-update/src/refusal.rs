//! Why a list of versions is not believed. Each sentence says what to do.

use semver::Version;

use crate::keys::SignatureError;

/// A list that is not taken. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No key is known that could have signed it.
    #[error(
        "this program knows no key of a release, so no update can be checked. Get new versions from where \
         you got this one; who makes releases of their own names the key in INGLENOOK_UPDATES_KEY"
    )]
    NoKey,
    /// Its signature is not one.
    #[error(
        "the signature of the list of versions cannot be read. Try again later; if it stays so, the \
         server's files are damaged"
    )]
    NoSignature,
    /// Somebody else has signed it.
    #[error(
        "the list of versions is signed with a key that this program does not know. Nothing was taken. If \
         the project has announced a new key, install the new version by hand"
    )]
    WrongKey,
    /// It is not what was signed.
    #[error(
        "the list of versions was changed after it was signed. Nothing was taken. Try again later, over \
         another network"
    )]
    Changed,
    /// Longer than any list.
    #[error("the list of versions has more than {most} bytes, which none has. Nothing was taken")]
    TooLarge {
        /// The limit.
        most: usize,
    },
    /// Signed, but not a list of this form.
    #[error(
        "the list of versions cannot be understood ({reason}). Nothing was taken. Install the new version \
         by hand"
    )]
    Malformed {
        /// What is wrong.
        reason: String,
    },
    /// Of a later form.
    #[error(
        "the list of versions has a form that this version is too old for ({found}, known up to {known}). \
         Install the new version by hand"
    )]
    NewerFormat {
        /// Its format.
        found: u64,
        /// The highest one that is known here.
        known: u64,
    },
    /// Its time is over: whoever shows it hides newer ones.
    #[error(
        "the list of versions is out of date: it was valid for {days} days, which are over. Check this \
         computer's clock; if it is right, the server shows an old list"
    )]
    Expired {
        /// For how long it was meant to be valid.
        days: u64,
    },
    /// A newer one was seen before: this is a replay.
    #[error(
        "the list of versions is number {found}, and number {seen} was seen before. Nothing was taken. \
         Try again later, over another network"
    )]
    Older {
        /// Its serial number.
        found: u64,
        /// The highest one that was seen.
        seen: u64,
    },
    /// It leads back.
    #[error(
        "the list of versions offers {offered}, older than {running}, which runs here. Nothing was taken: \
         an older version is only installed by hand"
    )]
    Downgrade {
        /// What it offers.
        offered: Version,
        /// What runs here.
        running: Version,
    },
    /// There is a newer version, but not for this computer.
    #[error(
        "version {version} is there, but not as a package for this computer ({platform}). Look for one \
         where you got this program"
    )]
    NoPackage {
        /// The newer version.
        version: Version,
        /// What was looked for.
        platform: String,
    },
}

impl From<SignatureError> for Refusal {
    fn from(error: SignatureError) -> Self {
        match error {
            SignatureError::NoKey => Self::NoKey,
            SignatureError::Unreadable => Self::NoSignature,
            SignatureError::WrongKey => Self::WrongKey,
            SignatureError::Changed => Self::Changed,
            SignatureError::OtherKind => {
                let reason = "it is signed, but no list of versions".to_owned();
                Self::Malformed { reason }
            }
        }
    }
}
