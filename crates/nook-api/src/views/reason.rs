//! Why the system refused something, for front ends that speak other languages.
//!
//! Whoever makes a trouble has an error of some library and its words. Rust ends the words of every
//! system error with its number, through however many libraries they went, so the number tells what it
//! was: [`Reason`] keeps the words and adds what the usual numbers mean. (`std::io::Error`, `Display`.)

use std::io;

use serde::{Deserialize, Serialize};

/// What stands before the number of a system error in its words.
const NUMBER_MARK: &str = "(os error ";

view! {
/// Why something was refused.
#[derive(Eq)]
struct Reason {
    /// What it means, where it is one of the usual reasons of a system.
    pub means: Option<SystemReason>,
    /// The words of the system or of a library, in English.
    pub said: String,
}
}

view! {
/// What systems usually refuse.
#[derive(Copy, Eq)]
enum SystemReason {
    /// The disk, or this user's part of it, is full.
    NoRoom,
    /// This user may not do that.
    NotAllowed,
    /// There is no such file or folder.
    NotThere,
    /// The disk can only be read.
    ReadOnly,
    /// Nothing came in time.
    TimedOut,
    /// The other computer takes no connections there.
    Refused,
    /// No way leads to the other computer.
    Unreachable,
    /// The connection broke.
    Broken,
    /// Another program uses the address.
    InUse,
}
}

impl SystemReason {
    /// What a kind of error means to a person, if it is one of the usual ones.
    #[must_use]
    pub fn of(kind: io::ErrorKind) -> Option<Self> {
        use io::ErrorKind;
        Some(match kind {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::NoRoom,
            ErrorKind::PermissionDenied => Self::NotAllowed,
            ErrorKind::NotFound => Self::NotThere,
            ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::ConnectionRefused => Self::Refused,
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {
                Self::Unreachable
            }
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
                Self::Broken
            }
            ErrorKind::AddrInUse => Self::InUse,
            _ => return None,
        })
    }

    /// The same for the words of an error of this very system.
    fn of_words(said: &str) -> Option<Self> {
        let (_, after) = said.rsplit_once(NUMBER_MARK)?;
        let (number, _) = after.split_once(')')?;
        Self::of(io::Error::from_raw_os_error(number.parse().ok()?).kind())
    }
}

impl From<String> for Reason {
    fn from(said: String) -> Self {
        Self { means: SystemReason::of_words(&said), said }
    }
}

impl From<&str> for Reason {
    fn from(said: &str) -> Self {
        said.to_owned().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_system_error_is_known_through_all_the_words_around_it() {
        for (number, means) in [
            (2, Some(SystemReason::NotThere)),
            (13, Some(SystemReason::NotAllowed)),
            (28, Some(SystemReason::NoRoom)),
            (30, Some(SystemReason::ReadOnly)),
            (32, Some(SystemReason::Broken)),
            (9, None),
        ] {
            let bare = io::Error::from_raw_os_error(number).to_string();
            let wrapped = format!("the list (of 2) was not saved: {bare}. Nothing was changed");
            for said in [bare, wrapped] {
                let reason = Reason::from(said.clone());
                assert_eq!((reason.means, reason.said), (means, said));
            }
        }
    }

    #[test]
    fn a_connection_that_nobody_takes_is_known_by_a_real_one() {
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = std::net::TcpStream::connect(address).unwrap_err();
        assert_eq!(Reason::from(error.to_string()).means, Some(SystemReason::Refused));
        let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let error = std::net::TcpListener::bind(held.local_addr().unwrap()).unwrap_err();
        assert_eq!(Reason::from(error.to_string()).means, Some(SystemReason::InUse));
    }

    #[test]
    fn other_words_mean_nothing_and_stay() {
        for said in ["no magic", "(os error ", "(os error x)", "(os error 999999999999)", ""] {
            assert_eq!(Reason::from(said), Reason { means: None, said: said.to_owned() });
        }
    }
}
