//! Where a device keeps its secret key, as front ends show it.

use serde::{Deserialize, Serialize};

view! {
/// Where a secret key is kept.
#[derive(Eq)]
#[serde(tag = "kind")]
enum KeyPlace {
    /// In the system's keychain.
    Keychain,
    /// In a file that only its owner can read.
    File {
        /// Which one.
        path: String,
    },
}
}

impl KeyPlace {
    /// In English, to go on after "kept in".
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Keychain => "the system's keychain".to_owned(),
            Self::File { path } => format!("the file {path}"),
        }
    }
}
