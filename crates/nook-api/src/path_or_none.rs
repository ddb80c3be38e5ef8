//! For `#[serde(with = "crate::path_or_none")]`: a path that may be absent, without loss; see
//! `nook_base::paths::lossless`.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Lossless(#[serde(with = "nook_base::paths::lossless")] PathBuf);

pub(crate) fn serialize<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    path.clone().map(Lossless).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    Ok(Option::<Lossless>::deserialize(deserializer)?.map(|path| path.0))
}
