//! For `#[serde(with = "crate::plain")]`: a secret, written as it is.
//!
//! `Sensitive` itself cannot be serialised, so that no secret reaches a file or another device by accident.
//! Requests and responses travel only between processes of one user on one machine; each field that
//! carries a secret there says so with this module.

use nook_base::Sensitive;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<T: Serialize, S: Serializer>(
    secret: &Sensitive<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    secret.0.serialize(serializer)
}

pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Sensitive<T>, D::Error> {
    T::deserialize(deserializer).map(Sensitive)
}
