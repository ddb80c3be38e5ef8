//! Texts and lists with a limit, for serde: cut when written, refused when read.
//!
//! Cutting on our side means that a long sentence of ours never costs us the connection; refusing
//! on the other side means that a peer cannot make us hold more than the limit.

use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use nook_base::paths;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeSeq, Serializer};

/// Writes at most `MAX` bytes of `text`, cut between two characters.
pub(crate) fn write_text<const MAX: usize, S: Serializer>(
    text: &str,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text[..text.floor_char_boundary(MAX)])
}

/// Reads a text of at most `MAX` bytes.
pub(crate) fn read_text<'de, const MAX: usize, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<String, D::Error> {
    struct Text<const MAX: usize>;

    impl<const MAX: usize> Visitor<'_> for Text<MAX> {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a text of at most {MAX} bytes")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
            if text.len() <= MAX {
                Ok(text.to_owned())
            } else {
                Err(E::invalid_length(text.len(), &self))
            }
        }
    }

    deserializer.deserialize_str(Text::<MAX>)
}

/// Writes at most `MAX` bytes of `path`.
pub(crate) fn write_path<const MAX: usize, S: Serializer>(
    path: &Path,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let bytes = paths::to_bytes(path);
    serializer.serialize_bytes(&bytes[..bytes.len().min(MAX)])
}

/// Reads a path of at most `MAX` bytes.
pub(crate) fn read_path<'de, const MAX: usize, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<PathBuf, D::Error> {
    struct Bytes<const MAX: usize>;

    impl<const MAX: usize> Visitor<'_> for Bytes<MAX> {
        type Value = PathBuf;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a path of at most {MAX} bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<PathBuf, E> {
            let path = Some(bytes).filter(|bytes| bytes.len() <= MAX).and_then(paths::from_bytes);
            path.ok_or_else(|| E::invalid_length(bytes.len(), &self))
        }
    }

    deserializer.deserialize_bytes(Bytes::<MAX>)
}

/// Writes the first `MAX` items of `list`.
pub(crate) fn write_list<const MAX: usize, T: Serialize, S: Serializer>(
    list: &[T],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let kept = &list[..list.len().min(MAX)];
    let mut seq = serializer.serialize_seq(Some(kept.len()))?;
    for item in kept {
        seq.serialize_element(item)?;
    }
    seq.end()
}

/// Reads a list of at most `MAX` items. Room is made as items really arrive, not as claimed.
pub(crate) fn read_list<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct List<const MAX: usize, T>(PhantomData<T>);

    impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for List<MAX, T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MAX} items")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(item) = seq.next_element()? {
                if list.len() == MAX {
                    return Err(A::Error::invalid_length(MAX + 1, &self));
                }
                list.push(item);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(List::<MAX, T>(PhantomData))
}
