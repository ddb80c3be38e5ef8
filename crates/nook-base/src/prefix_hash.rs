//! Whether two devices hold the same history, without saying what it is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A keyed hash over the token ids of all positions so far; all zero for none.
///
/// Only the requester has the key, so a host can compare two of them and learns nothing from one.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PrefixHash(pub [u8; 16]);

impl PrefixHash {
    /// Of an empty history.
    pub const EMPTY: Self = Self([0; 16]);
}

impl fmt::Debug for PrefixHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}
