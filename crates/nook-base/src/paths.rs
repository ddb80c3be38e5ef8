//! Paths as bytes and as text, without loss.
//!
//! On Unix a path is bytes, on Windows 16-bit units, and neither has to be Unicode. Whoever hands a
//! path to another process of this machine, or keeps it in a file, goes through here, so that a
//! folder with an odd name stays that folder. Both ends are always the same system: nothing here
//! travels between devices.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::path::{Path, PathBuf};

/// The path as bytes; on Windows its 16-bit units, low byte first.
#[must_use]
pub fn to_bytes(path: &Path) -> Vec<u8> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        path.as_os_str().as_bytes().to_vec()
    }
    #[cfg(windows)]
    {
        use std::os::windows::ffi::OsStrExt as _;
        path.as_os_str().encode_wide().flat_map(u16::to_le_bytes).collect()
    }
}

/// The path that [`to_bytes`] wrote on the same system; absent where these are the bytes of none.
#[must_use]
pub fn from_bytes(bytes: &[u8]) -> Option<PathBuf> {
    #[cfg(unix)]
    let path = {
        use std::os::unix::ffi::OsStringExt as _;
        Some(OsString::from_vec(bytes.to_vec()))
    };
    #[cfg(windows)]
    let path = {
        use std::os::windows::ffi::OsStringExt as _;
        let (units, rest) = bytes.as_chunks::<2>();
        let units: Vec<u16> = units.iter().copied().map(u16::from_le_bytes).collect();
        rest.is_empty().then(|| OsString::from_wide(&units))
    };
    path.map(PathBuf::from)
}

/// For `#[serde(with = "nook_base::paths::lossless")]`: a path that is text is a text, as serde
/// itself has it; another one is `{"bytes": "…"}`, hexadecimal.
pub mod lossless {
    use std::path::{Path, PathBuf};

    use data_encoding::HEXLOWER;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Bytes { bytes: String },
    }

    /// Writes the path.
    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        let written = match path.to_str() {
            Some(text) => Written::Text(text.to_owned()),
            None => Written::Bytes { bytes: HEXLOWER.encode(&super::to_bytes(path)) },
        };
        written.serialize(serializer)
    }

    /// Reads it; fails on digits that are no path.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Text(text) => Ok(text.into()),
            Written::Bytes { bytes } => {
                let decoded = HEXLOWER.decode(bytes.as_bytes()).ok();
                let path = decoded.and_then(|decoded| super::from_bytes(&decoded));
                path.ok_or_else(|| D::Error::custom("these are not the bytes of a path"))
            }
        }
    }
}

/// What makes folders for the owner only: 0700 on Unix; Windows keeps the folders of a person from
/// others by itself.
#[must_use]
pub fn private_folders() -> DirBuilder {
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        builder
    }
    #[cfg(not(unix))]
    DirBuilder::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_back_as_they_were() {
        for text in ["", "m.gguf", "/models/größe 😀.gguf"] {
            let path = Path::new(text);
            assert_eq!(from_bytes(&to_bytes(path)).as_deref(), Some(path));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_path_that_is_no_text_comes_back_as_it_was() {
        use std::os::unix::ffi::OsStringExt as _;
        let path = PathBuf::from(OsString::from_vec(b"/models/caf\xe9/\xff.gguf".to_vec()));
        assert_eq!(path.to_str(), None);
        assert_eq!(from_bytes(&to_bytes(&path)), Some(path));
    }
}
