//! The header of a GGUF file, read strictly.
//!
//! [`Header::read`] reads metadata and the list of tensors, never their data, as a stream. A file
//! is untrusted input: before anything is allocated for a count or a length, the bytes for it must
//! be there in the file and within the named limits below. A header that gets through has unique
//! names, known tensor types, checked dimensions, and tensors that lie aligned, apart from each
//! other and inside the file. What the metadata *mean* is checked by the families.
//!
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>, versions 2 and 3.

mod joined;
mod read;
mod tensor_type;
mod value;
mod vocabulary;

use std::collections::HashMap;
use std::fmt;

use crate::error::Fault;

pub use joined::{Joined, JoinedData, PieceOf};
pub use tensor_type::TensorType;
pub use value::Value;

/// Most metadata keys; a file with more is refused.
pub const KEYS_MAX: u64 = 65_536;

/// Most tensors; a file with more is refused.
pub const TENSORS_MAX: u64 = 65_536;

/// Longest key, in bytes; a file with a longer one is refused.
pub const KEY_BYTES_MAX: u64 = 256;

/// Longest tensor name, in bytes (as in ggml); a file with a longer one is refused.
pub const TENSOR_NAME_BYTES_MAX: u64 = 63;

/// Longest header, in bytes; a file with a longer one is refused before it is read further. The
/// longest known (vocabularies of 262,144 tokens with merges) take about 16 MiB.
pub const HEADER_BYTES_MAX: u64 = 32 << 20;

/// Most entries of a list that is kept; a file with a longer one is refused. The longest known
/// lists are merges of 514,906 entries.
pub const LIST_MAX: u64 = 1 << 20;

/// Most texts in all lists together; a file with more is refused. A text takes some 50 bytes of
/// memory beside its own. The most known are 777,050: the tokens and merges of one vocabulary.
pub const LISTED_TEXTS_MAX: u64 = 1 << 20;

/// Most numbers in a tensor; a file with a larger one is refused.
pub const ELEMENTS_MAX: u64 = 1 << 40;

/// Most dimensions of a tensor.
pub const DIMENSIONS_MAX: u32 = 4;

/// Where one tensor lies, and what it is.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Dimensions, fastest first: a matrix is `[columns, rows]`.
    pub dimensions: Vec<u64>,
    /// How its numbers are stored.
    pub kind: TensorType,
    /// Byte in the file where it begins.
    pub start: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A validated header.
#[derive(Clone)]
pub struct Header {
    version: u32,
    metadata: HashMap<String, Value>,
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
    data_start: u64,
    file_bytes: u64,
}

impl Header {
    /// GGUF version, 2 or 3.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Tensors in the order in which they lie in the file.
    #[must_use]
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor called `name`.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).and_then(|index| self.tensors.get(*index))
    }

    /// The place of the tensor called `name` in [`Self::tensors`].
    pub(crate) fn number_of(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).and_then(|index| u32::try_from(*index).ok())
    }

    /// The metadata keys, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.metadata.keys().map(String::as_str)
    }

    /// The metadata value of `key`.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// Byte in the file where tensor data begin: the length of the header with its padding.
    #[must_use]
    pub fn data_start(&self) -> u64 {
        self.data_start
    }

    /// Length of the file when it was read.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The text `key`; `None` when absent, an error when it is no text.
    pub fn text(&self, key: &str) -> Result<Option<&str>, Fault> {
        self.typed(key, "a text", Value::as_text)
    }

    /// The whole number `key`, of any integer type, if it is in 0..2^32.
    pub fn number(&self, key: &str) -> Result<Option<u32>, Fault> {
        self.typed(key, "a whole number below 2^32", Value::as_u32)
    }

    /// The number `key`, of a floating-point type.
    pub fn float(&self, key: &str) -> Result<Option<f32>, Fault> {
        self.typed(key, "a fraction", Value::as_f32)
    }

    /// The truth value `key`.
    pub fn truth(&self, key: &str) -> Result<Option<bool>, Fault> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// As [`Self::number`], where the key must be there.
    pub fn required_number(&self, key: &str) -> Result<u32, Fault> {
        self.number(key)?.ok_or_else(|| missing(key))
    }

    /// As [`Self::text`], where the key must be there.
    pub fn required_text(&self, key: &str) -> Result<&str, Fault> {
        self.text(key)?.ok_or_else(|| missing(key))
    }

    /// As [`Self::float`], where the key must be there.
    pub fn required_float(&self, key: &str) -> Result<f32, Fault> {
        self.float(key)?.ok_or_else(|| missing(key))
    }

    /// Takes the value of `key` out of the metadata.
    fn take(&mut self, key: &str) -> Option<Value> {
        self.metadata.remove(key)
    }

    /// Drops the lists of the metadata once they have been read.
    pub(crate) fn drop_lists(&mut self) {
        self.metadata.retain(|_, value| !value.is_list());
        self.metadata.shrink_to_fit();
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let Some(value) = self.metadata.get(key) else {
            return Ok(None);
        };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(Fault::BadValue {
                key: key.to_owned(),
                got: value.summary(),
                expected: expected.to_owned(),
            }),
        }
    }
}

impl fmt::Debug for Header {
    /// Counts only; vocabularies are long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Header")
            .field("version", &self.version)
            .field("keys", &self.metadata.len())
            .field("tensors", &self.tensors.len())
            .finish()
    }
}

fn missing(key: &str) -> Fault {
    Fault::MissingKey { key: key.to_owned() }
}
